"""Tasks of ARC as pictures: demonstrations, test inputs, and what solvers answered."""

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescontam._text import join_list, printable
from bayescontam.data.importers.arc import ArcTasks, Grid, grid_problem, load_tasks
from bayescontam.data.importers.arc_predictions import Prediction, outcome_of, read_predictions
from bayescontam.data.importers.arc_replies import read_reply
from bayescontam.data.importers.base import Names, Paths
from bayescontam.data.importers.logs import Importing
from bayescontam.errors import UsageError
from bayescontam.inference.result import Fit

PALETTE = (
    "#000000", "#0074d9", "#ff4136", "#2ecc40", "#ffdc00", "#aaaaaa", "#f012be", "#ff851b",
    "#7fdbff", "#870c25",
)  # fmt: skip
"""The colours of ARC, by number."""
COLOUR_NAMES = (
    "black", "blue", "red", "green", "yellow", "grey", "pink", "orange", "light blue", "maroon",
)  # fmt: skip
MOST_ITEMS, MOST_SOLVERS, MOST_ATTEMPTS, MOST_PAIRS = 8, 12, 3, 5
"""What the page draws of items, of solvers and attempts at one, and of demonstrations."""
SURPRISING = 0.05
"""Tail probability of item fit up to which an item is surprising."""
_SPELT = 64
"""Cells up to which a text spells a grid out."""
_SIDE, _SMALLEST, _LARGEST = 132, 5, 16
"""Pixels of a grid's longer side, and of a cell at least and at most."""


