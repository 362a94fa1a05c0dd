"""Scans and curves made by hand, of which everything is known."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam.evidence.curve import FORMAT, Curve, bands
from bayescontam.evidence.curve_draws import RATIOS, CurveDraws
from bayescontam.inference.checks import Check
from bayescontam.inference.stored import unsafe_labels
from bayescontam.scan.results import Scan
from bayescontam.specs.curve import CurveSpec, Shape

Row = Mapping[str, Any]
PAIR = ["benchmark", "item", "source", "document", "chunk"]
JUDGED = [*PAIR, "cosine", "best", "judge", "is_duplicate", "kind"]


def match(item: str, cosine: float, document: str = "", **columns: Any) -> Row:
    """Return a match; without a document of its own it is one that nothing else matches."""
    return {
        "benchmark": "quiz", "item": item, "cosine": cosine, "source": "web",
        "document": document or f"{item} at {cosine}", "chunk": 0, "copies": 1,
    } | columns  # fmt: skip


def make_scan(
    folder: Path,
    matches: Iterable[Row],
    *,
    tail: Iterable[Row] = (),
    unlisted: Iterable[Row] = (),
    items: Iterable[tuple[str, str]] = (),
    shares: Mapping[str, float] | None = None,
    texts: bool = True,
    per_source: int | None = None,
) -> Scan:
    """Write the folder of a scan.

    `unlisted` are cosines that only the histograms count. `items` are further items, without
    matches. `shares` are the shares of sources that were scanned; the default is all. With
    `per_source` each source was searched by itself, for so many best matches of an item.
    """
    of_list = ["benchmark", "item", *(["source"] if per_source else [])]
    best, tail, others = (pd.DataFrame(rows) for rows in (matches, tail, unlisted))
    order = zip(best["benchmark"], best["item"], strict=True)
    known = dict.fromkeys([*order, *items])
    best = best.sort_values("cosine", ascending=False, kind="stable", ignore_index=True)
    best.insert(2, "rank", best.groupby(of_list).cumcount() + 1)
    every = pd.concat([best, tail, others], ignore_index=True).drop_duplicates(PAIR)
    edges = np.floor(every["cosine"].to_numpy(float) * 1000 + 1e-9) / 1000
    every = every.assign(cosine=edges, stratum="", count=every["copies"])
    tail = _with_sizes(tail, every, of_list) if len(tail) else tail
    named = pd.DataFrame([*known], columns=["benchmark", "item"])
    shares = shares or dict.fromkeys(every["source"], 1.0)
    tables = {
        "matches": _with_chunks(best),
        "tail": _with_chunks(
            tail if len(tail) else _with_sizes(best.head(0), every, of_list).drop(columns="rank")
        ),
        "histogram": _counted(every, of_list),
        "strata": _counted(every, ["benchmark", "source", "stratum"]),
        "items": named.assign(text=[f"text of {name}" for name in named["item"]], cut=False),
    }
    ids = pd.concat([tables["matches"], tables["tail"]])["chunk_id"].unique()
    tables["texts"] = pd.DataFrame({"chunk_id": ids, "text": [f"text {n}" for n in ids]})
    tables["texts"] = tables["texts"] if texts else tables["texts"].head(0)
    strata = [
        {"source": name, "stratum": "", "documents": 10_000, "sampled": round(10_000 * share)}
        for name, share in shares.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    search = {"per": "source", "top_k": per_source} if per_source else {}
    record = {"strata": strata, "notes": [], "search": {"chunks": 1} | search}
    (folder / "scan.json").write_text(json.dumps(record), encoding="utf-8")
    for name, table in tables.items():
        table.to_parquet(folder / f"{name}.parquet", index=False)
    return Scan.load(folder)


def _with_chunks(table: pd.DataFrame) -> pd.DataFrame:
    chunk = pd.MultiIndex.from_frame(table[["source", "document", "chunk"]])
    ids = [abs(hash(key)) % 2**60 for key in chunk]
    table = table.assign(chunk_id=pd.Series(ids, index=table.index, dtype="uint64"))
    return table.assign(stratum="", start=0, end=9, cosine=table["cosine"].astype("float32"))


def _with_sizes(tail: pd.DataFrame, every: pd.DataFrame, of_list: list[str]) -> pd.DataFrame:
    """Let the tail of each list begin at the lowest cosine of its sample."""
    lowest = tail.groupby(of_list)["cosine"].min().rename("threshold")
    tail = tail.join(lowest, on=of_list)
    above = every.join(lowest - 0.001, on=of_list)
    above = above[above["cosine"] >= above["threshold"]]
    sizes = above.groupby(of_list)["count"].sum().rename("tail_matches")
    return tail.join(sizes, on=of_list)


def _counted(every: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return every.groupby([*keys, "cosine"], sort=False)["count"].sum().reset_index()


def make_draws(
    count: int = 1,
    benchmarks: int = 1,
    sources: int = 1,
    *,
    threshold: Any = 0.65,
    steepness: Any = 15.0,
    threshold_open: Any = 0.6,
    steepness_open: Any = 12.0,
    source_shift: Any = 0.0,
    relative: Any = 1.0,
    sigma_item: Any = 0.0,
    log_odds_ratio: Sequence[float] = (),
    knots: Sequence[float] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
) -> CurveDraws:
    """Return draws of a curve; the parameters are spread to their dims."""

    def dims(value: Any, width: int) -> np.ndarray:
        return np.array(np.broadcast_to(np.asarray(value, dtype=float), (count, width)))

    ratio = {name: dims(value, 1) for name, value in zip(RATIOS, log_odds_ratio, strict=False)}
    return CurveDraws(
        threshold=dims(threshold, benchmarks),
        steepness=dims(steepness, benchmarks),
        threshold_open=dims(threshold_open, benchmarks),
        steepness_open=dims(steepness_open, benchmarks),
        source_shift=dims(source_shift, sources),
        relative=dims(relative, len(knots) + 1),
        sigma_item=dims(sigma_item, 1),
        edges=np.array([-np.inf, *knots, np.inf]),
        **ratio,
    )


def line(draws: CurveDraws, cosine: float, middle: Any, steepness: Any) -> np.ndarray:
    """Return steepness × the integral of the relative steepness from `middle` to `cosine`."""
    knots = draws.edges[1:-1]
    result = []
    for row, (start, slope) in enumerate(zip(np.ravel(middle), np.ravel(steepness), strict=True)):
        low, high = sorted((float(start), cosine))
        stops = [low, *(k for k in knots if low < k < high), high]
        area = sum(
            draws.relative[row, np.searchsorted(knots, (a + b) / 2)] * (b - a)
            for a, b in pairwise(stops)
        )
        result.append(slope * area * (1 if cosine >= start else -1))
    return np.array(result)


def given_verdict(p: Any, odds_ratio: float, share: float, called: int) -> np.ndarray:
    """Return P(duplicate | verdict), by bisection for the odds ratio of a table of two by two."""
    p = np.atleast_1d(p)
    low, high = np.maximum(0.0, p + share - 1), np.minimum(p, share)
    for _ in range(200):
        both = (low + high) / 2
        more = both * (1 - p - share + both) < odds_ratio * (p - both) * (share - both)
        low, high = np.where(more, both, low), np.where(more, high, both)
    return np.array(both / share if called else (p - both) / (1 - share))


def make_curve(
    draws: CurveDraws,
    benchmarks: Sequence[str] = ("quiz",),
    sources: Sequence[str] = ("web",),
    *,
    judged: Iterable[Row] = (),
    judges: Mapping[str, tuple[float, float]] | None = None,
    checks: Sequence[Check] = (),
    seed: int = 1,
    crowding: float = 0.0,
    predictor: str | None = None,
) -> Curve:
    """Return a curve of these draws; `judges` have a sensitivity and a specificity."""
    errors = np.array([*(judges or {}).values()]).reshape(-1, 2)
    names = ("threshold", "steepness", "threshold_open", "steepness_open")
    data: dict[str, Any] = {name: ("benchmark", getattr(draws, name)) for name in names}
    data |= {"source_shift": ("source", draws.source_shift)}
    data |= {"relative": ("segment", draws.relative)}
    data |= {
        name: ("judge", np.tile(errors[:, k], (len(draws), 1)))
        for k, name in enumerate(("sensitivity", "specificity"))
        if judges
    }
    variables = {name: (("chain", "draw", dim), x[None]) for name, (dim, x) in data.items()}
    dims = {"benchmark": benchmarks, "source": sources, "judge": [*(judges or {})]}
    coords = {dim: (dim, np.array(names, dtype=object)) for dim, names in dims.items() if names}
    for name in RATIOS:
        if (values := getattr(draws, name)) is not None:
            variables[name] = (("chain", "draw"), values[None, :, 0])
    variables["sigma_item"] = (("chain", "draw"), draws.sigma_item[None, :, 0])
    blank = {"kind": "", "best": 0.9, "cosine": np.nan}  # not known: of the text of its name
    rows = pd.DataFrame([blank | dict(row) for row in judged], columns=JUDGED)
    shape = Shape(knots=tuple(draws.edges[1:-1]), crowding=crowding)
    spec = CurveSpec(summary="made for a test", shape=shape)
    record = {
        "curve_format": FORMAT, "seed": seed, "level": 0.95,
        "checks": [check.to_dict() for check in checks],
        "spec": {"name": "made", "hash": spec.hash, "content": spec.model_dump()},
        "benchmarks": [*benchmarks], "sources": [*sources], "judges": dims["judge"],
        "labels": unsafe_labels(dims), "predictor": predictor,
    }  # fmt: skip
    stored = {"json": json.dumps(record), "judged": json.dumps(rows.to_dict("list"))}
    groups = {
        "posterior": xr.Dataset(variables, coords), "record": xr.Dataset(stored),
        "curves": bands(draws, benchmarks, 0.95),
    }  # fmt: skip
    return Curve(xr.DataTree.from_dict(groups))


def judged(item: str, document: str, called: int, judge: str = "Ada", **columns: Any) -> Row:
    """Return a judgement of a pair of the benchmark ``quiz``."""
    return {
        "benchmark": "quiz", "item": item, "source": "web", "document": document, "chunk": 0,
        "judge": judge, "is_duplicate": called,
    } | columns  # fmt: skip
