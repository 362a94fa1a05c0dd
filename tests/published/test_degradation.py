"""Control benchmarks as printed: what can be stated of finetuned models against their base."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import bayescontam
from bayescontam.data.published_tables import read_published
from bayescontam.published.findings import Findings
from bayescontam.published.study import Study
from bayescontam.specs.registry import shipped_folder
from bayescontam.specs.study import ReproductionSpec
from studies._classifiers import NAMES, possible_tables, score_draws
from studies.degradation import (
    BASE,
    analyse,
    change_draws,
    printed_accuracies,
    printed_changes,
)

BENCHMARKS = ["ARC Challenge", "ARC Easy", "BoolQ", "HellaSwag", "PIQA", "WinoGrande"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    text = (shipped_folder("studies") / "degradation.toml").read_text()
    spec = ReproductionSpec.parse(text, "degradation")
    folder = tmp_path_factory.mktemp("study")
    return Study(spec, spec.at_size(False), read_published(spec.published), folder)


@pytest.fixture(scope="module")
def printed(study: Study) -> pd.DataFrame:
    return printed_accuracies(study)


@pytest.fixture(scope="module")
def changes(study: Study, printed: pd.DataFrame) -> xr.DataArray:
    return change_draws(study, printed)


@pytest.fixture(scope="module")
def found(study: Study) -> Findings:
    return analyse(study)


def table_of(found: Findings, title: str) -> pd.DataFrame:
    return next(each.table for each in found.tables if each.title == title)


def test_the_printed_table_is_as_printed(study: Study, printed: pd.DataFrame) -> None:
    table = study.table("control_benchmarks")
    assert len(table) == 66  # 5 rows of Table 9 and 6 of Table 10, six benchmarks each
    sums = table.groupby(["target", "training"], sort=False)["accuracy"].sum().round(1)
    # Added by hand from the two tables.
    assert sums.to_list() == [
        401.8, 402.6, 401.8, 402.6, 403.8,
        401.8, 401.0, 400.3, 399.5, 402.0, 402.5,
    ]  # fmt: skip
    assert printed["benchmark"].unique().tolist() == BENCHMARKS
    assert printed["model"].nunique() == 10
    assert set(study.table("musr_teachers").groupby("solver").size().items()) == {
        ("finetuned", 10), ("teacher", 6),
    }  # fmt: skip


def test_items_of_arc_challenge_amount_to_the_errors_of_another_table(
    study: Study, printed: pd.DataFrame
) -> None:
    other = study.table("duplicate_finetuning")
    rows = other[(other["split"] == "control") & (other["control"] == "ARC Challenge")]
    size = printed.loc[printed["benchmark"] == "ARC Challenge", "items"].unique().item()
    p = rows["accuracy"] / 100
    assert (100 * np.sqrt(p * (1 - p) / size) - rows["stderr"]).abs().max() < 0.006
    # The same models stand in both tables.
    own = printed.set_index(["model", "benchmark"])["accuracy"]
    for training, other_name in (("exact", "exact"), ("paraphrase", "semantic-paraphrase")):
        row = rows[rows["training"] == other_name]["accuracy"].item()
        assert own["ZebraLogic, " + training, "ARC Challenge"] == pytest.approx(row / 100)


def test_changes_are_differences_of_two_beta_posteriors(
    printed: pd.DataFrame, changes: xr.DataArray
) -> None:
    known = printed.set_index(["model", "benchmark"])
    for model, name in (("MuSR, exact", "HellaSwag"), ("ZebraLogic, paraphrase", "WinoGrande")):
        posteriors = []
        for each in (model, BASE):
            n = known.loc[(each, name), "items"]
            k = round(known.loc[(each, name), "accuracy"] * n)
            posteriors.append(stats.beta(k + 0.5, n - k + 0.5))
        draws = changes.sel(model=model, benchmark=name)
        sd = np.hypot(posteriors[0].std(), posteriors[1].std())
        mean = posteriors[0].mean() - posteriors[1].mean()
        assert float(draws.mean()) == pytest.approx(mean, abs=5 * sd / np.sqrt(len(draws)))
        assert float(draws.std()) == pytest.approx(sd, rel=0.03)


def test_the_base_is_shared(changes: xr.DataArray) -> None:
    own = [changes.sel(model=name, benchmark="BoolQ") for name in changes["model"].to_numpy()[:2]]
    assert np.corrcoef(*own)[0, 1] == pytest.approx(0.5, abs=0.05)


def test_verdicts_are_those_of_normal_arithmetic(printed: pd.DataFrame, found: Findings) -> None:
    table = table_of(found, "Changes of single scores with verdicts")
    sizes = printed.groupby("benchmark")["items"].first()
    base = printed[printed["model"] == BASE].set_index("benchmark")["accuracy"]
    near = 0
    for row in table.to_dict("records"):
        name = row["benchmark"]
        q, size = base[name], sizes[name]
        p, q = (round(share * size) / size for share in (q + row["printed"], q))
        sd = np.sqrt((p * (1 - p) + q * (1 - q)) / size)
        no_worse = stats.norm.sf(-0.02, p - q, sd)
        assert row["p_no_worse"] == pytest.approx(no_worse, abs=0.015)
        if abs(no_worse - 0.95) < 0.015:
            near += 1
        else:
            assert row["verdict"] == ("no worse" if no_worse >= 0.95 else "undecided")
    assert near < 15
    assert set(table["verdict"]) == {"no worse", "undecided"}


def test_pairing_narrows_and_never_turns_a_change(found: Findings) -> None:
    table = table_of(found, "What pairing by item would change")
    assert table["correlation"].to_list() == [0.0, 0.5, 0.8]
    assert table["single scores no worse"].is_monotonic_increasing
    assert table["largest smallest margin of means"].is_monotonic_decreasing


def test_what_the_stages_can_and_cannot_say(found: Findings) -> None:
    table = table_of(found, "Olmo 3 on ZebraLogic by stage").set_index("quantity")
    last = table.loc["gain from DPO to RL"]
    sd = np.sqrt((0.284 * 0.716 + 0.329 * 0.671) / 1000)
    assert last["mean"] == pytest.approx(0.045, abs=0.001)
    assert [last["low"], last["high"]] == pytest.approx(
        [0.045 - 1.96 * sd, 0.045 + 1.96 * sd], abs=0.002
    )
    assert table["cannot say"].str.len().min() > 20


def test_classifiers_have_the_counts_that_their_scores_round_from(study: Study) -> None:
    for name in NAMES:
        tables = possible_tables(study, name)
        where = f"classifier of {name}"
        size = study.printed("held_out_pairs", where)["value"]
        hit, alarm, missed, clear = tables.T
        assert (tables.sum(axis=1) == size).all()
        digits = 3 if name == "MBPP" else 2
        assert ((hit + clear) / size).round(3).tolist() == [
            study.printed("accuracy", where)["value"]
        ] * len(tables)
        precision, f1 = hit / (hit + alarm), 2 * hit / (2 * hit + alarm + missed)
        assert set(precision.round(digits)) == {study.printed("precision", where)["value"]}
        assert set(f1.round(digits)) == {study.printed("f1", where)["value"]}
    assert [125, 3, 15, 417] in possible_tables(study, "MBPP").tolist()
    assert [107, 3, 21, 381] in possible_tables(study, "CodeForces").tolist()


def test_intervals_of_scores_are_those_of_beta_distributions(study: Study) -> None:
    draws = score_draws(study, "MBPP", np.array([[125, 3, 15, 417]]))
    expected = {
        "accuracy": stats.beta(542 + 1, 18 + 1),
        "precision": stats.beta(125.5, 3.5),
        "recall": stats.beta(125.5, 15.5),
        "specificity": stats.beta(417.5, 3.5),
    }
    for name, posterior in expected.items():
        ends = np.quantile(draws[name], [0.025, 0.975])
        assert ends == pytest.approx(posterior.ppf([0.025, 0.975]), abs=0.003)
    assert draws["precision at 9 %"].mean() < draws["precision"].mean()


def test_the_claim_is_stated_of_all_means(found: Findings, printed: pd.DataFrame) -> None:
    table = table_of(found, "Mean changes with verdicts")
    assert set(table["verdict"]) == {"no worse"}
    assert table.set_index("finetuned on")["printed"].to_dict() == pytest.approx(
        printed_changes(printed).mean(axis=1).to_dict(), abs=1e-4
    )
    assert "9 of 9 finetuned models are no worse" in found.headline
    assert "HellaSwag fell most" in found.headline


def test_a_base_that_is_printed_twice_must_be_one(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = study.table("control_benchmarks")
    table.loc[0, "accuracy"] += 1
    monkeypatch.setattr(Study, "table", lambda self, name: table)
    with pytest.raises(bayescontam.UsageError, match="base has two accuracies"):
        printed_accuracies(study)
