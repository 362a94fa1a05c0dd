"""Commands ``duplicates …``: semantic duplicates of items, and new items."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer

from bayescontam._files import write_text
from bayescontam._progress import stage
from bayescontam._text import join_list, printable
from bayescontam.cli.options import Format, Level, Quiet, check_file, examples
from bayescontam.cli.terminal import print_lines, print_notes, print_table, put_csv, put_json

if TYPE_CHECKING:
    from bayescontam.duplicates.make import ItemFields, Made

NEW_EXAMPLES = examples(
    "bayescontam duplicates new --items 250 --houses 4 --categories 4 --seed 1 --out grids.jsonl",
)
MAKE_EXAMPLES = examples(
    "bayescontam duplicates make grids.jsonl --out duplicates.jsonl",
    "bayescontam duplicates make grids.jsonl --chain shuffle --copies 5 --out shuffled.jsonl",
)
CHECK_EXAMPLES = examples("bayescontam duplicates check duplicates.jsonl --benchmark grids.jsonl")
PLANT_EXAMPLES = examples(
    "bayescontam duplicates plant corpus.jsonl --duplicates duplicates.jsonl --out planted",
    then="Then: scan planted/corpus.jsonl, and bayescontam recall SCAN --truth planted/truth.csv",
)
RECALL_EXAMPLES = examples(
    "bayescontam recall scan --truth planted/truth.csv",
    "bayescontam recall scan --truth planted/truth.csv --format csv > recall.csv",
)
EXAMPLES = examples(
    "bayescontam duplicates new --items 250 --out grids.jsonl",
    "bayescontam duplicates make grids.jsonl --out duplicates.jsonl",
    "bayescontam duplicates check duplicates.jsonl --benchmark grids.jsonl",
)
in_fields = partial(Option, rich_help_panel="Fields of the benchmark")
app = Typer(
    help="Semantic duplicates of a benchmark's items: made, checked and planted; new items. Made"
    " are those of logic grids (as in ZebraLogic), which needs the extra 'duplicates'.",
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
    made = new_items(items, houses=houses, categories=categories, seed=seed, progress=not quiet)
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


@app.command("plant", epilog=PLANT_EXAMPLES)
def plant(
    corpus: Annotated[list[Path], Argument(help="Corpus, JSON Lines; several files if need be.")],
    duplicates: Annotated[Path, Option(help="Duplicates that 'make' wrote.")],
    out: Annotated[Path, Option(help="Folder for corpus.jsonl and truth.csv.")],
    share: Annotated[
        float, Option(help="Share of the items whose duplicates are planted; of the others none.")
    ] = 0.5,
    copies: Annotated[int, Option(help="How often each duplicate is planted.")] = 1,
    inside: Annotated[
        float, Option(help="Share that are put into a document; the others are their own.")
    ] = 0.5,
    text: Annotated[str, Option(help="Field of the corpus with the text.")] = "text",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Plant duplicates in a corpus at known places, and write the truth.

    The corpus is copied with them. A scan of the copy and 'bayescontam recall' show how many are
    found, by kind.
    """
    with stage(not quiet, "starting"):
        from bayescontam.duplicates.planting import ABSENT, CORPUS, TRUTH, plant_duplicates
    truth = plant_duplicates(
        corpus, duplicates, out, share=share, copies=copies, inside=inside, text_field=text,
        seed=seed, progress=not quiet,
    )  # fmt: skip
    absent = truth["place"] == ABSENT
    of = truth[~absent][["benchmark", "item"]].drop_duplicates()
    print_lines(
        [
            f"{int((~absent).sum()):,} duplicates of {len(of):,} items planted in"
            f" {printable(out / CORPUS)}, of {int(absent.sum()):,} other items none; the truth is"
            f" in {printable(out / TRUTH)}."
        ]
    )
    print_notes(
        f"{count:,} records left out: {reason}" for reason, count in truth.attrs["left_out"].items()
    )


def recall(
    scan: Annotated[Path, Argument(help="Scan of the corpus that 'duplicates plant' wrote.")],
    truth: Annotated[Path, Option(help="The truth, truth.csv.")],
    level: Level = 0.95,
    output: Format = "table",
    quiet: Quiet = False,
) -> None:
    """Report how many planted duplicates a scan found, by kind, level and place.

    For each, how many are within a rank of their item's matches, and above a cosine. With items of
    which none was planted, also how well the cosine and lexical scores distinguish both.
    """
    with stage(not quiet, "counting"):
        from bayescontam.duplicates.planting import RANKS
        from bayescontam.duplicates.planting import recall as counted

        found = counted(scan, truth, level=level)
    if output == "csv":
        put_csv(found.table)
    elif output == "json":
        put_json({"recall": found.table, "scores": found.scores})
    else:
        shown = [name for name in found.table if not str(name).endswith(("_low", "_high"))]
        ends = [f"{shown[5]}_low", f"{shown[5]}_high"]
        print_table(found.table[[*shown[:6], *ends, *shown[6:]]], whole=True)
        shares = ", ".join(f"recall@{k} {min(1.0, k / found.chunks):.3f}" for k in RANKS)
        print_lines(["", f"Chunks at random, of {found.chunks:,} for each item, have {shares}."])
        if len(found.scores):
            print_lines(["", "Items with a planted duplicate against those without:", ""])
            print_table(found.scores, whole=True)


def _fields(item: str, text: str, answer: str) -> "ItemFields":
    from bayescontam.duplicates.make import ItemFields

    return ItemFields(item, text, answer)


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    write_text(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _print_failures(made: "Made") -> None:
    if len(made.failures):
        print_lines(["", f"{int(made.failures['count'].sum()):,} failed:"])
        print_table(made.failures, whole=True)
