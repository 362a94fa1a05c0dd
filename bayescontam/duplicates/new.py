"""New items of a kind: a test set that no corpus holds."""

from typing import Any, Literal, get_args

from bayescontam._progress import progress_bar
from bayescontam._random import check_seed, stream
from bayescontam.duplicates import grids, programs, stories, word_problems
from bayescontam.errors import UsageError

NewKind = Literal["logic-grid", "word-problem", "murder-mystery", "team-allocation", "program"]


def new_items(
    count: int,
    kind: NewKind = "logic-grid",
    *,
    houses: int = 4,
    categories: int = 4,
    steps: int = 2,
    seed: int = 0,
    progress: bool = False,
) -> list[dict[str, Any]]:
    """Make new items of a kind, which are in no corpus: every model is clean of them.

    Parameters
    ----------
    count : int
        Items.
    kind : {"logic-grid", "word-problem", "murder-mystery", "team-allocation", "program"}
        Logic grids have one solution, and no clue that can be spared. Word problems have a number
        as their answer. Mysteries and allocations are stories from trees of facts, from which
        their answer is computed. Programs are small tasks with a solution and tests.
    houses, categories : int, default 4
        Of each logic grid: 2 to 8, and 1 to 13.
    steps : int, default 2
        Of each word problem, 2 to 6.
    seed : int, default 0
        The same seed gives the same items.
    progress : bool, default False
        Whether a bar is shown.

    Returns
    -------
    list of dict
        Logic grids with the fields of ZebraLogic (``id, size, puzzle, solution``); word problems
        with ``id, text, answer, solution, steps``; stories with ``id, text, answer, question,
        choices, tree``; programs with the fields of MBPP (``task_id, text, code, test_list``).

    Raises
    ------
    UsageError
        For a number or kind that is not allowed.
    MissingExtraError
        For logic grids, without the extra ``duplicates``.

    Examples
    --------
    >>> [item] = new_items(1, houses=2, categories=2, seed=1)
    >>> item["id"], item["solution"]["header"][:2]
    ('grid-2x2-0001', ['House', 'Name'])
    """
    seed = check_seed(seed)
    if count < 1:
        raise UsageError(f"items: got {count}; allowed is 1 or more")
    if kind not in get_args(NewKind):
        raise UsageError(f"kind: got {kind!r}; allowed is one of {', '.join(get_args(NewKind))}")
    if kind == "logic-grid":
        grids.check_sizes(houses, categories)
    if kind == "word-problem":
        word_problems.check_steps(steps)
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    at = 0
    with progress_bar(progress, "making items", count, "items") as advance:
        while len(found) < count:
            item = _new(kind, houses, categories, steps, seed, at, len(found) + 1)
            at += 1
            # Small kinds repeat themselves at times; a test set holds each item once.
            text = str(item.get("puzzle", item.get("text")))
            if text in seen:
                if at > 100 * count:
                    raise UsageError(f"items: got {count}; there are not so many different ones")
                continue
            seen.add(text)
            found.append(item)
            advance(1)
    return found


def _new(
    kind: NewKind, houses: int, categories: int, steps: int, seed: int, at: int, number: int
) -> dict[str, Any]:
    """Return an item."""
    if kind == "logic-grid":
        grid = grids.new_grid(
            houses, categories, stream(seed, "logic grid", houses, categories, at)
        )
        return {
            "id": f"grid-{houses}x{categories}-{number:04d}", "size": f"{houses}*{categories}",
            "puzzle": grid.text, "solution": grid.solution,
        }  # fmt: skip
    rng = stream(seed, "new item", kind, steps if kind == "word-problem" else 0, at)
    name = f"{kind}-{number:04d}"
    if kind == "program":
        return {"task_id": name, **programs.new_task(rng)}
    if kind == "word-problem":
        return {"id": name, **word_problems.new_problem(rng, steps)}
    story = stories.new_murder(rng) if kind == "murder-mystery" else stories.new_team(rng)
    return {
        "id": name, "text": story.item_text(stories.narrate(story, rng)),
        "answer": story.choices[story.answer], "question": story.question,
        "choices": [*story.choices], "tree": story.as_json(),
    }  # fmt: skip
