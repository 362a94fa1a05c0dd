"""The page of a lab: what it states is what the tables hold, and its pictures are drawn."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bayescontam._format import interval, number
from bayescontam.lab.truth import Measure, clean_accuracy, truth_of, truth_sentence
from bayescontam.report.lab_page import (
    LabResults,
    accuracies_picture,
    curve_picture,
    effects_picture,
    losses_picture,
    render_lab,
    write_lab_page,
)
from tests.support.pages import Parsed, is_drawn
from tests.support.small_lab import (
    BASES,
    BENCHMARKS,
    MIXES,
    K,
    answered_lab,
    checkpointed_lab,
    trained_lab,
)

__all__ = ["answered_lab", "checkpointed_lab", "trained_lab"]


@pytest.fixture(scope="module")
def results(answered_lab: Path) -> LabResults:
    return LabResults.load(answered_lab)


@pytest.fixture(scope="module")
def html(answered_lab: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "lab.html"
    write_lab_page(answered_lab, path)
    return path.read_text(encoding="utf-8")


def cells(html: str, section: str) -> list[list[str]]:
    """Return the rows of a section's table as texts."""
    part = html.partition(f'<section id="{section}">')[2].partition("</section>")[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", part, re.DOTALL)
    return [
        [Parsed(cell).text for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)]
        for row in rows
    ]


def test_the_page_lists_every_effect(html: str, results: LabResults) -> None:
    rows = cells(html, "effects")
    found = [row[1:4] for row in rows if len(row) == 8 and row[1] != "Effect"]
    ordered = results.effects.groupby("benchmark", sort=False)
    expected = [
        [str(row["effect"]), number(row["estimate"]), interval(row["low"], row["high"])]
        for _, own in ordered
        for row in own.to_dict("records")
    ]
    assert found == expected
    assert len(expected) == 7 * (len(MIXES) - 1)


def test_clean_models_stand_with_their_spread(html: str, results: LabResults) -> None:
    rows = {row[0]: row[1:] for row in cells(html, "clean")}
    table = clean_accuracy(results.answers)
    assert rows["Base"] == [*BENCHMARKS]
    for k, name in enumerate(rows["Base"]):
        own = table[table["benchmark"] == name]
        for base, accuracy in zip(own["base"], own["accuracy"], strict=True):
            assert rows[base][k] == number(accuracy)
        assert rows["mean"][k] == number(own["accuracy"].mean())
        assert rows["standard deviation between bases"][k] == number(own["sd"].iloc[0])


def test_mixes_are_counted(html: str, results: LabResults) -> None:
    rows = {row[0]: row[1:] for row in cells(html, "mixes")}
    assert set(rows) == {"Mix", *MIXES}
    assert rows["exact-4"][:4] == ["exact duplicates", "4", "48", "80.0 %"]
    assert rows["near-2"][:4] == ["texts near items", "2", "24", "40.0 %"]
    assert rows["clean"][0] == "background alone: the twin of all others"
    last = results.losses[(results.losses["mix"] == "exact-4") & (results.losses["epoch"] == 2)]
    assert len(last) == BASES
    assert rows["exact-4"][4] == number(last["loss"].mean())


def test_the_head_states_size_and_finding(html: str, results: LabResults) -> None:
    text = Parsed(html).text
    assert "15 models (3 bases × 5 mixes), 60 texts each, 24 items of which 12 are exposed" in text
    assert truth_sentence(results.effects, results.answers) in text
    assert 'summary = "Models of one layer that hardly learn."' in text


@pytest.mark.parametrize(
    ("measure", "accuracy", "size"),
    [
        ("auto", "the probability of the right answer", "right answer at temperature 0.8"),
        ("replies", "the share of right replies", f"replies, {K} to each item at temperature 0.8"),
    ],
)
def test_the_page_states_what_accuracy_is(
    answered_lab: Path, tmp_path: Path, measure: Measure, accuracy: str, size: str
) -> None:
    found = write_lab_page(answered_lab, tmp_path / "lab.html", measure=measure)
    text = Parsed((tmp_path / "lab.html").read_text(encoding="utf-8")).text
    assert f"accuracy is {accuracy}" in text
    assert size in text
    assert f"Differences of accuracy ({accuracy}) from the clean twins" in text
    assert f"Accuracy ({accuracy}) of the clean twin of each base." in text
    assert f"Accuracy ({accuracy}) less that of" in effects_picture(found).caption
    assert f"Mean accuracy ({accuracy}) of the models" in accuracies_picture(found).caption


def test_pictures_are_drawn_and_described(html: str, results: LabResults) -> None:
    for picture in (
        effects_picture(results), accuracies_picture(results), losses_picture(results),
    ):  # fmt: skip
        assert is_drawn(picture)
        assert picture.uri in html
    values = results.effects.query("benchmark == 'sums' and effect == 'direct'")["estimate"]
    low, high = (f"{end:.2f}" for end in (values.min() + 0.0, values.max() + 0.0))
    assert "sums: direct" in effects_picture(results).alt
    assert low.lstrip("-") in effects_picture(results).alt
    assert high.lstrip("-") in effects_picture(results).alt
    assert "http" not in re.sub(r'(?:data:|xmlns)[^"\s]*', "", html.partition("<main>")[2])


def test_names_of_benchmarks_cannot_close_tags(results: LabResults) -> None:
    names = {"sums": "<script>alert(1)</script>", "changes": "two\nlines", "clock": "x" * 300}
    answers = results.answers.assign(benchmark=results.answers["benchmark"].map(names))
    page = render_lab(replace(results, answers=answers, effects=truth_of(answers, results.spec)))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_one_base_has_no_intervals(results: LabResults) -> None:
    answers = results.answers[results.answers["base"] == "base-0"]
    losses = results.losses[results.losses["base"] == "base-0"]
    one = replace(results, answers=answers, losses=losses, effects=truth_of(answers, results.spec))
    text = Parsed(render_lab(one)).text
    assert "With one base there are no intervals." in text


def test_effects_by_epoch_are_drawn_where_there_are_checkpoints(
    checkpointed_lab: Path, html: str
) -> None:
    results = LabResults.load(checkpointed_lab)
    assert results.curve is not None
    # So large that the alternative texts show more than zeros.
    results = replace(results, curve=results.curve.assign(estimate=lambda t: t["estimate"] * 1000))
    page = render_lab(results)
    for benchmark in BENCHMARKS:
        picture = curve_picture(results, benchmark)
        assert is_drawn(picture)
        assert picture.uri in page
        effect = "control" if benchmark == "clock" else "direct"
        own = results.curve.query(f"benchmark == '{benchmark}' and effect == '{effect}'")
        low, high = (f"{end:.2f}" for end in (own["estimate"].min(), own["estimate"].max()))
        assert low != high
        assert f"{effect} {low} to {high}" in picture.alt
    assert [page.count(f'id="picture-epochs-{k}"') for k in range(4)] == [1, 1, 1, 0]
    assert '<a href="#epochs">' in page
    assert "Effects by epoch" not in html
