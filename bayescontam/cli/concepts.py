"""Commands ``concepts`` and ``exposures``: what ARC tasks need, and how much of it was met."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from bayescontam._text import printable
from bayescontam.cli.options import ArcTasks, Quiet, check_file, check_outside, examples
from bayescontam.cli.terminal import print_lines, print_table, quoted
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = examples(
    "bayescontam concepts arc-agi-1-evaluation --out concepts.csv",
    "bayescontam concepts arc-agi-1-evaluation --concepts concepts.csv --exposures exposures.csv"
    " --out imputations.parquet",
    then="Then: bayescontam fit responses.csv --imputations imputations.parquet --out fit.nc",
)
EXPOSURES_EXAMPLES = examples(
    "bayescontam exposures corpus --words words.csv --out exposures.csv",
    "bayescontam exposures 'sample/*.jsonl.zst' --words words.csv --share 0.01 -o exposures.csv",
    then="Then: bayescontam concepts TASKS --exposures exposures.csv --out imputations.parquet",
)


def concepts(
    tasks: ArcTasks,
    out: Annotated[
        Path,
        Option(
            "--out",
            "-o",
            help="Table to write, .parquet or .csv: concepts of tasks, or with --exposures"
            " imputations of their contamination.",
        ),
    ],
    exposures: Annotated[
        Path | None,
        Option(
            help="Table of concept, exposure, and exposure_sd ('exposures' counts one; or"
            " covariates of a scan whose items are concepts)."
        ),
    ] = None,
    given: Annotated[
        Path | None,
        Option("--concepts", help="Table of task and concept, in place of those detected."),
    ] = None,
    benchmark: Annotated[str, Option(help="Name of the benchmark, as in the responses.")] = "arc",
    by: Annotated[
        Literal["input", "task"], Option(help="Items: test inputs, or tasks as in the responses.")
    ] = "input",
    imputations: Annotated[int, Option(help="Imputations to draw; at least 20.")] = 200,
    seed: Annotated[int, Option(help="Seed of the draws.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Detect which concepts ARC tasks need; or impute contamination from concepts' exposure."""
    from bayescontam.data.tables import check_table_ending, write_table

    check_table_ending(out, "concepts" if exposures is None else "imputations")
    check_file(out, exposures, given)
    if exposures is None:
        for option, is_given in {
            "--concepts": given is not None, "--benchmark": benchmark != "arc",
            "--by": by != "input", "--imputations": imputations != 200, "--seed": seed != 1,
        }.items():  # fmt: skip
            if is_given:
                raise UsageError(f"{option}: is of use with --exposures; give both, or neither")
        from bayescontam.arc.concepts import detect_concepts

        found = detect_concepts(tasks)
        write_table(out, found)
        if not quiet:
            _print_concepts(found, out)
        return
    from bayescontam.arc.exposures import impute_contamination

    made = impute_contamination(
        tasks, exposures, concepts=given, benchmark=benchmark, by=by, imputations=imputations,
        seed=seed,
    )  # fmt: skip
    write_table(out, made)
    if quiet:
        return
    items = made.groupby("item", sort=False)["contamination"]
    mean, sd = items.mean(), items.std()
    print_lines(
        [
            f"Contamination of {len(mean):,} items: {mean.mean():.2f} on average, from"
            f" {mean.min():.2f} to {mean.max():.2f}, each known up to a standard deviation of"
            f" {sd.min():.2f} to {sd.max():.2f}.",
            f"Wrote {imputations:,} imputations to {printable(out)}. Next: bayescontam fit"
            f" RESPONSES --imputations {quoted(out)} --out FIT",
        ]
    )


def _print_concepts(found: "pd.DataFrame", out: Path) -> None:
    import pandas as pd

    counts = found["concept"].value_counts()
    table = pd.DataFrame({"concept": counts.index, "tasks": counts.to_numpy()})
    print_table(table.assign(share=table["tasks"] / found["task"].nunique()), whole=True)
    print_lines([f"Wrote the concepts of {found['task'].nunique():,} tasks to {printable(out)}"])


def exposures(
    corpus: Annotated[
        list[str], Argument(help="Files, folders, globs or addresses of the corpus.")
    ],
    words: Annotated[
        Path, Option(help="Table of concept and word, a row for each word of a concept.")
    ],
    out: Annotated[Path, Option("--out", "-o", help="Table to write: .parquet or .csv.")],
    text: Annotated[
        str, Option(help="Field of the corpus that holds the text, or a template of several.")
    ] = "text",
    share: Annotated[
        float, Option(help="Which share of the whole corpus these documents are.")
    ] = 1.0,
    skip_unreadable: Annotated[
        bool,
        Option(
            "--skip-unreadable",
            help="Pass over records that are no documents, and files that cannot be read whole.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Count the documents of a corpus in which concepts are met by their words."""
    from bayescontam.data.tables import check_table_ending, write_table

    check_table_ending(out, "exposures")
    check_file(out, words, corpus)
    check_outside(out, corpus, [".parquet"])  # of tables, the one kind that a corpus has
    from bayescontam.scan.concept_counts import count_exposures

    found = count_exposures(
        corpus, words, text=text, share=share, skip_unreadable=skip_unreadable, progress=not quiet
    )
    write_table(out, found)
    if not quiet:
        print_table(found.drop(columns="share"), whole=True)
        print_lines([f"Wrote the exposures of {len(found):,} concepts to {printable(out)}"])
