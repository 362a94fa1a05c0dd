import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.calibration.coverage import ALL, coverage_table
from bayescontam.calibration.findings import coverage_rows, off, verdict
from bayescontam.calibration.results import StudyResults
from bayescontam.errors import UsageError
from bayescontam.inference.checks import Outcome
from bayescontam.published.findings import NO_INTERVAL
from bayescontam.report import study_tables
from bayescontam.report.published_page import comparison_of
from bayescontam.report.study_page import _reach, design, render_study, write_study_report
from bayescontam.report.study_tables import _figure, published_rows
from bayescontam.specs.study import StudySpec
from tests.support.pages import Parsed
from tests.support.study_rows import made_rows
from tests.support.study_run import HOSTILE, faulty, study_text, write_run

GRID = "[grid]\nslope = [0, 2]\ncontamination_sd = [0.02, 0.2]\n"
CELLS = [f"slope={s}, contamination_sd={sd}" for s in (0, 2) for sd in (0.02, 0.2)]
NAMES = ("exact", "narrow", "bootstrap")


def gridded(replicates: int = 60) -> dict[str, pd.DataFrame]:
    """Rows of three estimators in four cells; the data of a cell are the same for all."""
    rows = {}
    for number, cell in enumerate(CELLS):
        for name, narrow in zip(NAMES, (1.0, 2.0, 3.0), strict=True):
            for quantity in (
                "theta",
                "slope",
                "genuine_ability_direct",
                "genuine_ability_direct_nominal",
            ):
                table = made_rows(
                    replicates, number, narrow=narrow, estimator=name, quantity=quantity, cell=cell
                )
                if name == "bootstrap":
                    table = table.assign(engine="bootstrap", rank=-1, ranks=0)
                rows[f"{number}-{name}-{quantity}"] = table
    return rows


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    text = study_text(names=("exact", "narrow"))
    return StudyResults.load(write_run(tmp_path_factory.mktemp("study") / "run", faulty(), text))


@pytest.fixture(scope="module")
def html(results: StudyResults) -> str:
    return render_study(results)


@pytest.fixture(scope="module")
def page(html: str) -> Parsed:
    return Parsed(html)


