"""Many tables are fitted with one compilation for each layout."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import bayescontam
from bayescontam import CompiledModels, Fit, Fits, fit_many
from bayescontam.errors import UsageError
from bayescontam.inference import pipeline, reusable, sampling
from bayescontam.inference.many import _spelled
from bayescontam.inference.reusable import same
from bayescontam.model.build import build
from bayescontam.model.design import Design
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior

OPTIONS: dict[str, Any] = {"seed": 4, "draws": 500, "tune": 300, "chains": 2, "cores": 1}
MODEL = "single"


def week(seed: int, items: int = 30, steeper: float = 1.0, prefix: str = "q") -> pd.DataFrame:
    """Return responses of two models; `steeper` stretches contaminations."""
    rng = np.random.default_rng(seed)
    item = [f"{prefix}{k}" for k in range(items)]
    table = pd.DataFrame(
        {"model": np.repeat(["m", "n"], items), "benchmark": "b", "item": item * 2}
    )
    dose = np.tile(np.linspace(0.05, 0.6, items) * steeper, 2)
    correct = (rng.random(2 * items) < 0.3 + 0.5 * dose).astype(int)
    return table.assign(correct=correct, contamination=dose.round(4))


TABLES = {
    "first": week(1),
    "same layout": week(2, prefix="r"),
    "other doses": week(3, steeper=1.5),
    "first doses": week(4),
    "other layout": week(5, items=25),
}


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Fits, list[str]]]:
    """Fit all tables, and list what was compiled: counts alone, or doses too, as data."""
    compiled: list[str] = []

    def counted(model: Any, progress: bool = False) -> Any:
        compiled.append("doses" if "dose" in {v.name for v in model.data_vars} else "counts")
        return original(model, progress)

    original = reusable.compile_model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reusable, "compile_model", counted)
        yield fit_many(TABLES, "week", MODEL, **OPTIONS), compiled


def test_each_layout_is_compiled_once(made: tuple[Fits, list[str]]) -> None:
    assert made[1] == ["counts", "doses", "counts"]


@pytest.mark.parametrize("name", ["same layout", "other doses", "other layout"])
def test_fits_are_those_of_the_table_alone(made: tuple[Fits, list[str]], name: str) -> None:
    own = bayescontam.fit(TABLES[name], MODEL, **OPTIONS)
    many = made[0][name]
    one, other = (
        each.estimands().query("quantity != 'rank' and quantity != 'p_best'")
        for each in (own, many)
    )
    assert one["model"].tolist() == other["model"].tolist()
    error = np.hypot(one["sd"] / np.sqrt(one["ess_bulk"]), other["sd"] / np.sqrt(other["ess_bulk"]))
    # 5.5 standard errors in each of 20 comparisons: a false alarm in less than one of 10⁵ runs.
    assert (np.abs(one["mean"].to_numpy() - other["mean"].to_numpy()) < 5.5 * error + 1e-12).all()
    np.testing.assert_allclose(one["sd"].to_numpy(), other["sd"].to_numpy(), rtol=0.3)
    assert many.record["data"]["hash"] == own.record["data"]["hash"]
    assert many.record["seed"] == 4


def test_fits_have_labels_of_their_own(made: tuple[Fits, list[str]]) -> None:
    groups = made[0]["same layout"].data.children.values()
    items = [group["item"].to_numpy() for group in groups if "item" in group.coords]
    assert items
    assert {str(name)[0] for name in np.concatenate(items)} == {"r"}


def test_tables_of_all_fits(made: tuple[Fits, list[str]]) -> None:
    fits = made[0]
    assert list(fits) == list(TABLES)
    assert fits.summary()["week"].tolist() == [name for name in TABLES for _ in "mn"]
    overview = fits.overview()
    assert overview["week"].tolist() == list(TABLES)
    assert overview["responses"].tolist() == [60, 60, 60, 60, 50]
    assert (overview.iloc[:, 6:].sum(axis=1) == 2).all()


def test_the_overview_counts_verdicts_on_the_effect() -> None:
    """A slope that surely falls is shown; that scores rise with contamination is not."""
    rows = [
        (f"i{i}", int(i % 10 == 0 if i < 30 else i % 10 != 0), float(i < 30)) for i in range(60)
    ]
    table = pd.DataFrame(rows, columns=["item", "correct", "contamination"])
    fits = fit_many({"w": table.assign(model="falls", benchmark="b")}, None, MODEL, **OPTIONS)
    headline, overview = fits.summary(), fits.overview()
    assert headline["slope_verdict"].tolist() == ["shown"]
    assert headline["overfitting_direct_verdict"].tolist() == ["opposite sign"]
    assert overview.columns[6:].tolist() == ["opposite sign"]


def test_fits_of_other_dates_are_not_those_of_these(tmp_path: Path) -> None:
    days = [f"2024-{1 + i // 10:02d}-01" for i in range(40)]
    table = pd.DataFrame(
        {"model": "m", "benchmark": "b", "item": [f"i{i}" for i in range(40)],
         "correct": [0, 1] * 20, "released": days}
    )  # fmt: skip
    cutoff, folder = tmp_path / "cutoff.csv", tmp_path / "fits"
    options = OPTIONS | {"draws": 100, "tune": 100}
    for date in ("2024-01-15", "2024-03-15"):
        cutoff.write_text(f"model,cutoff\nm,{date}\n")
        made = {"folder": folder, "dates": bayescontam.Dates(cutoff=cutoff), **options}
        if date == "2024-01-15":
            with drawn_from_prior():
                fit_many({"w": table}, None, MODEL, **made)
            continue
        with pytest.raises(UsageError, match="its fits were made with another 'dates'"):
            fit_many({"w": table}, None, MODEL, **made)
    first, second = (
        bayescontam.Dates(pd.DataFrame({"item": range(100), "released": day}))
        for day in (["2024-01-01"] * 100, ["2024-01-01"] * 50 + ["2025-01-01"] * 50)
    )
    assert _spelled(first) != _spelled(second)


def test_a_column_of_that_name_is_no_obstacle(made: tuple[Fits, list[str]]) -> None:
    fits = Fits({"a": made[0]["first"]}, "draws")
    assert fits.overview().columns[0] == "draws (part)"
    assert fits.summary().columns[0] == "draws"


def test_covariates_are_read_once_for_all(tmp_path: Path) -> None:
    path = tmp_path / "covariates.csv"
    first = TABLES["first"]
    first.drop_duplicates("item")[["benchmark", "item", "contamination"]].assign(
        contamination=lambda t: 100 * t["contamination"]
    ).to_csv(path, index=False)
    tables = {1: first.drop(columns="contamination"), 2: week(2).drop(columns="contamination")}
    options = OPTIONS | {"draws": 100, "tune": 100}
    with drawn_from_prior():
        fits = fit_many(
            tables,  # type: ignore[arg-type]
            None,
            MODEL,
            covariates=path,
            contamination_scale="percent",
            **options,
        )
        own = bayescontam.fit(first, MODEL, **options)
    assert list(fits) == ["1", "2"]
    assert fits["1"].record["data"]["hash"] == own.record["data"]["hash"]
    assert "overfitting_direct" in set(fits["2"].estimands()["quantity"])


def test_a_model_is_given_again_where_only_counts_differ() -> None:
    spec = load_model(MODEL)
    built = [
        build(spec, bayescontam.Responses.from_frame(TABLES[n])) for n in ("first", "first doses")
    ]
    models = CompiledModels()
    first, second = (models.of(each) for each in built)
    assert first.density.compiled_logp_func is second.density.compiled_logp_func
    assert models.prior(built[0], 1) is models.prior(built[1], 1)
    assert models.prior(built[0], 2) is not models.prior(built[0], 1)


def test_fields_that_may_differ_are_fields_of_designs() -> None:
    assert {field.name for field in fields(Design)} >= reusable._DOSES


def test_designs_are_compared_by_all_other_fields() -> None:
    spec = load_model(MODEL)
    tables = [TABLES["first"], TABLES["first"].assign(item=lambda t: t["item"] + "x"), week(1, 25)]
    one, renamed, shorter = (
        build(spec, bayescontam.Responses.from_frame(table)).design for table in tables
    )
    assert not same(one, renamed)
    assert same(one, renamed, {"items", "centring"})
    assert not same(one, shorter, reusable._DOSES)


def test_fits_of_long_names_have_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts may be longer than what file systems take for a name, and differ at their ends."""
    fitted = []

    def stored(table: Any, *_: Any, **options: Any) -> Any:
        fitted.append(table)
        return SimpleNamespace(to_netcdf=lambda path: path.write_text(str(len(fitted))))

    monkeypatch.setitem(fit_many.__globals__, "fit", stored)
    names = ["long " * 80 + end for end in "ab"] + ["§" * 60, "short"]
    tables = dict.fromkeys(names, TABLES["first"])
    for _ in range(2):
        fits = fit_many(tables, "prompt", "ability", folder=tmp_path / "fits", seed=1)
        assert list(fits) == names
        assert len(fitted) == 4
    found = {path.name: path.read_text() for path in (tmp_path / "fits").glob("*.nc")}
    assert sorted(found.values()) == ["1", "2", "3", "4"]
    assert found["short.nc"] == "4"
    assert max(map(len, found)) == 203


