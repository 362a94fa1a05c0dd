"""A fit's outputs name the effect of contamination that it estimates, and no other."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.inference.findings import DIRECT_EFFECT, NO_EFFECT, TOTAL_EFFECT
from bayescontam.inference.ranking import rank_models
from bayescontam.inference.result import Fit
from bayescontam.inference.tables import side_by_side
from bayescontam.report.fit_page import render
from tests.cli.conftest import Done
from tests.support.made_fit import made_fit
from tests.support.pages import Parsed

Run = Callable[..., Done]
MODELS = [f"m{k}" for k in range(11)]
TOTAL_NAMES = re.compile(
    r"genuine[ _]ability(?![ _]\(?direct)|overfitting(?![ _]\(?direct| fraction \(direct"
    r"|_fraction_direct)",
    re.IGNORECASE,
)
"""Names of the total effect, as columns or in words."""
OF_DIRECT = [
    "accuracy", "genuine_ability_direct", "overfitting_direct", "overfitting_fraction_direct",
    "slope", "novelty_gap", "rank",
]  # fmt: skip
OF_TOTAL = [
    "accuracy", "genuine_ability", "genuine_ability_direct", "overfitting", "overfitting_direct",
    "overfitting_spillover", "overfitting_fraction", "slope", "novelty_gap", "rank",
]  # fmt: skip


@pytest.fixture(scope="module")
def direct() -> Fit:
    return made_fit(MODELS[:4], ["one", "two"], 6, 100)


@pytest.fixture(scope="module")
def total() -> Fit:
    return made_fit(MODELS, ["one", "two"], 6, 100, "spillover")


@pytest.fixture(scope="module")
def paths(direct: Fit, total: Fit, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fits")
    plain = made_fit(MODELS[:3], ["one", "two"], 6, 100, "ability")
    fits = {"direct": direct, "total": total, "none": plain}
    for name, fit in fits.items():
        fit.to_netcdf(folder / f"{name}.nc")
    return {name: folder / f"{name}.nc" for name in fits}


def test_a_fit_without_spillover_has_names_of_the_direct_effect_alone(direct: Fit) -> None:
    assert list(direct.data["estimands"].data_vars) == OF_DIRECT
    assert set(direct.estimands()["quantity"]) == {*OF_DIRECT, "p_best"}
    for table in (direct.summary(), direct.sensitivity(), direct.confounding()):
        assert TOTAL_NAMES.search(" ".join(table.columns)) is None
    assert {"genuine_ability_direct_low", "overfitting_direct_verdict"} <= {*direct.summary()}
    assert direct.rank().by == rank_models(direct, by="genuine_ability").by == OF_DIRECT[1]


def test_a_fit_with_spillover_has_the_total_effect_and_its_parts(total: Fit) -> None:
    draws = total.data["estimands"].to_dataset()
    assert list(draws.data_vars) == OF_TOTAL
    parts = draws["overfitting_direct"] + draws["overfitting_spillover"]
    for one, other in (
        (parts, draws["overfitting"]),
        (draws["accuracy"] - draws["overfitting"], draws["genuine_ability"]),
        (draws["accuracy"] - draws["overfitting_direct"], draws["genuine_ability_direct"]),
        (draws["overfitting"] / draws["accuracy"], draws["overfitting_fraction"]),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)  # stored to some digits
    assert float(np.abs(draws["overfitting_spillover"]).max()) > 0.01
    summary = total.summary()
    assert {"overfitting_verdict", "overfitting_direct_low", "overfitting_spillover"} <= {*summary}
    assert total.rank().by == "genuine_ability"
    assert total.rank(by="genuine_ability_direct").by == "genuine_ability_direct"


def test_fits_are_set_side_by_side(run: Run, paths: dict[str, Path], direct: Fit) -> None:
    files = [*paths.values()]
    done = run("summary", *files, "--quiet")
    assert re.search(rf"^direct: {re.escape(DIRECT_EFFECT)}", done.out, re.MULTILINE)
    rows = [line.split() for line in done.out.splitlines() if line.startswith("m0 ")]
    named = [next(word for word in row if word in ("accuracy", *OF_TOTAL)) for row in rows]
    assert [(*row[1:3], estimand) for row, estimand in zip(rows, named, strict=True)] == [
        (benchmark, fit, estimand)
        for benchmark in ("one", "two")
        for fit, estimand in (("direct", "genuine_ability_direct"), ("total", "genuine_ability"),
                              ("none", "accuracy"))
    ]  # fmt: skip
    wanted = direct.summary().set_index(["model", "benchmark"]).loc[("m0", "one")]
    assert f"{wanted['genuine_ability_direct']:.3f}" in rows[0]
    assert re.search(r"^none: .*checks", done.out, re.MULTILINE)
    done = run("summary", *files, "--quiet", "--format", "csv")
    table = pd.read_csv(io.StringIO(done.out), keep_default_na=False)
    assert list(table.columns[:2]) == ["fit", "model"]
    alone = run("summary", files[1], "--quiet", "--format", "csv")
    own = pd.read_csv(io.StringIO(alone.out), keep_default_na=False)
    found = table[table["fit"] == "total"].drop(columns="fit").reset_index(drop=True)
    pd.testing.assert_frame_equal(found[list(own)], own, check_dtype=False)
    done = run("summary", *files, "--quiet", "--format", "json")
    assert {name: fit["level"] for name, fit in json.loads(done.out).items()} == {
        "direct": 0.95, "total": 0.95, "none": 0.95
    }  # fmt: skip


def test_numbers_side_by_side_are_those_of_each_summary(direct: Fit, total: Fit) -> None:
    fits = {"direct": direct, "total": total}
    table = side_by_side(fits, {name: fit.estimands() for name, fit in fits.items()})
    assert len(table) == sum(len(fit.summary()) for fit in fits.values())
    for name, suffix in (("direct", "_direct"), ("total", "")):
        found = table[table["fit"] == name].set_index(["benchmark", "model"]).sort_index()
        own = fits[name].summary().set_index(["benchmark", "model"]).sort_index()
        assert (found["verdict"] == own[f"overfitting{suffix}_verdict"]).all()
        for end in ("", "_low", "_high"):
            for column, of in (("estimate", "genuine_ability"), ("overfitting", "overfitting")):
                np.testing.assert_array_equal(found[column + end], own[of + suffix + end])


@pytest.mark.usefixtures("undrawn")
def test_a_page_names_the_effect_that_is_estimated(direct: Fit, total: Fit) -> None:
    page = render(direct)
    text = " ".join(Parsed(page).text.split())
    text = text.partition("bayescontam report ")[2]  # what comes before is style
    assert [*TOTAL_NAMES.finditer(text)] == []
    assert not [alt for alt in re.findall(r'alt="([^"]*)"', page) if TOTAL_NAMES.search(alt)]
    first = text.partition("Results")[0]
    assert DIRECT_EFFECT in first
    assert re.search(r"Genuine ability \(direct\) ?Overfitting \(direct\)", text)
    assert TOTAL_EFFECT in " ".join(Parsed(render(total)).text.split())


@pytest.mark.parametrize(
    ("name", "line"), [("direct", DIRECT_EFFECT), ("total", TOTAL_EFFECT), ("none", NO_EFFECT)]
)
def test_the_first_line_states_the_effect(
    run: Run, paths: dict[str, Path], name: str, line: str
) -> None:
    for command in ("summary", "rank"):
        printed = run(command, paths[name], "-q").out
        assert printed.splitlines()[0] == line
        content = json.loads(run(command, paths[name], "-q", "--format", "json").out)
        assert next(iter(content.items())) == ("note", line)


def test_the_direct_effect_is_named_in_every_format(run: Run, paths: dict[str, Path]) -> None:
    shown = run("summary", paths["direct"], "-q").out.replace("\n", " ")
    assert "genuine ability" in shown
    for command in ("summary", "rank"):
        rows = pd.read_csv(io.StringIO(run(command, paths["direct"], "--format", "csv").out))
        whole = " ".join([*rows.columns, *rows.get("quantity", [])])
        assert TOTAL_NAMES.search(whole) is None
        json_text = run(command, paths["direct"], "--format", "json").out
        names = re.findall(r'"(?:quantity": ")?([a-z_]+)"', json_text)
        assert not [name for name in names if TOTAL_NAMES.search(name)]


def test_compared_fits_of_different_effects_have_a_line_each(
    run: Run, paths: dict[str, Path], total: Fit, tmp_path: Path
) -> None:
    other = made_fit(MODELS, ["one", "two"], 6, 100)
    other.to_netcdf(tmp_path / "other.nc")
    lines = run("compare", paths["total"], tmp_path / "other.nc", "-q").out.splitlines()
    assert lines[:2] == [f"total: {TOTAL_EFFECT}", f"other: {DIRECT_EFFECT}"]
