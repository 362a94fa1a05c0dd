"""Duplicates of a benchmark's items by the chains of a recipe, each checked by its own text."""

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pandas as pd

from bayescontam._files import sha256
from bayescontam._progress import progress_bar
from bayescontam._random import check_seed, stream
from bayescontam._runs import Journal
from bayescontam._text import join_list, printable
from bayescontam.budget import Budget
from bayescontam.data.jsonl import (
    BrokenListError,
    Damage,
    json_object,
    json_records,
    no_object,
)
from bayescontam.duplicates.items import DuplicateError, Parent, Version, planted_text
from bayescontam.duplicates.kinds import Kind, kind_of, value_of
from bayescontam.duplicates.writing import NO_ANSWER, NoReplyError, Writer, load_prompts
from bayescontam.endpoint import Caller, Endpoint, Failure, call_all
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.evidence.llm import answer_cache, load_prompt
from bayescontam.specs.corpus import TextMode
from bayescontam.specs.recipe import Recipe
from bayescontam.specs.registry import load_recipe, shipped_recipes

_DRAWS = 20
"""Draws of a copy until it differs from the earlier ones."""
_FORMAT = 1
"""Of the file that a run cut off goes on from."""
ITEM, DUPLICATE, ATTEMPT = "item", "duplicate", "attempt"
"""What can fail: a record, a duplicate of an item, or a text of a model that was written again."""


class Failed(NamedTuple):
    """Why a record, a duplicate or an attempt is not used."""

    what: str
    reason: str
    name: str
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Made:
    """Rows, and what did not become one.

    Attributes
    ----------
    rows : list of dict
        What was made or passed, in the order of items, chains and copies.
    failures : pandas.DataFrame
        Columns ``what`` (``"item"``, ``"duplicate"``, or ``"attempt"``: a text of a model that was
        refused, whether or not another was accepted), ``reason``, ``count``, ``first`` (the first
        item or duplicate that has it) and ``detail`` (what arrived there); empty if all went well.
    notes : list of str
        What else is worth knowing: calls and tokens, or that the benchmark has another number of
        items than is known.
    left : int
        Duplicates that the budget did not suffice for.
    unanswered : int
        Duplicates that the endpoint gave no reply for; another run may get one.
    """

    rows: list[dict[str, Any]]
    failures: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    left: int = 0
    unanswered: int = 0


class _Unit(NamedTuple):
    """All copies of an item by a chain."""

    number: int
    item: Parent
    chain: tuple[str, ...]


