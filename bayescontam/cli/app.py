"""The application that the verbs belong to."""

import typer

from bayescontam.cli import (
    compare,
    corpora,
    covariates,
    curve,
    demo,
    fit,
    import_,
    items,
    judge,
    models,
    plan,
    rank,
    report,
    scan,
    study,
    summary,
    update,
)

app = typer.Typer(
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
app.add_typer(import_.app, name="import", epilog=import_.EXAMPLES)
app.command("fit", epilog=fit.EXAMPLES)(fit.fit)
app.command("summary", epilog=summary.EXAMPLES)(summary.summary)
app.command("rank", epilog=rank.EXAMPLES)(rank.rank)
app.command("items", epilog=items.EXAMPLES)(items.items)
app.command("report", epilog=report.EXAMPLES)(report.report)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("update", epilog=update.EXAMPLES)(update.update)
app.command("plan", epilog=plan.EXAMPLES)(plan.plan)
app.add_typer(models.app, name="models", epilog=models.EXAMPLES)
app.add_typer(corpora.app, name="corpora", epilog=corpora.EXAMPLES)
app.command("scan", epilog=scan.EXAMPLES)(scan.scan)
app.add_typer(judge.app, name="judge", epilog=judge.EXAMPLES)
app.command("curve", epilog=curve.EXAMPLES)(curve.curve)
app.command("covariates", epilog=covariates.EXAMPLES)(covariates.covariates)
app.add_typer(study.app, name="study", epilog=study.EXAMPLES)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        import bayescontam

        typer.echo(f"bayescontam {bayescontam.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    pass
