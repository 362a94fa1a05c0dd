"""How many duplicates there are: is the interval of that sum right, with forty judged pairs?

Run by ``make bench-all``; some twenty minutes on two cores. Twice: where curves come from their
prior, so that ranks of true numbers among draws are uniform if all from the judgements to the
sum is right; and where the truth is known, on the shared texts, over choices of pairs.
"""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit

import bayescontam
from bayescontam.data.judgements import PAIR
from bayescontam.evidence.choice import choose_pairs
from bayescontam.evidence.covariates import item_contamination
from bayescontam.evidence.curve import FORMAT, Curve
from bayescontam.evidence.curve_draws import take_curve
from bayescontam.evidence.curve_model import build_curve
from bayescontam.evidence.pairs import scan_pairs
from bayescontam.evidence.prevalence import duplicate_numbers
from bayescontam.evidence.verdicts import make_verdicts
from bayescontam.scan.results import Scan
from bayescontam.scan.run import run_scan
from bayescontam.specs.registry import load_curve, quick_manifest
from tests.support.real_data import shared
from tests.support.simulated_corpora import TOP_K, SimulatedScan

DATA_SETS = int(os.environ.get("BAYESCONTAM_DATA_SETS", "200"))
CORPORA = 4
CHOICES = 20
JUDGED = 40
ITEMS = 80
FLOOR = 0.35
SPEC = load_curve("monotone")
LEVELS = (0.5, 0.8, 0.95)


def corpus(rng: np.random.Generator) -> tuple[SimulatedScan, list[np.ndarray]]:
    """Return the scan of a corpus, and the cosines of all documents of each item, falling."""
    cosines, rows, counts = [], [], []
    for i in range(ITEMS):
        number = int(rng.lognormal(np.log(150), 0.8)) + 5
        cosine = np.sort(rng.normal(0.48 + rng.normal(0, 0.1), 0.13, number).clip(0.01, 0.99))[::-1]
        cosine = cosine[cosine >= FLOOR] if (cosine >= FLOOR).any() else cosine[:1]
        name = f"i{i:03d}"
        names = [f"{name}-{k}" for k in range(len(cosine))]
        rows.append(pd.DataFrame({"item": name, "cosine": cosine, "document": names})[:TOP_K])
        steps, number_in = np.unique(np.floor(cosine * 1000).astype(int), return_counts=True)
        counts.append(pd.DataFrame({"item": name, "cosine": steps / 1000, "count": number_in}))
        cosines.append(cosine)
    matches = pd.concat(rows, ignore_index=True).assign(
        benchmark="b", source="web", stratum="", chunk=0, copies=1, start=0, end=1
    )
    matches["rank"] = matches.groupby("item").cumcount() + 1
    matches["chunk_id"] = np.arange(len(matches), dtype=np.uint64)
    histogram = pd.concat(counts, ignore_index=True).assign(benchmark="b")
    strata = histogram.groupby("cosine", as_index=False)["count"].sum()
    tables = {
        "matches": matches,
        "tail": matches.iloc[:0].drop(columns="rank"),
        "histogram": histogram,
        "strata": strata.assign(benchmark="b", source="web", stratum=""),
        "items": pd.DataFrame(
            {"benchmark": "b", "item": matches["item"].unique(), "text": "", "tokens": 9}
        ),
        "texts": pd.DataFrame({"chunk_id": matches["chunk_id"], "text": "text"}),
    }
    stratum = {"source": "web", "stratum": "", "documents": 10_000, "sampled": 10_000}
    return SimulatedScan(tables, {"strata": [stratum]}), cosines


def as_curve(posterior: xr.Dataset, judged: pd.DataFrame) -> Curve:
    """Return a curve of these draws, as far as `weigh` reads it."""
    record = {
        "curve_format": FORMAT, "seed": 1, "level": 0.95, "checks": [], "labels": {},
        "spec": {"name": "monotone", "hash": SPEC.hash, "content": SPEC.model_dump()},
        "benchmarks": ["b"], "sources": ["web"], "judges": ["Ada"],
    }  # fmt: skip
    columns = [*PAIR, "cosine", "best", "judge", "is_duplicate", "kind"]
    columns += ["lead", "lead_cosine", "place"]
    stored = {"json": json.dumps(record), "judged": json.dumps(judged[columns].to_dict("list"))}
    groups = {"posterior": posterior, "record": xr.Dataset(stored)}
    return Curve(xr.DataTree.from_dict(groups))


