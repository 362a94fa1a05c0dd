"""A puzzle in the wording of ZebraLogic."""

from typing import Any

ZEBRA = """There are 3 houses, numbered 1 to 3 from left to right, as seen from across the street.
 - Each person has a unique name: `Peter`, `Eric`, `Arnold`
 - Each person has a unique birthday month: `april`, `sept`, `jan`
 - People own unique car models: `ford f150`, `tesla model 3`, `toyota camry`

## Clues:
1. The person who owns a Ford F-150 is not in the third house.
2. Eric is the person whose birthday is in September.
3. The person whose birthday is in April is somewhere to the right of Peter.
4. The person whose birthday is in April and Eric are next to each other.
5. The person who owns a Tesla Model 3 is directly left of the person who owns a Toyota Camry.
6. There is one house between Peter and Arnold.
"""
SOLUTION: dict[str, Any] = {
    "header": ["House", "Name", "Birthday", "CarModel"],
    "rows": [
        ["1", "Peter", "jan", "ford f150"],
        ["2", "Eric", "sept", "tesla model 3"],
        ["3", "Arnold", "april", "toyota camry"],
    ],
}
