"""Commands ``curve`` and ``covariates``."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.choice import read_all
from bayescontam.cli.options import (
    Chains,
    Draws,
    EngineName,
    Level,
    Out,
    OutTable,
    Quiet,
    ScanFolder,
    Strict,
    Tune,
    check_file,
    examples,
    exit_if_failed,
)
from bayescontam.cli.terminal import (
    command_line,
    print_checks,
    print_lines,
    print_notes,
    print_table,
)
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.evidence.covariates import ItemContamination
    from bayescontam.evidence.curve import Curve


CURVE_EXAMPLES = examples(
    "bayescontam curve scan --judgements judgements.csv --out curve.nc",
    "bayescontam curve scan --judgements people.csv --judgements model.parquet --seed 1"
    " -o curve.nc",
    then="Then: bayescontam covariates scan --curve curve.nc --out covariates.parquet",
)
COVARIATES_EXAMPLES = examples(
    "bayescontam covariates scan --judgements judgements.csv --out covariates.parquet",
    "bayescontam covariates scan --curve curve.nc --out covariates.csv --floor 0.3",
    then="Then: bayescontam fit responses.csv --covariates covariates.parquet"
    " --model latent_duplicate",
)
# What tables for people call the parameters of a curve, and columns and parts of prevalence.
_QUANTITIES = {
    "threshold_open": "item threshold", "steepness_open": "item steepness",
    "threshold": "document threshold", "steepness": "document steepness",
    "source_shift": "source shift", "sigma_item": "item spread",
    "share_further": "further chunks", "threshold_exact": "exact threshold",
    "steepness_exact": "exact steepness", "chosen": "chosen kinds", "chosen_slope": "chosen slope",
    "naming": "kind named right",
}  # fmt: skip
_PARTS = {"corpus": "whole corpus", "scanned": "scanned part"}
_COLUMNS = {
    "by": "in", "n_mean": "with_duplicates", "n_low": "with_duplicates_low",
    "n_high": "with_duplicates_high", "mean": "share", "ci_low": "share_low",
    "ci_high": "share_high",
}  # fmt: skip
_NUMBERS = {"median": "documents", "ci_low": "documents_low", "ci_high": "documents_high"}
JudgementFiles = Annotated[
    list[Path] | None,
    Option(
        help="File of judgements of this scan's pairs; may be repeated. Without any, the curve"
        " is the prior."
    ),
]
Kinds = Annotated[
    list[str] | None,
    Option(
        "--kind",
        help="Kind of duplicates that counts (exact, equivalent, subset, superset, related); may"
        " be repeated. Default: all.",
    ),
]
Validations = Annotated[
    list[Path] | None,
    Option(
        "--validation",
        help="What 'bayescontam judge train' measured of a trained judge on held-out pairs"
        " (.json); may be repeated.",
    ),
]
Seed = Annotated[int | None, Option(help="Seed; default: a fresh one, which the curve records.")]


def curve(
    scan: ScanFolder,
    out: Out,
    judgements: JudgementFiles = None,
    spec: Annotated[str, Option(help="Curve spec: monotone, or a .toml file.")] = "monotone",
    kind: Kinds = None,
    validation: Validations = None,
    level: Level = 0.95,
    draws: Draws = 1000,
    tune: Tune = 1500,
    chains: Chains = 4,
    engine: EngineName = "nutpie",
    seed: Seed = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Estimate from judgements how likely a match of a given cosine is a duplicate."""
    check_file(out, judgements, validation, spec)  # before minutes of sampling, not after
    with stage(not quiet, f"reading {printable(scan)} and its judgements"):
        from bayescontam.data.held_out import read_validations
        from bayescontam.evidence.curve import fit_curve
    fitted = fit_curve(
        scan,
        read_all(judgements, quiet),
        spec,
        kinds=kind or (),
        validated=read_validations(validation or ()),
        level=level,
        seed=seed,
        engine=engine,
        draws=draws,
        tune=tune,
        chains=chains,
        progress=not quiet,
        command=command_line(),
    )
    fitted.to_netcdf(out)
    if quiet:
        _print_prior(fitted)
    else:
        _print_curve(fitted, out)
    if strict:
        exit_if_failed(fitted.checks())


def _print_prior(fitted: "Curve") -> None:
    """Print that nothing was judged if so: with --quiet too, as numbers then rest on a guess."""
    found = [check for check in fitted.checks() if check.name == "Judgements"]
    print_notes(f"{check.outcome.value}: {check.sentence}" for check in found)


def _print_curve(fitted: "Curve", path: Path) -> None:
    from bayescontam.evidence.curve import halves
    from bayescontam.evidence.kinds import kind_words
    from bayescontam.inference.checks import checks_sentence

    print_lines(
        f"{printable(str(row['benchmark']), 60)}: half are duplicates{kind_words(fitted.kinds)} at"
        f" a cosine of {row['text']}."
        for row in halves(fitted).to_dict("records")
    )
    table = fitted.summary().rename(columns={"ci_low": "mean_low", "ci_high": "mean_high"})
    table = table.replace({"quantity": _QUANTITIES})
    spare = ["sd", "mcse_mean", "ess_tail", "ess_bulk", "r_hat"]
    print_table(table, spare, "the report of the curve, bayescontam report")
    print_lines(
        [
            "item: whether it has duplicates at all; document: whether it is one. Thresholds are"
            " cosines, steepness is in log-odds per unit of cosine.",
            f"{checks_sentence(fitted.checks())}.",
        ]
    )
    print_checks(fitted.checks())
    print_lines([f"Seed {fitted.record['seed']}. Saved {printable(path)}."])


