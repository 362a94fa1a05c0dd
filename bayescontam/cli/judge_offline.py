"""Commands ``judge verbatim``, ``train`` and ``apply``: judges that cost nothing a pair."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from bayescontam._text import printable
from bayescontam.cli.choice import in_choice, read_all
from bayescontam.cli.options import Quiet, ScanFolder, examples
from bayescontam.cli.terminal import print_lines, print_table, quoted
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.data.judgements import Judgements
    from bayescontam.scan.results import Scan

VERBATIM_EXAMPLES = examples(
    "bayescontam judge verbatim scan --out judgements.csv",
    "bayescontam judge verbatim scan --out judgements.csv --benchmark zebralogic --per-item 10",
)
TRAIN_EXAMPLES = examples(
    "bayescontam judge train scan judgements.csv --name small --out small-judge",
    then="Then: bayescontam judge apply scan small-judge --out judgements.csv",
)
APPLY_EXAMPLES = examples(
    "bayescontam judge apply scan small-judge --out judgements.csv",
    "bayescontam judge apply scan small-judge --out judgements.csv --per-item 20",
)
_NAMES = {
    "accuracy": "accuracy", "precision": "precision", "recall": "recall", "f1": "F1",
    "log_loss": "log loss",
}  # fmt: skip

OutJudgements = Annotated[
    Path, Option("--out", "-o", help="Judgements (.csv or .parquet); added to if it exists.")
]
PerItem = Annotated[
    int | None,
    in_choice(help="Judge so many best matches of every item; default: all matches."),
]
Benchmarks = Annotated[
    list[str] | None,
    in_choice("--benchmark", help="Benchmark to take pairs of; may be repeated; default: all."),
]
Replace = Annotated[
    bool, Option("--replace", help="Replace other verdicts of this judge on these pairs.")
]


def verbatim(
    folder: ScanFolder,
    out: OutJudgements,
    per_item: PerItem = None,
    benchmark: Benchmarks = None,
    min_words: Annotated[
        int, Option(help="Words of the shortest item that is judged; shorter ones are unjudged.")
    ] = 8,
    share: Annotated[
        float,
        Option(help="Share of an item that a chunk must hold whose edge cuts the item."),
    ] = 0.8,
    replace: Replace = False,
    quiet: Quiet = False,
) -> None:
    """Judge which matches are word-for-word copies, in any order of clues or options.

    Case, white space, punctuation and numbering do not count. Verdicts are of the judge
    rule:verbatim; its 0 means "not verbatim", and never "no duplicate".
    """
    from bayescontam.evidence.verbatim import verbatim_judgements

    _check_out(out)
    pairs = _chosen(_load(folder, quiet), per_item, None, None, benchmark)
    made = verbatim_judgements(pairs, min_words=min_words, share=share, progress=not quiet)
    _add(out, made, replace, quiet)


def train(
    folder: ScanFolder,
    judgements: Annotated[
        list[Path],
        Argument(metavar="JUDGEMENTS...", help="One or more files of judgements to learn from."),
    ],
    name: Annotated[str, Option(help="Name of the judge, which becomes trained:NAME.")],
    out: Annotated[Path, Option("--out", "-o", help="New folder of the judge.")],
    seed: Annotated[int, Option(help="Seed of the folds of items and of the intervals.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Train a judge on the verdicts of people and language models, and validate it.

    It is compared, on items that it did not learn from, with these verdicts. Where people judged
    a pair, it learns from them and not from models.
    """
    from bayescontam.evidence.trained_judge import check_free, train_judge

    check_free(out)
    judged = read_all(judgements, quiet)
    assert judged is not None  # typer sees to it that there is one
    trained = train_judge(_load(folder, quiet), judged, name=name, seed=seed, progress=not quiet)
    trained.save(out)
    if quiet:
        return
    report = trained.report
    print_lines(
        [
            f"{trained.judge} learnt from {report['pairs']:,} pairs of {report['items']:,} items,"
            f" {report['true_positive'] + report['false_negative']:,} of them duplicates."
            " On items that it did not learn from:"
        ]
    )
    print_table(_metrics(report), see_all=f"{quoted(out)}/validation.json", whole=True)
    print_lines(["Reliability: how many pairs of a given probability were judged duplicates."])
    print_table(_reliability(report), see_all=f"{quoted(out)}/validation.json", whole=True)
    print(f"Wrote {printable(out)}. Next:")
    print(f"bayescontam judge apply {quoted(folder)} {quoted(out)} --out judgements.csv")


