"""Published figures of ConceptARC and LiveCodeBench, from real data. Run by ``make bench-all``."""

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.inference.tables import headline
from tests.support.real_data import shared

SOLVERS = {
    "humans": "humans",
    "kaggle-first": "kaggle_first",
    "kaggle-second": "kaggle_second",
    "gpt-4-t0": "gpt4",
}
"""The published table's column of each solver."""


@pytest.fixture(scope="module")
def conceptarc():
    responses = bayescontam.read_responses(shared("conceptarc.csv"), where="not minimal")
    return bayescontam.fit(responses, "concepts", seed=1)


@pytest.fixture(scope="module")
def cells(conceptarc):
    table = conceptarc.estimands()
    table = table[(table["quantity"] == "accuracy") & (table["concept"] != "")]
    printed = pd.read_csv(shared("published/conceptarc_table1.csv"))
    printed["concept"] = printed["concept"].map(spelt)
    printed = printed.melt("concept", var_name="model", value_name="published")
    table = table.assign(model=table["model"].map(SOLVERS))
    return table.merge(printed, on=["model", "concept"], how="left", validate="1:1")


class TestConceptArc:
    """Four solvers on 16 concepts of 30 items."""

    def test_published_accuracies_lie_in_the_intervals(self, cells):
        """In as many 95 % intervals as 64 cells allow: two programs' scores of 1 in 30 are
        drawn up towards what the solver does elsewhere, and lie below theirs."""
        assert len(cells) == 64
        assert cells["published"].notna().all()
        outside = cells[~cells["published"].between(cells["ci_low"], cells["ci_high"])]
        assert len(outside) <= 2
        assert set(outside["published"]) <= {0.03}

    def test_all_published_accuracies_could_be_replicated(self, conceptarc, cells):
        """Scores on 30 new items of the same kind: all 64 lie in the 95 % intervals."""
        accuracy = conceptarc.data["estimands_by_concept"]["accuracy"]
        p = accuracy.stack(sample=("chain", "draw")).transpose("sample", ...)
        scores = np.random.default_rng(1).binomial(30, p) / 30
        low, high = np.quantile(scores, [0.025, 0.975], axis=0)
        index = {"model": p["model"].to_numpy(), "concept": p["concept"].to_numpy()}
        names = {printed: own for own, printed in SOLVERS.items()}
        for row in cells.itertuples():
            m = list(index["model"]).index(names[row.model])
            c = list(index["concept"]).index(row.concept)
            # Printed to two decimals.
            assert low[m, c] - 0.005 <= row.published <= high[m, c] + 0.005, row

    def test_small_groups_shrink_towards_their_solver(self, cells):
        programs = cells[cells["model"] != "humans"]
        spread = programs.groupby("model")[["mean", "published"]].std()
        assert (spread["mean"] < spread["published"]).all()

    def test_humans_are_first(self, conceptarc):
        table = conceptarc.estimands()
        first = table[(table["quantity"] == "p_best") & (table["concept"] == "")]
        assert first.set_index("model").loc["humans", "mean"] > 0.99

    def test_no_check_fails(self, conceptarc):
        assert [c.name for c in conceptarc.checks() if c.outcome.value == "failed"] == []


def spelt(concept: str) -> str:
    """Return a published concept name as the data file spells it."""
    words = concept.title().split()
    return "".join(word for word in words if word not in ("And",))


@pytest.fixture(scope="module", params=["leetcode", "atcoder"])
def problems(request):
    """Return a platform of LiveCodeBench: 13 models that met the older problems and 7 that did not.

    Contamination is left to the dates.
    """
    table = pd.read_csv(shared("real/lcb_2024-04.csv"), dtype={"item": str})
    table = table[table["benchmark"] == f"livecodebench-{request.param}"]
    met = table.groupby("model")["contamination"].max() > 0
    whole = table.groupby("model")["n_trials"].min() > 1
    return request.param, table[
        table["model"].isin([*met.index[met], *met.index[~met & whole][:7]])
    ]


def test_models_without_older_problems_score_as_their_genuine_ability_says(problems):
    """Problems newer than a cutoff are clean for sure.

    LeetCode's are as hard as the older ones (models that met neither: 0.187 and 0.188), so that
    accuracy on them alone is an estimate of genuine ability that no model stands behind.
    AtCoder's are easier, and show by themselves no effect.
    """
    platform, table = problems
    dated = table.drop(columns="contamination").rename(columns={"model_cutoff": "cutoff"})
    fit = bayescontam.fit(dated, seed=1, draws=700, tune=500, chains=2)
    assert fit.spec.contamination.confounding == "anchored"
    assert len(fit.record["clean"]) == 7
    assert not [c.name for c in fit.checks() if c.outcome is bayescontam.Outcome.FAILED]
    rows = headline(fit).set_index("model")
    verdicts = rows["overfitting_direct_verdict"].drop(fit.record["clean"])
    if platform == "atcoder":
        assert (verdicts != "shown").all()
        return
    assert (verdicts == "shown").sum() >= 10
    new = table[table["contamination"] == 0].groupby("model")[["n_correct", "n_trials"]].sum()
    off = (rows["genuine_ability_direct"] - new["n_correct"] / new["n_trials"])[verdicts.index]
    # 102 problems with ten generations each; the largest was 0.021 with all 45 models.
    assert off.abs().max() < 0.04
    assert abs(off.mean()) < 0.015
    raw = (rows["raw_accuracy"] - new["n_correct"] / new["n_trials"])[verdicts.index]
    assert raw.mean() > 0.08
