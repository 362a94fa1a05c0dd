"""Fits of curves: the prior alone, recovery of what made the data, and files."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.special import expit
from scipy.stats import lognorm, norm

from bayescontam.errors import FitError, UsageError
from bayescontam.evidence import curve as curves
from bayescontam.evidence.curve import Curve, fit_judged_curve
from bayescontam.inference.checks import Outcome
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.specs.registry import load_curve
from tests.support.made_curve import from_prior
from tests.support.made_evidence import JUDGED, judged, line, make_curve, make_draws
from tests.support.model_points import PLAIN

SPEC = load_curve("monotone")
NAMES = {"benchmarks": ("quiz", "exam"), "sources": ("web", "books")}
ODD = ("a\0b\0", "x/y", "é", "e\u0301", "😀\r\n", "nan", "NA", "", " ", "x" * 5000)
SHORT = Sampling(draws=200, tune=300, chains=2, cores=2)
HIT, CLEAR = {"Ada": 0.99, "llm:m": 0.85}, {"Ada": 0.99, "llm:m": 0.93}
TRUE = make_draws(benchmarks=2, threshold=[[0.66, 0.6]], threshold_open=[[0.58, 0.52]])


def simulated(items: int, seed: int = 1) -> pd.DataFrame:
    """Return verdicts of a model on 3 pairs of each item, and of a person on one of them."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(items):
        b = i % 2
        cosine = np.sort(rng.uniform(0.4, 0.95, 3))[::-1]
        opened = rng.random() < expit(
            line(TRUE, cosine[0], TRUE.threshold_open[:, b], TRUE.steepness_open[:, b])[0]
        )
        for k, c in enumerate(cosine):
            p = expit(line(TRUE, c, TRUE.threshold[:, b], TRUE.steepness[:, b])[0])
            true = opened and rng.random() < p
            for judge in ["llm:m", "Ada"] if k == i % 3 else ["llm:m"]:
                called = rng.random() < (HIT[judge] if true else 1 - CLEAR[judge])
                pair = {"benchmark": NAMES["benchmarks"][b], "source": NAMES["sources"][k % 2]}
                rows.append(
                    judged(f"q{i}", f"d{k}", int(called), judge, cosine=float(c),
                           best=float(cosine[0]), kind="", **pair)
                )  # fmt: skip
    return pd.DataFrame(rows)[JUDGED]


def fitted(frame: pd.DataFrame, names: Any = None, **options: Any) -> Curve:
    return fit_judged_curve(frame, names or NAMES, SPEC, seed=3, sampling=SHORT, **options)


@pytest.fixture(scope="module")
def prior() -> Curve:
    return fitted(simulated(1).head(0))


def test_without_judgements_the_curve_is_the_prior(prior: Curve) -> None:
    draws = prior.draws()
    assert len(draws) == 4000
    higher = np.hypot(0.1, 0.05)  # spread over benchmarks: E[sigma²] of a half-Normal is its scale²
    for values in (draws.threshold[:, 0], draws.threshold_open[:, 1]):
        assert values.mean() == pytest.approx(0.65, abs=4 * higher / np.sqrt(4000))
        assert values.std() == pytest.approx(higher, rel=0.05)
    bar = prior.data["posterior"]["steepness_bar"].to_numpy().ravel()
    for q in (0.05, 0.5, 0.95):
        assert np.quantile(bar, q) == pytest.approx(
            lognorm(0.5, scale=np.exp(2.9)).ppf(q), rel=0.08
        )
    assert np.quantile(draws.sigma_item, 0.5) == pytest.approx(norm.ppf(0.75), rel=0.06)
    assert prior.judges == ()
    assert len(prior.judged) == 0
    assert prior.judge_draws(7)[0].shape == (7, 0)
    (check,) = prior.checks()
    assert (check.name, check.outcome) == ("Judgements", Outcome.CAUTION)
    assert repr(prior) == "<Curve from 0 judgements, no check failed>"


def test_the_band_is_that_of_the_draws(prior: Curve) -> None:
    band = prior.data["curves"].to_dataset()
    assert band["benchmark"].to_numpy().tolist() == ["quiz", "exam"]
    assert (band["low"] <= band["mean"]).all()
    assert (band["mean"] <= band["high"]).all()
    assert (band["mean"].diff("cosine") > 0).all()
    assert float(band["mean"].sel(benchmark="quiz", cosine=0.0)) < 0.01
    assert float(band["mean"].sel(benchmark="quiz", cosine=1.0)) > 0.85