def apply(
    folder: ScanFolder,
    judge: Annotated[Path, Argument(metavar="JUDGE", help="Folder of a trained judge.")],
    out: OutJudgements,
    pairs: Annotated[
        int | None, in_choice(help="Judge so many pairs, spread over all cosines.")
    ] = None,
    per_item: PerItem = None,
    benchmark: Benchmarks = None,
    seed: Annotated[
        int | None, in_choice(help="Seed of the choice of --pairs; default: 1.")
    ] = None,
    replace: Replace = False,
    quiet: Quiet = False,
) -> None:
    """Have a trained judge judge matches; of items that it learnt from by folds without them."""
    from bayescontam.evidence.trained_judge import TrainedJudge

    _check_out(out)
    trained = TrainedJudge.load(judge)
    scan = _load(folder, quiet)
    chosen = _chosen(scan, per_item, pairs, seed, benchmark)
    _add(out, trained.apply(scan, chosen, progress=not quiet), replace, quiet)


def _load(folder: Path, quiet: bool) -> "Scan":
    from bayescontam._progress import stage
    from bayescontam.scan.results import Scan

    with stage(not quiet, "reading the scan"):
        scan = Scan.load(folder)
        _ = scan.matches, scan.texts
    return scan


def _chosen(
    scan: "Scan",
    per_item: int | None,
    pairs: int | None,
    seed: int | None,
    benchmarks: list[str] | None,
) -> "pd.DataFrame":
    from bayescontam.evidence.choice import all_pairs, choose_pairs, top_pairs

    of = benchmarks or None
    if pairs is not None and per_item is not None:
        raise UsageError("--pairs and --per-item: give one; a choice is made by one of the two")
    if pairs is None and seed is not None:
        raise UsageError("--seed: is of the choice of --pairs, and none is made; leave it out")
    if pairs is not None:
        return choose_pairs(scan, pairs, 1 if seed is None else seed, benchmarks=of)
    if per_item is not None:
        return top_pairs(scan, per_item, benchmarks=of)
    return all_pairs(scan, benchmarks=of)


def _check_out(out: Path) -> None:
    from bayescontam._files import check_writable
    from bayescontam.data.tables import check_table_ending

    check_table_ending(out, "judgements")
    check_writable(out)


def _add(out: Path, made: "Judgements", replace: bool, quiet: bool) -> None:
    """Add judgements to a file, and print how many there are."""
    from bayescontam.data.judgements import read_judgements, write_judgements

    total = read_judgements(out).merged(made, replace=replace) if out.exists() else made
    write_judgements(out, total)
    if quiet:
        return
    verdicts = made.frame["is_duplicate"]
    judge = printable(made.frame["judge"].iloc[0], 60)
    print_lines(f"Note: {note}" for note in made.notes)
    print(
        f"{judge} judged {verdicts.notna().sum():,} pairs, {verdicts.sum():,} of them duplicates."
    )
    print(f"Wrote {printable(out)} ({len(total.frame):,} judgements).")


def _metrics(report: dict[str, Any]) -> "pd.DataFrame":
    import pandas as pd

    methods = report["metrics"] | report["differences"]
    rows = {of: {_NAMES[key]: _shown(cell) for key, cell in row.items()}
            for of, row in methods.items()}  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("of").reset_index()


def _reliability(report: dict[str, Any]) -> "pd.DataFrame":
    import pandas as pd

    rows = [
        {
            "probability": f"{row['low']:.1f} to {row['high']:.1f}",
            "pairs": row["pairs"],
            "mean": row["probability"],
            "duplicates": _shown(row["duplicates"]),
        }
        for row in report["reliability"]
    ]
    return pd.DataFrame(rows)


def _shown(cell: dict[str, float | None]) -> str:
    """Return an estimate with its interval."""
    numbers = ["–" if cell[key] is None else f"{cell[key]:.3f}" for key in cell]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"
