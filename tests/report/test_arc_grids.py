"""Grids on the page of a fit of ARC items: what is drawn is the grid, and of the right items."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.data.importers.arc import load_tasks
from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.report.arc_grids import (
    PALETTE,
    GridImage,
    grid_words,
    grids_section,
    informative_items,
    match_items,
)
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior
from tests.support.pages import Parsed

MODELS = ("best", "good", "fair", "poor")
ANSWERS = {
    # by task: which of the models solve its test inputs
    "plain": [(1, 1, 0, 0), (1, 1, 1, 0)],
    "odd": [(0, 0, 1, 1)],
    "easy": [(1, 1, 1, 1)],
    "hard": [(0, 0, 0, 0)],
}
PAIR = {"input": [[1, 2], [3, 4]], "output": [[2, 1], [4, 3]]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the tasks, and attempts of two of the models."""
    top = tmp_path_factory.mktemp("arc")
    (top / "tasks").mkdir()
    for task, answers in ANSWERS.items():
        content = {"train": [PAIR] * 7, "test": [PAIR] * len(answers)}
        (top / "tasks" / f"{task}.json").write_text(json.dumps(content))
    wrong, right = [[2, 1], [4, 5]], PAIR["output"]
    for m, name in ((0, "best"), (3, "poor")):
        content = {
            task: [attempts(right) if own[m] else attempts(wrong, PAIR["input"], "none") for own in
                   answers]
            for task, answers in ANSWERS.items()
        }  # fmt: skip
        (top / f"{name}.json").write_text(json.dumps(content))
    return top


def attempts(*grids: Any) -> dict[str, Any]:
    return {f"attempt_{k}": grid for k, grid in enumerate(grids, 1)}


def rows(by: str = "input") -> pd.DataFrame:
    found = []
    for task, answers in ANSWERS.items():
        for m, model in enumerate(MODELS):
            each = {f"{task}-{k}": own[m] for k, own in enumerate(answers)}
            if by == "task":
                each = {task: min(each.values())}
            found += [(model, "arc", item, correct) for item, correct in each.items()]
    # Items without a picture, by which models are distinguished.
    for m, model in enumerate(MODELS):
        found += [(model, "arc", f"other {i}", int(i < 12 - 3 * m)) for i in range(12)]
    return pd.DataFrame(found, columns=["model", "benchmark", "item", "correct"])


def fitted(frame: pd.DataFrame) -> Fit:
    options = Options(seed=1, sampling=Sampling(draws=100, chains=2))
    with drawn_from_prior():
        return fit_responses(Responses.from_frame(frame), load_model("ability"), options)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fitted(rows())


@pytest.fixture(scope="module")
def section(fit: Fit, folder: Path) -> dict[str, Any]:
    found = match_items(fit, folder / "tasks", [folder / "best.json", folder / "poor.json"])
    return grids_section(fit, found)


def painted(uri: str) -> list[list[int]]:
    """Return the grid that an image shows, cell by cell, later paths over earlier ones."""
    svg = base64.b64decode(uri.partition("base64,")[2]).decode()
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
    assert size is not None
    found = np.full((int(size[2]), int(size[1])), -1)
    for colour, path in re.findall(r'fill="(#\w+)" d="([^"]+)"', svg):
        for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", path):
            found[int(y), int(x) : int(x) + int(length)] = PALETTE.index(colour)
    return found.tolist()


@given(
    st.tuples(st.integers(1, 30), st.integers(1, 30)).flatmap(
        lambda size: st.lists(
            st.lists(st.integers(0, 9), min_size=size[1], max_size=size[1]),
            min_size=size[0], max_size=size[0],
        )
    )
)  # fmt: skip
def test_an_image_shows_its_grid(grid: list[list[int]]) -> None:
    image = GridImage.of(grid, "Input")
    assert painted(image.uri) == grid
    assert image.alt.startswith(f"Input, {len(grid)} × {len(grid[0])}: ")
    assert image.width <= 160


