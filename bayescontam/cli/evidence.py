"""Command ``evidence``: scores of models on items' texts to covariates."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import (
    Chains,
    Draws,
    Level,
    OutTable,
    Quiet,
    Strict,
    Tune,
    check_file,
    columns_of,
    examples,
    exit_if_failed,
)
from bayescontam.cli.terminal import print_checks, print_lines, print_notes, print_table, put_json

if TYPE_CHECKING:
    from bayescontam.evidence.model_evidence import ModelEvidence


EXAMPLES = examples(
    "bayescontam evidence ngrams.csv --out covariates.parquet --column control=rewritten",
    "bayescontam evidence losses.csv -o covariates.csv --column score=loss --lower-is-seen",
    then="Then: bayescontam fit responses.csv --covariates covariates.parquet"
    " --model latent_duplicate",
)
_SPARE = ["separation_high", "separation_low", "separation", "above"]


def evidence(
    scores: Annotated[
        Path,
        Argument(
            help="Table of model, benchmark, item, control (1: the model cannot have seen the"
            " item), and n_correct with n_trials, or score."
        ),
    ],
    out: OutTable,
    column: Annotated[
        list[str] | None,
        Option(help="NAME=COLUMN: where the table has another name; may be repeated."),
    ] = None,
    lower_is_seen: Annotated[
        bool, Option("--lower-is-seen", help="Low scores are those of seen items, as of a loss.")
    ] = False,
    without_controls: Annotated[
        Literal["error", "drop", "borrow"],
        Option(
            help="Models with fewer than 20 controls: refuse; leave out; or borrow: clean scores"
            " are guessed from the other models (counts only)."
        ),
    ] = "error",
    level: Level = 0.95,
    draws: Draws = 1500,
    tune: Tune = 1500,
    chains: Chains = 4,
    seed: Annotated[
        int | None, Option(help="Seed; default: a fresh one, which is printed.")
    ] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print models and checks as JSON, and nothing else.")
    ] = False,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Estimate how likely each model has seen each item, from scores of the model itself."""
    check_file(out, scores)
    shown = not quiet and not as_json
    with stage(shown, f"reading {printable(scores)}"):
        from bayescontam.data.model_scores import read_scores
        from bayescontam.data.tables import check_table_ending, write_table
        from bayescontam.evidence.model_evidence import ASSUMPTION, model_evidence

        check_table_ending(out, "covariates")
        table = read_scores(scores, columns=columns_of(column), lower_is_seen=lower_is_seen)
    found = model_evidence(
        table,
        without_controls=without_controls,
        level=level,
        seed=seed,
        draws=draws,
        tune=tune,
        chains=chains,
        progress=shown,
    )
    print_notes(found.scores.notes)
    rows = found.covariates().frame
    write_table(out, rows)
    if as_json:
        models = found.summary(level).to_dict("records")
        checks = [check.to_dict() for check in found.checks]
        put_json({"models": models, "checks": checks, "assumption": ASSUMPTION, "seed": found.seed})
    elif shown:
        _print_found(found, level)
        print_lines(
            [ASSUMPTION, f"Seed {found.seed}. Wrote {printable(out)} ({len(rows):,} rows)."]
        )
    if strict:
        exit_if_failed(found.checks)


def _print_found(found: "ModelEvidence", level: float) -> None:
    from bayescontam.inference.checks import checks_sentence

    print_table(found.summary(level), _SPARE, "--json")
    print_lines(
        [
            "share: of the items that are no controls, the share that was seen; separation: P(a"
            " seen item scores above a clean one); above: how often items score above controls.",
            f"{checks_sentence(found.checks)}.",
        ]
    )
    print_checks(found.checks)
