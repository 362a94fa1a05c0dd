"""The application, and its commands."""

import logging
from collections.abc import Sequence
from copy import copy

from typer import Exit, Option, Typer, echo
from typer.models import CommandInfo, TyperInfo

from bayescontam.cli import (
    advise,
    answer,
    compare,
    concepts,
    covariates,
    demo,
    duplicates,
    evidence,
    find,
    fit,
    importers,
    index,
    judge,
    judge_offline,
    lab,
    mastery,
    models,
    plan,
    prevalence,
    report,
    scan,
    study,
    vectors,
)

app = Typer(
    name="bayescontam",
    help=(
        "How much of a benchmark score is genuine ability, and how much is contamination.\n\n"
        "Start with a table of responses (columns model, benchmark, item, correct,"
        " contamination): bayescontam fit responses.csv --out fit.nc"
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(importers.app, name="import", epilog=importers.EXAMPLES)
app.add_typer(answer.app, name="answer", epilog=answer.EXAMPLES)
app.command("advise", epilog=advise.EXAMPLES)(advise.advise)
app.command("fit", epilog=fit.FIT_EXAMPLES)(fit.fit)
app.command("summary", epilog=report.SUMMARY_EXAMPLES)(report.summary)
app.command("badge", epilog=report.BADGE_EXAMPLES)(report.badge)
app.command("rank", epilog=compare.RANK_EXAMPLES)(compare.rank)
app.command("mastery", epilog=mastery.EXAMPLES)(mastery.mastery)
app.command("items", epilog=compare.ITEMS_EXAMPLES)(compare.items)
app.command("report", epilog=report.REPORT_EXAMPLES)(report.report)
app.command("compare", epilog=compare.COMPARE_EXAMPLES)(compare.compare)
app.command("update", epilog=fit.UPDATE_EXAMPLES)(fit.update)
app.command("plan", epilog=plan.EXAMPLES)(plan.plan)
app.add_typer(models.app, name="models", epilog=models.EXAMPLES)
app.add_typer(scan.corpora_app, name="corpora", epilog=scan.CORPORA_EXAMPLES)
app.command("scan", epilog=scan.SCAN_EXAMPLES)(scan.scan)
app.add_typer(vectors.app, name="vectors", epilog=vectors.EXAMPLES)
app.command("index", epilog=index.EXAMPLES)(index.index)
app.command("find", epilog=find.EXAMPLES)(find.find)
judge.app.command("verbatim", epilog=judge_offline.VERBATIM_EXAMPLES)(judge_offline.verbatim)
judge.app.command("train", epilog=judge_offline.TRAIN_EXAMPLES)(judge_offline.train)
judge.app.command("apply", epilog=judge_offline.APPLY_EXAMPLES)(judge_offline.apply)
app.add_typer(judge.app, name="judge", epilog=judge.EXAMPLES)
app.command("curve", epilog=covariates.CURVE_EXAMPLES)(covariates.curve)
app.command("covariates", epilog=covariates.COVARIATES_EXAMPLES)(covariates.covariates)
app.command("prevalence", epilog=prevalence.EXAMPLES)(prevalence.prevalence)
app.command("evidence", epilog=evidence.EXAMPLES)(evidence.evidence)
app.command("concepts", epilog=concepts.EXAMPLES)(concepts.concepts)
app.command("exposures", epilog=concepts.EXPOSURES_EXAMPLES)(concepts.exposures)
app.add_typer(duplicates.app, name="duplicates", epilog=duplicates.EXAMPLES)
app.command("recall", epilog=duplicates.RECALL_EXAMPLES)(duplicates.recall)
app.add_typer(lab.app, name="lab", epilog=lab.EXAMPLES)
app.add_typer(study.app, name="study", epilog=study.EXAMPLES)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)


def app_for(arguments: Sequence[str]) -> Typer:
    """Return the application with no more than these arguments need."""
    # Typer builds all parameters of all commands before it looks at the arguments, which takes a
    # quarter of the time of a help text.
    first = next((each for each in arguments if not each.startswith("-")), None)
    part = copy(app)
    if first is None:
        part.registered_commands = [_named(info) for info in app.registered_commands]
        part.registered_groups = [_named_group(info) for info in app.registered_groups]
        return part
    part.registered_commands = [info for info in app.registered_commands if info.name == first]
    part.registered_groups = [info for info in app.registered_groups if info.name == first]
    return part if part.registered_commands or part.registered_groups else app


def _named(info: CommandInfo) -> CommandInfo:
    """Return a command by its name and help alone."""

    def bare() -> None: ...

    named = copy(info)
    named.callback = bare
    bare.__doc__ = None if info.callback is None else info.callback.__doc__
    return named


def _named_group(info: TyperInfo) -> TyperInfo:
    """Return a group by its name and help alone."""
    named = copy(info)
    named.typer_instance = copy(info.typer_instance)
    if named.typer_instance is not None:
        named.typer_instance.registered_commands = []
    return named


def _version(wanted: bool) -> None:
    if wanted:
        import bayescontam

        echo(f"bayescontam {bayescontam.__version__}")
        raise Exit


@app.callback()
def _root(
    version: bool = Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    # PyMC announces what it samples, which the progress bar shows. Not "pymc" itself, whose
    # level is set anew when it is imported.
    for name in ("pymc.sampling", "pymc.stats"):
        logging.getLogger(name).setLevel(logging.WARNING)
