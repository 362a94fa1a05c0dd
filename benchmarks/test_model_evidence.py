"""P(contaminated) from scores of models: simulation-based calibration, and the whole way.

Run by ``make bench-all``, and with few data sets by the tests of ``evidence``. Parameters are drawn
from the prior and scores from the model that is fitted, compiled once; then scores come from
other distributions than the fitted ones, and accuracies with a boost from what was seen.
"""

import os

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.metrics import roc_auc_score

import bayescontam
from bayescontam.evidence.model_evidence import model_evidence
from bayescontam.evidence.seen_model import build_seen
from tests.support.made_scores import made_levels, made_scores

_SETS = os.environ.get("BAYESCONTAM_DATA_SETS")
DATA_SETS, OTHER_SETS, FITS = (int(_SETS or usual) for usual in (200, 40, 20))
SLOPE = 2.0
LEVELS = (0.5, 0.8, 0.95)
QUANTITIES = ("share", "shift", "separation", "clean", "share_bar", "shift_bar")
BINS = np.linspace(0.0, 1.0, 11)


def recover(data_sets: int, *, counts: bool, seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return shares of draws below the truth, and P(seen) of items beside whether they were."""
    import nutpie

    levels = made_levels(counts=counts)
    model = build_seen(levels)
    rng = np.random.default_rng(seed)
    prior = pm.sample_prior_predictive(
        data_sets, model=model, random_seed=rng, compile_kwargs={"mode": "FAST_COMPILE"}
    )
    compiled = nutpie.compile_pymc_model(model)
    ranks, items = [], []
    for k in range(data_sets):
        drawn = {
            name: prior["prior_predictive"][name].to_numpy()[0, k]
            for name in ("others", "controls")
            if name in prior["prior_predictive"]
        }
        data = {"other_items": drawn["others"]}
        data |= {"control_items": drawn["controls"]} if counts else {}
        tree = nutpie.sample(
            compiled.with_data(**data), draws=600, tune=600, chains=1, cores=1, seed=seed + k,
            progress_bar=False, target_accept=0.95,
        )  # fmt: skip
        divergences = int(tree["sample_stats"]["diverging"].sum())
        for name in QUANTITIES:
            if name not in tree["posterior"]:
                continue
            values = tree["posterior"][name].to_numpy()
            values = values.reshape(values.shape[0] * values.shape[1], -1)[::3]
            true = np.atleast_1d(prior["prior"][name].to_numpy()[0, k]).ravel()
            below = (values < true).mean(axis=0)
            ranks += [
                {"data_set": k, "quantity": name, "cell": i, "below": b, "div": divergences}
                for i, b in enumerate(below)
            ]
        true = prior["prior"]["p_seen"].to_numpy()[0, k]
        seen = rng.binomial(drawn["others"], true)
        p = tree["posterior"]["p_seen"].to_numpy().mean(axis=(0, 1))
        print(f"data set {k + 1} of {data_sets}", end="\r", flush=True)
        items.append(
            pd.DataFrame(
                {"data_set": k, "p": p.ravel(), "n": drawn["others"].ravel(), "seen": seen.ravel()}
            )
        )
    return pd.DataFrame(ranks), pd.concat(items, ignore_index=True)


def coverage(ranks: pd.DataFrame) -> pd.DataFrame:
    """Return coverage of central intervals, and the p-value of uniform ranks of the first cell."""
    rows = {}
    for name, own in ranks.groupby("quantity", sort=False):
        within = {level: (abs(own["below"] - 0.5) <= level / 2).mean() for level in LEVELS}
        first = own.loc[own["cell"] == 0, "below"]
        rows[name] = within | {"p uniform": stats.kstest(first, "uniform").pvalue}
    return pd.DataFrame(rows).T


def reliability(items: pd.DataFrame) -> pd.DataFrame:
    """Return by bins of P(seen) its mean and the share that was seen, with an error by data set."""
    bins = pd.cut(items["p"], BINS, include_lowest=True)
    rows = {}
    for where, own in items.groupby(bins, observed=True):
        sets = own.assign(gap=own["seen"] - own["p"] * own["n"]).groupby("data_set")
        gap, total = sets["gap"].sum(), own["n"].sum()
        error = np.sqrt((gap**2).sum()) / max(total, 1)
        rows[where] = {
            "items": total, "mean p": (own["p"] * own["n"]).sum() / max(total, 1),
            "seen": own["seen"].sum() / max(total, 1), "error": error,
        }  # fmt: skip
    return pd.DataFrame(rows).T


def auc(items: pd.DataFrame) -> float:
    """Return how often a seen item of a data set has a higher P than one that was not, mean."""
    found = []
    for _, own in items.groupby("data_set"):
        true = np.concatenate([np.ones(len(own)), np.zeros(len(own))])
        weight = np.concatenate([own["seen"], own["n"] - own["seen"]])
        if weight[: len(own)].sum() and weight[len(own) :].sum():
            found.append(roc_auc_score(true, [*own["p"], *own["p"]], sample_weight=weight))
    return float(np.mean(found))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("counts", [True, False])
def test_calibration_by_simulation(counts: bool) -> None:
    ranks, items = recover(DATA_SETS, counts=counts)
    table, reliable = coverage(ranks), reliability(items)
    diverged = ranks.groupby("data_set")["div"].first()
    print(f"\n{'counts' if counts else 'numbers'}, {DATA_SETS} data sets")
    print(table.round(3).to_string())
    print(reliable.round(3).to_string())
    print(f"AUC of P(contaminated), mean over data sets: {auc(items):.3f}")
    print(f"{(diverged > 0).sum()} fits had divergences, {diverged.sum()} in all")
    # 4 standard errors of a coverage of 0.95 over 200 data sets.
    assert (abs(table[0.95] - 0.95) < 4 * np.sqrt(0.95 * 0.05 / DATA_SETS)).all()
    assert (table["p uniform"] > 0.001).all()
    assert (abs(reliable["seen"] - reliable["mean p"]) < 4 * reliable["error"]).all()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("shift", [0.5, 2.5])
def test_other_distributions(counts: bool, shift: float) -> None:
    rows, parts, alike = [], [], 0
    shares = np.array([0.1, 0.5, 0.9])
    for k in range(OTHER_SETS):
        rng = np.random.default_rng([k, counts, int(10 * shift)])
        table = made_scores(rng, shares.tolist(), shift, counts=counts)
        found = model_evidence(table.drop(columns="seen"), seed=k, draws=500, tune=700, chains=2)
        summary = found.summary()
        own = (table["control"] == 0).to_numpy()
        truth = table[own].groupby("model")["seen"].mean().to_numpy()
        covered = (summary["share_low"] <= truth) & (truth <= summary["share_high"])
        width = summary["share_high"] - summary["share_low"]
        rows.append(pd.DataFrame({"share": shares, "covered": covered, "width": width}))
        alike += (summary["verdict"] == "alike").sum()
        p = found.covariates().frame["p_duplicate"].to_numpy()[own]
        seen = table["seen"].to_numpy()[own].astype(int)
        parts.append(pd.DataFrame({"data_set": k, "p": p, "n": 1, "seen": seen}))
        print(f"data set {k + 1} of {OTHER_SETS}", end="\r", flush=True)
    items = pd.concat(parts, ignore_index=True)
    table = pd.concat(rows).groupby("share").mean()
    print(f"\n{'counts' if counts else 'numbers'}, shift {shift}, {OTHER_SETS} data sets")
    print(table.round(3).to_string())
    print(reliability(items).round(3).to_string())
    print(f"AUC of P(contaminated): {auc(items):.3f}; models 'alike': {alike}")
    assert (table["covered"] > 0.95 - 4 * np.sqrt(0.95 * 0.05 / OTHER_SETS)).all()


@pytest.mark.timeout(7200)
def test_the_whole_way() -> None:
    rows = []
    for k in range(FITS):
        rng = np.random.default_rng([k, 5])
        table = made_scores(rng, [0.2, 0.5, 0.8, 0.4], 1.5, items=300)
        covariates = model_evidence(table.drop(columns="seen"), seed=k, draws=500).covariates()
        answered = table[table["control"] == 0].copy()
        ability = dict(zip(answered["model"].unique(), rng.normal(0.0, 0.6, 4), strict=True))
        hard = dict(zip(answered["item"].unique(), rng.normal(0.0, 1.0, 300), strict=True))
        clean = expit(answered["model"].map(ability) - answered["item"].map(hard))
        odds = np.log(clean / (1 - clean)) + SLOPE * answered["seen"]
        answered["correct"] = (rng.random(len(answered)) < expit(odds)).astype(int)
        honest = clean.groupby(answered["model"]).mean()
        raw = answered.groupby("model")["correct"].mean()
        responses = answered[["model", "benchmark", "item", "correct"]]
        for spec in ("latent_duplicate", "hierarchical"):
            reference = {} if spec == "latent_duplicate" else {"reference": "zero"}
            fit = bayescontam.fit(responses, spec, covariates=covariates, seed=k, **reference)
            own = fit.summary().set_index("model")
            estimands = fit.estimands()
            slope = estimands[estimands["quantity"] == "slope"]
            inside = (slope["ci_low"] <= SLOPE) & (slope["ci_high"] >= SLOPE)
            name = "genuine_ability_direct"
            rows += [
                {
                    "spec": spec, "raw error": raw[m] - honest[m],
                    "error": own.loc[m, name] - honest[m],
                    "covered": own.loc[m, f"{name}_low"] <= honest[m] <= own.loc[m, f"{name}_high"],
                    "slope": slope["mean"].mean(), "slope covered": inside.mean(),
                }
                for m in honest.index
            ]  # fmt: skip
        print(f"data set {k + 1} of {FITS}", end="\r", flush=True)
    result = pd.DataFrame(rows).groupby("spec").mean()
    print(f"\n{FITS} data sets of 4 models and 300 items, true slope {SLOPE}")
    print(result.round(3).to_string())
    assert result.loc["latent_duplicate", "covered"] > 0.95 - 4 * np.sqrt(0.95 * 0.05 / FITS / 2)