@pytest.fixture(scope="module")
def grid_results(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    text = study_text("fixed", GRID, NAMES)
    folder = tmp_path_factory.mktemp("grid") / "run"
    return StudyResults.load(write_run(folder, gridded(), text, 100))


@pytest.fixture(scope="module")
def grid_html(grid_results: StudyResults) -> str:
    return render_study(grid_results)


def words(html: str) -> str:
    return " ".join(Parsed(html).text.split())


def test_the_page_says_what_it_must(results: StudyResults, html: str) -> None:
    text, sampling = words(html), results.spec.sampling
    for said in (
        "All 400 simulated tables are fitted. 8 of 800 fits failed their gates, and count.",
        "Ranks are not uniform for 2 of 5 quantities: genuine ability (direct) model",
        "of 'narrow': intervals too narrow, by a factor of about 1.",
        "drawn from the prior of the model spec 'single'",
        "A table has 1 model, 1 benchmark of 200 items, and 1 trial of each response.",
        f"chains of {sampling.tune:,} + {sampling.draws:,} draws.",
        "ab" * 32,
        "400 simulated tables, 2 estimators, 800 fits so far.",
    ):
        assert said in text, said
    assert "nan" not in text.lower().split()


def test_the_verdict_is_that_of_the_worst(results: StudyResults) -> None:
    outcome, sentence = verdict(results)
    assert outcome.value == "failed"
    row = results.coverage.query(
        "estimator == 'narrow' and level == 0.95 and counted == 'all fits'"
    )
    share = f"{100 * row['coverage'].iloc[0]:.1f} %"
    assert (
        f"'narrow': its 95 % intervals hold the truth in: genuine ability (direct) {share}"
        in sentence
    )
    assert "1 of 1 coverages are too low by more than chance" in sentence


def test_a_right_study_passes(tmp_path: Path) -> None:
    rows = {"a": made_rows(300, 1, quantity="genuine_ability_direct"), "b": made_rows(300, 2)}
    results = StudyResults.load(write_run(tmp_path / "run", rows, study_text(), 300))
    outcome, sentence = verdict(results)
    assert outcome.value == "passed"
    assert "Ranks of 2 quantities: no departure from uniform found (least adjusted p " in sentence
    assert "300 ranks show, 8 times in 10, intervals that are too narrow by a factor of" in sentence
    assert "too low" not in sentence


def test_quantities_that_lack_ranks_are_not_reported_to_be_uniform(tmp_path: Path) -> None:
    rows = made_rows(300, 1)
    rows.loc[:13, ["rank", "ranks"]] = [-1, 0]
    rows.loc[:13, "status"] = "failed"
    results = StudyResults.load(write_run(tmp_path / "run", {"a": rows}, study_text(), 300))
    outcome, sentence = verdict(results)
    assert outcome.value == results.sbc["outcome"].iloc[0] == "caution"
    assert "Ranks of 1 of 1 quantities decide little" in sentence
    assert "14 fits have no rank" in sentence
    assert "no departure" not in sentence


def test_few_ranks_pass_no_study(tmp_path: Path) -> None:
    """They find none but gross faults, so that finding none says little."""
    folder = write_run(tmp_path / "run", {"a": made_rows(20, 1)}, study_text(), 20)
    outcome, sentence = verdict(StudyResults.load(folder))
    assert outcome.value == "caution"
    assert "That is little: request more replicates." in sentence


def test_tables_without_a_truth_are_reported(tmp_path: Path) -> None:
    rows = made_rows(300, 1)
    rows.loc[:29, "truth"] = np.nan
    rows.loc[:29, ["rank", "ranks"]] = [-1, 0]
    results = StudyResults.load(write_run(tmp_path / "run", {"a": rows}, study_text(), 300))
    outcome, sentence = verdict(results)
    assert outcome.value == "caution"
    assert (
        "is undefined in 10.0 % of fits, at the truth or in some draws; they are left" in sentence
    )
    table = results.coverage
    assert (table["n"].unique().tolist(), table["n_undefined"].unique().tolist()) == ([270], [30])
    assert results.sbc["n_without"].tolist() == [30]


def test_a_formula_without_a_value_in_some_draws_is_reported_and_counts_nowhere(
    tmp_path: Path,
) -> None:
    """Its intervals would be those of another quantity, and are no misses."""
    rows = made_rows(300, 1)
    held = StudyResults.load(write_run(tmp_path / "whole", {"a": rows[150:]}, study_text(), 150))
    bounds = [name for name in rows if name.startswith(("low_", "high_"))]
    rows.loc[:149, ["mean", "sd", *bounds]] = np.nan
    rows.loc[:149, ["rank", "ranks"]] = [-1, 0]
    rows.loc[0, "truth"] = -np.inf
    results = StudyResults.load(write_run(tmp_path / "run", {"a": rows}, study_text(), 300))
    sentence = verdict(results)[1]
    assert "is undefined in 50.0 % of fits" in sentence
    assert "too low by more than chance" not in sentence
    assert results.coverage["n_undefined"].unique().tolist() == [150]
    pd.testing.assert_series_equal(results.coverage["coverage"], held.coverage["coverage"])


def test_a_quantity_that_never_has_a_rank_is_not_passed_over(tmp_path: Path) -> None:
    never = made_rows(300, 2, quantity="log_ratio").assign(mean=np.nan, rank=-1, ranks=0)
    rows = pd.concat([made_rows(300, 5), never], ignore_index=True)
    results = StudyResults.load(write_run(tmp_path / "run", {"a": rows}, study_text(), 300))
    row = results.sbc.set_index("quantity").loc["log_ratio"]
    assert (row["n"], row["n_without"], row["outcome"]) == (0, 300, "caution")
    outcome, sentence = verdict(results)
    assert outcome.value == "caution"
    assert "log ratio of 'exact': too few ranks to be tested: 0; it needs 10" in sentence


def test_what_ranks_could_show_goes_by_one_estimator_and_by_their_draws(tmp_path: Path) -> None:
    names = [f"e{i}" for i in range(6)]
    alike = [made_rows(70, 1, estimator=name, where=tuple("abcdefgh")) for name in names]
    for few, enough in ((False, True), (True, False)):
        rows = pd.concat(alike, ignore_index=True)
        if few:
            rows = rows.assign(rank=rows["rank"] // 10, ranks=9)
        folder = write_run(tmp_path / str(few), {"a": rows}, study_text(names=names), 70)
        assert ("That is little" not in verdict(StudyResults.load(folder))[1]) == enough


def test_many_failed_fits_fail_a_study(tmp_path: Path) -> None:
    rows = made_rows(100, 1).assign(status=["failed"] * 6 + ["passed"] * 94)
    results = StudyResults.load(write_run(tmp_path / "run", {"a": rows}, study_text(), 100))
    assert verdict(results)[0].value == "failed"
    fewer = made_rows(100, 1).assign(status=["failed"] * 5 + ["passed"] * 95)
    results = StudyResults.load(write_run(tmp_path / "other", {"a": fewer}, study_text(), 100))
    assert verdict(results)[0].value == "passed"


def test_the_baseline_and_other_truths_change_no_outcome(tmp_path: Path) -> None:
    off = made_rows(100, 1, narrow=4.0)
    rows = {
        "a": made_rows(100, 1), "b": off.assign(estimator="bootstrap", engine="bootstrap"),
        "c": off.assign(quantity="mu_nominal"),
    }  # fmt: skip
    text = study_text("fixed", names=("exact", "bootstrap"))
    outcome, sentence = verdict(StudyResults.load(write_run(tmp_path / "run", rows, text, 100)))
    assert outcome.value == "passed"
    assert sentence.count("too low by more than chance") == 1


def test_error_bars_of_shares_end_at_0_and_1() -> None:
    table = pd.DataFrame({"coverage": [1.0, 0.95, 0.5, 0.01, 0.9], "mc_se": 4 * [0.1] + [np.nan]})
    wanted = [[0.196, 0.196, 0.196, 0.01, 0], [0, 0.05, 0.196, 0.196, 0]]
    np.testing.assert_allclose(_reach(table), wanted, atol=1e-12)


def test_coverage_by_cell_has_estimands_first(grid_results: StudyResults) -> None:
    rows = coverage_rows(grid_results)
    assert list(dict.fromkeys(row["quantity"] for row in rows)) == [
        "genuine_ability_direct", "genuine_ability_direct_nominal", "slope", "theta",
    ]  # fmt: skip
    assert [row["cell"] for row in rows[:12:3]] == CELLS
    assert [row["estimator"] for row in rows[:3]] == list(NAMES)
    reported = grid_results.coverage.set_index(
        ["cell", "quantity", "estimator", "counted", "level"]
    )
    for row in rows:
        key = row["cell"], row["quantity"], row["estimator"], "all fits"
        expected = [reported.loc[(*key, level), "coverage"] for level in (0.5, 0.8, 0.9, 0.95)]
        assert [level["coverage"] for level in row["levels"]] == expected


def test_marks_show_what_is_off_by_more_than_three_errors() -> None:
    row = {"coverage": 0.90, "level": 0.95, "mc_se": 0.016, "replicates": 300}
    assert off(row) == "low"
    assert off(row | {"mc_se": 0.017}) == ""
    assert off(row | {"coverage": 0.99, "mc_se": 0.006}) == "high"
    # All of 12 held at 80 % is no wonder (0.8 ** 12 is 0.07), all of 200 at 80 % is one.
    all_held = {"coverage": 1.0, "level": 0.8, "mc_se": 0.066, "replicates": 12}
    assert off(all_held) == ""
    assert off(all_held | {"mc_se": 0.005, "replicates": 200}) == "high"
    assert off(row | {"mc_se": float("nan"), "replicates": 1}) == ""


def test_marks_are_rare_where_coverage_is_right() -> None:
    cells = [made_rows(30, seed, cell=f"slope={seed}") for seed in range(100)]
    table = coverage_table(pd.concat(cells))
    rows = table[table["counted"] == "all fits"].to_dict("records")
    assert sum(bool(off(row)) for row in rows) <= 0.02 * len(rows)


def test_an_unfinished_run_says_how_far_it_is(grid_html: str) -> None:
    assert '<p class="verdict caution" id="verdict">Not finished: 240 of 400' in grid_html
    text = words(grid_html)
    assert "240 of 400 simulated tables are fitted (60.0 %)." in text
    assert "4 cells" in text
    assert "slope varies from cell to cell: 0, 2." in text
    assert 'id="ranks"' not in grid_html


def test_a_run_without_rows_has_a_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {}, study_text("published"), 1000)
    write_study_report(folder)
    text = words((folder / "index.html").read_text(encoding="utf-8"))
    assert "Not finished: 0 of 1,000 simulated tables are fitted (0.0 %)." in text
    assert "accuracy = 0.35 + 0.3 × contamination; all drawn anew for each table." in text
    assert "No fit is on disk yet." in text


def test_fits_are_counted_by_what_became_of_them(results: StudyResults) -> None:
    rows = {(row["estimator"], row["engine"]): row for row in study_tables.fit_rows(results)}
    exact = rows["exact", "nutpie"]
    assert [exact[name] for name in ("fits", "passed", "rerun", "failed")] == [400, 372, 20, 8]
    assert exact["total"] == pytest.approx(200)
    assert rows["exact", "pymc (audit)"]["fits"] == 2


def test_reasons_are_those_of_the_last_try(results: StudyResults) -> None:
    rows = study_tables.reason_rows(results)
    assert [(row["status"], row["kind"], row["fits"]) for row in rows] == [
        ("rerun", "R-hat of theta", 20), ("failed", "ESS of mu", 8),
        ("failed", "R-hat of theta", 8),
    ]  # fmt: skip
    assert rows[2]["example"] == "R-hat 1.203 of theta (2, 1)"


def test_failures_are_counted_in_three_ways(results: StudyResults, html: str) -> None:
    rows = {row["quantity"]: row for row in study_tables.failure_rows(results)}
    everything, without, missed = rows["beta_bar"]["coverages"]
    assert missed == pytest.approx(without * 392 / 400)
    assert missed < everything
    assert "With and without failed fits" in html


def test_pictures_say_in_words_what_they_show(page: Parsed) -> None:
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) == 4
    assert "Coverage of 95 % intervals over 2 quantities: exact 0.94 to 0.95" in images[0]["alt"]
    assert re.search(r"for 5 quantities: [23] leave the envelope", str(images[2]["alt"]))
    assert re.search(r"every level.* for 5 quantities: [1-3] leave the env", str(images[3]["alt"]))