def test_words_count_the_colours() -> None:
    assert grid_words([[0, 1]]) == "1 × 2: 01"
    large = np.zeros((9, 9), dtype=int)
    large[0, :4] = 3
    assert grid_words(large.tolist()) == "9 × 9: 77 black, 4 green"


def test_items_that_surprise_come_first_then_those_that_distinguish(fit: Fit, folder: Path) -> None:
    known = match_items(fit, folder / "tasks").known
    assert len(known) == 5
    labels = fit.data["constant_data"]["item"].to_numpy()
    found = informative_items(fit, list(known))
    names = [str(labels[k]) for k in found["position"]]
    assert set(names) == {"plain-0", "plain-1", "odd-0", "easy-0", "hard-0"}
    p = fit.item_fit().set_index("item")["p_value"]
    surprising = [name for name in names if p[name] <= 0.05]
    assert names[: len(surprising)] == surprising
    rest = names[len(surprising) :]
    assert set(rest[-2:]) == {"easy-0", "hard-0"}
    assert found["why"].iloc[-1] in ("solved by all", "solved by none")
    few = informative_items(fit, list(known), most=2)
    assert len(few) == 2
    assert not {"easy-0", "hard-0"} & {str(labels[k]) for k in few["position"]}


def test_attempts_stand_beside_the_solution(section: dict[str, Any]) -> None:
    by_name = {item["name"]: item for item in section["items"]}
    odd = by_name["odd-0"]
    assert len(odd["pairs"]) == 5
    assert odd["more"] == 2
    (test,) = odd["tests"]
    assert painted(test["input"].uri) == PAIR["input"]
    assert painted(test["solution"].uri) == PAIR["output"]
    best, poor = test["solvers"]
    assert (best["model"], poor["model"]) == ("best", "poor")
    assert [each["words"] for each in best["attempts"]] == [
        "1 of 4 cells wrong", "copied the input", "unreadable",
    ]  # fmt: skip
    assert [each["image"] is None for each in best["attempts"]] == [False, False, True]
    assert painted(best["attempts"][0]["image"].uri) == [[2, 1], [4, 5]]
    assert [each["right"] for each in poor["attempts"]] == [True]
    results = {row["model"]: row["words"] for row in odd["results"]}
    assert results == {
        "best": "not solved", "good": "not solved", "fair": "solved", "poor": "solved",
    }  # fmt: skip
    assert section["notes"] == [
        "12 of 17 items are no ARC items of these tasks: not drawn",
        "no predictions are given of 'good', 'fair'",
    ]


@pytest.mark.usefixtures("undrawn")
def test_the_page_has_one_image_for_each_grid(fit: Fit, folder: Path, tmp_path: Path) -> None:
    fit.report(tmp_path / "page.html", tasks=folder / "tasks", predictions=folder / "best.json")
    page = Parsed((tmp_path / "page.html").read_text())
    grids = [attrs for tag, attrs in page.tags if tag == "img" and attrs.get("class") == "grid"]
    # Of each of 5 items five demonstrations, the test input and its solution; and attempts, one
    # where it is right, and else two that are grids.
    assert len(grids) == 5 * 12 + 3 + 2 * 2
    assert all(attrs["alt"] for attrs in grids)
    assert all(attrs["src"].startswith("data:image/svg+xml;base64,") for attrs in grids)
    assert "12 of 17 items are no ARC items" in page.text
    assert "Surprising" in page.text or "Distinguishes models" in page.text


def test_items_may_be_whole_tasks_and_have_the_name_of_their_benchmark(folder: Path) -> None:
    frame = rows(by="task")
    both = pd.concat([frame, frame.assign(benchmark="again")])
    fit = fitted(both)
    found = match_items(fit, folder / "tasks")
    assert len(found.known) == 8
    items = {item["name"]: item for item in grids_section(fit, found)["items"]}
    assert len(items["arc/plain"]["tests"]) == 2
    assert items["arc/plain"]["tests"][1]["title"] == "Test input 2"


