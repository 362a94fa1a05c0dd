"""Commands ``duplicates …``: semantic duplicates of items, and new items."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option, Typer

from bayescontam._files import write_text
from bayescontam._progress import stage
from bayescontam._text import join_list, printable
from bayescontam.cli.calls import (
    ADDRESS,
    API_KEY,
    MODEL,
    ApiKeyEnv,
    CacheFolder,
    Concurrency,
    Effort,
    ExtraBody,
    MaxCalls,
    MaxTokensTotal,
    Retries,
    Timeout,
    endpoint_of,
    in_calls,
)
from bayescontam.cli.options import Format, Level, Quiet, check_file, check_outside, examples
from bayescontam.cli.terminal import (
    print_lines,
    print_list,
    print_notes,
    print_table,
    put_csv,
    put_json,
    resumable,
)
from bayescontam.errors import TaskError, UsageError

if TYPE_CHECKING:
    from bayescontam.duplicates.make import Made
    from bayescontam.duplicates.recall import Recalled

NEW_EXAMPLES = examples(
    "bayescontam duplicates new --items 250 --houses 4 --categories 4 --seed 1 --out grids.jsonl",
    "bayescontam duplicates new --kind word-problem --steps 3 --out problems.jsonl",
    "bayescontam duplicates new --kind murder-mystery --items 250 --out mysteries.jsonl",
)
MAKE_EXAMPLES = examples(
    "bayescontam duplicates make grids.jsonl --out duplicates.jsonl",
    "bayescontam duplicates make grids.jsonl --chain shuffle --copies 5 --out shuffled.jsonl",
    "bayescontam duplicates make mysteries.jsonl --recipe story --out stories.jsonl",
    "bayescontam duplicates make mbpp.jsonl --recipe mbpp --base-url http://localhost:8000/v1"
    " --model qwen3 --out mbpp-duplicates.jsonl",
    then="Interrupted, or the budget reached? Run the same command again: it resumes.",
)
CHECK_EXAMPLES = examples(
    "bayescontam duplicates check duplicates.jsonl --benchmark grids.jsonl",
    "bayescontam duplicates check school-duplicates.jsonl --benchmark school.jsonl --recipe"
    " school.toml",
)
SHOW_EXAMPLES = examples(
    "bayescontam duplicates show duplicates.jsonl",
    "bayescontam duplicates show duplicates.jsonl --benchmark grids.jsonl --out duplicates.html",
)
RECIPES_EXAMPLES = examples(
    "bayescontam duplicates recipes",
    "bayescontam duplicates recipes mbpp > mine.toml",
)
PLANT_EXAMPLES = examples(
    "bayescontam duplicates plant corpus.jsonl --duplicates duplicates.jsonl --out planted",
    "bayescontam duplicates plant corpus.jsonl --duplicates duplicates.jsonl --only shuffle"
    " --wrapped 0.5 --out planted",
    then="Then: scan planted/corpus.jsonl, and bayescontam recall SCAN --truth planted/truth.csv",
)
RECALL_EXAMPLES = examples(
    "bayescontam recall scan --truth planted/truth.csv",
    "bayescontam recall scan --truth planted/truth.csv --format csv > recall.csv",
    "bayescontam recall scan --truth planted/truth.csv --judgements judgements.csv"
    " --curve curve.nc --covariates covariates.parquet",
    then="As a page: bayescontam report scan --truth planted/truth.csv --out scan.html",
)
EXAMPLES = examples(
    "bayescontam duplicates new --items 250 --out grids.jsonl",
    "bayescontam duplicates make grids.jsonl --out duplicates.jsonl",
    "bayescontam duplicates check duplicates.jsonl --benchmark grids.jsonl",
)
app = Typer(
    help="Semantic duplicates of a benchmark's items: made by recipes, checked, planted and shown;"
    " and new items, of which every model is clean.",
    no_args_is_help=True,
)

RecipeName = Annotated[
    str, Option(help="Name of a recipe ('duplicates recipes' lists them), or path of a .toml file.")
]
NamedRecipe = Annotated[
    str, Option(help="Name or file of their recipe; default: the one that the duplicates name.")
]
Seed = Annotated[int, Option(help="The same seed gives the same file.")]
in_kind = partial(Option, rich_help_panel="Of a kind")


@app.command("new", epilog=NEW_EXAMPLES)
def new(
    out: Annotated[Path, Option(help="File to write, JSON Lines.")],
    kind: Annotated[
        Literal["logic-grid", "word-problem", "murder-mystery", "team-allocation", "program"],
        Option(help="What the items are."),
    ] = "logic-grid",
    items: Annotated[int, Option(help="Number of items.")] = 250,
    houses: Annotated[int, in_kind(help="Houses of a logic grid, 2 to 8.")] = 4,
    categories: Annotated[int, in_kind(help="Categories of a logic grid, 1 to 13.")] = 4,
    steps: Annotated[int, in_kind(help="Steps of a word problem, 2 to 6.")] = 2,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Make new items: a test set that no corpus holds.

    Logic grids have one solution, found by a constraint solver, and no clue that can be spared.
    Answers of word problems and stories are computed; programs come with a solution and tests.
    """
    with stage(not quiet, "starting"):
        from bayescontam.duplicates.new import new_items
    check_file(out)
    made = new_items(
        items, kind, houses=houses, categories=categories, steps=steps, seed=seed,
        progress=not quiet,
    )  # fmt: skip
    _write(out, made)
    print_lines([f"{len(made):,} items in {printable(out)}"])


