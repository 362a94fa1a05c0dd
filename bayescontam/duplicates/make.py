"""Duplicates of a benchmark's items by chains of steps, each checked by its own text."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayescontam._progress import progress_bar
from bayescontam._random import check_seed, stream
from bayescontam._text import join_list, printable
from bayescontam.data.jsonl import Damage, json_records, no_object
from bayescontam.duplicates.grids import (
    Grid,
    check_duplicate,
    check_sizes,
    new_grid,
    read_grid,
    refuse_unsolved,
    shuffle,
    substitute,
)
from bayescontam.duplicates.items import DuplicateError
from bayescontam.errors import DataError, Fault, UsageError

CHAINS = ("shuffle", "substitute", "shuffle+substitute")
"""Chains of steps by default."""
_ORDER = ("shuffle", "substitute")
"""Steps in the order in which a chain has them."""


class ItemFields(NamedTuple):
    """Fields of a benchmark's records."""

    item: str
    text: str
    answer: str


ZEBRA_LOGIC = ItemFields("id", "puzzle", "solution")
"""Fields of ZebraLogic, and of new grids."""


class Failure(NamedTuple):
    """Why an item, or a duplicate of one, is not used."""

    reason: str
    item: str
    detail: str = ""

    @classmethod
    def of(cls, error: DuplicateError, item: str) -> "Failure":
        """Return why an item is none."""
        return cls(error.reason, item, error.detail)


@dataclass(frozen=True)
class Item:
    """An item of a benchmark: a grid, and the text that it was read from."""

    name: str
    text: str
    grid: Grid


@dataclass(frozen=True, eq=False)
class Made:
    """Rows, and what did not become one.

    Attributes
    ----------
    rows : list of dict
        What was made or passed, in the order of items, chains and copies.
    failures : pandas.DataFrame
        Columns ``reason``, ``count``, ``first`` (item or duplicate) and ``detail`` (what arrived
        there); empty if all went well.
    """

    rows: list[dict[str, Any]]
    failures: pd.DataFrame


def new_items(
    count: int, *, houses: int = 4, categories: int = 4, seed: int = 0, progress: bool = False
) -> list[dict[str, Any]]:
    """Make new logic grids, each with one solution and no clue that can be spared.

    They are in no corpus: a test set that every model is clean of.

    Parameters
    ----------
    count : int
        Items.
    houses : int, default 4
        Houses of each, 2 to 8.
    categories : int, default 4
        Of each, 1 to 13: names, and others at random.
    seed : int, default 0
        The same seed gives the same items.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    list of dict
        With the fields of ZebraLogic: ``id``, ``size``, ``puzzle`` and ``solution`` (a header, and
        a row for each house).

    Raises
    ------
    UsageError
        For a number that is not allowed.
    MissingExtraError
        Without the extra ``duplicates``.

    Examples
    --------
    >>> [item] = new_items(1, houses=2, categories=2, seed=1)
    >>> item["id"], item["solution"]["header"][:2]
    ('grid-2x2-0001', ['House', 'Name'])
    """
    seed = check_seed(seed)
    if count < 1:
        raise UsageError(f"items: got {count}; allowed is 1 or more")
    check_sizes(houses, categories)
    found = []
    with progress_bar(progress, "making items", count, "items") as advance:
        for at in range(count):
            grid = new_grid(houses, categories, stream(seed, "logic grid", houses, categories, at))
            name = f"grid-{houses}x{categories}-{at + 1:04d}"
            found.append(
                {"id": name, "size": f"{houses}*{categories}", "puzzle": grid.text,
                 "solution": grid.solution}
            )  # fmt: skip
            advance(1)
    return found


