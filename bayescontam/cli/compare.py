"""Commands ``compare``, ``rank`` and ``items``."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    FitFile,
    Format,
    InsteadOfPrinting,
    PaperFormat,
    ShowNoProgress,
    check_file,
    check_out,
    examples,
)
from bayescontam.cli.terminal import (
    print_lines,
    print_table,
    put_csv,
    put_json,
    put_text,
    resumable,
)
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.inference.equivalence import Against
    from bayescontam.inference.ranking import Ranking
    from bayescontam.inference.result import Fit


COMPARE_EXAMPLES = examples(
    "bayescontam compare hierarchical.nc positive.nc single.nc",
    "bayescontam compare hierarchical.nc positive.nc --refit",
    "bayescontam compare hierarchical.nc positive.nc --leave-out item --cache folds",
    "bayescontam compare hierarchical.nc --leave-out model --format csv",
)
RANK_EXAMPLES = examples(
    "bayescontam rank fit.nc",
    "bayescontam rank fit.nc --benchmark mmlu --benchmark gsm8k --weights item",
    "bayescontam rank fit.nc --pairs --level 0.9",
    "bayescontam rank finetuned.nc --against base --margin 0.02",
    "bayescontam rank fit.nc --format csv --out ranks.csv",
    "bayescontam rank fit.nc --format markdown",
)
ITEMS_EXAMPLES = examples(
    "bayescontam items fit.nc",
    "bayescontam items fit.nc --fdr 0.2 --format csv --out items.csv",
    "bayescontam items fit.nc --samples samples.csv",
)
# Columns that are left out where the terminal is narrow, in this order.
_SPARE_OF_FITS = ("left_out", "p_loo", "refits", "divergences", "r_hat", "bad_k", "diff_se", "se")
_SPARE_OF_RANKS = (
    "genuine_ability_sd", "genuine_ability_direct_sd", "accuracy_sd", "mean_rank", "raw_ties",
    "rank_joint", "p_best", "p_rank_better", "p_rank_worse", "rank_raw", "places_gained",
    "raw_accuracy",
)  # fmt: skip
_SPARE_OF_AGAINST = ("own_se", "own_difference", "p_better", "p_worse", "smallest_margin")
_MOST = 20
"""Rows that the terminal gets where fewer items are suspects."""
in_refits = partial(Option, rich_help_panel="Refits")
in_margins = partial(Option, rich_help_panel="Against one model")


def compare(
    paths: Annotated[
        list[Path],
        Argument(help="Two or more fits of the same responses; one is enough with folds."),
    ],
    leave_out: Annotated[
        Literal["response", "item", "model"],
        Option(
            help="What is left out and predicted: single responses, all responses to an item, or"
            " all responses of a model."
        ),
    ] = "response",
    output: Format = "table",
    folds: Annotated[
        int | None,
        in_refits(
            help="Number of folds, each predicted by a fit without it; default: 10 for items and"
            " models, none for responses (PSIS-LOO, without refitting)."
        ),
    ] = None,
    refit: Annotated[
        bool,
        in_refits(
            "--refit", help="Refit without each response whose Pareto k is above 0.7 (at most 20)."
        ),
    ] = False,
    cache: Annotated[
        Path | None,
        in_refits(help="Folder for results of finished refits; the same command then resumes."),
    ] = None,
    jobs: Annotated[
        int | None,
        in_refits("--jobs", "-j", help="Fits made in parallel; default: one for each core."),
    ] = None,
    seed: Annotated[int, in_refits(help="Seed of the folds.")] = 0,
    quiet: ShowNoProgress = False,
) -> None:
    """Compare fits of the same responses: cross-validation and stacking weights."""
    with stage(not quiet, "reading the fits"):
        from bayescontam.inference.crossval import compare as compare_fits
        from bayescontam.inference.named_fits import named_fits

        fits = named_fits(paths)
    with nullcontext() if cache is None else resumable("finished refits"):
        table = compare_fits(
            fits,
            leave_out=leave_out,
            folds=folds,
            refit=refit,
            seed=seed,
            jobs=jobs,
            cache=cache,
            progress=not quiet,
        )
    if output == "csv":
        put_csv(table)
    elif output == "json":
        put_json(table)
    else:
        print_lines(estimated_by(fits))
        print_table(table.drop(columns="verdict").dropna(axis=1, how="all"), spare=_SPARE_OF_FITS)
        names = zip(table["fit"], table["verdict"], strict=True)
        print_lines(f"{printable(name)}: {verdict}" for name, verdict in names)


def estimated_by(fits: "dict[str, Fit]") -> list[str]:
    """Return which effect the fits estimate, with their names where they differ in it."""
    from bayescontam.inference.findings import estimated_effect

    lines: dict[str, list[str]] = {}
    for name, fit in fits.items():
        lines.setdefault(estimated_effect(fit.data["estimands"]), []).append(printable(name))
    if len(lines) == 1:
        return list(lines)
    return [f"{', '.join(names)}: {line}" for line, names in lines.items()]


def rank(
    path: FitFile,
    benchmark: Annotated[
        list[str] | None,
        Option(
            help="Benchmark to rank on; may be repeated, to average over several. Default: the"
            " average over all. Only models that answered every one are ranked."
        ),
    ] = None,
    by: Annotated[
        Literal["genuine_ability", "genuine_ability_direct", "accuracy"] | None,
        Option(
            help="What to rank by; default: genuine ability, or accuracy where contamination was"
            " not modelled. Without spillover in the fit, genuine_ability stands for"
            " genuine_ability_direct."
        ),
    ] = None,
    weights: Annotated[
        Literal["benchmark", "item"],
        Option(help="What has equal weight in the average: benchmarks, or items."),
    ] = "benchmark",
    level: Annotated[
        float | None,
        Option(
            help="Credible level, and the probability of an order from which two models count as"
            " distinguished; default: the fit's."
        ),
    ] = None,
    pairs: Annotated[
        bool,
        Option(
            "--pairs",
            help="Print every pair of models with the probability that the first is better,"
            " instead of ranks. JSON has both.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        in_margins(
            help="Model that the others are held against, instead of ranks: which are no worse"
            " than it by more than --margin, and which are worse."
        ),
    ] = None,
    margin: Annotated[
        float | None,
        in_margins(
            help="Largest difference that does not matter, such as 0.02 for two points. Needed"
            " with --against; choose it before you see the result."
        ),
    ] = None,
    two_sided: Annotated[
        bool,
        in_margins("--two-sided", help="State 'within ± the margin': a gain matters too."),
    ] = False,
    output: PaperFormat = "table",
    out: InsteadOfPrinting = None,
    quiet: ShowNoProgress = False,
) -> None:
    """Rank models on one benchmark or several, and show which cannot be distinguished."""
    check_out(output, out, path)
    _check_margins(against, margin, two_sided, pairs)
    if output in ("markdown", "latex") and (pairs or against is not None):
        raise UsageError(f"--format {output}: is for a ranking; leave --pairs or --against out")
    with stage(not quiet, f"reading and ranking {printable(path)}"):
        from bayescontam.inference.equivalence import compare_against
        from bayescontam.inference.findings import estimated_effect, verdict_line, which_items
        from bayescontam.inference.ranking import rank_models
        from bayescontam.inference.result import Fit

        fit = Fit.from_netcdf(path)
        if against is None or margin is None:
            ranking = rank_models(fit, benchmark or None, by=by, weights=weights, level=level)
        else:
            held = compare_against(
                fit,
                against,
                margin,
                two_sided=two_sided,
                benchmark=benchmark or None,
                by=by,
                weights=weights,
                level=level,
            )
    effect, which = estimated_effect(fit.data["estimands"]), which_items(fit, level)
    if against is not None:
        _put_against(held, effect, output, out, [verdict_line(fit, level), f"Which items: {which}"])
    elif output == "csv":
        put_csv(ranking.pairs() if pairs else ranking.table, out)
    elif output == "json":
        put_json({"note": effect} | ranking.to_dict() | {"verdict": verdict_line(fit, level)}, out)
    elif output != "table":
        from bayescontam.report.paper import as_paper, leaderboard, notes_of

        put_text(as_paper(leaderboard(ranking), output, notes_of(fit, ranking)), out)
    else:
        print_lines([effect])
        _print_ranking(ranking, pairs)
        print_lines([*ranking.sentences(), verdict_line(fit, level), f"Which items: {which}"])


def _check_margins(against: str | None, margin: float | None, two_sided: bool, pairs: bool) -> None:
    """Refuse one of --against and --margin without the other, and what goes with neither."""
    if against is not None and margin is None:
        raise UsageError(
            "--against needs --margin: the largest difference that does not matter, such as 0.02"
            " for two points; there is no default, since only you know what matters"
        )
    if against is None and (margin is not None or two_sided):
        option = "--two-sided" if margin is None else "--margin"
        raise UsageError(f"{option} needs --against: the model that the others are held against")
    if against is not None and pairs:
        raise UsageError("--against and --pairs: give one of the two")


def _put_against(
    held: "Against", effect: str, output: str, out: Path | None, last: list[str]
) -> None:
    if output == "csv":
        put_csv(held.table, out)
    elif output == "json":
        put_json({"note": effect} | held.to_dict() | {"verdict": last[0]}, out)
    else:
        print_lines([effect])
        print_table(held.table, _SPARE_OF_AGAINST)
        print_lines([*held.sentences(), *last])


def _print_ranking(ranking: "Ranking", pairs: bool) -> None:
    if pairs and len(ranking.table) < 2:
        print_lines(["There is one model, and so no pair."])
    elif pairs:
        table = ranking.pairs()
        words = table["distinguished"].map({True: "yes", False: "no"})
        print_table(table.assign(distinguished=words))
    else:
        print_table(ranking.table, _SPARE_OF_RANKS)
        letters = "Models that share a letter cannot be distinguished. " if ranking.groups else ""
        print_lines(
            [f"{letters}places_gained counts from the rank by raw accuracy: positive is better."]
        )


def items(
    path: FitFile,
    fdr: Annotated[
        float,
        Option(help="False discovery rate: the share of the suspects that may be items that fit."),
    ] = 0.1,
    output: Format = "table",
    out: InsteadOfPrinting = None,
    samples: Annotated[
        Path | None,
        Option(
            help="Table to write (.csv, .parquet): where in the logs the answers to the suspects"
            " are, or to the items that are listed instead."
        ),
    ] = None,
    quiet: ShowNoProgress = False,
) -> None:
    """List the items that do not fit: solved by weak models and missed by strong ones."""
    check_out(output, out, path)
    if samples is not None:
        from bayescontam.data.tables import check_table_ending, write_table

        check_table_ending(samples, "samples")
        check_file(samples, path)
        if out is not None and out.absolute() == samples.absolute():
            raise UsageError("--out, --samples: are one file; give two")
    with stage(not quiet, f"reading {printable(path)}"):
        from bayescontam.inference.result import Fit

        fit = Fit.from_netcdf(path)
        table, sentences = fit.item_fit(fdr), fit.item_sentences(fdr)
    shown = table[table["p_value"].notna()].head(max(_MOST, int(table["suspect"].sum())))
    if samples is not None:
        found = fit.samples(shown["item"].to_list())
        if found.empty:
            raise UsageError(
                f"--samples: {printable(path)} holds no names of logs for these items; import the"
                " logs with this version (bayescontam import inspect or lm-eval) and fit again"
            )
        write_table(samples, found)
    if output == "csv":
        put_csv(table, out)
    elif output == "json":
        put_json({"fdr": fdr, "items": table, "sentences": sentences}, out)
    else:
        if len(shown):
            suspect = shown["suspect"].map({True: "yes", False: ""})
            print_table(shown.assign(suspect=suspect), ("contamination", "p_value"))
        print_lines(sentences)
        if samples is not None:
            print_lines([f"Wrote where {len(found):,} answers are to {printable(samples)}"])
