"""How many items have duplicates, by matches examined and by corpus scanned."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._common import row_of, rows_of

GENERATED, TEXTS = "generated", "tasks and instructions"
"""Names of the corpora."""
FOLDER = "texts"
"""Folder of the texts, in the data folder."""
JUDGE = "truth"
ITEM = ["benchmark", "item"]
PAIR = [*ITEM, "source", "document", "chunk"]
RANKS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers of best matches at which prevalence is reported."""
COLUMNS = {"mean": "mean", "ci_low": "low", "ci_high": "high"}
OTHER = "Another benchmark, corpus and embedder: shapes may agree, levels need not."


@dataclass(frozen=True, eq=False)
class ScanWithTruth:
    """A scan whose truth is known."""

    name: str
    scan: bc.Scan
    true: np.ndarray  # of each row of `scan.matches`: whether it is the first chunk of a duplicate
    pairs: pd.DataFrame  # distinct pairs of the scan, best first for each item, with `true`


def analyse(study: Study) -> bc.Findings:
    """Scan, judge, learn the curve, and estimate how many items have duplicates."""
    notes, searched = [], [generated_scan(study)]
    if (folder := study.shared(FOLDER)) is not None:
        searched.append(scan_of_texts(study, folder))
    else:
        notes.append(
            f"{FOLDER}/ is not in the data folder: the scan of programming tasks is left out."
            " Name the folder that holds it with --data."
        )
    curves = {one.name: study.curve(one.name, one.scan, judgements(study, one)) for one in searched}
    for name, curve in curves.items():
        failed = [check for check in curve.checks() if check.outcome is bc.Outcome.FAILED]
        notes += [f"The curve of '{name}' failed '{c.name}': {c.sentence}" for c in failed]
    ranks = pd.concat([by_rank(study, one, curves[one.name]) for one in searched])
    shares = pd.concat([by_share(study, one) for one in searched])
    bands = pd.concat([_band(name, curve) for name, curve in curves.items()])
    return bc.Findings(
        _headline(ranks),
        tuple(_compared(study, ranks, bands)),
        (_rank_picture(study, ranks), _share_picture(shares), _curve_picture(study, bands)),
        (
            TableData(
                "By matches examined",
                "Share of the items that nobody judged with a duplicate among them.",
                ranks,
            ),
            TableData("By share of the corpus", "Mean and 95 % of random parts.", shares),
        ),
        tuple(notes),
    )


def generated_scan(study: Study) -> ScanWithTruth:
    """Return the scan of a generated benchmark and corpus."""
    items, documents = study.settings["items"], study.settings["documents"]
    manifest = (
        f'summary = "Generated"\nseed = {study.spec.seed}\n'
        f"[generated]\nitems = {items}\ndocuments = {documents}\n"
    )
    scan = _scan(study, manifest, GENERATED)
    truth = pd.read_csv(
        scan.folder / "generated" / "truth.csv", keep_default_na=False, dtype={"documents": str}
    )
    known = {
        (str(row.item), document) for row in rows_of(truth) for document in row.documents.split()
    }
    return with_truth(GENERATED, scan, lambda item, document: (item, document) in known)


def scan_of_texts(study: Study, folder: Path) -> ScanWithTruth:
    """Return the scan of programming tasks, whose duplicates are named after them."""
    files = (str(folder.absolute() / f"{name}.jsonl") for name in ("benchmark", "corpus"))
    benchmark, corpus = (json.dumps(file, ensure_ascii=False) for file in files)  # TOML quotes so
    manifest = f"""
summary = "Quick scan for benchmark.jsonl"

[[benchmarks]]
name = "benchmark"
path = {benchmark}
text_mode = "input_output"

[[sources]]
name = "corpus"
paths = [{corpus}]
stratum = "source"
"""
    return with_truth(TEXTS, _scan(study, manifest, "texts"), named_after)


def named_after(item: str, document: str) -> bool:
    """Return whether a document's name says that it is a duplicate of an item.

    >>> named_after("task-7", "dup-7-1"), named_after("task-7", "dup-70-1")
    (True, False)
    """
    parts = document.split("-")
    return parts[0] in ("dup", "exact") and parts[1:2] == [item.removeprefix("task-")]


def _scan(study: Study, manifest: str, name: str) -> bc.Scan:
    """Return a scan; what was finished or begun in the study's folder is used."""
    return bc.run_scan(
        bc.Manifest.parse(manifest, "manifest.toml"), study.folder / "scans" / name,
        base=study.folder, device="cpu", replace=True, progress=study.progress,
    )  # fmt: skip