def test_a_folder_of_fits_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, tables = tmp_path / "fits", {n: TABLES[n] for n in ("first", "same layout")}
    fitted: list[str] = []

    def stopping(table: Any, *_: Any, **options: Any) -> Fit:
        name = next(n for n, t in tables.items() if len(t) == len(table.frame)
                    and t["correct"].tolist() == table.frame["n_correct"].tolist())  # fmt: skip
        if name in stop:
            raise KeyboardInterrupt
        fitted.append(name)
        with drawn_from_prior():
            return original(table, *_, **options)

    original = fit_many.__globals__["fit"]
    monkeypatch.setitem(fit_many.__globals__, "fit", stopping)
    options = OPTIONS | {"draws": 100, "tune": 100}
    stop = {"same layout"}
    with pytest.raises(KeyboardInterrupt):
        fit_many(tables, "week", "ability", folder=folder, **options)
    assert sorted(p.name for p in folder.glob("*")) == [".lock", "first.nc", "fits.json"]
    stop = set()
    fit_many(tables, "week", "ability", folder=folder, **options)
    assert fitted == ["first", "same layout"]
    of_numpy = {"draws": np.int64(100), "seed": np.int64(options["seed"])}
    fits = fit_many(tables, "week", "ability", folder=folder, **options | of_numpy)
    assert fitted == ["first", "same layout"]
    assert fits["first"].record["seed"] == 4
    tables = {"first": TABLES["first"], "same layout": TABLES["first doses"], "third": week(8)}
    fit_many(tables, "week", "ability", folder=folder, **options)
    assert fitted == ["first", "same layout", "same layout", "third"]
    with pytest.raises(UsageError, match="its fits were made with another 'draws'; choose"):
        fit_many(tables, "week", "ability", folder=folder, **options | {"draws": 101})