def test_links_ids_and_what_is_outside(page: Parsed, html: str, grid_html: str) -> None:
    for parsed in (page, Parsed(grid_html)):
        ids = [attrs["id"] for _, attrs in parsed.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        links = [str(attrs["href"]) for tag, attrs in parsed.tags if tag == "a"]
        assert {"#design", "#coverage", "#fits", "#provenance"} <= set(links)
        assert all(link[0] == "#" and link[1:] in ids for link in links)
        for _, attrs in parsed.tags:
            for name in ("src", "href"):
                assert str(attrs.get(name) or "#").startswith(("#", "data:"))
    assert not re.search(r"url\(|@import", html)


def test_hostile_text_is_text(html: str, page: Parsed) -> None:
    assert "<script" not in html
    assert "\x07" not in html
    assert HOSTILE.replace("\x07", "\\x07") in page.text


def test_the_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"a": made_rows(20, 1)}, study_text())
    before = {path.name for path in folder.iterdir()}
    write_study_report(folder)
    found = {path.name for path in folder.iterdir()}
    assert found - before == {"coverage.csv", "sbc.csv", "index.html"}
    assert (folder / "index.html").read_text(encoding="utf-8").endswith("</html>")
    with pytest.raises(UsageError, match="holds no run"):
        write_study_report(tmp_path)