def covariates(
    scan: ScanFolder,
    out: OutTable,
    judgements: JudgementFiles = None,
    curve: Annotated[
        Path | None, Option(help="Instead of judgements: a curve that 'bayescontam curve' wrote.")
    ] = None,
    spec: Annotated[
        str | None, Option(help="Curve spec: a name or a .toml file; default: monotone.")
    ] = None,
    kind: Kinds = None,
    validation: Validations = None,
    save_curve: Annotated[
        Path | None, Option(help="File to keep the fitted curve in (.nc).")
    ] = None,
    floor: Annotated[float, Option(help="Cosine below which matches do not count.")] = 0.35,
    draws: Annotated[int, Option(help="Draws of the curve that items are weighed with.")] = 200,
    level: Level = 0.95,
    seed: Seed = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Estimate for each item the probability that the corpus holds a duplicate of it."""
    with stage(not quiet, f"reading {printable(scan)}"):
        from bayescontam.data.covariates import Covariates
        from bayescontam.data.held_out import read_validations
        from bayescontam.data.tables import check_table_ending, write_table
        from bayescontam.data.validation import check_level
        from bayescontam.evidence.covariates import (
            check_options,
            covariates_table,
            item_contamination,
        )
        from bayescontam.evidence.curve import Curve, fit_curve
        from bayescontam.scan.results import Scan
    # Refused before minutes of work, not after them.
    for written in (out, save_curve):
        if written is not None:
            check_file(written, curve, judgements, validation)
    check_options(floor, draws)
    check_table_ending(out, "covariates")
    check_level(level, "--level")
    if curve is not None and save_curve is not None:
        raise UsageError(
            "--save-curve: stores a curve that is fitted here; --curve is stored already"
        )
    opened = Scan.load(scan)
    if curve is None:
        fitted = fit_curve(
            opened,
            read_all(judgements, quiet),
            "monotone" if spec is None else spec,
            kinds=kind or (),
            validated=read_validations(validation or ()),
            level=level,
            seed=seed,
            progress=not quiet,
            command=command_line(),
        )
    else:
        given: dict[str, object] = {"judgements": judgements or None, "spec": spec, "seed": seed}
        given |= {"kind": kind or None, "validation": validation or None}
        if clash := [f"--{name}" for name, value in given.items() if value is not None]:
            raise UsageError(
                f"--curve: is fitted already, and takes no {', '.join(clash)}; leave one out"
            )
        fitted = Curve.from_netcdf(curve)
    if save_curve is not None:
        fitted.to_netcdf(save_curve)
    weighed = item_contamination(opened, fitted, floor=floor, draws=draws, progress=not quiet)
    write_table(out, Covariates.from_frame(covariates_table(weighed, opened, fitted)).frame)
    if quiet:
        _print_prior(fitted)
    else:
        _print_weighed(weighed, fitted, level, out)
    if strict:
        exit_if_failed(fitted.checks())


def _print_weighed(weighed: "ItemContamination", fitted: "Curve", level: float, out: Path) -> None:
    """Print how many items have duplicates, what that rests on, and where the table lies."""
    from bayescontam.evidence.kinds import kind_words
    from bayescontam.evidence.prevalence import duplicate_numbers, prevalence
    from bayescontam.inference.checks import checks_sentence

    shares = prevalence(weighed, level=level)
    numbers = duplicate_numbers(weighed, level=level).drop(columns="mean")
    numbers = numbers.rename(columns=_NUMBERS).astype(dict.fromkeys(_NUMBERS.values(), int))
    shown = shares[shares["by"].isin(_PARTS)].merge(numbers, on=["benchmark", "by"])
    shown = shown.replace({"by": _PARTS}).rename(columns=_COLUMNS)
    print_table(
        shown[[c for c in shown if c not in ("group", "sd") and "of_kinds" not in str(c)]],
        see_all="the report of the scan, with --curve",
    )
    print_lines(
        [
            *([f"Counted are duplicates{kind_words(fitted.kinds)}."] if fitted.kinds else []),
            "with duplicates: items with at least one; documents: those that hold a duplicate,"
            " copies counted (median).",
            *_notes(weighed),
            f"Curve: {checks_sentence(fitted.checks())}.",
        ]
    )
    print_checks(fitted.checks())
    print_lines([f"Wrote {printable(out)} ({len(weighed.items):,} items)."])


def _notes(weighed: "ItemContamination") -> Iterator[str]:
    """Yield how much of the result was seen, and how much is inferred."""
    for name, share in zip(weighed.sources, weighed.shares, strict=True):
        if share < 1:
            yield f"Of source {printable(name, 60)}, {100 * share:.3g} % was searched."
    scanned, rest = (
        x.mean(axis=0).sum() for x in (weighed.expected_scanned, weighed.expected_rest)
    )
    if rest > 0.2 * scanned:
        yield (
            f"{100 * rest / scanned:.0f} % of the duplicates expected in what was scanned are"
            " among matches that are not listed one by one: judge pairs at low cosines, or list"
            " more matches of each item (top_k)."
        )
