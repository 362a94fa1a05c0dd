"""The application, and its commands."""

import logging

from typer import Exit, Option, Typer, echo

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