def recover(data_sets: int, seed: int) -> pd.DataFrame:
    """Return the true number, and the draws below it, of data sets on one corpus."""
    import nutpie

    rng = np.random.default_rng([22, seed])
    scan, cosines = corpus(rng)
    chosen = choose_pairs(scan, JUDGED, seed=seed)[list(PAIR)]
    pairs = chosen.merge(scan_pairs(scan), on=list(PAIR), validate="one_to_one")
    best = pairs["item"].map(scan.matches.groupby("item")["cosine"].max())
    pairs = pairs.assign(best=best, judge="Ada", is_duplicate=0, kind="")
    model = build_curve(SPEC, make_verdicts(pairs, ["b"], ["web"])).model
    prior = pm.sample_prior_predictive(data_sets, model=model, random_seed=rng)
    prior = prior["prior"].to_dataset()
    lines = take_curve(prior, SPEC)
    compiled = nutpie.compile_pymc_model(model)
    position = {name: k for k, name in enumerate(scan.items["item"])}
    at_item = pairs["item"].map(position).to_numpy()
    at_place = pairs["document"].str.rpartition("-")[2].astype(int).to_numpy()
    rows = []
    for k in range(data_sets):
        print(end=".", flush=True)
        line = lines[[k]]
        true = []
        for cosine in cosines:
            level = line.log_odds(cosine, 0, 0, np.arange(1.0, len(cosine) + 1))[0]
            opened = rng.random() < expit(line.log_odds_open(cosine[:1], 0)[0, 0])
            odds = level + line.sigma_item[0, 0] * rng.standard_normal()
            true.append((rng.random(len(cosine)) < expit(odds)) & opened)
        is_one = np.array([true[i][p] for i, p in zip(at_item, at_place, strict=True)])
        sensitivity, specificity = (
            float(prior[name].to_numpy()[0, k, 0]) for name in ("sensitivity", "specificity")
        )
        said = rng.random(len(pairs)) < np.where(is_one, sensitivity, 1 - specificity)
        judged = pairs.assign(is_duplicate=said.astype(int))
        called = make_verdicts(judged, ["b"], ["web"]).called
        tree = nutpie.sample(
            compiled.with_data(verdicts=called), draws=500, tune=700, chains=2, cores=2,
            seed=seed * 1000 + k, progress_bar=False, target_accept=0.95,
        )  # fmt: skip
        posterior = tree["posterior"].to_dataset()
        weighed = item_contamination(scan, as_curve(posterior, judged), floor=FLOOR, draws=200)
        total = weighed.number_scanned.sum(axis=1)
        number = int(sum(t.sum() for t in true))
        below = (total < number).mean() + rng.random() * (total == number).mean()
        row = {"true": number, "below": below, "mean": total.mean(), "median": np.median(total)}
        rows.append(row | {"divergences": int(tree["sample_stats"]["diverging"].sum())})
    return pd.DataFrame(rows)


@pytest.mark.timeout(4 * 3600)
def test_numbers_under_the_prior_have_uniform_ranks() -> None:
    each = DATA_SETS // CORPORA
    table = pd.concat([recover(each, seed) for seed in range(CORPORA)], ignore_index=True)
    away = abs(table["below"] - 0.5)
    for level in LEVELS:
        held = (away <= level / 2).mean()
        print(f"\n{level:.0%} intervals hold the number in {held:.3f} of {len(table)}", end="")
    p = stats.kstest(table["below"], "uniform").pvalue
    print(f"\np of uniform ranks {p:.3f}; divergences {table['divergences'].sum()}")
    print(table[["true", "median", "mean"]].describe().round(1).to_string())
    # Bounds that right intervals cross once in 10,000 runs.
    low, high = stats.binom.ppf([5e-5, 1 - 5e-5], len(table), 0.95)
    assert low <= (away <= 0.475).sum() <= high
    assert p > 1e-4


def judged_truly(scan: Scan, seed: int) -> pd.DataFrame:
    """Judge the chosen pairs without error: documents are called after the task they double."""
    pairs = choose_pairs(scan, JUDGED, seed=seed)
    parts = pairs["document"].str.split("-")
    own = parts.str[0].isin(["dup", "exact"]) & (
        parts.str[1] == pairs["item"].str.removeprefix("task-")
    )
    return pairs[list(PAIR)].assign(judge="Ada", is_duplicate=own.astype(int))


@pytest.mark.timeout(4 * 3600)
def test_known_duplicates_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = shared("texts/benchmark.jsonl").parent
    truth = int(pd.read_csv(folder / "truth.csv")["n_duplicates"].sum())
    options = {"text_mode": "input", "stratum": "source"}
    corpus_of = (str(folder / "corpus.jsonl"),)
    spec = quick_manifest(str(folder / "benchmark.jsonl"), corpus_of, options)
    scan = run_scan(spec, tmp_path / "scan", device="cpu")
    rows = []
    for seed in range(CHOICES):
        curve = bayescontam.fit_curve(scan, judged_truly(scan, seed), seed=seed)
        numbers = duplicate_numbers(bayescontam.item_contamination(scan, curve))
        rows.append(numbers[numbers["by"] == "scanned"].iloc[0])
    table = pd.DataFrame(rows)
    held = (table["ci_low"] <= truth) & (truth <= table["ci_high"])
    print(f"\n{truth} duplicates, {JUDGED} judged pairs, {CHOICES} choices of these")
    print(table[["median", "mean", "ci_low", "ci_high"]].round(0).to_string(index=False))
    print(
        f"held by {held.sum()}; mean of means {table['mean'].mean():.0f}, of medians"
        f" {table['median'].mean():.0f}, median of medians {table['median'].median():.0f}"
    )
    # At least 14 of 20: fewer would be held once in 10,000 if intervals were right.
    assert held.sum() >= 14