@pytest.fixture(params=[1200, 800])
def opened(
    request: pytest.FixtureRequest, browser: Any, html: str, grid_html: str, tmp_path: Path
) -> tuple[Any, Path]:
    for name, text in (("prior", html), ("grid", grid_html)):
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    browser.set_window_size(request.param, 900)
    return browser, tmp_path


@pytest.mark.browser
@pytest.mark.parametrize("name", ["prior", "grid"])
def test_the_page_in_a_browser(opened: Any, name: str) -> None:
    browser, folder = opened
    browser.get((folder / f"{name}.html").as_uri())
    assert browser.get_log("browser") == []
    assert browser.title == "bayescontam study: made"
    for image in browser.find_elements("tag name", "img"):
        assert int(image.get_property("naturalWidth")) > 0
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    width = browser.execute_script("return document.documentElement.clientWidth")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_printed_figures_stand_beside_those_of_every_estimator(tmp_path: Path) -> None:
    rows = {
        name: made_rows(50, k, estimator=name, quantity="genuine_ability_direct", narrow=1.0 + k)
        for k, name in enumerate(("exact", "bootstrap"))
    }
    text = 'published = "arc_recovery"\n' + study_text(names=("exact", "bootstrap"))
    results = StudyResults.load(write_run(tmp_path / "run", rows, text, 50))
    table = published_rows(results)
    found = {(row["quantity"], row["figure"]): row for row in table}
    coverage = found["genuine ability (direct)", "coverage of 95 % intervals"]
    assert (coverage["published"], coverage["of"]) == ("0.780", "bootstrap")
    for name, text in coverage["ours"]:
        own = rows[name]
        share = ((own["low_95"] <= own["truth"]) & (own["truth"] <= own["high_95"])).mean()
        assert text.startswith(f"{share:.3f} ± ")
    mean = dict(found["genuine ability (direct)", "mean of the estimates"]["ours"])
    assert mean["exact"] == f"{rows['exact']['mean'].mean():.3f}"
    sd = dict(found["genuine ability (direct)", "standard deviation of the estimates"]["ours"])
    assert sd["bootstrap"] == f"{np.std(rows['bootstrap']['mean'], ddof=1):.3f}"
    missing = found["overfitting fraction (direct)", "coverage of 95 % intervals"]["ours"]
    assert dict(missing) == {"exact": "–", "bootstrap": "–"}
    html = render_study(results)
    assert "Published beside ours" in html
    assert "Section 3.6" in html
    table = comparison_of(tmp_path / "run").set_index("quantity")
    one = table.loc["genuine ability (direct), coverage of 95 % intervals"]
    own = rows["bootstrap"]
    share = ((own["low_95"] <= own["truth"]) & (own["truth"] <= own["high_95"])).mean()
    assert (one["published"], one["ours"], one["where"]) == (0.78, share, "bootstrap")
    assert one["ours_high"] - one["ours"] == pytest.approx(one["ours"] - one["ours_low"])
    assert table.loc["genuine ability (direct), mean of the estimates", "agreement"] == NO_INTERVAL
    assert "overfitting fraction (direct), coverage of 95 % intervals" not in table.index