def test_draws_are_spaced_evenly(prior: Curve) -> None:
    every, few = prior.draws(), prior.draws(5)
    np.testing.assert_array_equal(few.threshold, every.threshold[[0, 999, 1999, 2999, 3999]])
    assert len(prior.draws(10_000)) == 4000


def test_the_summary_names_what_it_reports_of(prior: Curve) -> None:
    table = prior.summary(0.8)
    row = table[(table["quantity"] == "threshold") & (table["of"] == "exam")].iloc[0]
    values = prior.draws().threshold[:, 1]
    assert row["mean"] == pytest.approx(values.mean())
    assert row["ci_low"] == pytest.approx(np.quantile(values, 0.1))
    assert row["ci_high"] == pytest.approx(np.quantile(values, 0.9))
    assert set(table.loc[table["quantity"] == "source_shift", "of"]) == {"web", "books"}


@pytest.fixture
def odd() -> Curve:
    names = [name or "blank" for name in ODD]
    rows = [
        judged(name, name, i % 2, ["Ada\0", "llm:é"][i % 2], benchmark=name, source=name,
               cosine=0.5 + i / 100, best=np.nan if i else 0.9, kind=["", "exact"][i % 2])
        for i, name in enumerate(names)
    ]  # fmt: skip
    return make_curve(
        make_draws(3, benchmarks=len(names), sources=len(names)), names, names, judged=rows,
        judges={"Ada\0": (0.9, 0.8), "llm:é": (0.7, 0.6)},
    )  # fmt: skip


def test_a_file_keeps_everything(odd: Curve, tmp_path: Path) -> None:
    odd.to_netcdf(tmp_path / "curve.nc")
    loaded = Curve.from_netcdf(tmp_path / "curve.nc")
    assert loaded.record == odd.record
    assert loaded.benchmarks == tuple(name or "blank" for name in ODD)
    assert loaded.sources == loaded.benchmarks
    assert loaded.judges == ("Ada\0", "llm:é")
    assert loaded.spec == odd.spec
    pd.testing.assert_frame_equal(loaded.judged, odd.judged)
    for name, value in vars(odd.draws()).items():
        np.testing.assert_array_equal(getattr(loaded.draws(), name), value)
    for one, other in zip(odd.judge_draws(2), loaded.judge_draws(2), strict=True):
        np.testing.assert_array_equal(one, other)
    posterior = loaded.data["posterior"]
    assert posterior["benchmark"].to_numpy().tolist() == list(loaded.benchmarks)
    assert posterior["judge"].to_numpy().tolist() == list(loaded.judges)
    assert [path.name for path in tmp_path.iterdir()] == ["curve.nc"]