def make_duplicates(
    benchmark: str | Path,
    *,
    chains: Sequence[str] = CHAINS,
    copies: int = 1,
    seed: int = 0,
    fields: ItemFields = ZEBRA_LOGIC,
    progress: bool = False,
) -> Made:
    """Make semantic duplicates of logic grids.

    Clues are shuffled and renumbered; categories and their values are replaced, one to one, by
    others, and the solution with them. Each result is read again from its text and solved: a row
    has the one solution that its answer states.

    Parameters
    ----------
    benchmark : path
        JSON Lines: a record for each item.
    chains : sequence of str
        Steps of each kind of duplicate, such as ``"shuffle+substitute"``; default: either and both.
    copies : int, default 1
        Duplicates of each item by each chain.
    seed : int, default 0
        The same seed gives the same duplicates.
    fields : ItemFields
        Names of the records' fields; default: ``id``, ``puzzle``, ``solution``.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    Made
        Rows ``benchmark, item, duplicate, kind, level, steps, parent_sha256, checks, text,
        answer``, and counted failures.

    Raises
    ------
    UsageError
        For a chain or number that is not allowed.
    DataError
        Where the file cannot be read, or no item of it can.
    MissingExtraError
        Without the extra ``duplicates``.

    References
    ----------
    Shuffling and substitution of ZebraLogic, in this order: appendix A.3.5 of "Soft Contamination
    Means Benchmarks Test Shallow Generalization" (2026).

    Examples
    --------
    >>> import json, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "grids.jsonl"
    >>> _ = path.write_text(json.dumps(new_items(1, houses=3, categories=3)[0]))
    >>> [row["level"] for row in make_duplicates(path).rows]
    ['shuffle', 'substitute', 'shuffle+substitute']
    """
    seed, path, steps = check_seed(seed), Path(benchmark), [*map(_steps_of, chains)]
    if copies < 1:
        raise UsageError(f"copies: got {copies}; allowed is 1 or more")
    items, failed = read_items(path, fields)
    rows = []
    total = len(items) * len(chains) * copies
    with progress_bar(progress, "making duplicates", total, "duplicates") as advance:
        for item in items:
            for chain in steps:
                for copy in range(copies):
                    try:
                        rows.append(_duplicate(path.stem, item, chain, copy, seed))
                    except DuplicateError as error:
                        failed.append(Failure.of(error, item.name))
                    advance(1)
    return Made(rows, _counted(failed))


def check_duplicates(
    duplicates: str | Path, benchmark: str | Path, *, fields: ItemFields = ZEBRA_LOGIC
) -> Made:
    """Check duplicates of logic grids against their parents once more, from their texts alone.

    Parameters
    ----------
    duplicates : path
        What `make_duplicates` wrote.
    benchmark : path
        The items that they are duplicates of.
    fields : ItemFields
        Names of the benchmark's fields.

    Returns
    -------
    Made
        The rows that passed, and counted failures.

    Raises
    ------
    DataError
        Where a file cannot be read.

    Examples
    --------
    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "grids.jsonl").write_text(json.dumps(new_items(1, houses=3, categories=3)[0]))
    >>> [row] = make_duplicates(folder / "grids.jsonl", chains=["shuffle"]).rows
    >>> row["text"] = row["text"].rpartition("\\n")[0]  # without its last clue
    >>> _ = (folder / "made.jsonl").write_text(json.dumps(row))
    >>> check_duplicates(folder / "made.jsonl", folder / "grids.jsonl").failures["count"].sum()
    np.int64(1)
    """
    parents = {item.name: item for item in read_items(Path(benchmark), fields)[0]}
    rows: list[dict[str, Any]] = []
    failed: list[Failure] = []
    for at, row in enumerate(_objects(Path(duplicates)), 1):
        name = str(row.get("duplicate", f"row {at}"))
        item = parents.get(str(row.get("item")))
        if item is None:
            failed.append(Failure("its item is not in the benchmark, or is no logic grid", name))
        elif row.get("parent_sha256") != _hash(item.text):
            failed.append(Failure("its item has another text now", name))
        else:
            try:
                chain = _steps_of(str(row.get("level")))
                check_duplicate(
                    item.grid,
                    str(row.get("text")),
                    _answer(row.get("answer")),
                    substituted="substitute" in chain,
                )
                rows.append(row)
            except DuplicateError as error:
                failed.append(Failure.of(error, name))
            except UsageError as error:
                failed.append(Failure("its level is no chain of steps", name, str(error)))
    return Made(rows, _counted(failed))