def with_truth(name: str, scan: bc.Scan, is_duplicate: Callable[[str, str], bool]) -> ScanWithTruth:
    """Return a scan with what is true of its matches."""
    # One text may stand in several documents, whose order is then that of their names.
    pairs = pd.concat([scan.matches, scan.tail]).drop_duplicates([*PAIR, "chunk_id"])
    items = pd.MultiIndex.from_frame(scan.items[ITEM])
    pairs["number"] = items.get_indexer(pd.MultiIndex.from_frame(pairs[ITEM]))
    order = ["number", "cosine", "chunk_id", "source", "document", "chunk"]
    falling = [name != "cosine" for name in order]
    pairs = pairs.sort_values(order, ascending=falling, ignore_index=True)
    pairs["true"] = _true(pairs, is_duplicate)
    return ScanWithTruth(name, scan, _true(scan.matches, is_duplicate), pairs)


def _true(table: pd.DataFrame, is_duplicate: Callable[[str, str], bool]) -> np.ndarray:
    named = [is_duplicate(*row) for row in table[["item", "document"]].itertuples(index=False)]
    # Of a document in several chunks, the one that is like the item holds the duplicate.
    first = ~table.duplicated([*ITEM, "source", "document"]).to_numpy()
    return np.array(named, dtype=bool) & first


def judged_items(study: Study, one: ScanWithTruth) -> set[str]:
    """Return the items, chosen at random, whose matches are judged."""
    items = one.scan.items["item"].to_numpy()
    count = round(study.settings["judged_items"] * len(items))
    return set(study.stream("judged", one.name).permutation(items)[:count])


def judgements(study: Study, one: ScanWithTruth) -> bc.Judgements:
    """Return true verdicts on the best matches of each judged item and on some of its others."""
    pairs = one.pairs.drop_duplicates(PAIR)
    pairs = pairs[pairs["item"].isin(judged_items(study, one))].reset_index(drop=True)
    place = pairs.groupby(ITEM, observed=True).cumcount()
    best = place < study.settings["judged"]
    rest = pairs[~best].sample(frac=1, random_state=int(study.stream("tail").integers(2**31)))
    tail = rest.groupby(ITEM, observed=True).head(study.settings["tail"])
    chosen = pd.concat([pairs[best], tail])
    table = chosen[PAIR].assign(judge=JUDGE, is_duplicate=chosen["true"].astype(int))
    return bc.Judgements.from_frame(table, source="truth")


def by_rank(study: Study, one: ScanWithTruth, curve: bc.Curve) -> pd.DataFrame:
    """Return the share of items with a duplicate among their best matches.

    Of the items that nobody judged: verdicts on the others would be read back as answers.
    """
    seen = judged_items(study, one)
    found = first_ranks(one)
    found = found[~found.index.isin(seen)]
    true = [float((found <= k).mean()) for k in RANKS]
    table = pd.DataFrame({"matches": RANKS, "mean": true, "low": true, "high": true})
    weighed = bc.item_contamination(one.scan, curve)
    estimated = bc.prevalence(weighed.of(~weighed.items["item"].isin(seen).to_numpy()))
    estimated = estimated[estimated["by"] == "matches"].rename(columns=COLUMNS)
    estimated = estimated.assign(matches=estimated["group"].astype(int))[list(table.columns)]
    parts = [table.assign(of="truth"), estimated.assign(of="curve")]
    return pd.concat(parts).assign(corpus=one.name)[["corpus", "of", *table.columns]]


def first_ranks(one: ScanWithTruth) -> "pd.Series[float]":
    """Return the rank of each item's first duplicate, infinite where none is listed."""
    found = one.scan.matches[one.true]
    first = found.groupby("item", observed=True)["rank"].min().astype(float)
    return first.reindex(one.scan.items["item"]).fillna(np.inf)


def by_share(study: Study, one: ScanWithTruth) -> pd.DataFrame:
    """Return the share of items with a duplicate among those listed, by share of the corpus."""
    rng, rows = study.stream("shares", one.name), []
    found = one.scan.matches[one.true]
    document, documents = pd.factorize(found["document"])
    item, items = pd.factorize(found["item"])
    belongs = (item[:, None] == np.arange(len(items))).astype(float)
    for share in study.settings["shares"]:
        included = rng.random((study.settings["repeats"], len(documents))) < share
        there = (included[:, document] @ belongs > 0).sum(axis=1) / len(one.scan.items)
        rows.append({"share": share} | row_of(there))
    return pd.DataFrame(rows).assign(corpus=one.name)[["corpus", "share", "mean", "low", "high"]]