def test_a_solver_may_have_another_name(fit: Fit, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_bytes((folder / "best.json").read_bytes())
    with pytest.raises(UsageError, match="'mine': the fit has no such model"):
        match_items(fit, folder / "tasks", tmp_path / "mine.json")
    found = match_items(fit, folder / "tasks", tmp_path / "mine.json", "mine=good")
    assert list(found.predictions) == ["good"]


def test_what_is_not_allowed(fit: Fit, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "tasks"
    other.mkdir()
    (other / "new.json").write_text(json.dumps({"train": [PAIR], "test": [PAIR]}))
    with pytest.raises(UsageError, match=r"none of the 17 items of the fit .*'new-0'"):
        match_items(fit, load_tasks(other))
    with pytest.raises(UsageError, match="predictions, solver: give the tasks"):
        fit.report(tmp_path / "page.html", predictions=folder / "best.json")
    with pytest.raises(UsageError, match="solver: names solvers of predictions"):
        fit.report(tmp_path / "page.html", tasks=folder / "tasks", solver="mine=best")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.usefixtures("undrawn")
def test_without_a_solution_nothing_is_right_or_wrong(
    fit: Fit, folder: Path, tmp_path: Path
) -> None:
    top = tmp_path / "tasks"
    top.mkdir()
    for file in (folder / "tasks").glob("*.json"):
        content = json.loads(file.read_text())
        content["test"] = [{"input": pair["input"]} for pair in content["test"]]
        (top / file.name).write_text(json.dumps(content))
    fit.report(tmp_path / "page.html", tasks=top, predictions=folder / "best.json")
    page = (tmp_path / "page.html").read_text()
    assert "solution not known" in page
    small = re.findall(r'<div class="attempt">.*?<small>(.*?)</small>', page)
    assert set(small) == {"solution not known"}


@pytest.mark.usefixtures("undrawn")
def test_the_attempt_that_is_right_is_drawn_and_the_others_are_counted(
    fit: Fit, folder: Path, tmp_path: Path
) -> None:
    wrong = PAIR["input"]
    content = {"odd": [attempts(wrong, wrong, wrong, wrong, PAIR["output"])],
               "easy": [attempts(wrong, wrong, wrong, wrong)]}  # fmt: skip
    (tmp_path / "best.json").write_text(json.dumps(content))
    fit.report(tmp_path / "page.html", tasks=folder / "tasks", predictions=tmp_path / "best.json")
    page = (tmp_path / "page.html").read_text()
    small = re.findall(r'<div class="attempt">.*?<small>(.*?)</small>', page)
    assert sorted(small) == ["✓ right, attempt 5"] + ["✗ copied the input"] * 5
    assert "2 more attempts are not drawn" in page
    assert "1 more attempt is not drawn" in page


def test_people_of_one_model_are_counted_together(folder: Path) -> None:
    people = [
        ("people", "arc", item, f"p{p}", int(p < right))
        for item, right in (("plain-0", 1), ("odd-0", 4), ("hard-0", 2))
        for p in range(4)
    ]
    columns = ["model", "benchmark", "item", "participant", "correct"]
    frame = pd.concat(
        [rows().assign(participant=""), pd.DataFrame(people, columns=columns)], ignore_index=True
    )
    fit = fitted(frame)
    found = grids_section(fit, match_items(fit, folder / "tasks"))
    by_name = {item["name"]: item for item in found["items"]}
    assert [row["model"] for row in by_name["plain-0"]["results"]].count("people") == 1
    words = {row["model"]: row["words"] for row in by_name["plain-0"]["results"]}
    assert words["people"] == "1 of 4 solved it"
    # Two of four models, and a quarter of the people: the mean over five models, not eight rows.
    assert by_name["plain-0"]["why"].endswith("on average 45 % of a model's answers are right")
