"""Prevalence by judges that scale: do its 95 % intervals hold the truth in 95 % of scans?

Run by ``make bench-all``, or one design at a time (``-k verbatim``). Curves, judges and kinds come
from their priors, over which Bayesian intervals are calibrated: for one fixed truth no coverage
is promised. Cosines are fixed, truth and verdicts are drawn anew for each of the scans, and
prevalence is computed from the fit as the package computes it for a scan.
"""

import json
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit

from bayescontam.data.judgements import PAIR
from bayescontam.evidence.covariates import item_contamination
from bayescontam.evidence.curve import FORMAT, Curve
from bayescontam.evidence.curve_draws import CurveDraws, take_curve
from bayescontam.evidence.curve_model import build_curve
from bayescontam.evidence.kinds import KINDS, MIDDLE
from bayescontam.evidence.predictor import separated
from bayescontam.evidence.prevalence import prevalence
from bayescontam.evidence.verdicts import make_verdicts
from bayescontam.specs.registry import load_curve
from tests.support.simulated_corpora import SimulatedScan

DATA_SETS = int(os.environ.get("BAYESCONTAM_DATA_SETS", "200"))
ITEMS, EACH = 80, 4
HELD_OUT = (50, 250)
"""Pairs, duplicates and others, of a trained judge's validation."""
PEOPLE = 100
OF_DUPLICATES, OF_OTHERS = ((1.5, 0.7), (5.0, 3.0)), ((-3.0, 0.7), (12.0, 4.0))
"""A trained judge reports duplicates, and others as such, with log-odds at a cosine of 0.7 and
slopes in it that are Normal with these means and standard deviations."""
SPEC = load_curve("monotone")
SHARES = np.array([0.5, 0.3, 0.15, 0.05])
"""Shares of the kinds among duplicates that are not exact; by class they follow the curve."""


@dataclass(frozen=True)
class Design:
    """Who judges: of every pair, of some at random, of those that the first flagged."""

    every: tuple[str, ...]
    some: tuple[str, ...] = ()
    flagged: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    validated: tuple[str, ...] = ()
    predictor: str = ""  # a trained judge that judges every pair, and errs as cosines rise


DESIGNS = {
    "verbatim only, exact": Design(("rule:verbatim",), kinds=("exact",)),
    "trained only, held-out figures": Design(("trained:t",), validated=("trained:t",)),
    "trained on all, 100 by people": Design((), some=("Ada",), predictor="trained:t"),
    "two passes": Design(("llm:first",), flagged=("llm:second",)),
    "verbatim and model on all, 100 by people": Design(
        ("llm:first", "rule:verbatim"), some=("Ada",)
    ),
    "model on all, 100 by people, not exact": Design(
        ("llm:first", "rule:verbatim"), some=("Ada",), kinds=KINDS[1:]
    ),
    "model on all, 100 by people, two kinds": Design(
        ("llm:first", "rule:verbatim"), some=("Ada",), kinds=("equivalent", "subset")
    ),
}


def made_scan(rng: np.random.Generator) -> SimulatedScan:
    """Return a scan in which every document is listed."""
    best = rng.uniform(0.45, 0.98, ITEMS)
    fall = np.sort(rng.uniform(0.0, 0.25, (ITEMS, EACH - 1)), axis=1)
    cosine = np.column_stack([best, best[:, None] - fall]).astype(np.float32).astype(float)
    item = np.repeat([f"i{i:03d}" for i in range(ITEMS)], EACH)
    matches = pd.DataFrame(
        {
            "benchmark": "b", "item": item, "source": "web", "stratum": "", "chunk": 0,
            "document": [f"{name}-{k % EACH}" for k, name in enumerate(item)],
            "cosine": cosine.ravel(), "copies": 1, "start": 0, "end": 1,
            "rank": np.tile(np.arange(1, EACH + 1), ITEMS),
            "chunk_id": np.arange(len(item), dtype=np.uint64),
        }
    )  # fmt: skip
    step = np.floor(matches["cosine"] * 1000 + 1e-9) / 1000
    counts = matches[["benchmark", "item"]].assign(cosine=step, count=1)
    histogram = counts.groupby(["benchmark", "item", "cosine"], as_index=False)["count"].sum()
    strata = counts.groupby(["benchmark", "cosine"], as_index=False)["count"].sum()
    named = matches[["benchmark", "item"]].drop_duplicates(ignore_index=True)
    tables = {
        "matches": matches,
        "tail": matches.iloc[:0].drop(columns="rank"),
        "histogram": histogram,
        "strata": strata.assign(source="web", stratum=""),
        "items": named.assign(text="", tokens=9),
        "texts": pd.DataFrame({"chunk_id": matches["chunk_id"], "text": "text"}),
    }
    stratum = {"source": "web", "stratum": "", "documents": 10_000, "sampled": 10_000}
    return SimulatedScan(tables, {"strata": [stratum]})