def _band(name: str, curve: bc.Curve) -> pd.DataFrame:
    band = curve.data["curves"].to_dataset().isel(benchmark=0)
    columns = {column: band[column].to_numpy() for column in ("mean", "low", "high")}
    return pd.DataFrame({"x": band["cosine"].to_numpy(), "series": name, **columns})


def _headline(ranks: pd.DataFrame) -> str:
    true = ranks[ranks["of"] == "truth"].set_index(["corpus", "matches"])["mean"]
    estimated = ranks[ranks["of"] == "curve"].set_index(["corpus", "matches"])
    parts = []
    for corpus in ranks["corpus"].unique():
        at = estimated.loc[(corpus, RANKS[-1])]
        parts.append(
            f"{corpus}: {true[corpus, RANKS[0]]:.0%} of the items that nobody judged have a"
            f" duplicate as their best match, {true[corpus, RANKS[-1]]:.0%} among {RANKS[-1]}; the"
            f" curve says {at['mean']:.0%} [{at['low']:.0%}, {at['high']:.0%}]"
        )
    return f"{'; '.join(parts)}."


def _compared(study: Study, ranks: pd.DataFrame, bands: pd.DataFrame) -> Iterator[Comparison]:
    estimated = ranks[ranks["of"] == "curve"].set_index(["corpus", "matches"])
    for corpus in ranks["corpus"].unique():
        for where in ("CodeForces top-1", "CodeForces top-100", "MBPP top-100"):
            at = estimated.loc[(corpus, int(where.rsplit("-", 1)[1]))]
            ours = (float(at["mean"]), float(at["low"]), float(at["high"]))
            label = f"{where}; ours: {corpus}"
            yield study.compared("share_with_duplicate", ours, OTHER, where=where, label=label)
        band = bands[bands["series"] == corpus].set_index(bands.columns[0])
        for where in ("cosine 0.35", "cosine 0.8"):
            near = band.iloc[np.abs(band.index - float(where.split()[1])).argmin()]
            ours = (float(near["mean"]), float(near["low"]), float(near["high"]))
            label = f"{where}; ours: {corpus}"
            yield study.compared("duplicate_rate", ours, OTHER, where=where, label=label)


def _rank_picture(study: Study, ranks: pd.DataFrame) -> PictureData:
    own = ranks.assign(series=ranks["corpus"] + ", " + ranks["of"], x=ranks["matches"])
    printed = study.published[study.published["quantity"] == "share_with_duplicate"]
    name, top = zip(*printed["where"].str.split(" top-"), strict=True)
    published = pd.DataFrame(
        {"x": list(map(int, top)), "series": [f"{n}, published" for n in name]}
    )
    for column in ("mean", "low", "high"):
        published[column] = printed["value"].to_numpy()
    columns = ["x", "series", "mean", "low", "high"]
    return PictureData(
        "curves",
        "Items with a duplicate among their best matches",
        "Of the items that nobody judged, from the truth and from the curve with 95 % intervals;"
        " and published.",
        pd.concat([own[columns], published[columns]], ignore_index=True),
        "matches examined",
        "share of items",
    )


def _share_picture(shares: pd.DataFrame) -> PictureData:
    return PictureData(
        "curves",
        "Items with a duplicate in a part of the corpus",
        "Documents left out at random; mean and 95 % of the parts.",
        shares.rename(columns={"share": "x", "corpus": "series"}),
        "share of documents",
        "share of items",
    )


def _curve_picture(study: Study, bands: pd.DataFrame) -> PictureData:
    few, many = (study.printed("duplicate_rate", f"cosine {at}") for at in ("0.35", "0.8"))
    steep = study.printed("steep_cosine")
    return PictureData(
        "curves",
        "P(duplicate | cosine)",
        f"A match of a random item, with 95 % bands. Published: about {few['value']:.2f} below a"
        f" cosine of 0.35, steep between {steep['low']:.1f} and {steep['high']:.1f},"
        f" {many['low']:.2f} to {many['high']:.2f} near 0.8.",
        bands,
        "cosine",
        "probability of a duplicate",
    )