@dataclass(frozen=True, eq=False)
class GridImage:
    """A grid as an image of a page: one element, whatever its size."""

    uri: str
    alt: str
    width: int  # in CSS pixels

    @classmethod
    def of(cls, grid: Grid, what: str) -> "GridImage":
        """Draw a grid."""
        rows, columns = len(grid), len(grid[0])
        cell = max(_SMALLEST, min(_LARGEST, _SIDE // max(rows, columns)))
        content = base64.b64encode(_svg(grid).encode()).decode("ascii")
        uri = f"data:image/svg+xml;base64,{content}"
        return cls(uri, f"{what}, {grid_words(grid)}", cell * columns)


def _svg(grid: Grid) -> str:
    """Return a grid as SVG: a path for each colour, of the runs of its cells, and one of lines."""
    rows, columns = len(grid), len(grid[0])
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(grid):
        x = 0
        for colour, cells in groupby(row):
            length = len(list(cells))
            paths.setdefault(colour, []).append(f"M{x} {y}h{length}v1h-{length}z")
            x += length
    # Crisp: smoothed edges would show a line between two rows of one colour.
    shapes = "".join(
        f'<path fill="{PALETTE[colour]}" d="{"".join(runs)}"/>'
        for colour, runs in sorted(paths.items())
    )
    lines = "".join(f"M0 {y}h{columns}" for y in range(rows + 1))
    lines += "".join(f"M{x} 0v{rows}" for x in range(columns + 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns} {rows}"'
        f' width="{columns}" height="{rows}"><g shape-rendering="crispEdges">{shapes}</g>'
        f'<path fill="none" stroke="#666" stroke-width=".06" d="{lines}"/></svg>'
    )


def grid_words(grid: Grid) -> str:
    """Return a grid in words: its size, and its cells or how many there are of each colour.

    >>> grid_words([[0, 1], [1, 0]]), grid_words([[2] * 30] * 3)
    ('2 × 2: 01 / 10', '3 × 30: 90 red')
    """
    rows, columns = len(grid), len(grid[0])
    if rows * columns <= _SPELT:
        text = " / ".join("".join(map(str, row)) for row in grid)
    else:
        colours, counts = np.unique(np.array(grid), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        text = ", ".join(f"{counts[k]} {COLOUR_NAMES[colours[k]]}" for k in order)
    return f"{rows} × {columns}: {text}"


@dataclass(frozen=True, eq=False)
class ArcItems:
    """The items of a fit that are of ARC tasks, and what solvers answered."""

    tasks: ArcTasks
    # by item of the fit (its position): the task, and the number of its test input; None: all
    known: Mapping[int, tuple[str, int | None]]
    predictions: Mapping[str, Mapping[tuple[str, int], Prediction]]
    notes: tuple[str, ...]  # what of the fit, or of the predictions, is not drawn


def match_items(
    fit: Fit,
    tasks: ArcTasks | str | os.PathLike[str] | None,
    predictions: Paths = (),
    solver: Names = (),
) -> ArcItems:
    """Find the items of a fit among ARC tasks, and the attempts of its models."""
    if tasks is None:
        raise UsageError(
            "predictions, solver: give the tasks that they are of, too (tasks, --tasks), or leave"
            " them out"
        )
    if solver and not predictions:
        raise UsageError(
            "solver: names solvers of predictions; give these, too (predictions, --predictions),"
            " or leave it out"
        )
    tasks = tasks if isinstance(tasks, ArcTasks) else load_tasks(tasks)
    data = fit.data["constant_data"].to_dataset()
    owner = data["benchmark"].to_numpy()[data["benchmark_of_item"].to_numpy()]
    inputs = {str(row.item): (str(row.task), int(str(row.item).rsplit("-", 1)[1]))
              for row in tasks.items.itertuples()}  # fmt: skip
    known: dict[int, tuple[str, int | None]] = {}
    for k, (item, benchmark) in enumerate(zip(data["item"].to_numpy(), owner, strict=True)):
        # Two benchmarks may share a name; then a label begins with that of the benchmark.
        for name in (str(item), str(item).removeprefix(f"{benchmark}/")):
            if name in inputs:
                known[k] = inputs[name]
            elif name in tasks.grids:
                known[k] = name, None
    count = data.sizes["item"]
    if not known:
        raise UsageError(
            f"tasks: none of the {count:,} items of the fit (such as"
            f" {join_list(map(str, data['item'].to_numpy()), 2)}) is a task or test input of these"
            f" tasks (such as {join_list(tasks.items['item'], 2)}); give the tasks that its"
            " responses are of (--tasks)"
        )
    notes = []
    if left := count - len(known):
        notes.append(f"{left:,} of {count:,} items are no ARC items of these tasks: not drawn")
    models = [str(name) for name in data["model"].to_numpy()]
    found: dict[str, dict[tuple[str, int], Prediction]] = {}
    if predictions:
        found = read_predictions(Importing(predictions, {}), tasks, solver)
        strange = [name for name in found if name not in models]
        if strange:
            raise UsageError(
                f"predictions: {join_list(strange, 5)}: the fit has no such model; it has"
                f" {join_list(models, 5)}. Name the solver as in the fit (--solver LABEL=NAME)"
            )
        if absent := [name for name in models if name not in found]:
            notes.append(f"no predictions are given of {join_list(absent, 5)}")
    return ArcItems(tasks, known, found, tuple(notes))


def informative_items(fit: Fit, known: Sequence[int], most: int = MOST_ITEMS) -> pd.DataFrame:
    """Return the items that inform most on solvers: ``position`` and ``why``.

    Up to half of them are surprising: solved by weak models and missed by strong ones. The others
    distinguish models: about half of them solve the item, the able ones first.
    """
    data = fit.data["constant_data"].to_dataset()
    table = fit.item_fit() if "item_fit" in fit.data else _shares(fit)
    label = pd.Series(np.arange(data.sizes["item"]), index=data["item"].to_numpy())
    table = table.assign(position=label.loc[table["item"]].to_numpy())
    table = table[table["position"].isin(known)]
    odd = table[table["p_value"] <= SURPRISING].head(most // 2)
    rest = table.drop(index=odd.index)
    even = rest["solved"] * (1 - rest["solved"])
    order = pd.DataFrame({"even": -even.round(9), "z": -rest["z"].fillna(0.0)})
    rest = rest.loc[order.sort_values(["even", "z"], kind="stable").index]
    rest = rest.head(most - len(odd))
    odd, rest = odd.assign(why=odd["z"].map(_surprise)), rest.assign(why=rest["solved"].map(_split))
    return pd.concat([odd, rest], ignore_index=True)[["position", "why"]]


def _surprise(z: float) -> str:
    text = f"{z:.1f}".replace("-", "−")
    return f"surprising: weaker models solve it and stronger ones miss it (z {text})"


def _split(solved: float) -> str:
    if solved in (0, 1):
        return "solved by all" if solved else "solved by none"
    return f"distinguishes models: on average {100 * solved:.0f} % of a model's answers are right"


def _shares(fit: Fit) -> pd.DataFrame:
    """Return what `Fit.item_fit` has, of a fit without it."""
    data = fit.data["constant_data"].to_dataset()
    known = _answers(fit)
    share = (known["right"] / known["trials"]).groupby(level="item").mean()
    labels = data["item"].to_numpy()
    mean = share.reindex(range(len(labels))).to_numpy()
    return pd.DataFrame({"item": labels, "solved": mean, "z": np.nan, "p_value": np.nan})


def _answers(fit: Fit) -> pd.DataFrame:
    """Return right answers and trials of each item and model, of all its people together."""
    data = fit.data["constant_data"].to_dataset()
    rows = pd.DataFrame({
        "item": data["item_of_response"].to_numpy(),
        "model": data["model_of_response"].to_numpy(),
        "right": fit.data["observed_data"]["n_correct"].to_numpy(),
        "trials": data["n_trials"].to_numpy(),
    })  # fmt: skip
    return rows.groupby(["item", "model"]).sum()


def grids_section(fit: Fit, items: ArcItems) -> dict[str, Any]:
    """Return what the page shows of the most informative items."""
    chosen = informative_items(fit, list(items.known))
    answers = _answers(fit)
    drawn = [
        _item(fit, items, int(at), str(why), answers)
        for at, why in zip(chosen["position"], chosen["why"], strict=True)
    ]
    return {
        "items": drawn,
        "of": len(items.known),
        "notes": [printable(note, 400) for note in items.notes],
        "predicted": bool(items.predictions),
        "legend": list(zip(PALETTE, COLOUR_NAMES, strict=True)),
    }


def _item(
    fit: Fit, items: ArcItems, position: int, why: str, answers: pd.DataFrame
) -> dict[str, Any]:
    task, number = items.known[position]
    content = items.tasks.grids[task]
    data = fit.data["constant_data"].to_dataset()
    tests = range(len(content["test"])) if number is None else [number]
    pairs = content["train"]
    shown = [
        (GridImage.of(pair["input"], f"Demonstration {k}, input"),
         GridImage.of(pair["output"], f"Demonstration {k}, output"))
        for k, pair in enumerate(pairs[:MOST_PAIRS], start=1)
    ]  # fmt: skip
    return {
        "label": str(data["item"].to_numpy()[position]),
        "name": printable(str(data["item"].to_numpy()[position]), 60),
        "why": why,
        "pairs": shown,
        "more": len(pairs) - len(shown),
        "tests": [_test(items, task, test, len(content["test"]) > 1) for test in tests],
        "results": list(_results(data["model"].to_numpy(), answers.loc[[position]])),
    }


def _test(items: ArcItems, task: str, test: int, several: bool) -> dict[str, Any]:
    pair = items.tasks.grids[task]["test"][test]
    solution = pair.get("output")
    name = f"Test input {test + 1}" if several else "Test input"
    found = [
        {"model": model} | _attempts(own[task, test], pair)
        for model, own in items.predictions.items()
        if (task, test) in own
    ]
    return {
        "title": name,
        "input": GridImage.of(pair["input"], name),
        "solution": None if solution is None else GridImage.of(solution, "Solution"),
        "solvers": found[:MOST_SOLVERS],
        "more": max(0, len(found) - MOST_SOLVERS),
    }


def _attempts(given: Prediction, pair: Mapping[str, Grid]) -> dict[str, Any]:
    """Return the attempts that are drawn, and how many others there are."""
    every = [_attempt(number, each, pair) for number, each in sorted(given.attempts.items())]
    drawn = every[:MOST_ATTEMPTS]
    right = [attempt for attempt in every if attempt["right"]]
    if right and right[0] not in drawn:  # which may not be missed
        drawn[-1] = right[0]
    return {"attempts": drawn, "left": len(every) - len(drawn)}


def _attempt(number: int, given: Any, pair: Mapping[str, Grid]) -> dict[str, Any]:
    """Return an attempt: its picture, if it is a grid, and what it amounts to."""
    outcome, reason = "solution not known", ""
    if "output" in pair:
        outcome, reason = outcome_of(given, pair)
    grid = read_reply(given).grid if isinstance(given, str) else given
    image = None
    if grid is not None and not grid_problem(grid):
        image = GridImage.of(grid, f"Attempt {number}")
    words = outcome
    if outcome == "wrong grid" and grid is not None:
        wrong = int((np.array(grid) != np.array(pair["output"])).sum())
        words = f"{wrong} of {np.size(grid)} cells wrong"
    if number > MOST_ATTEMPTS:
        words += f", attempt {number}"
    return {
        "number": number, "image": image, "words": words, "reason": printable(reason, 80),
        "right": outcome == "right" if "output" in pair else None,
    }  # fmt: skip


def _results(models: NDArray[np.object_], answers: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield how each model did on an item, as the fit has it, from its answers by model."""
    of_model, right, trials = (
        each.to_numpy()
        for each in (answers.index.get_level_values("model"), answers["right"], answers["trials"])
    )
    for m, k, n in zip(of_model, right, trials, strict=True):
        words = ("solved" if k else "not solved") if n == 1 else f"{k} of {n} solved it"
        yield {"model": str(models[m]), "words": words}
