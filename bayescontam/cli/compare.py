"""Commands ``compare``, ``rank`` and ``items``."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    FitFile,
    Format,
    InsteadOfPrinting,
    ShowNoProgress,
    TableFormat,
    check_out,
)

if TYPE_CHECKING:
    from bayescontam.inference.ranking import Ranking
    from bayescontam.inference.result import Fit


COMPARE_EXAMPLES = """
Examples:

bayescontam compare hierarchical.nc positive.nc single.nc

bayescontam compare hierarchical.nc positive.nc --refit

bayescontam compare hierarchical.nc positive.nc --leave-out item --cache folds

bayescontam compare hierarchical.nc --leave-out model --format csv
"""
_AGAIN = "Refits"
_SPARE_OF_FITS = ("left_out", "p_loo", "refits", "divergences", "r_hat", "bad_k", "diff_se", "se")
"""Columns that are left out where the terminal is narrow, in this order."""
RANK_EXAMPLES = """
Examples:

bayescontam rank fit.nc

bayescontam rank fit.nc --benchmark mmlu --benchmark gsm8k --weights item

bayescontam rank fit.nc --pairs --level 0.9

bayescontam rank fit.nc --format csv --out ranks.csv
"""
_SPARE_OF_RANKS = (
    "genuine_ability_sd", "accuracy_sd", "mean_rank", "raw_ties", "rank_joint", "p_best",
    "p_rank_better", "p_rank_worse", "rank_raw", "places_gained", "raw_accuracy",
)  # fmt: skip
"""Columns that are left out where the terminal is narrow, in this order."""
ITEMS_EXAMPLES = """
Examples:

bayescontam items fit.nc