def possible_rows(scan: SimulatedScan, design: Design, rng: np.random.Generator) -> pd.DataFrame:
    """Return a row for each verdict that may be given, in the order of the model's verdicts."""
    pairs = scan.matches[[*PAIR, "cosine", "rank"]].rename(columns={"rank": "place"})
    best = pairs.groupby("item")["cosine"].transform("max")
    pairs = pairs.assign(best=best, lead=0, lead_cosine=pairs["cosine"], pair=range(len(pairs)))
    by_people = pairs.loc[np.sort(rng.choice(len(pairs), PEOPLE, replace=False))]
    parts = [pairs.assign(judge=name) for name in (*design.every, *design.flagged)]
    parts += [by_people.assign(judge=name) for name in design.some]
    rows = pd.concat(parts).sort_values([*PAIR, "judge"], ignore_index=True)
    # All kinds are named somewhere, so that the model knows that these judges name kinds.
    names = ~rows["judge"].str.startswith(("rule:", "trained:"))
    return rows.assign(is_duplicate=1, kind=np.where(names, "equivalent", ""))


def truth(
    line: CurveDraws, scan: SimulatedScan, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw whether each document is a duplicate, and of which kind it is or would be."""
    cosine = scan.matches["cosine"].to_numpy(float).reshape(ITEMS, EACH)
    place = np.tile(np.arange(1.0, EACH + 1), (ITEMS, 1))
    opened = rng.random((ITEMS, 1)) < expit(line.log_odds_open(cosine[:, 0], 0)).T
    effect = line.sigma_item[0, 0] * rng.standard_normal((ITEMS, 1))
    odds = line.log_odds(cosine.ravel(), 0, 0, place.ravel()).reshape(ITEMS, EACH)
    true = (rng.random((ITEMS, EACH)) < expit(odds + effect)) & opened
    kind = rng.choice(4, true.size, p=SHARES) + 1
    if line.kinds is not None:
        total = np.exp(line.kinds.log_shares(cosine.ravel(), 0))[0].cumsum(axis=1)
        of_class = (total[:, :-1] < rng.random((true.size, 1))).sum(axis=1)
        for k, names in enumerate(line.kinds.split.classes):
            own = np.array([KINDS.index(name) for name in names])
            kind = np.where(of_class == k, rng.choice(own, true.size), kind)
    return true.ravel(), kind


def verdicts(
    rows: pd.DataFrame, design: Design, true: np.ndarray, kind: np.ndarray,
    errors: dict[str, tuple[float, float, float]], rng: np.random.Generator,
    classes: tuple[tuple[str, ...], ...],
) -> tuple[pd.DataFrame, np.ndarray]:  # fmt: skip
    """Return verdicts on all rows, and which of them were given."""
    at = rows["pair"].to_numpy()
    exact = rows["judge"].str.startswith("rule:").to_numpy()
    hit, clear, naming = (rows["judge"].map(lambda j, k=k: errors[j][k]) for k in range(3))
    found = true[at] & (~exact | (kind[at] == 0))
    called = rng.random(len(rows)) < np.where(found, hit, 1 - clear)
    named = kind[at]
    if classes:
        of = np.array([next(k for k, c in enumerate(classes) if name in c) for name in KINDS])
        other = (of[named] + rng.integers(1, len(classes), len(rows))) % len(classes)
        of_class = np.where(rng.random(len(rows)) < naming, of[named], other)
        named = np.array([KINDS.index(classes[k][0]) for k in of_class])
    words = np.where(called & (rows["kind"] != ""), np.array(KINDS)[named], "")
    given = np.ones(len(rows), dtype=bool)
    for name in design.flagged:
        first = rows["judge"] == design.every[0]
        flagged = set(at[first & called])
        given &= (rows["judge"] != name) | np.isin(at, list(flagged))
    return rows.assign(is_duplicate=called.astype(int), kind=words), given


def reports(design: Design, scan: SimulatedScan, true: np.ndarray, rng: Any) -> pd.DataFrame:
    """Return what the predictor reports of all pairs, as judgements."""
    pairs = scan.matches[[*PAIR, "cosine", "rank"]].rename(columns={"rank": "place"})
    (level, slope), (other_level, other_slope) = (
        [rng.normal(*figures) for figures in of] for of in (OF_DUPLICATES, OF_OTHERS)
    )
    x = pairs["cosine"] - MIDDLE
    odds = np.where(true, level + slope * x, other_level + other_slope * x)
    called = rng.random(len(pairs)) < expit(odds)
    return pairs.assign(
        best=pairs.groupby("item")["cosine"].transform("max"), lead=0, lead_cosine=pairs["cosine"],
        judge=design.predictor, is_duplicate=called.astype(int), kind="",
    )  # fmt: skip


def as_curve(posterior: xr.Dataset, judged: pd.DataFrame, design: Design, names: Any) -> Curve:
    """Return a curve of these draws, as far as the weighing of items reads it."""
    record = {
        "curve_format": FORMAT, "seed": 1, "level": 0.95, "checks": [], "labels": {},
        "spec": {"name": "monotone", "hash": SPEC.hash, "content": SPEC.model_dump()},
        "benchmarks": ["b"], "sources": ["web"], "judges": list(names.judges),
        "predictor": design.predictor or None,
        "kinds": list(design.kinds), "namers": names.coords.get("namer", []),
    }  # fmt: skip
    columns = [*PAIR, "cosine", "best", "judge", "is_duplicate", "kind"]
    columns += ["lead", "lead_cosine", "place"]
    stored = {"json": json.dumps(record), "judged": json.dumps(judged[columns].to_dict("list"))}
    groups = {"posterior": posterior, "record": xr.Dataset(stored)}
    return Curve(xr.DataTree.from_dict(groups))


def simulated(design: Design, data_sets: int, seed: int) -> pd.DataFrame:
    """Return true prevalence and what was found of it, one row for each simulated scan."""
    import nutpie

    rng = np.random.default_rng([seed, 30])
    scan = made_scan(rng)
    rows = possible_rows(scan, design, rng)
    # What the predictor reports is set anew for each scan.
    blank = {"sign": 1.0, "share": 0.5, "sign_open": 1.0, "share_open": 0.5}
    informs = (lambda pairs: pairs.assign(**blank)) if design.predictor else None
    known = make_verdicts(rows, ["b"], ["web"], design.kinds, informs)
    counts = dict.fromkeys(design.validated, (1, 1, 1, 1))
    model = build_curve(SPEC, known, counts).model
    prior = pm.sample_prior_predictive(
        data_sets, model=model, random_seed=rng,
        var_names=[v.name for v in [*model.free_RVs, *model.deterministics]],
        compile_kwargs={"mode": "FAST_COMPILE"},
    )["prior"].to_dataset()  # fmt: skip
    lines = take_curve(prior, SPEC, design.kinds)
    compiled = nutpie.compile_pymc_model(model)
    found = []
    for k in range(data_sets):
        line, own = lines[[k]], prior.isel(chain=0, draw=k)
        true, kind = truth(line, scan, rng)
        errors = {
            judge: (
                float(own["sensitivity"][j]), float(own["specificity"][j]),
                float(own["naming"].sel(namer=judge)) if judge in known.coords.get("namer", [])
                else 1.0,
            )
            for j, judge in enumerate(known.judges)
        }  # fmt: skip
        classes = known.split.classes
        judged, given = verdicts(rows, design, true, kind, errors, rng, classes)
        codes = np.where(
            given, known.split.codes(judged) if classes else judged["is_duplicate"], -1
        )
        data: dict[str, Any] = {"verdicts": codes.astype(np.int64)}
        judged = judged[given]
        if design.predictor:
            judged = pd.concat([judged, reports(design, scan, true, rng)], ignore_index=True)
            outcomes, predictor = separated(judged)
            assert predictor is not None
            now = make_verdicts(outcomes, ["b"], ["web"], design.kinds, predictor.informs)
            data |= {f"reported_{name}": values for name, values in vars(now.reported).items()}
        if design.validated:
            right = [rng.binomial(HELD_OUT, errors[name][:2]) for name in design.validated]
            data["held_out_right"] = np.array(right)
            data["held_out_pairs"] = np.array([HELD_OUT] * len(right))
        start = time.perf_counter()
        tree = nutpie.sample(
            compiled.with_data(**data), draws=500, tune=500, chains=1, cores=1,
            seed=seed * 1000 + k, progress_bar=False, target_accept=0.9,
        )  # fmt: skip
        posterior = tree["posterior"].to_dataset()
        curve = as_curve(posterior, judged, design, known)
        weighed = item_contamination(scan, curve, draws=400)
        table = prevalence(weighed, seed=k)
        row = table[table["by"] == "scanned"].iloc[0]
        counted = np.isin(np.array(KINDS)[kind], design.kinds or KINDS)
        number = int((true & counted).reshape(ITEMS, EACH).any(axis=1).sum())
        drawn = (rng.random(weighed.none_scanned.shape) >= weighed.none_scanned).sum(axis=1)
        rank = (drawn < number).mean() + rng.random() * (drawn == number).mean()
        found.append(
            {
                "true": number, "mean": row["n_mean"], "low": row["n_low"], "high": row["n_high"],
                "rank": rank, "seconds": time.perf_counter() - start,
                "divergences": int(tree["sample_stats"]["diverging"].sum()),
            }
        )  # fmt: skip
        print(end=".", flush=True)
    return pd.DataFrame(found)


def figures(table: pd.DataFrame) -> dict[str, float]:
    """Return coverage, width and bias, in share of items."""
    held = (table["low"] <= table["true"]) & (table["true"] <= table["high"])
    return {
        "held": held.mean(),
        # Counts are whole numbers: the intervals hold a little more than 95 %. Where ties
        # are broken at random it is just 95 %.
        "at random": ((table["rank"] - 0.5).abs() <= 0.475).mean(),
        "width": ((table["high"] - table["low"]) / ITEMS).mean(),
        "bias": ((table["mean"] - table["true"]) / ITEMS).mean(),
        "prevalence": (table["true"] / ITEMS).mean(),
        "p uniform": stats.kstest(table["rank"], "uniform").pvalue,
        "seconds": table["seconds"].mean(),
        "divergences": table["divergences"].sum(),
    }


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_of_prevalence_hold_the_truth(name: str) -> None:
    table = simulated(DESIGNS[name], DATA_SETS, list(DESIGNS).index(name))
    row = figures(table)
    print(f"\n{pd.DataFrame([row], index=[name]).round(3).to_string()}")
    # Bounds that right intervals cross once in 10,000 runs.
    low, high = stats.binom.ppf([5e-5, 1 - 5e-5], len(table), 0.95) / len(table)
    assert low <= row["at random"] <= high
    assert row["held"] >= low
    assert row["p uniform"] > 1e-4
