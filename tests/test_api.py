"""The Python interface: names that resolve, docstrings, and faults reported before sampling."""

import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import arviz
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import bayescontam
import bayescontam.inference.pipeline
from bayescontam import BayescontamError, DataError, FitError, SpecError, UsageError
from bayescontam.power.power import PowerRequest, plan
from tests.support.given_fits import counts_table, rough_fit
from tests.support.made_fit import drawn_from_prior

GOOD = pd.DataFrame(
    {
        "model": "m",
        "benchmark": "b",
        "item": [f"i{i}" for i in range(8)],
        "correct": [0, 1] * 4,
        "contamination": [0.0, 0.25, 0.5, 0.75] * 2,
    }
)
CLEAN = GOOD.drop(columns="contamination")
COVARIATES = GOOD[["benchmark", "item", "contamination"]]


@pytest.fixture
def no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(*_: Any) -> NoReturn:
        pytest.fail("the sampler was started")

    monkeypatch.setattr(bayescontam.inference.pipeline, "sample", sampled)


def test_public_names_are_sorted_and_resolve() -> None:
    assert bayescontam.__all__ == sorted(bayescontam.__all__)
    for name in bayescontam.__all__:
        assert getattr(bayescontam, name).__name__ == name


def test_dir_lists_what_is_public() -> None:
    assert dir(bayescontam) == sorted([*bayescontam.__all__, "__version__"])
    assert bayescontam.__version__ == importlib.metadata.version("bayescontam")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="fitt"):
        _ = bayescontam.fitt


@pytest.mark.parametrize("name", bayescontam.__all__)
def test_public_names_are_documented(name: str) -> None:
    thing = getattr(bayescontam, name)
    lines = (inspect.getdoc(thing) or "").splitlines()
    assert lines[0].endswith((".", "?"))
    assert thing.__module__.startswith("bayescontam.")
    if inspect.isfunction(thing):
        sections = [lines[i - 1] for i, line in enumerate(lines) if line and not line.strip("-")]
        assert sections[:2] == ["Parameters", "Returns"]
        assert {"Raises", "Examples"} <= set(sections)
        for parameter in inspect.signature(thing).parameters:
            text = "\n".join(lines[: lines.index("Returns")])
            assert parameter in text


@pytest.mark.parametrize("name", ["Covariates", "Fit", "Responses", "ModelSpec"])
def test_public_methods_are_documented(name: str) -> None:
    thing = getattr(bayescontam, name)
    for base in thing.__mro__:
        if base.__module__.startswith("bayescontam."):
            for method, value in vars(base).items():
                if not method.startswith(("_", "model_")) and callable(value):
                    assert inspect.getdoc(value), f"{base.__name__}.{method}"