bayescontam items fit.nc --fdr 0.2 --format csv --out items.csv
"""
_MOST = 20
"""Rows that the terminal gets where fewer items are suspects."""


class Part(StrEnum):
    """What is left out together."""

    RESPONSE = "response"
    ITEM = "item"
    MODEL = "model"


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Two or more fits of the same responses; one is enough with folds.",
            show_default=False,
        ),
    ],
    leave_out: Annotated[
        Part,
        typer.Option(
            help="What is left out and predicted: single responses, all responses to an item, or"
            " all responses of a model."
        ),
    ] = Part.RESPONSE,
    output: Format = TableFormat.TABLE,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Number of folds, each predicted by a fit without it; default: 10 for items and"
            " models, none for responses (PSIS-LOO, without refitting).",
            show_default=False,
            rich_help_panel=_AGAIN,
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Refit without each response whose Pareto k is above 0.7 (at most 20).",
            rich_help_panel=_AGAIN,
        ),
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results of finished refits; the same command then resumes.",
            show_default=False,
            rich_help_panel=_AGAIN,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            help="Fits made in parallel; default: one for each core.",
            show_default=False,
            rich_help_panel=_AGAIN,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds.", rich_help_panel=_AGAIN)] = 0,
    quiet: ShowNoProgress = False,
) -> None:
    """Compare fits of the same responses: cross-validation and stacking weights."""
    with stage(not quiet, "reading the fits"):
        from bayescontam.cli.terminal import calm, print_lines, print_table
        from bayescontam.inference.compare import compare as compare_fits

        calm()
        fits = load_all(paths)
    try:
        table = compare_fits(
            fits,
            leave_out=leave_out.value,
            folds=folds,
            refit=refit,
            seed=seed,
            jobs=jobs,
            cache=cache,
            progress=not quiet,
        )
    except KeyboardInterrupt:
        if cache is not None:
            print(
                "finished refits are stored: run the same command again to resume", file=sys.stderr
            )
        raise
    if output is TableFormat.TABLE:
        print_table(table.drop(columns="verdict").dropna(axis=1, how="all"), spare=_SPARE_OF_FITS)
        names = zip(table["fit"], table["verdict"], strict=True)
        print_lines(f"{printable(name)}: {verdict}" for name, verdict in names)
    elif output is TableFormat.CSV:
        print(table.to_csv(index=False), end="")
    else:
        print(table.to_json(orient="records", indent=1, double_precision=15))


def load_all(paths: Sequence[Path]) -> "dict[str, Fit]":
    """Read fits under their file names; under their whole paths where names repeat."""
    from bayescontam.errors import UsageError
    from bayescontam.inference.result import Fit

    if len(set(paths)) < len(paths):
        raise UsageError("compare: one file is named twice; name each fit once")
    names = [path.stem for path in paths]
    labels = names if len(set(names)) == len(names) else [str(path) for path in paths]
    return {label: Fit.load(path) for label, path in zip(labels, paths, strict=True)}


class By(StrEnum):
    """What models are ranked by."""

    GENUINE_ABILITY = "genuine_ability"
    ACCURACY = "accuracy"


class Weights(StrEnum):
    """What has equal weight in an average over benchmarks."""

    BENCHMARK = "benchmark"
    ITEM = "item"


def rank(
    path: FitFile,
    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            help="Benchmark to rank on; may be repeated, to average over several. Default: the"
            " average over all. Only models that answered every one are ranked.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(
            help="What to rank by; default: genuine ability, or accuracy where contamination was"
            " not modelled.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        Weights, typer.Option(help="What has equal weight in the average: benchmarks, or items.")
    ] = Weights.BENCHMARK,
    level: Annotated[
        float | None,
        typer.Option(
            help="Credible level, and the probability of an order from which two models count as"
            " distinguished; default: the fit's.",
            show_default=False,
        ),
    ] = None,
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs",
            help="Print every pair of models with the probability that the first is better,"
            " instead of ranks. JSON has both.",
        ),
    ] = False,
    output: Format = TableFormat.TABLE,
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """Rank models on one benchmark or several, and show which cannot be distinguished."""
    check_out(output, out, path)
    with stage(not quiet, f"reading and ranking {printable(str(path))}"):
        from bayescontam.cli.terminal import print_lines, put_text
        from bayescontam.inference.findings import lines_in_short, verdict_line
        from bayescontam.inference.ranking import rank_models
        from bayescontam.inference.result import Fit

        fit = Fit.load(path)
        ranking = rank_models(
            fit,
            benchmark or None,
            by=None if by is None else by.value,
            weights=weights.value,
            level=level,
        )
    if output is TableFormat.TABLE:
        _print(ranking, pairs)
        print_lines([*ranking.sentences(), verdict_line(fit), *lines_in_short(fit)])
    elif output is TableFormat.CSV:
        put_text((ranking.pairs() if pairs else ranking.table).to_csv(index=False), out)
    else:
        put_text(_json(ranking, verdict_line(fit)), out)


def _print(ranking: "Ranking", pairs: bool) -> None:
    from bayescontam.cli.terminal import print_lines, print_table

    if pairs:
        if len(ranking.table) < 2:
            print_lines(["There is one model, and so no pair."])
            return
        table = ranking.pairs()
        words = table["distinguished"].map({True: "yes", False: "no"})
        print_table(table.assign(distinguished=words))
        return
    print_table(ranking.table, _SPARE_OF_RANKS)
    letters = "Models that share a letter cannot be distinguished. " if ranking.groups else ""
    print_lines([
        f"{letters}places_gained counts from the rank by raw accuracy: positive is better."
    ])  # fmt: skip


def _json(ranking: "Ranking", verdict: str) -> str:
    import json

    content = ranking.to_dict() | {"verdict": verdict}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def items(
    path: FitFile,
    fdr: Annotated[
        float,
        typer.Option(
            help="False discovery rate: the share of the suspects that may be items that fit."
        ),
    ] = 0.1,
    output: Format = TableFormat.TABLE,
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """List the items that do not fit: solved by weak models and missed by strong ones."""
    check_out(output, out, path)
    with stage(not quiet, f"reading {printable(str(path))}"):
        from bayescontam.cli.terminal import print_lines, print_table, put_text
        from bayescontam.inference.result import Fit

        fit = Fit.load(path)
        table, sentences = fit.item_fit(fdr), fit.item_sentences(fdr)
    if output is TableFormat.TABLE:
        shown = table[table["p_value"].notna()].head(max(_MOST, int(table["suspect"].sum())))
        if len(shown):
            suspect = shown["suspect"].map({True: "yes", False: ""})
            print_table(shown.assign(suspect=suspect), ("contamination", "p_value"))
        print_lines(sentences)
    elif output is TableFormat.CSV:
        put_text(table.to_csv(index=False), out)
    else:
        import json

        rows = json.loads(table.to_json(orient="records", double_precision=15))
        content = {"fdr": fdr, "items": rows, "sentences": sentences}
        put_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", out)