def make_duplicates(
    benchmark: str | os.PathLike[str],
    recipe: str | os.PathLike[str] | Recipe = "logic-grid",
    *,
    chains: Sequence[str] = (),
    copies: int | None = None,
    first: int | None = None,
    seed: int = 0,
    endpoint: Endpoint | None = None,
    judge: str = "",
    max_calls: int | None = None,
    max_tokens: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Made:
    """Make semantic duplicates of a benchmark's items.

    Steps of plain code and of a language model follow each other as the recipe's chains have them.
    Each result is checked by its own text, as its kind demands; what does not pass is counted by
    reason, and written again where a model is involved.

    Parameters
    ----------
    benchmark : path
        JSON Lines, a list of JSON, an object of items by their names, or a folder with a ``.json``
        file for each item.
    recipe : str, path or Recipe, default "logic-grid"
        What the items are and how duplicates are made; see ``bayescontam duplicates recipes``.
    chains : sequence of str, optional
        Steps of each kind of duplicate, such as ``"shuffle+substitute"``; default: the recipe's.
    copies : int, optional
        Duplicates of each item by each chain; default: the recipe's.
    first : int, optional
        Only so many items, from the first; default: the recipe's, as a rule all.
    seed : int, default 0
        The same seed gives the same duplicates; of steps of a model, from stored replies.
    endpoint : Endpoint, optional
        Where the language model is; needed for steps that it does. Its temperature and longest
        reply are the recipe's.
    judge : str, optional
        Model at the same endpoint that judges what was written; default: the one that writes.
    max_calls, max_tokens : int, optional
        What may be spent; default: no limit.
    cache : path, optional
        Folder that stores replies; default: none are stored.
    resume : path, optional
        File that holds what is finished, so that a run that is cut off can be resumed; the caller
        removes it. Default: none.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    Made
        Rows ``benchmark, item, duplicate, kind, level, steps, parent_sha256, checks, text_mode,
        text, answer``, of stories also ``tree``, of paraphrases also ``before``; counted failures.

    Raises
    ------
    UsageError
        For a chain or number that is not allowed, or steps of a model without an endpoint.
    DataError
        Where the file cannot be read, or no item of it can.
    MissingExtraError
        Without the extra ``duplicates``.
    TaskError
        If the endpoint cannot be reached, or code cannot be run safely.

    References
    ----------
    Appendix A.3 of "Soft Contamination Means Benchmarks Test Shallow Generalization" (2026).

    Examples
    --------
    >>> import json, tempfile
    >>> from bayescontam.duplicates.new import new_items
    >>> path = Path(tempfile.mkdtemp()) / "grids.jsonl"
    >>> _ = path.write_text(json.dumps(new_items(1, houses=3, categories=3)[0]))
    >>> made = make_duplicates(path, chains=["shuffle", "shuffle+substitute"])
    >>> [row["level"] for row in made.rows]
    ['shuffle', 'shuffle+substitute']
    """
    known = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    seed, path, kind = check_seed(seed), Path(benchmark), kind_of(known)
    steps = [kind.chain(chain) for chain in dict.fromkeys(chains or known.chains)]
    count = known.copies if copies is None else copies
    limits = {"copies": count, "max_calls": max_calls, "max_tokens": max_tokens, "first": first}
    for name, value in limits.items():
        if value is not None and value < 1:
            raise UsageError(f"{name}: got {value}; allowed is 1 or more")
    modelled = {step for chain in steps for step in chain if step in kind.written}
    if modelled and endpoint is None:
        raise UsageError(
            f"steps {', '.join(sorted(modelled))}: a language model does them; name its address and"
            " its name (--base-url, --model), or other chains"
        )
    items, failed = read_items(path, kind, first=first or known.first, progress=progress)
    # Also of a compressed file, as a scan's manifest would name it.
    benchmark_name = path.name.partition(".json")[0] if ".json" in path.name else path.stem
    maker = _Maker(benchmark_name, kind, count, seed)
    units = [
        _Unit(at * len(steps) + number, item, chain)
        for at, item in enumerate(items) for number, chain in enumerate(steps)
    ]  # fmt: skip
    options = [known.hash, [*map(list, steps)], count, seed, first, _contents(path)]
    options += [benchmark_name, _material()]
    if modelled and endpoint is not None:
        prompts = [prompt.template for prompt in load_prompts(known.writing).values()]
        options += [endpoint.base_url, endpoint.model, judge, dict(endpoint.extra), prompts]
        options += [load_prompt(known.writing.judge_prompt)]
    notes = _other_number(path, known)
    budget = Budget(max_calls, max_tokens)
    with closing(Journal(Path(resume) if resume else None, [_FORMAT, *options])) as journal:
        done: dict[int, dict[str, Any]] = {entry["unit"]: entry for entry in journal.entries}
        if done:
            notes.append(f"{len(done):,} of {len(units):,} were finished before")
        if journal.replaced:
            notes.append(f"{printable(str(resume))}: held parts of other work, and is begun anew")
        plain = [u for u in units if u.number not in done and not {*u.chain} & kind.written]
        total = len(plain) * count
        shown = progress and total > 0
        with progress_bar(shown, "making duplicates", total, "duplicates") as advance:
            for unit in plain:
                done[unit.number] = maker.entry(unit, maker.plain(unit))
                journal.add(done[unit.number])
                advance(count)
        written = [u for u in units if u.number not in done]
        if written and endpoint is not None:
            store, more = (None, []) if cache is None else answer_cache(cache)
            writer = Writer(kind, endpoint, seed=seed, cache=store, judge=judge)

            async def work(caller: Caller, unit: _Unit) -> Failure | None:
                entry, failure = await maker.write(caller, writer, unit)
                done[unit.number] = entry
                if failure is None:  # what the endpoint did not answer may succeed another time
                    journal.add(entry)
                return failure

            call_all(
                written, work, writer.endpoint, budget, total=len(written), title="writing",
                unit="items and chains", progress=progress,
            )  # fmt: skip
            notes += [*more, f"{budget.calls:,} calls took {budget.tokens:,} tokens"]
    entries = [done[unit.number] for unit in units if unit.number in done]
    failed += [Failed(*each) for entry in entries for each in entry["failed"]]
    rows = [row for entry in entries for row in entry["rows"]]
    unanswered = sum(
        each.what == DUPLICATE and each.reason.startswith(NO_ANSWER) for each in failed
    )
    return Made(rows, counted(failed), notes, (len(units) - len(entries)) * count, unanswered)


def _material() -> str:
    """Return a hash of what the package's steps take words and branches from."""
    folder = Path(__file__).parent
    return sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.toml"))))


def _other_number(path: Path, recipe: Recipe) -> list[str]:
    """Return a note if a benchmark has another number of records than is known."""
    if recipe.items is None or (count := sum(1 for _ in _records(path))) == recipe.items:
        return []
    return [f"{path.name}: has {count:,} records; {recipe.name} is known to have {recipe.items:,}"]


class _Maker:
    """Makes all copies of an item by a chain, and checks them."""

    def __init__(self, benchmark: str, kind: Kind, copies: int, seed: int) -> None:
        self.benchmark, self.kind, self.copies, self.seed = benchmark, kind, copies, seed

    def plain(self, unit: _Unit) -> list[Version | DuplicateError]:
        """Return what the steps without a model make; copies differ if no model follows."""
        made: list[Version | DuplicateError] = []
        alone = not {*unit.chain} & self.kind.written
        texts: set[str] = set()
        for copy in range(self.copies):
            try:
                for draw in range(_DRAWS if alone else 1):
                    version = self._drawn(unit, copy, draw)
                    if not alone or (text := self._planted(version)) not in texts:
                        break
                else:
                    raise DuplicateError("it is the same as an earlier copy")
                if alone:
                    texts.add(text)
                made.append(version)
            except DuplicateError as error:
                made.append(error)
        return made

    def _drawn(self, unit: _Unit, copy: int, draw: int) -> Version:
        """Return what the plain steps make in one of several draws."""
        version, level = unit.item.version, "+".join(unit.chain)
        for step in unit.chain:
            if step not in self.kind.written:
                name = f"{step}, draw {draw + 1}" if draw else step
                rng = stream(self.seed, "duplicates", unit.item.name, level, copy, name)
                version = self.kind.apply(step, version, rng)
        return version

    def _planted(self, version: Version) -> str:
        mode = str(version.more.get("text_mode", self.kind.recipe.text_mode))
        return planted_text(version.text, version.answer, mode)

    async def write(
        self, caller: Caller, writer: Writer, unit: _Unit
    ) -> tuple[dict[str, Any], Failure | None]:
        """Return what all steps make, and why the endpoint gave no answer if it did not."""
        versions = await asyncio.to_thread(self.plain, unit)
        attempts: list[DuplicateError] = []
        for step in unit.chain:
            if step in self.kind.written:
                good = [at for at, each in enumerate(versions) if isinstance(each, Version)]
                given = [each for each in versions if isinstance(each, Version)]
                new, refused = await writer.write(caller, step, given)
                attempts += refused
                for at, version in zip(good, new, strict=True):
                    versions[at] = version
        entry = await asyncio.to_thread(self.entry, unit, versions)
        entry["failed"] += [
            Failed(ATTEMPT, error.reason, unit.item.name, error.detail) for error in attempts
        ]
        lost = [each.failure for each in versions if isinstance(each, NoReplyError)]
        return entry, lost[0] if lost else None

    def entry(self, unit: _Unit, versions: Sequence[Version | DuplicateError]) -> dict[str, Any]:
        """Return the rows that pass, and why others do not, as the journal holds them."""
        rows: list[dict[str, Any]] = []
        failed: list[Failed] = []
        for copy, version in enumerate(versions):
            row = self._row(unit, copy, version) if isinstance(version, Version) else None
            try:
                if row is None:
                    assert isinstance(version, DuplicateError)
                    raise version
                passed = self.kind.check(unit.item.version, unit.chain, row)
                row["checks"] = [*dict.fromkeys([*passed, *row["checks"]])]
                self.kind.check_copy(row, rows)
                rows.append(row)
            except DuplicateError as error:
                name = _name(unit.item.name, unit.chain, copy)
                failed.append(Failed(DUPLICATE, error.reason, name, error.detail))
        return {"unit": unit.number, "rows": rows, "failed": failed}

    def _row(self, unit: _Unit, copy: int, version: Version) -> dict[str, Any]:
        item = unit.item
        return {
            "benchmark": self.benchmark, "recipe": self.kind.recipe.name, "item": item.name,
            "duplicate": _name(item.name, unit.chain, copy), "kind": "semantic",
            "level": "+".join(unit.chain),
            "steps": [{"step": step, "seed": self.seed, "copy": copy} for step in unit.chain],
            "parent_sha256": _hash(item.version.text), "checks": [*version.checks],
            "text_mode": self.kind.recipe.text_mode, "text": version.text,
            "answer": version.answer, **version.more,
        }  # fmt: skip


def check_duplicates(
    duplicates: str | os.PathLike[str],
    benchmark: str | os.PathLike[str],
    recipe: str | os.PathLike[str] | Recipe = "",
    *,
    progress: bool = False,
) -> Made:
    """Check duplicates against their items once more, from their texts alone.

    Programs are run against their tests again. What a model judged, equal meaning and facts, is
    not judged again.

    Parameters
    ----------
    duplicates : path
        What `make_duplicates` wrote.
    benchmark : path
        The items that they are duplicates of.
    recipe : str, path or Recipe, default ""
        The recipe that they were made by; empty: the one that they name.
    progress : bool, default False
        Whether a bar is shown.

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
    >>> from bayescontam.duplicates.new import new_items
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "grids.jsonl").write_text(json.dumps(new_items(1, houses=3, categories=3)[0]))
    >>> [row] = make_duplicates(folder / "grids.jsonl", chains=["shuffle"]).rows
    >>> row["text"] = row["text"].rpartition("\\n")[0]  # without its last clue
    >>> _ = (folder / "made.jsonl").write_text(json.dumps(row))
    >>> check_duplicates(folder / "made.jsonl", folder / "grids.jsonl").failures["count"].sum()
    np.int64(1)
    """
    given = read_duplicates(duplicates)
    kind = kind_of(recipe if isinstance(recipe, Recipe) else recipe_of(given, recipe))
    items, _ = read_items(Path(benchmark), kind, progress=progress)
    parents = {item.name: item.version for item in items}
    rows: list[dict[str, Any]] = []
    failed: list[Failed] = []
    known: dict[tuple[str, str], list[dict[str, Any]]] = {}
    names: set[str] = set()
    with progress_bar(progress, "checking", len(given), "duplicates") as advance:
        for row in given:
            name, earlier = str(row["duplicate"]), known.setdefault((row["item"], row["level"]), [])
            try:
                if (parent := parents.get(row["item"])) is None:
                    raise DuplicateError("its item is not in the benchmark, or cannot be read")
                if row.get("parent_sha256") != _hash(parent.text):
                    raise DuplicateError("its item has another text now")
                kind.check(parent, _chain(kind, row), row)
                if name in names:
                    raise DuplicateError("another duplicate has this name")
                kind.check_copy(row, earlier)
                names.add(name)
                earlier.append(row)
                rows.append(row)
            except DuplicateError as error:
                failed.append(Failed(DUPLICATE, error.reason, name, error.detail))
            advance(1)
    return Made(rows, counted(failed))


def _chain(kind: Kind, row: dict[str, Any]) -> tuple[str, ...]:
    try:
        return kind.chain(str(row.get("level")))
    except UsageError as error:
        raise DuplicateError("its level is no chain of steps", str(error)) from error


def read_items(
    path: Path, kind: Kind, *, first: int | None = None, progress: bool = False
) -> tuple[list[Parent], list[Failed]]:
    """Read the items of a file, and why other records are none."""
    items: list[Parent] = []
    failed: list[Failed] = []
    names: set[str] = set()
    records = [record for record, _ in zip(_records(path), range(first or 10**12), strict=False)]
    with progress_bar(progress, "reading items", len(records), "items") as advance:
        for at, record in enumerate(records, 1):
            name = _item_name(record, at, kind.recipe)
            try:
                if name in names:
                    raise DuplicateError("another item has this name")
                items.append(Parent(name, kind.read(record)))
                names.add(name)
            except DuplicateError as error:
                failed.append(Failed(ITEM, error.reason, name, error.detail))
            except (TypeError, LookupError, AttributeError) as error:
                detail = f"{type(error).__name__}: {error}"
                failed.append(
                    Failed(ITEM, "its fields are not of the expected types", name, detail)
                )
            advance(1)
    if not items:
        reasons = counted(failed)
        first_reason = "there is no record"
        if len(reasons):
            first_reason, detail = (str(reasons[name].iloc[0]) for name in ("reason", "detail"))
            first_reason += f" ({detail})" if detail else ""
        problem = (
            f"no item can be read by the recipe {kind.recipe.name!r}; the most frequent reason:"
            f" {first_reason}"
        )
        raise DataError([Fault(str(path), problem)])
    return items, failed


def read_duplicates(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read what `make_duplicates` gave, from its file, and validate its rows."""
    rows = [*_records(Path(path))]
    faults = []
    for at, row in enumerate(rows, 1):
        row.setdefault("text_mode", "input")
        for name in ("item", "duplicate", "level", "text", "text_mode", "checks"):
            value, wanted = row.get(name), list if name == "checks" else str
            if not isinstance(value, wanted):
                what = "a list" if wanted is list else "text"
                problem = f"got {printable(repr(value), 60)}; allowed is {what}"
                faults.append(Fault(str(path), problem, row=at, column=name))
        if row["text_mode"] not in get_args(TextMode):
            problem = f"allowed are {join_list(get_args(TextMode))}"
            faults.append(Fault(str(path), problem, row=at, column="text_mode"))
    if not rows:
        faults = [Fault(str(path), "holds no duplicate")]
    if faults:
        raise DataError(faults[:10], "Give the file that 'duplicates make' wrote.")
    return rows


def recipe_of(rows: Sequence[dict[str, Any]], given: str | os.PathLike[str] = "") -> Recipe:
    """Return the recipe that is given, or else the one that duplicates name."""
    if os.fspath(given):
        return load_recipe(given)
    named = {str(row.get("recipe", "")) for row in rows}
    if len(named) != 1 or not named <= {*shipped_recipes()}:
        raise UsageError(
            f"recipe: the duplicates name {join_list(sorted(named))}; name the recipe, or its file,"
            " that they were made by (--recipe)"
        )
    return load_recipe(named.pop())


def texts_of(path: str | os.PathLike[str], recipe: Recipe) -> dict[str, str]:
    """Return what of a benchmark's items is looked for, by their names."""
    kind, texts = kind_of(recipe), {}
    for at, record in enumerate(_records(Path(path)), 1):
        field = recipe.fields.answer
        answer = None if field is None else value_of(record, field)
        if text := kind.text(record):
            texts[_item_name(record, at, recipe)] = planted_text(text, answer, recipe.text_mode)
    if not texts:
        problem = f"no record has a text where the recipe {recipe.name!r} looks for one"
        raise DataError([Fault(str(path), problem)], "Name the recipe that fits (--recipe).")
    return texts


def _item_name(record: dict[str, Any], at: int, recipe: Recipe) -> str:
    named = value_of(record, recipe.fields.item)
    return f"record {at}" if named is None else str(named)


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of JSON Lines, of a list, of an object of objects, or of a folder.

    In a folder each ``.json`` file is a record, named by its file as in an object by its key.
    """
    if path.is_dir():
        yield from _named((file.stem, json_object(file)) for file in sorted(path.rglob("*.json")))
        return
    if path.suffix == ".json" and path.read_bytes().lstrip()[:1] == b"{":
        whole = json_object(path)
        nested = bool(whole) and all(isinstance(value, dict) for value in whole.values())
        yield from _named(whole.items()) if nested else [whole]
        return
    for place, _, value in _read(path):
        if isinstance(value, Damage):
            raise DataError([Fault(str(path), f"{place}: {value.reason}; allowed is JSON Lines")])
        if not isinstance(value, dict):
            raise DataError([Fault(str(path), f"{place}: {no_object(value)}")])
        yield value


def _named(records: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    return ({"id": name, **record} for name, record in records)


def _contents(path: Path) -> str:
    """Return a hash of a benchmark's file, or of all files of its folder."""
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    return sha256(b"\0".join(file.read_bytes() for file in files))


def _read(path: Path) -> Iterator[tuple[str, int, Any]]:
    try:
        yield from json_records(path)
    except BrokenListError as error:
        raise DataError([Fault(str(path), str(error))]) from error


def _name(item: str, chain: Sequence[str], copy: int) -> str:
    return f"{item}/{'+'.join(chain)}/{copy + 1}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def counted(failed: Sequence[Failed]) -> pd.DataFrame:
    """Return each reason with its number and the first that has it."""
    counts = Counter((each.what, each.reason) for each in failed)
    first: dict[tuple[str, str], Failed] = {}
    for each in failed:
        first.setdefault((each.what, each.reason), each)
    rows = [
        (*key, count, printable(first[key].name, 80), printable(first[key].detail, 200))
        for key, count in counts.most_common()
    ]
    return pd.DataFrame(rows, columns=["what", "reason", "count", "first", "detail"])
