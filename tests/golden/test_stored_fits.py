"""Fits and a curve that an earlier version stored: they load, and say what they said."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xarray as xr

import bayescontam
from tests.golden.expected import check_numbers, differences
from tests.golden.stored import FILES, FITS, fit_of, sampled_before

SAMPLER_SEED = 728186910
"""What a sampler is given where the seed of a fit is 7."""
NUMBERS = Path(__file__).parent / "numbers"


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table; what is missing is null."""
    found: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return found


def unchanged(check: dict[str, Any]) -> dict[str, Any]:
    """Return what is the same today: not the sentence of estimands, nor the limit of Pareto k."""
    name, changed = str(check["name"]), set[str]()
    names = "Reference in observed range", "Spillover apart from ability"
    if name.endswith("of estimands") or name in names:
        changed = {"sentence"}
    elif name == "Pareto k":  # of so few draws it is smaller
        changed = {"threshold", "outcome", "sentence"}
    elif name == "Prior predictive accuracy":  # a p-value now, by the number of scores
        changed = {"value", "threshold", "outcome", "sentence"}
    elif name == "LOO-PIT":  # whose random numbers are others
        changed = {"value", "sentence"}
    return {key: value for key, value in check.items() if key not in changed}


def corrected(name: str, group: str, stored: xr.Dataset) -> list[str]:
    """Return variables that were wrong or drawn with other random numbers, and are others now."""
    redrawn = ["pit"] if group == "loo" else []
    # The likelihood was that given the difficulties of each draw, and power-scaling used it.
    if name != "marginalised" or group not in ("loo", "sensitivity"):
        return redrawn
    likelihoods = [str(key) for key in stored.data_vars if str(key).endswith("likelihood")]
    return [*redrawn, *likelihoods]


def test_there_is_a_file_of_each_fit_and_no_other() -> None:
    assert {path.name for path in FILES.glob("*.xz")} == {
        f"{name}.nc.xz" for name in [*FITS, "curve"]
    }


@pytest.mark.parametrize("name", FITS)
def test_a_fit_says_what_it_said(stored: Path, name: str) -> None:
    fit = bayescontam.Fit.from_netcdf(stored / f"{name}.nc")
    ranking = bayescontam.rank_models(fit)
    found = {
        "spec": fit.spec.hash,
        "estimands": rows(fit.estimands()),
        "estimands at 0.5": rows(fit.estimands(0.5)[["ci_low", "ci_high"]]),
        "checks": [check.to_dict() for check in fit.checks()],
        "ranking": rows(ranking.table),
        "pairs": rows(ranking.pairs()),
        "sentences": ranking.sentences(),
        "raw accuracy": rows(fit.raw_accuracy().to_dataframe("raw").reset_index()),
        "better": rows(fit.p_better().to_dataframe("p").reset_index()),
        "draws": rows(fit.draws().iloc[::97]),
        "exposures": rows(fit.exposures()),
        "items": rows(fit.item_fit()),
        "confounding": rows(fit.confounding().iloc[::7]),
        "parameters": sorted(map(str, fit.joint_posterior().data_vars)),
    }
    check_numbers(NUMBERS / f"{name}.json", found)


@pytest.mark.parametrize("name", [name for name, stored in FITS.items() if stored.whole])
def test_all_that_follows_from_draws_is_what_it_was(stored: Path, name: str) -> None:
    before = bayescontam.Fit.from_netcdf(stored / f"{name}.nc")
    with sampled_before(before) as seeds:
        again = fit_of(FITS[name])
    assert seeds == [SAMPLER_SEED]
    # Densities of repeated trials were those of quadrature, and are those of a table.
    repeated = name in ("anchored", "repeated")
    # Later versions may store more, and never less.
    assert set(before.data.children) <= set(again.data.children)
    for group in sorted(set(before.data.children) - {"record"}):
        one, other = (fit.data[group].to_dataset() for fit in (before, again))
        assert set(one.variables) <= set(other.variables)
        more = [name for name in other.variables if name not in one.variables]
        fixed = corrected(name, group, one)
        assert all(not one[key].equals(other[key]) for key in fixed)
        one, other = one.drop_vars(fixed), other.drop_vars(fixed)
        atol = 3e-3 if repeated and group in ("log_likelihood", "loo", "sensitivity") else 1e-8
        xr.testing.assert_allclose(one, other.drop_vars(more), rtol=1e-6, atol=atol)
    hidden = {"created", "seconds", "versions", "command"}
    records = [{k: v for k, v in fit.record.items() if k not in hidden} for fit in (before, again)]
    for record in records:  # sentences whose words changed since
        record["checks"] = [unchanged(check) for check in record["checks"]]
    for record in records:  # a changed spec has its content as text
        text = record["spec"]["text"]
        record["spec"]["text"] = json.loads(text) if text.startswith("{") else text
    known = shared(json.loads(json.dumps(records[1])), records[0])
    assert differences(known, records[0], 1e-4 if repeated else 1e-6) == []


def shared(found: Any, before: Any) -> Any:
    """Return what is found under the keys that a record had before, in tables within tables."""
    if isinstance(found, dict) and isinstance(before, dict):
        return {key: shared(found[key], before[key]) for key in before if key in found}
    return found


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", ["compact", "latent_duplicate"])
def test_a_report_is_made_of_a_stored_fit(stored: Path, tmp_path: Path, name: str) -> None:
    fit = bayescontam.Fit.from_netcdf(stored / f"{name}.nc")
    fit.report(tmp_path / "page.html", tables=tmp_path / "tables")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    tables = {path.name: pd.read_csv(path) for path in (tmp_path / "tables").iterdir()}
    shapes = {key: [len(table), *table.columns] for key, table in tables.items()}
    check_numbers(NUMBERS / f"{name} tables.json", shapes)


def test_a_stored_fit_is_saved_and_read_again(stored: Path, tmp_path: Path) -> None:
    fit = bayescontam.Fit.from_netcdf(stored / "hierarchical.nc")
    fit.to_netcdf(tmp_path / "again.nc")
    again = bayescontam.Fit.from_netcdf(tmp_path / "again.nc")
    assert set(again.data.children) == set(fit.data.children)
    for group in fit.data.children:
        xr.testing.assert_identical(again.data[group].to_dataset(), fit.data[group].to_dataset())


def test_a_curve_says_what_it_said(stored: Path) -> None:
    curve = bayescontam.Curve.from_netcdf(stored / "curve.nc")
    found = {
        "spec": curve.spec.hash,
        "summary": rows(curve.summary()),
        "checks": [check.to_dict() for check in curve.checks()],
        "judged": rows(curve.judged),
        "names": [curve.benchmarks, curve.sources, curve.judges, curve.level],
    }
    check_numbers(NUMBERS / "curve.json", found)
