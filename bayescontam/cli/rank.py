"""Verb ``rank``: models in order, and which cannot be distinguished."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import (
    FitFile,
    Format,
    InsteadOfPrinting,
    ShowNoProgress,
    TableFormat,
    check_out,
)
from bayescontam.names import visible
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.inference.ranking import Ranking
EXAMPLES = """
Examples:

bayescontam rank fit.nc

bayescontam rank fit.nc --benchmark mmlu --benchmark gsm8k --weights item

bayescontam rank fit.nc --pairs --level 0.9

bayescontam rank fit.nc --format csv --out ranks.csv
"""
_SPARE = (
    "genuine_ability_sd", "accuracy_sd", "mean_rank", "raw_ties", "rank_joint", "p_best",
    "p_rank_better", "p_rank_worse", "rank_raw", "places_gained", "raw_accuracy",
)  # fmt: skip
"""Columns that are left out where the terminal is narrow, in this order."""


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
    with stage(not quiet, f"reading and ranking {visible(str(path))}"):
        from bayescontam.cli.terminal import print_lines, put_text
        from bayescontam.inference.fitted import Fit
        from bayescontam.inference.ranking import rank_models
        from bayescontam.report.assumed import lines_in_short
        from bayescontam.report.tables import verdict_line

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
    print_table(ranking.table, _SPARE)
    letters = "Models that share a letter cannot be distinguished. " if ranking.groups else ""
    print_lines([
        f"{letters}places_gained counts from the rank by raw accuracy: positive is better."
    ])  # fmt: skip


def _json(ranking: "Ranking", verdict: str) -> str:
    import json

    content = ranking.to_dict() | {"verdict": verdict}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
