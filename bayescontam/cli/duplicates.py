"""Commands ``duplicates …``: semantic duplicates of items, and new items."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer

from bayescontam._files import write_text
from bayescontam._progress import stage
from bayescontam._text import join_list, printable
from bayescontam.cli.options import Quiet, check_file, examples
from bayescontam.cli.terminal import print_lines, print_table

if TYPE_CHECKING:
    from bayescontam.duplicates.make import Fields, Made

NEW_EXAMPLES = examples(
    "bayescontam duplicates new --items 250 --houses 4 --categories 4 --seed 1 --out grids.jsonl",
)
MAKE_EXAMPLES = examples(
    "bayescontam duplicates make grids.jsonl --out duplicates.jsonl",
    "bayescontam duplicates make grids.jsonl --chain shuffle --copies 5 --out shuffled.jsonl",
)
CHECK_EXAMPLES = examples("bayescontam duplicates check duplicates.jsonl --benchmark grids.jsonl")
EXAMPLES = examples(
    "bayescontam duplicates new --items 250 --out grids.jsonl",
    "bayescontam duplicates make grids.jsonl --out duplicates.jsonl",
    "bayescontam duplicates check duplicates.jsonl --benchmark grids.jsonl",
)
in_fields = partial(Option, rich_help_panel="Fields of the benchmark")
app = Typer(
    help="Semantic duplicates of a benchmark's items, made and checked; new items. Logic grids"
    " (as in ZebraLogic) for now. Needs the extra 'duplicates'.",
    no_args_is_help=True,
)

ItemField = Annotated[str, in_fields(help="Field with the name of an item.")]
TextField = Annotated[str, in_fields(help="Field with its text.")]
AnswerField = Annotated[
    str, in_fields(help="Field with its solution: a header and rows, or JSON in a text.")
]
Seed = Annotated[int, Option(help="The same seed gives the same file.")]


@app.command("new", epilog=NEW_EXAMPLES)
def new(
    out: Annotated[Path, Option(help="File to write, JSON Lines.")],
    items: Annotated[int, Option(help="Number of items.")] = 250,
    houses: Annotated[int, Option(help="Houses of each, 2 to 8.")] = 4,
    categories: Annotated[int, Option(help="Categories of each, 1 to 13.")] = 4,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Make new logic grids: a test set that no corpus holds.

    Each has one solution, found by a constraint solver, and no clue that can be spared. Fields are
    those of ZebraLogic: id, size, puzzle, solution.
    """
    with stage(not quiet, "starting"):
        from bayescontam.duplicates.make import new_items
    check_file(out)
    made = new_items(items, houses=houses, size=categories, seed=seed, progress=not quiet)
    _write(out, made)
    print_lines([f"{len(made):,} items in {printable(out)}"])


@app.command("make", epilog=MAKE_EXAMPLES)
def make(
    benchmark: Annotated[Path, Argument(help="Items, JSON Lines: logic grids with solutions.")],
    out: Annotated[Path, Option(help="File to write, JSON Lines.")],
    chain: Annotated[
        list[str] | None,
        Option(
            help="Steps of a kind of duplicate: shuffle, substitute, or shuffle+substitute; may be"
            " repeated. Default: all three."
        ),
    ] = None,
    copies: Annotated[int, Option(help="Duplicates of each item by each chain.")] = 1,
    item_field: ItemField = "id",
    text_field: TextField = "puzzle",
    answer_field: AnswerField = "solution",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Make semantic duplicates of a benchmark's items.

    Each is read again from its own text and solved: it is written only if its clues leave the one
    solution that its answer states. What fails is counted by reason, and printed.
    """
    with stage(not quiet, "starting"):
        from bayescontam.duplicates.make import CHAINS, make_duplicates
    check_file(out, benchmark)
    made = make_duplicates(
        benchmark, chains=chain or CHAINS, copies=copies, seed=seed,
        fields=_fields(item_field, text_field, answer_field), progress=not quiet,
    )  # fmt: skip
    _write(out, made.rows)
    kinds = join_list(dict.fromkeys(row["level"] for row in made.rows))
    print_lines([f"{len(made.rows):,} duplicates in {printable(out)}: {kinds or 'none passed'}"])
    _print_failures(made)


@app.command("check", epilog=CHECK_EXAMPLES)
def check(
    duplicates: Annotated[Path, Argument(help="Duplicates that 'make' wrote.")],
    benchmark: Annotated[Path, Option(help="The items that they are duplicates of.")],
    item_field: ItemField = "id",
    text_field: TextField = "puzzle",
    answer_field: AnswerField = "solution",
    quiet: Quiet = False,
) -> None:
    """Check duplicates once more, from their texts alone; status 3 if one fails."""
    with stage(not quiet, "checking"):
        from bayescontam.duplicates.make import check_duplicates

        found = check_duplicates(
            duplicates, benchmark, fields=_fields(item_field, text_field, answer_field)
        )
    total = len(found.rows) + int(found.failures["count"].sum())
    print_lines([f"{len(found.rows):,} of {total:,} passed: unique solution, clues, values."])
    _print_failures(found)
    if len(found.failures):
        raise Exit(3)


def _fields(item: str, text: str, answer: str) -> "Fields":
    from bayescontam.duplicates.make import Fields

    return Fields(item, text, answer)


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    write_text(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _print_failures(made: "Made") -> None:
    if len(made.failures):
        print_lines(["", f"{int(made.failures['count'].sum()):,} failed:"])
        print_table(made.failures, whole=True)
