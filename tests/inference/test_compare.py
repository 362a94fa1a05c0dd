"""Comparison of fits: the right one wins, and what cannot be compared is refused."""

import numpy as np
import pandas as pd
import pytest

import bayescontam
from bayescontam.errors import FitError, UsageError
from bayescontam.responses import Responses

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


@pytest.mark.xdist_group("compare")
def test_the_better_spec_is_first(fits):
    table = bayescontam.compare({name: fits[name] for name in ("flat", "slope")})
    assert table["fit"].tolist() == ["slope", "flat"]
    assert table["elpd_diff"][1] > 4 * table["diff_se"][1]
    assert table["weight"][0] > 0.9
    assert table["weight"].sum() == pytest.approx(1)
    assert table["verdict"].tolist() == ["best", "predicts worse than the best."]


@pytest.mark.xdist_group("compare")
def test_differences_are_paired_whatever_the_order_of_rows(fits):
    """The standard error of a paired difference is far below that of unpaired ones."""
    table = bayescontam.compare({name: fits[name] for name in ("flat", "slope")})
    own = {}
    for name in ("flat", "slope"):
        data = fits[name].tree["constant_data"].to_dataset()
        items = data["item"].to_numpy()[data["item_of_response"].to_numpy()]
        own[name] = pd.Series(fits[name].tree["loo"]["elpd"].to_numpy(), items)
    paired = own["slope"] - own["flat"]
    assert table["elpd_diff"][1] == pytest.approx(paired.sum())
    assert table["diff_se"][1] == pytest.approx(np.sqrt(len(paired) * paired.var(ddof=1)))


@pytest.mark.xdist_group("compare")
def test_equal_fits_are_not_told_apart(fits):
    table = bayescontam.compare({"a": fits["slope"], "b": fits["slope"]})
    assert "too small to tell" in table["verdict"][1]


@pytest.mark.xdist_group("compare")
def test_fits_of_different_responses_are_refused(fits):
    with pytest.raises(FitError, match="fits of different responses"):
        bayescontam.compare({name: fits[name] for name in ("slope", "other data")})


@pytest.mark.xdist_group("compare")
def test_one_fit_is_refused(fits):
    with pytest.raises(UsageError, match="at least two"):
        bayescontam.compare({"slope": fits["slope"]})
