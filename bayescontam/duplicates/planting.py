"""Duplicates planted in a corpus at known places, and how many of them a scan finds."""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, rankdata

from bayescontam._files import atomic_path, make_folder
from bayescontam._progress import progress_bar, stage
from bayescontam._random import check_seed, stream
from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray
from bayescontam.data.jsonl import Damage, json_records, no_object
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.scan.results import Scan

CORPUS, TRUTH = "corpus.jsonl", "truth.csv"
"""Files that planting writes."""
ALONE, INSIDE, ABSENT = "alone", "inside", "absent"
RANKS, COSINES = (1, 10, 100), (0.5, 0.6, 0.7, 0.8, 0.9)
"""Ranks up to which, and cosines from which on, recall is given."""
_NEEDED = ("benchmark", "item", "duplicate", "kind", "level", "text")
_COLUMNS = (
    "benchmark", "item", "duplicate", "kind", "level", "copy", "document", "place", "start", "end",
)  # fmt: skip
_BREAKS = (r"\n\s*\n", r"\n", r"(?<=[.!?])\s")
"""Where a text is put into another: between paragraphs, else lines, else sentences."""
_RESAMPLES = 2000
"""Bootstrap samples of items for the interval of an area under a curve."""
_SCORES = ("cosine", "jaccard", "rouge_l")
_GROUP = ["kind", "level", "place"]


@dataclass(frozen=True, eq=False)
class Recalled:
    """How many planted duplicates a scan found.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each ``kind, level, place``: how many were ``planted``; their ``median_cosine``
        (those that are not among the stored matches of their item count as lower than any; NaN if
        half are not); and the share that is among the k best matches of their
        item (``recall@k``) and with ``cosine ≥ …``, with ``…_low`` and ``…_high``.
    scores : pandas.DataFrame
        For the cosine and each lexical score of the scan: ``auc``, the probability that the best
        match of an item with a planted duplicate scores higher than that of one without, with
        ``auc_low`` and ``auc_high``. Empty unless there are items of both sorts.
    duplicates : pandas.DataFrame
        The truth, with ``cosine`` and ``rank`` of the match; NaN where none is stored.
    chunks : int
        Chunks that each item was compared with: of texts at random, k of these are within rank k.
    """

    table: pd.DataFrame
    scores: pd.DataFrame
    duplicates: pd.DataFrame
    chunks: int


