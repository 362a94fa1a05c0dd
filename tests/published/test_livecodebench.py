"""Adjusted scores against accuracy on problems held out: splits, predictions, scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import bayescontam as bc
from bayescontam.published import held_out
from bayescontam.published.held_out import predict_clean_shares
from bayescontam.specs.study import SamplingSpec
from studies import livecodebench as study
from tests.support.real_data import shared

FEW = SamplingSpec(draws=100, tune=150, chains=2)
TABLE = "real/lcb_2024-04.csv"


def made_table(seed: int = 3, spread: float = 3.0, items: int = 40) -> pd.DataFrame:
    """Return responses of 4 clean and 3 exposed models at one site, the older half met."""
    rng = np.random.default_rng(seed)
    models = [f"clean {k}" for k in range(4)] + [f"exposed {k}" for k in range(3)]
    difficulty = rng.normal(0, 2, items)
    rows = []
    for k, model in enumerate(models):
        met = (k >= 4) * (np.arange(items) < items // 2)
        eta = rng.normal(0, 1) - difficulty + 2.0 * met + rng.normal(0, spread, items)
        rows.append(
            pd.DataFrame(
                {
                    "model": model,
                    "benchmark": study.SITES[0],
                    "item": [f"problem {i}" for i in range(items)],
                    "n_correct": rng.binomial(10, expit(eta)),
                    "n_trials": 10,
                    "contamination": met.astype(float),
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path = tmp_path_factory.mktemp("table") / "responses.csv"
    made_table().to_csv(path, index=False)
    return study.read_table(path)


def test_half_of_the_clean_problems_of_exposed_models_are_held_out(table: pd.DataFrame) -> None:
    out = table[study.held_out(table, 0)]
    assert set(out["model"]) == {"exposed 0", "exposed 1", "exposed 2"}
    assert (out["contamination"] == 0).all()
    assert out.groupby("model")["item"].agg(frozenset).nunique() == 1
    assert out.groupby("model").size().tolist() == [10, 10, 10]
    assert not study.held_out(table, 1).equals(study.held_out(table, 0))


def test_predictions_have_the_spread_of_effects_that_nobody_observed(table: pd.DataFrame) -> None:
    out = study.held_out(table, 0)
    spec = study.model_of("anchored")
    responses = bc.Responses.from_frame(table[~out], source="made")
    found = predict_clean_shares(spec, responses, table[out], 1, FEW)
    assert found["model"].tolist() == ["exposed 0", "exposed 1", "exposed 2"]
    binomial = np.sqrt(found["mean"] * (1 - found["mean"]) / 100)
    # Of 10 problems that are solved nearly always or never, the mean varies by up to 0.16.
    assert (found["sd"] > 1.5 * binomial).all()
    assert (found["low"] < found["mean"]).all()
    assert (found["mean"] < found["high"]).all()


def test_pairs_whose_item_nobody_answered_are_refused_at_once(
    table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(held_out.RebuiltSampler, "draw")
    strange = table[:1].assign(item="problem X")
    responses = bc.Responses.from_frame(table, source="made")
    spec = study.model_of("anchored")
    with pytest.raises(bc.UsageError, match="no other model answered problem X"):
        predict_clean_shares(spec, responses, strange, 1, FEW)


def test_scores_are_those_of_the_errors() -> None:
    found = pd.DataFrame(
        {
            "estimator": "raw",
            "benchmark": study.SITES[0],
            "model": ["a", "a", "b", "b"],
            "split": [0, 1, 0, 1],
            "truth": 0.5,
            "mean": [0.5, 0.6, 0.7, 0.7],
            "sd": 0.1,
            "low": [0.4, 0.4, 0.6, 0.6],
            "high": [0.6, 0.6, 0.8, 0.8],
        }
    )
    both = study.scores(found).iloc[0]
    assert both["coverage"] == 0.5
    assert both["coverage_se"] == pytest.approx(0.5)  # means 1 and 0 of two models
    assert both["rms_z"] == pytest.approx(1.5)  # of 0, 1, 2 and 2
    assert both["bias"] == pytest.approx(0.125)
    assert both["bias_se"] == pytest.approx(0.075)


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    made_table().to_csv(tmp_path / "responses.csv", index=False)
    done: list[str] = []

    def run(splits: int, sampling: SamplingSpec = FEW) -> pd.DataFrame:
        return study.run(
            tmp_path / "responses.csv",
            tmp_path / "out",
            splits=splits,
            estimators=("raw", "bootstrap"),
            sampling=sampling,
            report=done.append,
        )

    run(2)
    assert len(done) == 4
    scores = run(3)
    assert len(done) == 6
    assert scores.loc[scores["site"] == "both", "splits"].tolist() == [3, 3]
    with pytest.raises(bc.UsageError, match="has splits of other settings"):
        run(3, SamplingSpec(draws=50))


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = study.main([str(tmp_path / "absent.csv"), "--out", str(tmp_path / "out")])
    assert status == 2
    assert "absent.csv: no such file; give the table" in capsys.readouterr().err


@pytest.mark.slow
def test_one_split_of_the_real_table_holds_most_truths(tmp_path: Path) -> None:
    whole = pd.read_csv(shared(TABLE))
    some = whole[whole["benchmark"] == study.SITES[0]]
    exposed = some.groupby("model")["contamination"].max().astype(bool)
    chosen = [*exposed[exposed].index[:4], *exposed[~exposed].index[:6]]
    some[some["model"].isin(chosen)].to_csv(tmp_path / "some.csv", index=False)
    names = ("raw", "bootstrap", "anchored")
    scores = study.run(
        tmp_path / "some.csv", tmp_path / "out", splits=1, estimators=names, sampling=FEW
    )
    of = scores[scores["site"] == "both"].set_index("estimator")["rmse"].to_dict()
    assert list(of) == list(names)
    assert of["anchored"] < of["raw"]
