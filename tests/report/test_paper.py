"""Tables for papers and sites hold what a fit shows, whatever its names are."""

import lzma
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pandas as pd
import pytest

import bayescontam
from bayescontam.errors import UsageError
from bayescontam.inference.checks import Outcome
from bayescontam.inference.ranking import rank_models
from bayescontam.inference.tables import headline
from bayescontam.report.paper import Badge, as_paper, badge, leaderboard, notes_of, scores
from tests.golden.stored import FILES

HOSTILE = "a|b_c*[x]\\ & 50% <script>$x^2$"


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> bayescontam.Fit:
    path = tmp_path_factory.mktemp("fit") / "compact.nc"
    path.write_bytes(lzma.decompress((FILES / "compact.nc.xz").read_bytes()))
    return bayescontam.Fit.from_netcdf(path)


def cells(text: str) -> list[list[str]]:
    """Return the cells of a table in Markdown, without what escapes stand for."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    split = [row.replace("\\|", "\0").strip("|").split("|") for row in rows]
    return [[cell.strip().replace("\0", "|").replace("\\", "") for cell in row] for row in split]


def test_a_leaderboard_is_the_ranking_with_groups(fit: bayescontam.Fit) -> None:
    ranking = rank_models(fit)
    head, _, *rows = cells(as_paper(leaderboard(ranking), "markdown", notes_of(fit, ranking)))
    assert head == ["rank", "model", "score", "se", "95 % interval", "raw", "group"]
    assert [row[1] for row in rows] == ranking.table["model"].tolist()
    assert [row[6] for row in rows] == ranking.table["groups"].tolist()
    # What a ranking in the terminal has below it.
    notes = notes_of(fit, ranking)
    assert set(ranking.sentences()) < set(notes)
    assert any(note.startswith("Averages are over 2 benchmarks") for note in notes)
    alone = rank_models(fit, "quiz", level=0.5)
    assert "Benchmark: quiz." in notes_of(fit, alone)
    assert any("Intervals (50 %) are" in note for note in notes_of(fit, alone))
    for row, (_, known) in zip(rows, ranking.table.iterrows(), strict=True):
        assert float(row[2]) == pytest.approx(known[ranking.by], abs=6e-4)
        assert float(row[3]) == pytest.approx(known[f"{ranking.by}_sd"], abs=6e-4)


def test_a_summary_has_each_score_and_a_fit_that_failed_says_so(fit: bayescontam.Fit) -> None:
    table = scores(fit, fit.estimands())
    assert len(table) == len(headline(fit))
    for kind in ("markdown", "latex"):
        text = as_paper(table, kind, notes_of(fit))
        assert "Do not rely on this fit yet" in text
        assert "Direct effect only" in text


def test_hostile_names_stay_in_their_cells() -> None:
    table = pd.DataFrame({"model": [HOSTILE, "two\nlines"], "score": ["0.5", "0.25"]})
    found = cells(as_paper(table, "markdown", []))
    assert len(found) == 4
    assert all(len(row) == 2 for row in found)
    latex = as_paper(table, "latex", ["50 % & more"])
    body = latex.split("\\midrule\n")[1].split("\\bottomrule")[0].strip().splitlines()
    assert len(body) == 2
    assert body[0] == (
        r"a|b\_c*[x]\textbackslash{} \& 50\% <script>\$x\textasciicircum{}2\$ & 0.5 \\"
    )
    assert latex.startswith("\\begin{tabular}{lr}\n\\toprule\nmodel & score \\\\")
    assert r"\footnotesize 50 \% \& more" in latex


def test_a_badge_shows_a_score_only_where_no_check_failed(
    fit: bayescontam.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = badge(fit, "di", "quiz")
    assert str(failed) == "di on quiz: no score: checks of the fit failed"
    sound = [SimpleNamespace(outcome=Outcome.CAUTION)]
    monkeypatch.setattr(bayescontam.Fit, "checks", lambda self: tuple(sound))
    made = badge(fit, "di", "quiz")
    row = headline(fit).set_index(["model", "benchmark"]).loc[("di", "quiz")]
    assert f"{row['genuine_ability_direct']:.2f}, 95 % [" in made.text
    assert f"raw {row['raw_accuracy']:.2f}" in made.text
    assert made.text.endswith(f"overfitting (direct): {row['overfitting_direct_verdict']}")
    picture = ET.fromstring(made.svg())
    assert picture.attrib["aria-label"] == str(made)


def test_a_badge_of_a_hostile_name_is_one_picture() -> None:
    made = Badge(HOSTILE, "accuracy 0.50 [0.40, 0.60]", "#000000")
    picture = ET.fromstring(made.svg())
    assert HOSTILE in picture.attrib["aria-label"]
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}text"))) == 2


def test_a_pair_must_be_chosen_where_there_are_several(fit: bayescontam.Fit) -> None:
    with pytest.raises(UsageError, match="--model: the fit has several; choose one of 'ada'"):
        badge(fit)
    with pytest.raises(UsageError, match="--benchmark: no benchmark 'maths' in the fit"):
        badge(fit, "di", "maths")
