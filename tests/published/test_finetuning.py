"""Finetuning on duplicates done again: counts, gains, and what independence changes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import expit

from bayescontam.calibration.study import changed_spec
from bayescontam.data.published_tables import read_published
from bayescontam.data.responses import Responses
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.published.study import Study
from bayescontam.specs.registry import load_model, shipped_folder
from bayescontam.specs.study import ReproductionSpec
from studies import _ecology as ecology
from studies._cells import Cells, effects_variance, expected_cells, logistic_mean, own_cells
from studies.finetuning import (
    ERRORS,
    GENERATIONS,
    ITEMS,
    base_group,
    counted,
    fitted_gains,
    gain_draws,
    pooled,
    printed_rows,
)

FEW = Sampling(draws=150, tune=250, chains=2, cores=1)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    text = (shipped_folder("studies") / "duplicate-finetuning.toml").read_text()
    spec = ReproductionSpec.parse(text, "duplicate-finetuning")
    folder = tmp_path_factory.mktemp("study")
    return Study(spec, spec.at_size(False), read_published(spec.published), folder)


@pytest.fixture(scope="module")
def printed(study: Study) -> pd.DataFrame:
    return printed_rows(study)


def test_the_three_ways_of_counting_are_items_errors_and_generations(
    printed: pd.DataFrame,
) -> None:
    key = {"model": "MuSR, exact", "benchmark": "MuSR", "group": "seen"}
    rows = {
        count: counted(printed, count).frame.query(
            " and ".join(f"{name} == {value!r}" for name, value in key.items())
        )
        for count in (ITEMS, ERRORS, GENERATIONS)
    }
    trials = {count: int(table["n_trials"].iloc[0]) for count, table in rows.items()}
    # The printed error of the half, 2.06 points, is that of the whole benchmark's 250 items.
    assert trials == {ITEMS: 125, ERRORS: 251, GENERATIONS: 1000}
    for count, table in rows.items():
        share = table["n_correct"].iloc[0] / trials[count]
        assert share == pytest.approx(0.879, abs=0.5 / trials[count])


def test_controls_are_never_contaminated_and_seen_halves_always_are(
    printed: pd.DataFrame,
) -> None:
    frame = counted(printed, ITEMS).frame
    assert frame.groupby("group")["contamination"].unique().map(list).to_dict() == {
        "all": [0.0], "control": [0.0], "seen": [1.0], "unseen": [0.0],
    }  # fmt: skip
    own = frame[frame["group"] == "control"]
    assert set(own["benchmark"]) == {"TrueDetective", "ARC Challenge", "HumanEval"}


def test_gains_are_held_against_the_same_benchmark_before_finetuning(
    printed: pd.DataFrame,
) -> None:
    """With the printed accuracies as draws, gains are the printed differences."""
    index = pd.MultiIndex.from_frame(printed[["model", "benchmark", "group"]])
    gains = gain_draws(printed, Cells(index, printed["accuracy"].to_numpy()[None]))
    assert gains["MuSR", "exact", "unseen"][0] == pytest.approx(0.873 - 0.660)
    assert gains["MBPP", "semantic-python", "control"][0] == pytest.approx(0.670 - 0.553)
    assert gains["ZebraLogic", "cosine-sft", "all"][0] == pytest.approx(0.229 - 0.369)
    assert not any(training == "none" for _, training, _ in gains)
    seen = [0.484, 0.392, 0.360, 0.380, 0.280]
    assert pooled(gains, "ZebraLogic", "seen")[0] == pytest.approx(np.mean(seen) - 0.369)


def test_the_mean_over_effects_is_that_of_a_simulation() -> None:
    center, spread = np.array([[0.7, -1.5], [0.7, -1.5]]), np.array([0.0, 6.5])
    found = logistic_mean(center, np.tile(spread[:, None], 2))
    assert found[0] == pytest.approx(expit(center[0]))
    draws = np.random.default_rng(1).standard_normal(400_000)
    for cell in (0, 1):
        simulated = expit(center[1, cell] + spread[1] * draws).mean()
        assert found[1, cell] == pytest.approx(simulated, abs=0.003)


def test_items_vary_as_those_of_their_own_benchmark_and_model() -> None:
    delta = xr.DataArray(
        [[[0.5, 2.0], [1.0, 3.0]]],
        {"benchmark": ["easy", "mixed"]},
        ("chain", "draw", "benchmark"),
    )
    own = np.arange(8.0).reshape(1, 2, 2, 2)
    eps = xr.DataArray(
        own,
        {"model": ["one", "two"], "benchmark": ["easy", "mixed"]},
        ("chain", "draw", "model", "benchmark"),
    )
    cells = pd.MultiIndex.from_tuples(
        [("two", "mixed", "all"), ("one", "easy", "all")], names=["model", "benchmark", "group"]
    )
    both = effects_variance(xr.Dataset({"sigma_delta": delta, "sigma_eps": eps}), cells)
    assert both.tolist() == [[4 + 9, 0.25 + 0], [9 + 49, 1 + 16]]
    one = effects_variance(xr.Dataset({"sigma_eps": delta.isel(benchmark=0, drop=True)}), cells)
    assert one.tolist() == [[0.25, 0.25], [1, 1]]


@pytest.fixture(scope="module")
def halves() -> Responses:
    """Two models on two halves of 500 items, in counts."""
    table = pd.DataFrame(
        {
            "model": ["trained", "trained", "base", "base"],
            "benchmark": "quiz",
            "item": ["seen half", "unseen half"] * 2,
            "group": ["seen", "unseen"] * 2,
            "n_correct": [400, 350, 250, 255],
            "n_trials": 500,
            "contamination": [1.0, 0.0, 0.0, 0.0],
        }
    )
    return Responses.from_frame(table)


def fitted(responses: Responses, spec: str, changes: dict[str, object]) -> Fit:
    model = changed_spec(load_model(spec), changes, "test")
    return fit_responses(responses, model, Options(seed=1, sampling=FEW))


def test_cells_of_a_printed_table_follow_its_counts(halves: Responses) -> None:
    """The trained model's two cells have two parameters, so that counts alone decide them."""
    cells = expected_cells(fitted(halves, "aggregated", {}), halves)
    for group, count in (("seen", 400), ("unseen", 350)):
        exact = stats.beta(count + 1, 501 - count)
        draws = cells.of("trained", "quiz", group)
        assert draws.mean() == pytest.approx(exact.mean(), abs=0.012)
        assert draws.std() == pytest.approx(exact.std(), rel=0.35)
    gain = cells.gain(("trained", "base"), "quiz", "seen")
    assert gain.mean() == pytest.approx(0.30, abs=0.03)


