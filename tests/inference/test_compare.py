"""Comparison of fits: the right one wins, and what cannot be compared is refused."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats.utils import ELPDDataLOOKFold

import bayescontam
from bayescontam.data.responses import Responses
from bayescontam.errors import FitError, UsageError
from bayescontam.inference.crossval import comparison_table
from bayescontam.inference.loo import elpd_figures, stored_loo
from tests.support.crossval_fits import plain_fit, table

FEW = {"draws": 300, "tune": 300, "chains": 2}


def steep(seed: int = 0, items: int = 300) -> pd.DataFrame:
    """One model whose accuracy rises steeply with contamination."""
    rng = np.random.default_rng(seed)
    d = rng.random(items)
    correct = rng.random(items) < 1 / (1 + np.exp(-6 * (d - 0.5)))
    item = [f"i{i}" for i in range(items)]
    data = {"model": "m", "benchmark": "b", "item": item, "correct": correct.astype(int)}
    return pd.DataFrame(data | {"contamination": d})


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    flat = tmp_path_factory.mktemp("specs") / "flat.toml"
    flat.write_text(
        "summary = 'no slope'\n[ability]\npooling = 'none'\n[difficulty]\nform = 'none'\n"
        "[contamination]\nform = 'none'\n"
    )
    shuffled = Responses.from_frame(steep().sample(frac=1, random_state=1))
    return {
        "slope": bayescontam.fit(steep(), "single", seed=1, **FEW),
        # The same responses in another order: pointwise figures must be matched up.
        "flat": bayescontam.fit(shuffled, flat, seed=1, **FEW),
        "other data": bayescontam.fit(steep(1), "single", seed=1, **FEW),
    }


def test_the_better_spec_is_first(fits):
    table = bayescontam.compare({name: fits[name] for name in ("flat", "slope")})
    assert table["fit"].tolist() == ["slope", "flat"]
    assert table["elpd_diff"][1] > 4 * table["diff_se"][1]
    assert table["weight"][0] > 0.9
    assert table["weight"].sum() == pytest.approx(1)
    assert table["verdict"].tolist() == ["best", "predicts worse than the best."]


def test_differences_are_paired_whatever_the_order_of_rows(fits):
    """The standard error of a paired difference is far below that of unpaired ones."""
    table = bayescontam.compare({name: fits[name] for name in ("flat", "slope")})
    own = {}
    for name in ("flat", "slope"):
        data = fits[name].data["constant_data"].to_dataset()
        items = data["item"].to_numpy()[data["item_of_response"].to_numpy()]
        own[name] = pd.Series(fits[name].data["loo"]["elpd"].to_numpy(), items)
    paired = own["slope"] - own["flat"]
    assert table["elpd_diff"][1] == pytest.approx(paired.sum())
    assert table["diff_se"][1] == pytest.approx(np.sqrt(len(paired) * paired.var(ddof=1)))


def test_equal_fits_are_not_distinguished(fits):
    table = bayescontam.compare({"a": fits["slope"], "b": fits["slope"]})
    assert "is inconclusive" in table["verdict"][1]


def test_fits_may_be_given_by_their_files(fits, tmp_path):
    fits["slope"].to_netcdf(tmp_path / "slope.nc")
    read = bayescontam.compare({"slope": tmp_path / "slope.nc", "flat": fits["flat"]})
    given = bayescontam.compare({name: fits[name] for name in ("slope", "flat")})
    pd.testing.assert_frame_equal(read, given)


def test_fits_of_different_responses_are_refused(fits):
    with pytest.raises(FitError, match="fits of different responses"):
        bayescontam.compare({name: fits[name] for name in ("slope", "other data")})


def test_one_fit_is_refused(fits):
    with pytest.raises(UsageError, match="at least two"):
        bayescontam.compare({"slope": fits["slope"]})


def verdicts(behind: np.ndarray, pareto_k: float = 0.0) -> list[str]:
    """Return the verdicts on two fits, the second of which is behind by so much."""
    frame = table(models=2, items=len(behind) // 2)
    worse = plain_fit(frame, pareto_k, elpd=-5.0 - behind)
    return bayescontam.compare({"a": plain_fit(frame), "b": worse})["verdict"].tolist()


@pytest.mark.parametrize(
    ("behind", "verdict"),
    [
        (np.linspace(0.01, 0.02, 200), "as good as the best: a difference below 4"),
        (
            np.r_[np.full(199, 0.0), 5.0],
            "not distinguishable from the best: the difference is below 2",
        ),
        (np.linspace(0.1, 0.2, 200), "predicts worse than the best."),
        (
            np.linspace(0.1, 0.2, 98),
            "predicts worse than the best. Fewer than 100 responses: stand",
        ),
    ],
)
def test_where_a_difference_decides_nothing_the_verdict_states_it(
    behind: np.ndarray, verdict: str
) -> None:
    best, other = verdicts(behind)
    assert best == "best"
    assert other.startswith(verdict)
    assert ("Fewer than 100" in other) is (len(behind) < 100)


def test_bad_pareto_k_is_reported() -> None:
    for bad in (0.8, np.nan):
        reported = verdicts(np.ones(200), bad)[1]
        assert "200 responses have Pareto k > 0.7: unreliable there." in reported
    frame = table(models=2, items=100)
    best = bayescontam.compare({"a": plain_fit(frame, 0.9), "b": plain_fit(frame, elpd=-9.0)})
    assert best["verdict"][0] == "best; 200 responses have Pareto k > 0.7: unreliable there."
    assert best["bad_k"].tolist() == [200, 0]


def elpd_of(values: np.ndarray, group: np.ndarray) -> ELPDDataLOOKFold:
    """Return the figures of units that are left out by groups, in 4 folds."""
    coords = {"group": ("unit", group), "reliable": ("unit", np.ones(len(group), bool))}
    elpd = xr.DataArray(values, coords, "unit")
    return ELPDDataLOOKFold(**elpd_figures(elpd, np.nan, 0), good_k=None, n_folds=4)


def test_arviz_takes_the_figures(fits) -> None:
    loos = {name: stored_loo(fits[name].data) for name in ("flat", "slope")}
    ours = bayescontam.compare({name: fits[name] for name in loos}).set_index("fit")
    table = az.compare(loos, round_to="none")
    for column in ("elpd", "elpd_diff", "weight"):
        sign = -1 if column == "elpd_diff" else 1  # of ours the best is subtracted from
        assert sign * table[column].to_numpy() == pytest.approx(
            ours[column][table.index].to_numpy()
        )
    assert az.plot_khat(loos["slope"]) is not None
    assert "elpd_loo" in str(loos["slope"])


def test_standard_errors_are_those_of_sums_over_what_is_left_out_together() -> None:
    """Responses of a model that all err the same way count once."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(4), 50)
    elpd = {"a": rng.normal(-0.6, 0.1, 200), "b": rng.normal(-0.6, 0.1, 200) - (group == 2) * 0.5}
    made = {name: elpd_of(one, group) for name, one in elpd.items()}
    compared = comparison_table(made, "model").set_index("fit")
    behind = elpd["a"] - elpd["b"]
    sums = np.array([behind[group == g].sum() for g in range(4)])
    assert compared["elpd_diff"]["b"] == pytest.approx(sums.sum())
    assert compared["diff_se"]["b"] == pytest.approx(np.sqrt(4 * sums.var(ddof=1)))
    # As if responses were independent it would be distinguished.
    assert compared["elpd_diff"]["b"] > 2 * np.sqrt(200 * behind.var(ddof=1))
    assert "not distinguishable" in compared["verdict"]["b"]
    assert "Only 4 models were left out: standard errors say little." in compared["verdict"]["b"]
    assert compared["left_out"].tolist() == ["model", "model"]


def test_stacking_weights_survive_densities_of_very_many_responses_together() -> None:
    """The density of a thousand responses to an item is below the smallest number there is."""
    rng = np.random.default_rng(1)
    small = {name: rng.normal(-1, 0.3, 150) - off for name, off in (("a", 0.0), ("b", 0.2))}
    weights = []
    for shift in (0.0, 2000.0):
        made = {name: elpd_of(one - shift, np.arange(150)) for name, one in small.items()}
        weights.append(comparison_table(made, "item")["weight"].tolist())
    assert weights[0] == pytest.approx(weights[1], abs=1e-6)
    assert 0.1 < weights[0][0] < 1


@pytest.mark.parametrize(
    "options", [{"leave_out": "item", "refit": True}, {"folds": 3, "refit": True}]
)
def test_refits_are_for_single_responses(options) -> None:
    with pytest.raises(UsageError, match="refit is for single responses without folds"):
        bayescontam.compare({"a": plain_fit(table())}, **options)


def test_fits_are_silent_unless_progress_is_requested(caplog):
    with caplog.at_level("INFO"):
        bayescontam.fit(steep(), "single", seed=1, **FEW)
    assert not [record for record in caplog.records if record.name.startswith("pymc")]