def read_items(path: Path, fields: ItemFields) -> tuple[list[Item], list[Failure]]:
    """Read logic grids of a file, and why others are none."""
    items: list[Item] = []
    failed: list[Failure] = []
    names: set[str] = set()
    for at, record in enumerate(_objects(path), 1):
        name = str(record.get(fields.item, f"record {at}"))
        missing = [field for field in fields if field not in record]
        if missing:
            reason = f"it has no {join_list(missing)}, which are named as fields"
            failed.append(Failure(reason, name, f"fields {join_list(record)}"))
            continue
        if name in names:
            failed.append(Failure("another item has this name", name))
            continue
        text = str(record[fields.text])
        try:
            grid = read_grid(text, _answer(record[fields.answer]))
            refuse_unsolved(grid)
        except DuplicateError as error:
            failed.append(Failure.of(error, name))
            continue
        names.add(name)
        items.append(Item(name, text, grid))
    if not items:
        reasons = _counted(failed)
        first = "the file holds no record"
        if len(reasons):
            first, detail = (str(reasons[name].iloc[0]) for name in ("reason", "detail"))
            first += f" ({detail})" if detail else ""
        problem = f"no item can be read as a logic grid; the most frequent reason: {first}"
        raise DataError([Fault(str(path), problem)])
    return items, failed


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    for place, _, value in json_records(path):
        if isinstance(value, Damage):
            raise DataError([Fault(str(path), f"{place}: {value.reason}; allowed is JSON Lines")])
        if not isinstance(value, dict):
            raise DataError([Fault(str(path), f"{place}: {no_object(value)}")])
        yield value


def _steps_of(chain: str) -> tuple[str, ...]:
    """Return the steps of a chain by its name."""
    steps = tuple(part.strip() for part in chain.split("+"))
    wanted = tuple(step for step in _ORDER if step in steps)
    if steps != wanted:
        raise UsageError(
            f"chain: got {printable(chain, 60)!r}; allowed are steps joined by '+', each once and"
            f" in this order: {join_list(_ORDER)}"
        )
    return steps


def _duplicate(
    benchmark: str, item: Item, chain: tuple[str, ...], copy: int, seed: int
) -> dict[str, Any]:
    """Return a row, checked."""
    level, grid = "+".join(chain), item.grid
    for step in chain:
        grid = _STEPS[step](grid, stream(seed, "duplicates", item.name, level, copy, step))
    check_duplicate(item.grid, grid.text, grid.solution, substituted="substitute" in chain)
    return {
        "benchmark": benchmark, "item": item.name, "duplicate": f"{item.name}/{level}/{copy + 1}",
        "kind": "semantic", "level": level,
        "steps": [{"step": step, "seed": seed, "copy": copy} for step in chain],
        "parent_sha256": _hash(item.text), "checks": _CHECKS, "text": grid.text,
        "answer": grid.solution,
    }  # fmt: skip


_STEPS: Mapping[str, Callable[[Grid, np.random.Generator], Grid]] = {
    "shuffle": shuffle,
    "substitute": substitute,
}
_CHECKS = ["unique solution", "clues", "values"]
"""Checks that each row has passed."""


def _answer(value: Any) -> Mapping[str, Any]:
    """Return a solution, which may be JSON in a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict):
        raise DuplicateError("its solution has no header and rows")
    return value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _counted(failed: Sequence[Failure]) -> pd.DataFrame:
    """Return each reason with its number and the first that has it."""
    counts = Counter(each.reason for each in failed)
    first: dict[str, Failure] = {}
    for each in failed:
        first.setdefault(each.reason, each)
    rows = [
        (reason, count, first[reason].item, first[reason].detail)
        for reason, count in counts.most_common()
    ]
    return pd.DataFrame(rows, columns=["reason", "count", "first", "detail"])
