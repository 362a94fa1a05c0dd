"""A curve whose parameters are set by hand, so that what follows from it is known."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayescontam.evidence.curve import FORMAT, Curve
from bayescontam.specs.registry import load_curve

COLUMNS = [
    "benchmark", "item", "source", "document", "chunk", "cosine", "best", "judge",
    "is_duplicate", "kind",
]  # fmt: skip
OPEN = {"threshold_open": -5.0, "steepness_open": 1000.0}
"""Every item is open."""
SENSITIVITY, SPECIFICITY = 0.9, 0.95


def make_curve(
    benchmarks: Sequence[str] = ("quiz",),
    sources: Sequence[str] = ("web",),
    threshold: float | np.ndarray = 0.75,
    steepness: float = 1e6,
    judged: pd.DataFrame | None = None,
    checks: Sequence[Mapping[str, Any]] = (),
    draws: int = 10,
    sigma_item: float = 0.0,
    **others: float,
) -> Curve:
    """Make a curve of straight lines whose draws are all alike, or as `threshold` says.

    Parameters
    ----------
    threshold : float or array
        One for all draws and benchmarks, or one for each draw.
    judged : pandas.DataFrame, optional
        Columns as in ``curve.judged``; none by default.
    **others : float
        In the place of those in `OPEN`.
    """
    judged = pd.DataFrame(columns=COLUMNS) if judged is None else judged
    judges = sorted(set(judged["judge"]))
    own = {"threshold": threshold, "steepness": steepness} | OPEN | others
    data: dict[str, Any] = {}
    for name, value in own.items():
        rows = np.broadcast_to(value, draws)[None, :, None]
        data[name] = ("chain", "draw", "benchmark"), np.repeat(rows, len(benchmarks), axis=2)
    for name, value in (("sensitivity", SENSITIVITY), ("specificity", SPECIFICITY)):
        if not judges:
            continue
        data[name] = ("chain", "draw", "judge"), np.full((1, draws, len(judges)), value)
    data["sigma_item"] = ("chain", "draw"), np.full((1, draws), sigma_item)
    data["source_shift"] = ("chain", "draw", "source"), np.zeros((1, draws, len(sources)))
    coords = {"benchmark": list(benchmarks), "judge": judges, "source": list(sources)}
    cosine = np.linspace(0, 1, 11)
    line = ("benchmark", "cosine"), np.tile(cosine, (len(benchmarks), 1))
    groups = {
        "posterior": xr.Dataset(data, {k: v for k, v in coords.items() if len(v)}),
        "curves": xr.Dataset(
            dict.fromkeys(("mean", "low", "high"), line),
            {"cosine": cosine, "benchmark": list(benchmarks)},
        ),
        "record": _record(benchmarks, sources, judges, judged, checks),
    }
    if len(judged):
        groups["predictive"] = _predictive(judged)
    return Curve(xr.DataTree.from_dict(groups))


def _predictive(judged: pd.DataFrame) -> xr.Dataset:
    return xr.Dataset(
        {
            "benchmark_of_cell": ("cell", [0, 0]),
            "cosine": ("cell", [0.5, 0.9]),
            "count": ("cell", [len(judged) // 2, len(judged) // 2]),
            "share": ("cell", [0.1, 0.95]),
            "share_replicated": (("replicate", "cell"), np.tile([[0.1], [0.3]], (50, 2))),
        }
    )


def _record(
    benchmarks: Sequence[str],
    sources: Sequence[str],
    judges: Sequence[str],
    judged: pd.DataFrame,
    checks: Sequence[Mapping[str, Any]],
) -> xr.Dataset:
    content = load_curve("monotone").model_dump()
    record = {
        "curve_format": FORMAT,
        "spec": {"name": "mine<b>", "hash": "cd" * 32, "content": content},
        "benchmarks": list(benchmarks),
        "sources": list(sources),
        "judges": list(judges),
        "labels": {},
        "pairs": len(judged),
        "seed": 5,
        "level": 0.95,
        "sampling": {"engine": "nutpie", "draws": 10},
        "command": "bayescontam curve '<script>' \x1b[31m",
        "created": "2026-03-04T05:06:07+00:00",
        "checks": list(checks),
    }
    rows = judged.reindex(columns=COLUMNS).to_dict("list")
    return xr.Dataset({"json": json.dumps(record), "judged": json.dumps(rows)})


def judge(matches: pd.DataFrame, called: Sequence[int], name: str, kind: str = "") -> pd.DataFrame:
    """Return verdicts on rows of a scan's matches, as ``curve.judged`` has them."""
    best = matches["cosine"].astype(float)
    return matches.assign(best=best, cosine=best, judge=name, is_duplicate=list(called), kind=kind)[
        COLUMNS
    ].reset_index(drop=True)


def from_prior(model: Any, *_: Any) -> tuple[Any, Any]:
    """Return draws from the prior as if they were sampled: what is stored needs no right ones."""
    drawn = pm.sample_prior_predictive(
        200, model=model, random_seed=5, compile_kwargs={"mode": "FAST_COMPILE"}
    )["prior"].to_dataset()
    halves = [drawn.isel(draw=slice(k, None, 2)).drop_vars("draw") for k in (0, 1)]
    posterior = xr.concat(halves, "chain").assign_coords(chain=[0, 1], draw=np.arange(100))
    dims, shape = ("chain", "draw"), (2, 100)
    stats = {name: (dims, np.zeros(shape, bool)) for name in ("diverging", "reached_max_treedepth")}
    energy = np.random.default_rng(1).standard_normal(shape)
    return posterior, xr.Dataset(stats | {"energy": (dims, energy)})