def test_what_is_no_curve_is_refused(odd: Curve, tmp_path: Path) -> None:
    with pytest.raises(
        FitError, match=r"no\.nc: no such file; make a curve with: bayescontam curve"
    ):
        Curve.from_netcdf(tmp_path / "no.nc")
    odd.to_netcdf(tmp_path / "curve.nc")
    data = (tmp_path / "curve.nc").read_bytes()
    spoilt = {
        "text.nc": b"no curve",
        "empty.nc": b"",
        "zeros.nc": bytes(len(data)),
    }
    for name, content in spoilt.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FitError, match=f"{name}: is not a curve; give a file that"):
            Curve.from_netcdf(tmp_path / name)
    (tmp_path / "cut.nc").write_bytes(data[: len(data) // 2])
    with pytest.raises(FitError, match=r"cut\.nc: is damaged or cut off; copy it again"):
        Curve.from_netcdf(tmp_path / "cut.nc")
    xr.Dataset({"x": 1}).to_netcdf(tmp_path / "other.nc")
    with pytest.raises(FitError, match=r"other\.nc: is not a curve \(it has no group 'record'\)"):
        Curve.from_netcdf(tmp_path / "other.nc")
    with pytest.raises(FitError, match=r"curve\.nc: is not a fit of bayescontam; give a file that"):
        Fit.from_netcdf(tmp_path / "curve.nc")


def test_another_layout_is_refused(odd: Curve, tmp_path: Path) -> None:
    record = str(odd.data["record"]["json"].item())
    later = record.replace('"curve_format": 2', '"curve_format": 99')
    odd.data["record"]["json"] = xr.DataArray(later)
    Curve(odd.data).to_netcdf(tmp_path / "later.nc")
    with pytest.raises(FitError, match=r"later\.nc: has format 99, this version .* reads format 2"):
        Curve.from_netcdf(tmp_path / "later.nc")


def test_a_place_that_cannot_be_written_is_refused(odd: Curve, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        odd.to_netcdf(tmp_path / "missing" / "curve.nc")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.4}, r"^level: got 0\.4; allowed is 0\.5 up to but not 1$"),
        ({"level": 1.0}, r"^level: got 1\.0"),
        ({"seed": -1}, r"^seed: got -1; allowed is 0 or more$"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit_judged_curve(simulated(1), NAMES, SPEC, **{"seed": 1} | options)


@pytest.fixture(scope="module")
def judged_curve() -> Curve:
    """Fit 480 verdicts on the pairs of 120 items."""
    return fitted(simulated(120))


@pytest.mark.slow
def test_what_made_the_verdicts_is_found(judged_curve: Curve) -> None:
    table = judged_curve.summary(0.999)
    truth = {
        ("threshold", "quiz"): 0.66, ("threshold", "exam"): 0.6,
        ("threshold_open", "quiz"): 0.58, ("threshold_open", "exam"): 0.52,
        ("steepness", "quiz"): 15.0, ("source_shift", "web"): 0.0,
        ("sensitivity", "llm:m"): 0.85, ("specificity", "llm:m"): 0.93,
        ("sensitivity", "Ada"): 0.99, ("specificity", "Ada"): 0.99,
    }  # fmt: skip
    found = table.set_index(["quantity", "of"])
    for name, value in truth.items():
        assert found.loc[name, "ci_low"] < value < found.loc[name, "ci_high"], name
    assert found.loc[("threshold", "quiz"), "sd"] < 0.05  # the prior's is 0.11
    assert found.loc[("specificity", "llm:m"), "sd"] < 0.03
    outcomes = {check.name: check.outcome for check in judged_curve.checks()}
    assert outcomes["Judges"] is Outcome.PASSED
    assert outcomes["Judgements by cosine"] is Outcome.PASSED
    assert "Judgements" not in outcomes


def test_order_and_second_runs_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models of both tables are one, and what follows from the same draws is too."""
    densities: list[float] = []

    def sample(model: pm.Model, *_: Any) -> Any:
        rng, start = np.random.default_rng(1), model.initial_point(1)
        point = {name: rng.normal(0, 0.5, np.shape(value)) for name, value in start.items()}
        densities.append(float(model.compile_logp(mode=PLAIN)(point)))
        return from_prior(model)

    monkeypatch.setattr(curves, "sample_model", sample)
    frame = simulated(40)
    first = fitted(frame)
    turned = frame.sample(frac=1, random_state=1)
    again = turned[turned["judge"] == "llm:m"].assign(judge="llm:m#2", is_duplicate=1)
    unjudged = turned.head(9).assign(judge="Bo", is_duplicate=pd.NA)
    whole = pd.concat([turned, again, unjudged]).astype({"is_duplicate": "Int8"})
    other = fitted(whole)
    assert densities[0] == pytest.approx(densities[1], rel=1e-12)
    pd.testing.assert_frame_equal(other.summary(), first.summary())
    assert other.judges == ("Ada", "llm:m")


@pytest.mark.slow
def test_a_fit_with_odd_names_goes_through_a_file(tmp_path: Path) -> None:
    frame = simulated(20)
    names = {"quiz": "a\0b\0", "exam": "😀\r\n", "web": "w/\0", "books": "é"}
    renamed = frame.replace({"benchmark": names, "source": names})
    labels = {
        "benchmarks": ("a\0b\0", "😀\r\n", "unjudged"),
        "sources": ("w/\0", "é"),
    }
    curve = fitted(renamed, labels)
    curve.to_netcdf(tmp_path / "curve.nc")
    shutil.move(tmp_path / "curve.nc", tmp_path / "moved.nc")
    loaded = Curve.from_netcdf(tmp_path / "moved.nc")
    pd.testing.assert_frame_equal(loaded.summary(), curve.summary())
    assert loaded.checks() == curve.checks()
    assert {check.name for check in loaded.checks()} >= {"Benchmarks", "Judges"}
    assert not {"item", "pair", "verdict"} & set(loaded.data["posterior"].dims)