def test_cells_of_single_items_report_these_items_and_new_ones_apart() -> None:
    """On the very items an accuracy is nearly known; on new ones it depends on their spread."""
    rng = np.random.default_rng(2)
    eta = rng.normal(0.5, 3.0, (2, 60))
    correct = rng.binomial(20, expit(eta))
    table = pd.DataFrame(
        {
            "model": np.repeat(["one", "two"], 60),
            "benchmark": "quiz",
            "item": [f"i{k}" for k in range(60)] * 2,
            "group": (["seen"] * 30 + ["unseen"] * 30) * 2,
            "n_correct": correct.ravel(),
            "n_trials": 20,
            "contamination": [1.0] * 30 + [0.0] * 90,
        }
    )
    responses = Responses.from_frame(table)
    fit = fitted(responses, "hierarchical", {})
    very, new = (cells(fit, responses) for cells in (own_cells, expected_cells))
    for model in ("one", "two"):
        for group in ("seen", "unseen"):
            own = table[(table["model"] == model) & (table["group"] == group)]
            score = own["n_correct"].sum() / 600
            assert very.of(model, "quiz", group).mean() == pytest.approx(score, abs=0.02)
            assert very.of(model, "quiz", group).std() < 0.03
            assert new.of(model, "quiz", group).std() > 0.04


def test_ecological_counts_hold_each_half_once(study: Study) -> None:
    printed = ecology.printed_rows(study)
    frame = ecology.counted(printed).frame
    assert set(frame["n_trials"]) == {125}
    bases = frame[frame["model"].str.contains("none")]
    assert len(bases) == 2 * 2
    duplicated = frame[frame["contamination"] == 1]
    assert duplicated["model"].str.contains("contaminated|exact").all()
    assert set(duplicated["group"]) == {"seen"}


def test_ecological_gains_are_held_against_the_clean_mix_of_as_many_epochs(
    study: Study,
) -> None:
    printed = ecology.printed_rows(study)
    index = pd.MultiIndex.from_frame(
        printed.assign(benchmark=ecology.BENCHMARK)[["model", "benchmark", "group"]]
    )
    table = ecology.gains(printed, Cells(index, printed["accuracy"].to_numpy()[None]))
    assert table["mean"].to_numpy() == pytest.approx(table["printed"].to_numpy())
    one = table.set_index(["version", "base", "epoch", "training", "group"])
    row = one.loc[("v2", "Olmo 3 7B", 10, "contaminated", "unseen")]
    assert row["printed"] == pytest.approx(0.624 - 0.510)
    assert row["p_value"] == pytest.approx(6.0e-12)
    assert np.isnan(one.loc[("v2", "Olmo 3 7B", 10, "exact", "seen"), "p_value"])


def test_every_printed_number_has_its_source() -> None:
    folder: Path = shipped_folder("studies") / "data"
    tables = sorted(folder.glob("*.csv"))
    assert len(tables) >= 12
    for path in tables:
        assert pd.read_csv(path)["source"].str.len().min() > 20, path.name


@pytest.mark.slow
def test_gains_counted_out_of_generations_are_near_the_printed_differences(
    study: Study, printed: pd.DataFrame
) -> None:
    """So many answers leave priors little to say; of the control each item has one only."""
    few = replace(study, settings={**study.settings, "draws": {"generations-as-items": 200}})
    spec = changed_spec(load_model("aggregated"), study.settings["changes"], "test")
    own = printed[printed["target"] == "MuSR"]
    gains, _ = fitted_gains(few, own, GENERATIONS, spec)
    accuracy = own.set_index(["model", "group"])["accuracy"]
    assert len(gains) == (own["training"] != "none").sum()
    counted_out = {key: draws for key, draws in gains.items() if key[2] != "control"}
    assert {group for *_, group in counted_out} == {"all", "seen", "unseen"}
    for (target, training, group), draws in counted_out.items():
        before = accuracy[f"{target}, none", base_group(group)]
        difference = accuracy[f"{target}, {training}", group] - before
        assert draws.mean() == pytest.approx(difference, abs=0.03)