def test_the_page_ends_with_what_the_study_says_of_its_results(tmp_path: Path, html: str) -> None:
    text = 'meaning = "<i>One.\\n\\nTwo."\nlimits = "Three."\n' + study_text(names=("exact",))
    page = render_study(StudyResults.load(write_run(tmp_path / "run", faulty(), text)))
    assert "<p>&lt;i&gt;One.</p>\n<p>Two.</p>" in page
    assert page.index("What it means</h2>") < page.index("What it does not mean</h2>")
    assert "What it means" not in html


def test_a_study_of_which_nothing_is_printed_is_compared_with_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "run", faulty(), study_text(names=("exact", "narrow")))
    with pytest.raises(UsageError, match="is of a study of which nothing is printed"):
        comparison_of(tmp_path / "run")


def test_a_figure_of_several_cells_is_none_to_set_beside_the_printed_one() -> None:
    own = {"quantity": "slope", "estimator": "exact", "audit": False}
    rows = pd.DataFrame([{"cell": cell, "mean": 0.5, **own} for cell in ("a", "a", "b")])
    table = pd.DataFrame(
        [{"cell": c, "counted": ALL, "level": 0.95, "coverage": 0.9, "mc_se": 0.1} for c in "ab"]
    ).assign(**own)
    both = SimpleNamespace(rows=rows, coverage=table)
    one = SimpleNamespace(rows=rows[:2], coverage=table[:1])
    for kind, text in {"coverage": "0.900 ± 0.100", "mean": "0.500", "sd": "0.000"}.items():
        assert _figure(both, kind, "slope", "exact") == "–"  # type: ignore[arg-type]
        assert _figure(one, kind, "slope", "exact") == text  # type: ignore[arg-type]