@app.command("make", epilog=MAKE_EXAMPLES)
def make(
    benchmark: Annotated[
        Path, Argument(help="Items: JSON Lines, JSON, or a folder with a JSON file for each.")
    ],
    out: Annotated[Path, Option(help="File to write, JSON Lines.")],
    recipe: RecipeName = "logic-grid",
    chain: Annotated[
        list[str] | None,
        Option(
            help="Steps of a kind of duplicate, such as shuffle+substitute; may be repeated."
            " Default: the recipe's."
        ),
    ] = None,
    copies: Annotated[
        int | None, Option(help="Duplicates of each item by each chain; default: the recipe's.")
    ] = None,
    first: Annotated[
        int | None, Option(help="Only so many items; default: the recipe's, as a rule all.")
    ] = None,
    base_url: Annotated[str | None, in_calls(help=ADDRESS)] = None,
    model: Annotated[str | None, in_calls(help=MODEL)] = None,
    judge_model: Annotated[
        str | None,
        in_calls(help="Model there that judges what was written; default: the one that writes."),
    ] = None,
    concurrency: Concurrency = 8,
    max_calls: MaxCalls = None,
    max_tokens_total: MaxTokensTotal = None,
    timeout: Timeout = 120.0,
    retries: Retries = 5,
    cache: CacheFolder = None,
    api_key_env: ApiKeyEnv = API_KEY,
    effort: Effort = None,
    extra_body: ExtraBody = "",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Make semantic duplicates of a benchmark's items by a recipe.

    Each is checked by its own text: logic grids are solved, programs run against their tests,
    answers of stories computed. What fails is counted by reason, and printed. Steps of a language
    model need --base-url and --model; code runs only in a sandbox (bubblewrap).
    """
    with stage(not quiet, "starting"):
        from bayescontam.duplicates.make import make_duplicates
    part = out.with_name(f"{out.name}.part")
    for file in (out, part):
        check_file(file, benchmark, recipe)
        check_outside(file, [str(benchmark)] * benchmark.is_dir())
    if (base_url is None) != (model is None) or (judge_model and base_url is None):
        raise UsageError("--base-url and --model: give both, or neither; --judge-model needs them")
    endpoint = None
    if base_url is not None and model is not None:
        endpoint = endpoint_of(
            base_url, model, api_key_env=api_key_env, timeout=timeout, retries=retries,
            concurrency=concurrency, effort=effort, extra_body=extra_body,
        )  # fmt: skip
    with resumable("finished duplicates"):
        made = make_duplicates(
            benchmark, recipe, chains=chain or (), copies=copies, first=first, seed=seed,
            endpoint=endpoint, judge=judge_model or "", max_calls=max_calls,
            max_tokens=max_tokens_total, cache=cache or out.parent / "judge-cache", resume=part,
            progress=not quiet,
        )  # fmt: skip
    kinds = join_list(dict.fromkeys(row["level"] for row in made.rows))
    lost = ""
    if made.left:
        print_lines(
            [
                f"The budget is reached: {len(made.rows):,} duplicates are finished, {made.left:,}"
                f" are left. Run the same command again to resume; {printable(out)} is written when"
                " all are finished."
            ]
        )
    elif made.unanswered:
        lost = (
            f"{made.unanswered:,} duplicates have no reply of the endpoint, {len(made.rows):,} are"
            " finished; run the same command again to request them"
        )
    elif not made.rows and out.exists():
        lost = "no duplicate passed; see the reasons, and remove the file if it is not needed"
    else:
        _write(out, made.rows)
        part.unlink(missing_ok=True)
        print_lines(
            [f"{len(made.rows):,} duplicates in {printable(out)}: {kinds or 'none passed'}"]
        )
    if not quiet:
        print_notes(made.notes)
    _print_failures(made)
    if lost:
        state = "left as it was" if out.exists() else "not written"
        raise TaskError(f"{printable(out)}: {state}: {lost}")


@app.command("check", epilog=CHECK_EXAMPLES)
def check(
    duplicates: Annotated[Path, Argument(help="Duplicates that 'make' wrote.")],
    benchmark: Annotated[Path, Option(help="The items that they are duplicates of.")],
    recipe: NamedRecipe = "",
    quiet: Quiet = False,
) -> None:
    """Check duplicates once more, from their texts alone; status 3 if one fails.

    Programs are run again. What a model judged when they were made is not judged again.
    """
    with stage(not quiet, "starting"):
        from bayescontam.duplicates.make import check_duplicates
    found = check_duplicates(duplicates, benchmark, recipe, progress=not quiet)
    total = len(found.rows) + int(found.failures["count"].sum())
    print_lines([f"{len(found.rows):,} of {total:,} passed."])
    _print_failures(found)
    if len(found.failures):
        raise Exit(3)


@app.command("show", epilog=SHOW_EXAMPLES)
def show(
    duplicates: Annotated[Path, Argument(help="Duplicates that 'make' wrote.")],
    benchmark: Annotated[
        Path | None, Option(help="The items that they are duplicates of, to compare with.")
    ] = None,
    recipe: NamedRecipe = "",
    out: Annotated[
        Path | None, Option("--out", "-o", help="Page to write: duplicates beside their items.")
    ] = None,
    output: Format = "table",
    quiet: Quiet = False,
) -> None:
    """Show what duplicates there are, and some of them beside their items.

    With --benchmark also how many words both share; with --out a page with the first of each
    level, where what differs is marked.
    """
    with stage(not quiet, "reading"):
        from bayescontam.duplicates.make import read_duplicates, recipe_of, texts_of
        from bayescontam.report.duplicates_page import summarise_duplicates, write_duplicates_page

        if out is not None:
            check_file(out, duplicates, benchmark)
        rows = read_duplicates(duplicates)
        parents = {} if benchmark is None else texts_of(benchmark, recipe_of(rows, recipe))
        table = summarise_duplicates(rows, parents)
    if output == "csv":
        put_csv(table)
    elif output == "json":
        put_json({"levels": table})
    else:
        print_table(table, whole=True)
        if out is None:
            print_lines(["", f"{rows[0]['duplicate']}:", "", *str(rows[0]["text"]).splitlines()])
    if out is not None:
        write_duplicates_page(rows, parents, out, printable(duplicates))
        print_lines([f"Page: {printable(out)}"] * (output == "table"))


@app.command("recipes", epilog=RECIPES_EXAMPLES)
def recipes(
    name: Annotated[str | None, Argument(help="Print this one's file, to copy and change.")] = None,
) -> None:
    """List the recipes that ship with the package, or print one."""
    from bayescontam.specs.registry import load_recipe, shipped_recipes

    if name is not None:
        print(load_recipe(name).text, end="")
        return
    print_list((each, load_recipe(each).summary) for each in shipped_recipes())


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
    only: Annotated[
        list[str] | None,
        Option(help="Level of the duplicates to plant; may be repeated. Default: all."),
    ] = None,
    wrapped: Annotated[
        float,
        Option(help="Share of them whose prose is wrapped anew, at widths from 40 to 100."),
    ] = 0.0,
    tables: Annotated[
        float, Option(help="Share of them whose options are set as a Markdown table.")
    ] = 0.0,
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
        corpus, duplicates, out, share=share, copies=copies, inside=inside, levels=only or (),
        wrapped=wrapped, tables=tables, text_field=text, seed=seed, progress=not quiet,
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
    lacking = {"wrapped": "prose longer than the width drawn", "table": "options"}
    print_notes(
        f"{count:,} duplicates to be {'wrapped' if form == 'wrapped' else 'set as a table'} are"
        f" planted as made: no {lacking[form]}"
        for form, count in truth.attrs["as_made"].items()
    )


def recall(
    scan: Annotated[Path, Argument(help="Scan of the corpus that 'duplicates plant' wrote.")],
    truth: Annotated[Path, Option(help="The truth, truth.csv.")],
    judgements: Annotated[
        list[Path] | None,
        Option(help="Judgements of this scan's pairs: how many each judge finds; may be repeated."),
    ] = None,
    curve: Annotated[
        Path | None, Option(help="Curve of this scan: what it expects of planted duplicates.")
    ] = None,
    covariates: Annotated[
        Path | None, Option(help="Covariates of this scan: how reliable they are.")
    ] = None,
    level: Level = 0.95,
    output: Format = "table",
    quiet: Quiet = False,
) -> None:
    """Report how many planted duplicates a scan found, by kind, level and place.

    For each, how many are within a rank of their item's matches, and above a cosine. With items of
    which none was planted, also how well the cosine and lexical scores distinguish both. With
    judgements, a curve or covariates, what these make of the duplicates that were found.
    """
    with stage(not quiet, "counting"):
        from bayescontam.cli.choice import read_all
        from bayescontam.duplicates.recall import recall as counted

        # What was changed in judgements goes with a table, and would be no part of CSV or JSON.
        judged = read_all(judgements, quiet or output != "table")
        found = counted(
            scan, truth, judgements=judged, curve=curve, covariates=covariates, level=level
        )
    if output == "csv":
        put_csv(found.table)
    elif output == "json":
        parts = ("scores", "roc", "pair_scores", "judges", "curve", "calibration", "covariates")
        put_json({"recall": found.table} | {name: getattr(found, name) for name in parts})
    else:
        _print_recalled(found)
    print_notes(found.notes)


def _print_recalled(found: "Recalled") -> None:
    from bayescontam.duplicates.recall import RANKS

    table = found.table
    shown = [name for name in table if not str(name).endswith(("_low", "_high"))]
    first = shown.index("recall@1") + 1
    ends = ["recall@1_low", "recall@1_high"]
    print_table(table[[*shown[:first], *ends, *shown[first:]]], whole=True)
    shares = ", ".join(f"recall@{k} {min(1.0, k / found.chunks):.3f}" for k in RANKS)
    print_lines(["", f"Chunks at random, of {found.chunks:,} for each item, have {shares}."])
    pairs = found.pair_scores
    if len(pairs):
        names = list(dict.fromkeys(pairs["score"]))
        pairs = pairs.pivot(index=["kind", "level"], columns="score", values="auc")[names]
    for heading, part in (
        ("Items with a planted duplicate against those without:", found.scores),
        ("Matches of planted duplicates against other matches of the same items, areas under the"
         " curve:", pairs.reset_index() if len(pairs) else pairs),
        ("Judges, of planted duplicates with a match that was judged, and of pairs that hold none"
         " of their item (false alarms, at most: the corpus may hold duplicates of its own):",
         found.judges),
        ("The curve: P(duplicate | cosine) expected of planted duplicates with a match, of which"
         " all are duplicates:", found.curve),
        ("The curve, by probability: matches expected to be duplicates, and observed to hold a"
         " planted one (too few where the corpus held duplicates before):", found.calibration),
        ("Covariates, items with planted duplicates against those without, and the number of"
         " copies:", found.covariates),
    ):  # fmt: skip
        if len(part):
            print_lines(["", heading, ""])
            spare = ("mean_planted", "mean_others", "correlation")
            print_table(part, spare, "--format json", whole=True)


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    write_text(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _print_failures(made: "Made") -> None:
    if len(made.failures):
        print_lines(["", f"{int(made.failures['count'].sum()):,} failed:"])
        print_table(made.failures, whole=True)