@pytest.mark.parametrize(
    ("tables", "each", "message"),
    [
        ({}, None, "got no tables; at least one is needed"),
        (week(1), None, "each: name the column that the table is split by"),
        (week(1).assign(night="a"), "nights", "has no column 'nights'"),
    ],
)
def test_what_cannot_be_fitted(tables: Any, each: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit_many(tables, each, MODEL, **OPTIONS)


def test_errors_name_the_table() -> None:
    alone = {"first": week(1).drop(columns="contamination")}
    with pytest.raises(bayescontam.errors.BayescontamError, match="first"):
        fit_many(alone, "week", "hierarchical", **OPTIONS | {"reference": "most"})


class TestDrawsByNeed:
    """Few draws, and more where checks of the sampler want them."""

    def test_few_suffice(self) -> None:
        fitted = bayescontam.fit(TABLES["first"], "ability", seed=1, draws="auto")
        assert fitted.record["sampling"]["draws"] in sampling.AUTO_DRAWS[:3]
        assert not any(c.outcome == "failed" for c in fitted.checks())

    def test_more_are_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sampling, "AUTO_DRAWS", (30, 50, 900))
        fitted = bayescontam.fit(TABLES["first"], "ability", seed=1, draws="auto", chains=4)
        tune = fitted.record["sampling"]["tune"]
        assert tune in sampling.AUTO_TUNE
        assert fitted.record["sampling"]["draws"] == fitted.data["posterior"].sizes["draw"] == 900
        # Those of a fit of that length, which nothing interrupts.
        whole = bayescontam.fit(TABLES["first"], "ability", seed=1, draws=900, tune=tune, chains=4)
        for name, values in whole.data["posterior"].data_vars.items():
            np.testing.assert_array_equal(values, fitted.data["posterior"][name])
        assert {c.name: c.value for c in whole.checks()} == {
            c.name: c.value for c in fitted.checks()
        }

    def test_what_disagrees_is_not_judged(self, monkeypatch: pytest.MonkeyPatch) -> None:
        judged, original = [], pipeline._judged

        def counted(posterior: xr.Dataset, *given: Any) -> Any:
            judged.append(posterior.sizes["draw"])
            return original(posterior, *given)

        monkeypatch.setattr(sampling, "AUTO_DRAWS", (30, 900))
        monkeypatch.setattr(pipeline, "_judged", counted)
        bayescontam.fit(TABLES["first"], "ability", seed=1, draws="auto", chains=4)
        assert judged == [900]

    @pytest.mark.parametrize("diverged", [[], [700], [1000], [700, 1000]])
    def test_tuning_is_longer_where_a_transition_diverged(self, diverged: list[int]) -> None:
        made: list[tuple[int, int]] = []

        class Stub:
            """Stands in for a compiled model, of which transitions of the first run diverge."""

            @contextmanager
            def running(self, draws: int, tune: int, **_: Any) -> Iterator[Any]:
                def first(count: int, _: Any) -> Any:
                    made.append((count, tune))
                    shape = 4, count
                    zeros = {n: np.zeros(shape) for n in ("energy", "depth", "n_steps")}
                    apart = np.full(shape, count in diverged and tune == 400)
                    return {"x": np.zeros(shape)}, zeros | {"diverging": apart}

                assert draws == sampling.AUTO_DRAWS[-1]
                yield first

        with pm.Model() as model:
            pm.Normal("x")
        compiled: Any = Stub()
        drawn = list(sampling.draw_by_need(model, sampling.Sampling(), 1, False, compiled))
        lengths = list(sampling.AUTO_DRAWS)
        assert [count for count, _ in made] == lengths
        last = min(diverged, default=lengths[-1])
        assert [tune for _, tune in made] == [400 if n <= last else 700 for n in lengths]
        assert [each.last for each in drawn] == [False] * 4 + [True]
        assert [(each.sampling.draws, each.sampling.tune) for each in drawn] == made

    def test_other_engines_start_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sampling, "sample_model", lambda *given: (xr.Dataset(), given[1]))
        own = sampling.Sampling(engine="pymc", tune=500)
        drawn = list(sampling.draw_by_need(pm.Model(), own, 1, False))
        lengths = [(each.sampling.draws, each.sampling.tune) for each in drawn]
        assert lengths == [(700, 400), (1500, 500), (4500, 500)]
        assert [each.last for each in drawn] == [False, False, True]

    def test_other_words_are_refused(self) -> None:
        with pytest.raises(UsageError, match="draws: got 'many'; allowed are a number or 'auto'"):
            bayescontam.fit(TABLES["first"], "ability", draws="many")  # type: ignore[arg-type]