def test_a_study_without_printed_figures_has_no_such_part(html: str) -> None:
    assert "Published beside ours" not in html


def test_a_cell_whose_fits_fail_is_not_hidden_by_the_others(tmp_path: Path) -> None:
    rows = gridded(20)
    of = "1-narrow-theta"
    failing = (rows[of]["replicate"] < 2).map({True: "failed", False: "passed"})
    for name in rows:
        if name.startswith("1-narrow"):
            rows[name] = rows[name].assign(status=failing)
    text = study_text("fixed", GRID, NAMES)
    outcome, said = verdict(StudyResults.load(write_run(tmp_path / "run", rows, text, 20)))
    assert outcome.value == "failed"
    assert f"2 of 240 fits failed their gates, and count. Most are of 'narrow', {CELLS[1]}" in said


def test_engines_that_do_not_agree_are_reported(tmp_path: Path) -> None:
    rows = made_rows(400, 1, where=("1", "2"))
    second = rows[rows["replicate"] < 40].assign(audit=True, engine="pymc")
    noise = np.random.default_rng(1).normal(size=len(second))
    outcomes = []
    for name, size in (("alike", 1.0), ("apart", 3.0)):
        error = np.sqrt(2) * second["mcse"]
        audited = second.assign(mean=second["mean"] + size * noise * error)
        tables = {"rows": pd.concat([rows, audited])}
        outcome, said = verdict(StudyResults.load(write_run(tmp_path / name, tables, study_text())))
        outcomes.append((outcome.value, "Engines do not agree on 'exact'" in said))
    assert outcomes == [("passed", False), ("caution", True)]


def test_rows_of_several_versions_are_a_caution(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"rows": made_rows(400, 1)}, study_text())
    record = json.loads((folder / "study.json").read_text())
    run = record["runs"][0]
    for versions, outcome in ((["1.0", "1.0"], Outcome.PASSED), (["1.0", "1.1"], Outcome.CAUTION)):
        record["runs"] = [run | {"versions": {"bayescontam": name}} for name in versions]
        (folder / "study.json").write_text(json.dumps(record))
        found, sentence = verdict(StudyResults.load(folder))
        assert found is outcome
        assert ("Run by several versions of bayescontam (1.0, 1.1)" in sentence) == (
            outcome != "passed"
        )


def test_the_sampler_is_reported_as_it_runs() -> None:
    text = f'{study_text()}[sampling]\nengine = "jax"\ntune = 200\n'
    assert "jax, 8 chains of 200 + 250 draws" in " ".join(design(StudySpec.parse(text, "x.toml")))
    assert "nutpie, 2 chains of 500 + 1,000" in " ".join(design(StudySpec.parse(study_text(), "x")))