def test_importing_is_lazy() -> None:
    code = (
        "import sys, bayescontam\n"
        "print(sorted(name for name in sys.modules if name.startswith('bayescontam')))\n"
        "bayescontam.UsageError\n"
        "print('pymc' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["['bayescontam']", "False False"]


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (UsageError, r"^draws: got 3; at least 4 is needed$", {"draws": 3}),
        (UsageError, r"^tune: got 0; at least 1", {"tune": 0}),
        (UsageError, r"^chains: got 1; at least 2", {"chains": 1}),
        (UsageError, r"^cores: got -2; at least 1", {"cores": -2}),
        (UsageError, r"^target_accept: got 0", {"target_accept": 0}),
        (UsageError, r"^engine: got 'nutpy'; did you mean 'nutpie'\?$", {"engine": "nutpy"}),
        (UsageError, r"^level: got 0\.4; allowed is 0\.5", {"level": 0.4}),
        (UsageError, r"^seed: got -1; allowed is 0 or more$", {"seed": -1}),
        (UsageError, r"^seed: got 'a'; allowed is a whole number, 0 or more$", {"seed": "a"}),
        (UsageError, r"^seed: got 1\.5; allowed is a whole number, 0 or more$", {"seed": 1.5}),
        (UsageError, r"^seed: got True; allowed is a whole number, 0 or more$", {"seed": True}),
        (UsageError, r"^reference: got 'abc'; allowed are", {"reference": "abc"}),
        (UsageError, r"^reference: got -0\.1; allowed are", {"reference": -0.1}),
        (SpecError, r"no such model spec \(did you mean 'single'\?\)", {"model": "singel"}),
        (SpecError, r"^no\.toml: cannot be read", {"model": Path("no.toml")}),
        (DataError, r"'concept', which is not there", {"model": "concepts"}),
        (UsageError, r"has a column 'contamination' already", {"covariates": COVARIATES}),
        (UsageError, r"^missing='fill': allowed are 'error'",
         {"responses": CLEAN, "covariates": COVARIATES, "missing_contamination": "fill"}),
        (DataError, r"no contamination for 6 of 8 items of 'b': 'i2'",
         {"responses": CLEAN, "covariates": COVARIATES.head(2)}),
        (DataError, r"needs a column 'contamination'", {"responses": CLEAN}),
        (DataError, r"^DataFrame: model: no such column",
         {"responses": GOOD.drop(columns="model")}),
        (DataError, r"^DataFrame: no rows", {"responses": GOOD.head(0)}),
        (UsageError, r"^no\.csv: no such file", {"responses": "no.csv"}),
        (UsageError, r"no\.csv: no such file", {"responses": CLEAN, "covariates": Path("no.csv")}),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_sampling")
def test_faults_are_reported_before_sampling(
    error: type[BayescontamError], message: str, options: dict[str, Any]
) -> None:
    with pytest.raises(error, match=message) as caught:
        bayescontam.fit(**{"responses": GOOD, "model": "single"} | options)
    assert type(caught.value) is error


def test_what_is_no_fit_is_a_fit_error(tmp_path: Path) -> None:
    (tmp_path / "a.nc").write_text("no fit")
    with pytest.raises(FitError, match="is not a fit of bayescontam; give a file that"):
        bayescontam.Fit.from_netcdf(tmp_path / "a.nc")


def test_one_fit_alone_is_not_compared() -> None:
    with pytest.raises(UsageError, match=r"^compare: give at least two fits$"):
        bayescontam.compare({})


WIDE = {"beta_bar": {"family": "normal", "mu": 0.0, "sigma": 4.0}}


def test_priors_are_replaced_one_by_one() -> None:
    spec, own = bayescontam.load_model("hierarchical", WIDE), bayescontam.load_model("hierarchical")
    assert spec.priors.beta_bar.text() == "Normal(0, 4)"
    assert spec.priors.model_dump() | {"beta_bar": None} == (
        own.priors.model_dump() | {"beta_bar": None}
    )
    assert spec.contamination == own.contamination
    assert spec.name == "hierarchical with other priors"
    again = bayescontam.load_model("single", {"beta_bar": own.priors.beta_bar})
    assert again.priors.beta_bar == own.priors.beta_bar


def test_a_mapping_is_a_model_spec() -> None:
    spec = bayescontam.load_model({"contamination": {"pooling": "none"}, "priors": WIDE})
    assert spec.contamination.pooling == "none"
    assert spec.priors.beta_bar.text() == "Normal(0, 4)"


@pytest.mark.parametrize(
    ("model", "priors", "message"),
    [
        ("single", {"beta_ba": {}}, r"priors\.beta_ba: unknown key \(did you mean 'beta_bar'\?\)"),
        ("single", {"beta_bar": {"family": "normal"}}, r"priors\.beta_bar\.sigma: is missing"),
        ({"contaminations": {}}, None, r"contaminations: unknown key"),
    ],
)
@pytest.mark.usefixtures("no_sampling")
def test_faults_of_specs_in_python_are_named(model: Any, priors: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        bayescontam.fit(GOOD, model, priors=priors)
    with pytest.raises(SpecError, match=message):
        bayescontam.build_model(model, GOOD, priors=priors)


def test_the_model_is_an_ordinary_one() -> None:
    model = bayescontam.build_model("single", CLEAN, covariates=COVARIATES, priors=WIDE)
    assert [variable.name for variable in model.free_RVs] == ["theta", "beta"]
    assert model.named_vars_to_dims["beta"] == ("model", "benchmark")
    assert [variable.name for variable in model.observed_RVs] == ["n_correct"]
    # The prior that was replaced: Normal(0, 4) has its density at 0.
    point = model.initial_point()
    wide = model.compile_logp(vars=[model["beta"]], jacobian=False)(
        point | {name: 0 * value for name, value in point.items()}
    )
    assert float(wide) == pytest.approx(-np.log(4 * np.sqrt(2 * np.pi)))


def test_renamed_names_work_and_warn() -> None:
    for old, new in (
        ("load_spec", "load_model"), ("duplicate_curve", "fit_curve"),
        ("weigh_scan", "item_contamination"),
    ):  # fmt: skip
        with pytest.warns(FutureWarning, match=f"bayescontam.{old} is now bayescontam.{new}"):
            assert getattr(bayescontam, old) is getattr(bayescontam, new)
        assert old not in bayescontam.__all__


def test_renamed_methods_of_fits_work_and_warn(tmp_path: Path) -> None:
    fit = rough_fit()
    with pytest.warns(FutureWarning, match="'save' is now 'to_netcdf'"):
        fit.save(tmp_path / "fit.nc")
    with pytest.warns(FutureWarning, match="'load' is now 'from_netcdf'"):
        again = bayescontam.Fit.load(tmp_path / "fit.nc")
    with pytest.warns(FutureWarning, match="'tree' is now 'data'"):
        assert again.tree is again.data


def test_what_a_fit_reports_is_reached_from_it(tmp_path: Path) -> None:
    """Each method gives what the function or table of that name gives."""
    spec = bayescontam.load_model("single")
    with drawn_from_prior():
        fit = bayescontam.fit(GOOD, spec, seed=1, draws=200, tune=200, chains=2)
    summary = fit.summary()
    known = fit.estimands().query("quantity == 'genuine_ability_direct'")
    assert summary["genuine_ability_direct"].tolist() == pytest.approx(known["mean"].tolist())
    assert (
        fit.summary(0.5)["genuine_ability_direct_low"] > summary["genuine_ability_direct_low"]
    ).all()
    slope = fit.estimands().query("quantity == 'slope'")
    assert fit.identification()["slope"].tolist() == pytest.approx(slope["mean"].tolist())
    assert set(fit.sensitivity().columns) >= {
        "genuine_ability_direct_prior",
        "overfitting_direct_likelihood",
    }
    loo = fit.loo()
    assert loo.elpd == pytest.approx(float(fit.data["loo"]["elpd"].sum()))
    assert loo.n_data_points == len(GOOD)
    compared = arviz.compare({"one": loo, "same": loo})
    assert compared["elpd_diff"].tolist() == [0, 0]
    assert fit.rank("b").table.equals(bayescontam.rank_models(fit, "b").table)
    fit.to_netcdf(tmp_path / "fit.nc")
    assert bayescontam.Fit.from_netcdf(tmp_path / "fit.nc").summary().equals(summary)


def test_a_fit_is_updated_by_its_method() -> None:
    fit, new = rough_fit(), counts_table([(15, 40)], "F")
    one, other = fit.update(new, seed=1), bayescontam.update(fit, new, seed=1)
    pd.testing.assert_frame_equal(one.estimands(), other.estimands())


def test_the_prior_predictive_has_the_tables_rows_and_the_priors_spread() -> None:
    prior = bayescontam.prior_predictive("single", GOOD, draws=400, seed=3)
    counts = prior["prior_predictive"]["n_correct"]
    assert counts.dims == ("chain", "draw", "response")
    assert set(np.unique(counts)) == {0.0, 1.0}
    assert counts["item"].to_numpy().tolist() == GOOD["item"].tolist()
    assert "beta" in prior["prior"]
    # The prior of an ability is symmetric around one half: 400 draws have a standard error of
    # 0.02 at most, and five of them are exceeded with probability 6e-7.
    assert float(counts.mean()) == pytest.approx(0.5, abs=0.1)
    again = bayescontam.prior_predictive("single", GOOD, draws=400, seed=3)
    assert again["prior_predictive"].equals(prior["prior_predictive"])
    for draws in (0, 2.5, "many"):
        with pytest.raises(UsageError, match=f"draws: got {draws!r}; allowed is 1 to 100,000"):
            bayescontam.prior_predictive("single", GOOD, draws=draws)  # type: ignore[arg-type]


def test_the_prior_predictive_is_that_of_the_pymc_model() -> None:
    """PyMC draws it by the random method of the likelihood, by none of this package's own steps.

    Means and variances of numbers solved differ by less than five Monte Carlo errors: of two
    figures that is exceeded with a probability of 1e-6.
    """
    draws = 4000
    ours = bayescontam.prior_predictive("single", GOOD, draws=draws, seed=4)["prior_predictive"]
    model = bayescontam.build_model("single", GOOD)
    tree = pm.sample_prior_predictive(
        draws, model=model, random_seed=4, var_names=["n_correct"],
        compile_kwargs={"mode": "FAST_COMPILE"},
    )  # fmt: skip
    sums = [
        each["n_correct"].sum("response").to_numpy().ravel()
        for each in (ours, tree["prior_predictive"])
    ]
    means = [each.mean() for each in sums]
    error = np.hypot(*(each.std() / np.sqrt(draws) for each in sums))
    assert means[0] == pytest.approx(means[1], abs=5 * error)
    squares = [(each - each.mean()) ** 2 for each in sums]
    error = np.hypot(*(each.std() / np.sqrt(draws) for each in squares))
    assert squares[0].mean() == pytest.approx(squares[1].mean(), abs=5 * error)


def test_power_analysis_is_that_of_the_command_line() -> None:
    sizes = bayescontam.SampleSizes(items=100, models=2)
    found = bayescontam.power_analysis("single", sizes, data_sets=20, seed=1)
    spec, wish = bayescontam.load_model("single"), PowerRequest(data_sets=20)
    pd.testing.assert_frame_equal(
        found.table, plan([sizes], bayescontam.Assumptions(), spec, wish, seed=1)
    )
    solved = bayescontam.power_analysis(
        "single", sizes, width=0.2, solve="items", data_sets=20, seed=1
    )
    assert solved.sizes is not None
    assert f"{solved.sizes.items:,} items" in solved.sentence
    with pytest.raises(UsageError, match="with solve give one"):
        bayescontam.power_analysis("single", [sizes, sizes], width=0.2, solve="items")
    with pytest.raises(UsageError, match="items: got 'many'; allowed is 2 or more"):
        bayescontam.SampleSizes(items="many")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="sizes: got no design"):
        bayescontam.power_analysis("single", [])
