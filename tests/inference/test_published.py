"""Published figures, from real data."""

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.model.build import build
from bayescontam.published.draws import joint_draws
from tests.support.real_data import shared

FEW = {"draws": 700, "tune": 500, "chains": 2}
"""Enough for means and deviations: Monte Carlo errors are at most a fifth of what is allowed."""
WITHOUT_EPS = """
summary = "hierarchical with the model-by-item term switched off"
[likelihood]
model_by_item = false
"""


def figures(fit: bayescontam.Fit, model: str) -> pd.DataFrame:
    table = fit.estimands()
    return table[table["model"] == model].set_index("quantity")


@pytest.fixture(scope="module")
def musr():
    return bayescontam.fit(shared("musr_finetuning.csv"), "hierarchical", seed=1, draws="auto")


@pytest.fixture(scope="module")
def spilt():
    return bayescontam.fit(shared("musr_finetuning.csv"), "spillover", seed=1, **FEW)


@pytest.mark.slow
class TestMusrFinetuning:
    """250 items × 10 generations of a contaminated and a clean model."""

    def test_estimands(self, musr):
        rows = figures(musr, "olmo3-7b-contaminated")
        assert rows.loc["accuracy", "mean"] == pytest.approx(0.657, abs=0.002)
        # Seen items gained 0.07 more than unseen ones, and are half of all: 0.035, of which
        # chance of 250 items alone has a standard error of about 0.02.
        assert rows.loc["genuine_ability_direct", "mean"] == pytest.approx(0.616, abs=0.006)
        assert rows.loc["overfitting_direct", "mean"] == pytest.approx(0.041, abs=0.004)
        assert rows.loc["overfitting_direct", "sd"] == pytest.approx(0.023, abs=0.003)
        assert float(musr.data["posterior"]["sigma_eps"].mean()) == pytest.approx(8.95, abs=0.3)

    def test_every_check_passes(self, musr):
        checks = {c.name: c for c in musr.checks()}
        # The worst k of 500 responses was 0.56, 0.60, 0.67 and 0.74 with four seeds.
        k = checks.pop("Pareto k")
        assert k.outcome is not bayescontam.Outcome.FAILED
        assert k.value < 0.9
        assert {c.name: c.sentence for c in checks.values() if c.outcome.value != "passed"} == {}

    def test_clean_model_has_no_overfitting_of_its_own(self, musr):
        rows = figures(musr, "olmo3-7b-clean")
        assert rows.loc["overfitting_direct", ["mean", "sd"]].tolist() == [0, 0]
        assert rows.loc["slope", "verdict"] == "no contamination"

    def test_ten_generations_are_not_ten_items(self, musr, tmp_path):
        """Without the model-by-item term the interval is too narrow by almost half."""
        spec = tmp_path / "without_eps.toml"
        spec.write_text(WITHOUT_EPS)
        naive = bayescontam.fit(shared("musr_finetuning.csv"), spec, seed=1, **FEW)
        rows = figures(naive, "olmo3-7b-contaminated")
        assert rows.loc["overfitting_direct", "mean"] == pytest.approx(0.036, abs=0.003)
        assert rows.loc["overfitting_direct", "sd"] == pytest.approx(0.010, abs=0.0015)
        assert rows.loc["slope", "mean"] == pytest.approx(0.62, abs=0.05)
        assert rows.loc["slope", "sd"] == pytest.approx(0.17, abs=0.03)
        ranked = bayescontam.compare({"with": musr, "without": naive})
        assert ranked["fit"].tolist() == ["with", "without"]
        assert ranked["elpd_diff"][1] > 4 * ranked["diff_se"][1]


@pytest.mark.slow
class TestMusrSpillover:
    """The clean model is the control: it met no item; half of the items is unseen by both."""

    def test_seen_and_unseen_items_differ_as_they_do_in_the_table(self, spilt):
        raw = pd.read_csv(shared("musr_finetuning.csv"))
        score = raw["n_correct"] / raw["n_trials"]
        printed = score.groupby([raw["model"], raw["seen_split"]]).mean().unstack()
        gain = printed.loc["olmo3-7b-contaminated"] - printed.loc["olmo3-7b-clean"]
        assert gain.round(2).to_dict() == {0: 0.11, 1: 0.18}
        assert told_gain(spilt, raw).to_dict() == pytest.approx(gain.to_dict(), abs=0.015)

    def test_the_items_own_part_is_reported(self, spilt):
        """Of the gain on seen items 7 points are their own, and half of the items is seen."""
        rows = figures(spilt, "olmo3-7b-contaminated")
        assert rows.loc["overfitting_direct", "mean"] == pytest.approx(0.07 / 2, abs=0.012)

    def test_spillover_and_ability_cannot_be_distinguished(self, spilt):
        lift = spilt.data["posterior"]["spillover"]
        assert float(lift.std()) > 0.8  # the prior's is 1
        rows = figures(spilt, "olmo3-7b-contaminated")
        assert rows.loc["overfitting_spillover", "ci_low"] < 0
        assert rows.loc["overfitting_spillover", "ci_high"] > 0
        check = {c.name: c for c in spilt.checks()}["Spillover apart from ability"]
        assert check.outcome is bayescontam.Outcome.CAUTION
        assert "how the difference is split is the priors' guess" in check.sentence


def told_gain(fit: bayescontam.Fit, raw: pd.DataFrame) -> pd.Series:
    """Return what the fit infers of the gain on unseen (0) and seen (1) items."""
    data = fit.data["constant_data"].to_dataset()
    model = data["model"].to_numpy()[data["model_of_response"].to_numpy()]
    item = data["item"].to_numpy()[data["item_of_response"].to_numpy()]
    eta = joint_draws(fit, build(fit.spec, fit.responses())).eta
    accuracy = (1 / (1 + np.exp(-eta))).mean(axis=0)
    seen = raw.drop_duplicates("item").set_index("item")["seen_split"]
    table = pd.DataFrame({"model": model, "seen": seen.loc[item].to_numpy(), "p": accuracy})
    means = table.groupby(["model", "seen"])["p"].mean().unstack()
    return means.loc["olmo3-7b-contaminated"] - means.loc["olmo3-7b-clean"]
