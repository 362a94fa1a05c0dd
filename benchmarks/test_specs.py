"""Every shipped model spec recovers known truth, and samples without divergences at three sizes.

Run by ``make bench-all``; takes about three hours on one core. With ``BAYESCONTAM_SPECS`` a folder,
finished data sets are stored there, and a rerun goes on where it was.

Recovery: parameters and responses are drawn from the model spec's own prior, so that 95 %
intervals cover with probability 0.95 on average over data sets. Cells (models and benchmarks)
of one data set share effects, so that they count for less than as many data sets: the number of
intervals of a data set that cover is taken as beta-binomial, with a correlation of cells that
is estimated for each quantity from all model specs. Each model spec and quantity is held
against the exact distribution of its sum, with Bonferroni's correction. All model specs
together, which have more data sets, are held against 0.95 within four standard errors, data
sets being the units.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.spec_sizes import SIZES, size_cases, sized
from benchmarks.specs import PARAMETER, Recovery, recovery_cases, study

DATA_SETS = int(os.environ.get("BAYESCONTAM_DATA_SETS", "20"))
NOMINAL = 0.95
LEVELS = (0.5, 0.8, NOMINAL)
UNUSABLE = {
    (name, "1 × 1 × 400"): "every model is known to be clean"
    for name in ("anchored", "anchored_by_pair")
}
"""Model specs that a size cannot be used with, and why."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("BAYESCONTAM_SPECS")
    if not given:
        return tmp_path_factory.mktemp("specs")
    Path(given).mkdir(parents=True, exist_ok=True)
    return Path(given)


@pytest.fixture(scope="module")
def recoveries(folder: Path) -> pd.DataFrame:
    return study(folder / "recovery.jsonl", "Recovery", recovery_cases(), DATA_SETS, Recovery)


def covered(recoveries: pd.DataFrame) -> pd.DataFrame:
    """Return for each case, quantity and data set the number of cells, and of those covered."""
    rows = []
    for run in recoveries[recoveries["below"].notna()].itertuples():
        for quantity, shares in run.below.items():
            away = np.abs(np.array(shares) - 0.5)
            held = {level: int((away <= level / 2).sum()) for level in LEVELS}
            one = {"case": run.case, "quantity": quantity, "number": run.number}
            rows += [one | {"cells": len(shares)} | held] if shares else []
    return pd.DataFrame(rows)


def correlation(held: pd.DataFrame) -> float:
    """Return the correlation of cells of one data set in being covered, by moments."""
    cells, variance = held["cells"], NOMINAL * (1 - NOMINAL)
    excess = (held[NOMINAL] / cells - NOMINAL) ** 2 - variance / cells
    return float(np.clip(excess.sum() / (variance * (1 - 1 / cells)).sum(), 1e-6, 0.9))


def p_value(held: Sequence[int], cells: Sequence[int], rho: float) -> float:
    """Return the two-sided p-value of a sum of beta-binomials of mean 0.95 a cell."""
    size = 1 / rho - 1
    total = np.ones(1)
    for n in cells:
        one = stats.betabinom.pmf(np.arange(n + 1), n, NOMINAL * size, (1 - NOMINAL) * size)
        total = np.convolve(total, one)
    k = sum(held)
    return float(min(1.0, 2 * min(total[: k + 1].sum(), total[k:].sum())))


def by_case(held: pd.DataFrame) -> pd.DataFrame:
    """Return coverage and its p-value for each case and estimand."""
    rows = []
    for quantity, table in held.groupby("quantity", sort=False):
        rho = correlation(table) if table["cells"].max() > 1 else 1e-6
        for case, part in table.groupby("case", sort=False):
            share = {level: part[level].sum() / part["cells"].sum() for level in LEVELS}
            p = p_value(part[NOMINAL].tolist(), part["cells"].tolist(), rho)
            rows.append({"case": case, "quantity": quantity, **share, "rho": rho, "p": p})
    return pd.DataFrame(rows)


def show(title: str, table: pd.DataFrame) -> None:
    print(f"\n{title}\n{table.to_string()}")


@pytest.mark.timeout(6 * 3600)
def test_every_data_set_has_a_fit(recoveries: pd.DataFrame) -> None:
    columns = ["divergences", "seconds", "steps", "r_hat", "ess"]
    table = recoveries.groupby("case", sort=False)[columns].agg(
        {"divergences": ["sum", lambda d: (d > 0).sum()], "seconds": "median", "steps": "median",
         "r_hat": "max", "ess": "min"}
    )  # fmt: skip
    show("How the sampler fared", table.round(3))
    errors = recoveries.get("error", pd.Series(dtype=object)).dropna()
    assert errors.tolist() == []


@pytest.mark.timeout(6 * 3600)
def test_intervals_of_every_spec_cover_the_truth(recoveries: pd.DataFrame) -> None:
    held = covered(recoveries)
    reported = held[~held["quantity"].str.startswith(PARAMETER)]
    result = by_case(reported)
    show("Coverage of 95 % intervals", wide(result, NOMINAL))
    show("Coverage of 50 % intervals", wide(result, 0.5))
    parameters = by_case(held.drop(reported.index))
    show("Parameters", wide(parameters, NOMINAL).T)
    show("Least probable", result.nsmallest(8, "p").round(4))
    assert result["p"].min() > 0.05 / len(result)


def wide(result: pd.DataFrame, level: float) -> pd.DataFrame:
    return result.pivot(index="case", columns="quantity", values=level).round(3)


@pytest.mark.timeout(6 * 3600)
def test_intervals_cover_the_truth_in_all(recoveries: pd.DataFrame) -> None:
    held = covered(recoveries)
    held = held[~held["quantity"].str.startswith(PARAMETER)]
    rows = {}
    for quantity, table in held.groupby("quantity", sort=False):
        share = table[NOMINAL] / table["cells"]
        # Where nearly all data sets cover, their own spread says too little of the error.
        least = np.sqrt(NOMINAL * (1 - NOMINAL) / table["cells"].sum())
        error = max(share.sem(), least)
        rows[quantity] = {"coverage": share.mean(), "error": error, "data sets": len(share)}
    pooled = pd.DataFrame(rows).T
    show("Coverage over all model specs", pooled.round(4))
    assert (abs(pooled["coverage"] - NOMINAL) < 4 * pooled["error"]).all()


@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("size", SIZES)
def test_no_transition_diverges_at_default_settings(size: str, folder: Path) -> None:
    found = study(
        folder / "sizes.jsonl", "Sizes", size_cases(size), 1, lambda case: lambda _: sized(case)
    )
    assert found.get("error", pd.Series(dtype=object)).dropna().tolist() == []
    refused = found.get("refused", pd.Series(index=found.index, dtype=object)).notna()
    reasons = {(run.spec, size): run.refused for run in found[refused].itertuples()}
    expected = {key: reason for key, reason in UNUSABLE.items() if key[1] == size}
    assert reasons.keys() == expected.keys()
    assert all(reason in reasons[key] for key, reason in expected.items())
    kept = found[~refused].set_index("spec")
    show(size, kept[["divergences", "r_hat", "ess", "slowest", "steps", "seconds", "left_out"]])
    failed = {
        f"{run.case}: {name}": run.values[name]
        for run in found[~refused].itertuples()
        for name, outcome in run.checks.items()
        if outcome == "failed"
    }
    show("Checks that failed", pd.Series(failed, dtype=float).to_frame("value"))
    assert kept["divergences"].sum() == 0