def plant_duplicates(
    corpus: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    duplicates: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    share: float = 0.5,
    copies: int = 1,
    inside: float = 0.5,
    text_field: str = "text",
    seed: int = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """Write a corpus with duplicates of some items at known places, and the truth.

    Parameters
    ----------
    corpus : path, or several
        JSON Lines, plain or compressed: a document each.
    duplicates : path
        Rows as `make_duplicates` gives them; only ``benchmark, item, duplicate, kind, level`` and
        ``text`` are used.
    out : path
        Folder for ``corpus.jsonl`` and ``truth.csv``.
    share : float, default 0.5
        Share of the items whose duplicates are planted, above 0 and at most 1. Of the others none
        is: they show how high texts score that are no duplicates.
    copies : int, default 1
        How often each duplicate is planted.
    inside : float, default 0.5
        Share that are put into a document of the corpus, between two of its paragraphs, lines or
        sentences; the others are documents of their own.
    text_field : str, default "text"
        Field of the corpus with the text.
    seed : int, default 0
        The same seed gives the same files.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    pandas.DataFrame
        The truth: ``benchmark, item, duplicate, kind, level, copy, document, place, start, end``.
        ``place`` is ``alone``, ``inside`` or, of items without, ``absent``; characters of the
        document from ``start`` to ``end`` are the duplicate. ``attrs["left_out"]`` counts, by
        reason, records of the corpus that are no documents; they are not copied.

    Raises
    ------
    UsageError
        For a number that is not allowed.
    DataError
        Where a file cannot be read, or has too few documents.

    Examples
    --------
    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "corpus.jsonl").write_text('{"id": "d1", "text": "Some text."}')
    >>> row = {"benchmark": "quiz", "item": "1", "duplicate": "1/a", "kind": "exact", "level": ""}
    >>> _ = (folder / "made.jsonl").write_text(json.dumps(row | {"text": "Why?"}))
    >>> truth = plant_duplicates(
    ...     folder / "corpus.jsonl", folder / "made.jsonl", folder / "planted", inside=1.0
    ... )
    >>> print(*truth.loc[0, ["document", "place", "start", "end"]])
    d1 inside 12 16
    """
    seed, rng = check_seed(seed), stream(check_seed(seed), "planting")
    if not 0 < share <= 1:
        raise UsageError(f"share: got {share}; allowed is a number above 0, at most 1")
    if not 0 <= inside <= 1:
        raise UsageError(f"inside: got {inside}; allowed is a number from 0 to 1")
    if copies < 1:
        raise UsageError(f"copies: got {copies}; allowed is 1 or more")
    folder, rows = Path(out), _duplicates_of(Path(duplicates))
    files = [Path(corpus)] if isinstance(corpus, str | os.PathLike) else [*map(Path, corpus)]
    for file in (*files, Path(duplicates)):
        if file.resolve().parent == folder.resolve() and file.name in (CORPUS, TRUTH):
            raise UsageError(
                f"{printable(file)}: is what is read, and would be lost; name another folder"
            )
    items = [*dict.fromkeys((row["benchmark"], row["item"]) for row in rows)]
    count = max(1, round(share * len(items)))
    chosen = {items[int(at)] for at in rng.permutation(len(items))[:count]}
    planted = [
        row | {"copy": copy + 1}
        for row in rows if (row["benchmark"], row["item"]) in chosen for copy in range(copies)
    ]  # fmt: skip
    left_out: Counter[str] = Counter()
    with stage(progress, "counting documents"):
        total = sum(1 for _ in _documents(files, text_field, left_out))
    hosted = rng.random(len(planted)) < inside
    if (needed := max(1, int(hosted.sum()))) > total:
        problem = f"has {total:,} documents; {needed:,} are to hold a duplicate"
        raise DataError([Fault(str(files[0]), problem)])
    held = map(int, rng.permutation(total)[: hosted.sum()])
    hosts = dict(zip(held, map(int, np.flatnonzero(hosted)), strict=True))
    alone: dict[int, list[int]] = defaultdict(list)
    for own in map(int, np.flatnonzero(~hosted)):
        alone[int(rng.integers(total))].append(own)
    truth: list[dict[str, Any]] = []
    with (
        atomic_path(make_folder(folder) / TRUTH) as listed,
        atomic_path(folder / CORPUS) as temporary,
        temporary.open("w", encoding="utf-8") as stream_out,
        progress_bar(progress, "planting", total, "documents") as advance,
    ):
        for number, (record, name) in enumerate(_documents(files, text_field, Counter())):
            if number in hosts:
                row = planted[hosts[number]]
                text, start = _put_into(str(record[text_field]), row["text"], rng)
                record = record | {text_field: text}
                truth.append(_place(row, name, INSIDE, start))
            _write(stream_out, record)
            for at in alone[number]:
                new = f"planted-{at + 1}"
                _write(stream_out, {"id": new, text_field: planted[at]["text"]})
                truth.append(_place(planted[at], new, ALONE, 0))
            advance(1)
        absent = [
            {"benchmark": benchmark, "item": item, "place": ABSENT}
            for benchmark, item in items if (benchmark, item) not in chosen
        ]  # fmt: skip
        table = pd.DataFrame([*truth, *absent], columns=[*_COLUMNS])
        table = table.astype(dict.fromkeys(("copy", "start", "end"), "Int64"))
        table.to_csv(listed, index=False)
    table.attrs["left_out"] = dict(left_out)
    return table


def recall(
    scan: Scan | str | os.PathLike[str],
    truth: pd.DataFrame | str | os.PathLike[str],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Recalled:
    """Count which planted duplicates a scan found.

    Parameters
    ----------
    scan : Scan or path
        A scan of the corpus that `plant_duplicates` wrote.
    truth : pandas.DataFrame or path
        What it returned, or its ``truth.csv``.
    level : float, default 0.95
        Of intervals: of shares equal-tailed ones under Jeffreys' prior, which take duplicates for
        independent; of areas under curves by a bootstrap over items.
    seed : int, default 0
        Of that bootstrap.

    Returns
    -------
    Recalled

    Raises
    ------
    UsageError
        If `level` is none.
    DataError
        Where the truth lacks a column, or is about other items than the scan.

    Examples
    --------
    >>> recall("no-such-folder", "truth.csv")
    Traceback (most recent call last):
        ...
    bayescontam.errors.DataError: no-such-folder: holds no finished scan: is no folder
    Give the folder of a finished scan; run an unfinished one again to finish it.
    """
    if not 0 < level < 1:
        raise UsageError(f"level: got {level}; allowed is a number between 0 and 1")
    found = scan if isinstance(scan, Scan) else Scan.load(scan)
    known = _truth(truth)
    matches = found.matches
    for name in ("benchmark", "item", "document"):
        matches = matches.assign(**{name: matches[name].astype(str)})
    keys = ["benchmark", "item"]
    if known[keys].merge(matches[keys].drop_duplicates()).empty:
        ours, theirs = (join_list(each["benchmark"].unique()[:3]) for each in (known, matches))
        raise DataError(
            [Fault("truth", f"is about items of {ours}; the scan is about items of {theirs}")]
        )
    placed = known[known["place"] != ABSENT].reset_index(drop=True)
    pairs = placed.reset_index(names="row").merge(
        matches, on=[*keys, "document"], suffixes=("", "_chunk")
    )
    over = (pairs["start_chunk"] < pairs["end"]) & (pairs["end_chunk"] > pairs["start"])
    best = pairs[over].sort_values("rank").drop_duplicates("row").set_index("row")
    placed["cosine"], placed["rank"] = best["cosine"], best["rank"]
    table = [
        dict(zip(_GROUP, group, strict=True)) | _shares(rows, level)
        for group, rows in placed.groupby(_GROUP)
    ]
    chunks = int(found.histogram.groupby(keys)["count"].sum().max())
    return Recalled(pd.DataFrame(table), _areas(matches, known, level, seed), placed, chunks)


def _shares(rows: pd.DataFrame, level: float) -> dict[str, Any]:
    """Return how many of some duplicates were found, with intervals."""
    count, median = len(rows), rows["cosine"].fillna(-np.inf).median()
    figures = {"planted": count, "median_cosine": median if np.isfinite(median) else np.nan}
    hits = {f"recall@{most}": rows["rank"] <= most for most in RANKS}
    hits |= {f"cosine ≥ {least:g}": rows["cosine"] >= least for least in COSINES}
    tails = (1 - level) / 2, (1 + level) / 2
    for name, hit in hits.items():
        k = int(hit.sum())
        low, high = beta.ppf(tails, k + 0.5, count - k + 0.5)
        figures |= {
            name: k / count, f"{name}_low": 0.0 if k == 0 else low,
            f"{name}_high": 1.0 if k == count else high,
        }  # fmt: skip
    return figures


def _areas(matches: pd.DataFrame, known: pd.DataFrame, level: float, seed: int) -> pd.DataFrame:
    """Return how well each score orders items with a duplicate before those without."""
    keys = ["benchmark", "item"]
    has = (known["place"] != ABSENT).groupby([known[key] for key in keys]).any()
    names = [name for name in matches if name in _SCORES or str(name).startswith("ngram_")]
    highest = matches.groupby(keys)[names].max().reindex(has.index)
    rows: list[dict[str, Any]] = []
    positive = has.to_numpy()
    if positive.all() or not positive.any():
        return pd.DataFrame(rows, columns=["score", "auc", "auc_low", "auc_high"])
    for name in names:
        score = highest[name].fillna(-np.inf).to_numpy()
        rng = stream(check_seed(seed), "recall")
        yes, no = score[positive], score[~positive]
        sampled = [
            _area(rng.choice(yes, len(yes)), rng.choice(no, len(no))) for _ in range(_RESAMPLES)
        ]
        low, high = np.quantile(sampled, [(1 - level) / 2, (1 + level) / 2])
        rows.append({"score": name, "auc": _area(yes, no), "auc_low": low, "auc_high": high})
    return pd.DataFrame(rows)


def _area(yes: FloatArray, no: FloatArray) -> float:
    """Return the probability that one of `yes` is higher than one of `no`; ties count half."""
    ranks = rankdata(np.concatenate([yes, no]))[: len(yes)]
    return float((ranks.mean() - (len(yes) + 1) / 2) / len(no))


def _truth(given: pd.DataFrame | str | os.PathLike[str]) -> pd.DataFrame:
    if isinstance(given, pd.DataFrame):
        table, source = given, "truth"
    else:
        source = str(given)
        try:
            table = pd.read_csv(given, dtype=str)
        except (OSError, ValueError) as error:
            raise DataError(
                [Fault(source, f"cannot be read ({printable(str(error), 80)})")]
            ) from error
    if missing := [name for name in _COLUMNS if name not in table]:
        raise DataError(
            [Fault(source, f"has no column {join_list(missing)}; give the file that 'plant' wrote")]
        )
    names = ["benchmark", "item", "document"]
    table = table.assign(**{name: table[name].astype(str) for name in names})
    return table.assign(**{name: pd.to_numeric(table[name]) for name in ("start", "end")})


def _duplicates_of(path: Path) -> list[dict[str, Any]]:
    rows = [record for record, _ in _documents([path], "text")]
    for at, row in enumerate(rows, 1):
        if missing := [name for name in _NEEDED if name not in row]:
            raise DataError([Fault(str(path), f"has no {join_list(missing)}", row=at)])
    if not rows:
        raise DataError([Fault(str(path), "holds no duplicate")])
    return rows


def _documents(
    files: Sequence[Path], text_field: str, left_out: Counter[str] | None = None
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the records of a corpus, each with a name; others are counted, or else refused."""
    number = 0
    for file in files:
        for place, _, value in json_records(file):
            if problem := _no_document(value, text_field):
                if left_out is None:
                    raise DataError([Fault(str(file), f"{place}: {problem}")])
                left_out[problem] += 1
                continue
            number += 1
            value.setdefault("id", f"document-{number}")
            yield value, str(value["id"])


def _no_document(value: Any, text_field: str) -> str:
    """Return why a record is no document; nothing if it is one."""
    if isinstance(value, Damage):
        return "is no JSON"
    if not isinstance(value, dict):
        return no_object(value)
    if not isinstance(value.get(text_field), str):
        return f"has no text in the field {printable(text_field)!r}"
    return ""


def _put_into(host: str, text: str, rng: np.random.Generator) -> tuple[str, int]:
    """Return a text with another between two of its parts, and where that begins."""
    for pattern in _BREAKS:
        if places := [hit.end() for hit in re.finditer(pattern, host)]:
            at = places[int(rng.integers(len(places)))]
            before = host[:at].rstrip() + "\n\n"
            return before + text + "\n\n" + host[at:].lstrip(), len(before)
    return f"{host}\n\n{text}", len(host) + 2


def _place(row: dict[str, Any], document: str, place: str, start: int) -> dict[str, Any]:
    known = {name: row[name] for name in _COLUMNS[:6]}
    return known | {
        "document": document, "place": place, "start": start, "end": start + len(row["text"])
    }  # fmt: skip


def _write(file: Any, record: dict[str, Any]) -> None:
    file.write(json.dumps(record, ensure_ascii=False) + "\n")
