"""Pairs of short problems with verdicts, of which everything is known."""

import numpy as np
import pandas as pd

_NAMES = ("Ada", "Bo", "Cleo", "Dina", "Emil", "Finn", "Gina", "Hugo", "Ines", "Jan")
_THINGS = ("apples", "books", "coins", "dolls", "eggs", "flags", "games", "hats")
_FORMS = (
    "{name} has {n} {thing} and gives away {m} of them. How many {thing} does {name} still have?",
    "Of the {n} {thing} that {name} has, {m} are given away. How many of the {thing} remain?",
    "After giving {m} {thing} away, how many does {name} have left of {n} {thing} at first?",
)


def judged_pairs(items: int = 60, each: int = 6, seed: int = 1, error: float = 0.0) -> pd.DataFrame:
    """Return pairs of `items` problems; about a sixth are the same problem in other words.

    The others have other names or numbers. Cosines are of both nearly alike. `truth` is 1 for
    duplicates; `is_duplicate` is wrong in the share `error`.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(items):
        own = {"name": _NAMES[k % 10], "thing": _THINGS[k % 8], "n": 100 + k, "m": 10 + k}
        for j in range(each):
            same = j == 0
            other = own if same else own | {
                "name": _NAMES[int(rng.integers(10))], "n": int(rng.integers(200, 900)),
            }  # fmt: skip
            text = _FORMS[int(rng.integers(1, 3))].format(**other)
            rows.append(
                {
                    "benchmark": "quiz", "item": f"i{k}", "source": "web",
                    "document": f"d{k}-{j}", "chunk": 0, "text": _FORMS[0].format(**own),
                    "chunk_text": f"A problem for today: {text}",
                    "cosine": float(np.clip(0.7 + 0.05 * same + 0.08 * rng.normal(), 0, 1)),
                    "truth": int(same),
                }
            )  # fmt: skip
    table = pd.DataFrame(rows)
    wrong = rng.random(len(table)) < error
    return table.assign(is_duplicate=table["truth"] ^ wrong)
