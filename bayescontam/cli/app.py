"""The application, and its commands."""

import typer

from bayescontam.cli import (
    compare,
    covariates,
    demo,
    fit,
    importers,
    judge,
    models,
    plan,
    report,
    scan,
    study,
)

IMPORT_EXAMPLES = """
Examples:

bayescontam import lm-eval results --out responses.parquet --filter strict-match --metric acc

bayescontam import inspect logs --out responses.parquet --scorer match --partial incorrect

bayescontam import matrix scores.csv --benchmark mmlu --out responses.csv

Then: bayescontam fit responses.parquet --covariates covariates.parquet --out fit.nc
"""
import_app = typer.Typer(
    help="Make a table of responses from logs of evaluation tools, or from a matrix.",
    no_args_is_help=True,
)
for _name, _verb, _examples in (
    ("lm-eval", importers.lm_eval, importers.LM_EVAL_EXAMPLES),
    ("inspect", importers.inspect, importers.INSPECT_EXAMPLES),
    ("every-eval-ever", importers.every_eval_ever, importers.EVERY_EVAL_EVER_EXAMPLES),
    ("helm", importers.helm, importers.HELM_EXAMPLES),
    ("opencompass", importers.opencompass, importers.OPENCOMPASS_EXAMPLES),
    ("lighteval", importers.lighteval, importers.LIGHTEVAL_EXAMPLES),
    ("py-irt", importers.py_irt, importers.PY_IRT_EXAMPLES),
    ("swe-bench", importers.swe_bench, importers.SWE_BENCH_EXAMPLES),
    ("evalplus", importers.evalplus, importers.EVALPLUS_EXAMPLES),
    ("livecodebench", importers.livecodebench, importers.LIVECODEBENCH_EXAMPLES),
    ("matrix", importers.matrix, importers.MATRIX_EXAMPLES),
):
    import_app.command(_name, epilog=_examples)(_verb)


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
app.add_typer(import_app, name="import", epilog=IMPORT_EXAMPLES)
app.command("fit", epilog=fit.FIT_EXAMPLES)(fit.fit)
app.command("summary", epilog=report.SUMMARY_EXAMPLES)(report.summary)
app.command("rank", epilog=compare.RANK_EXAMPLES)(compare.rank)
app.command("items", epilog=compare.ITEMS_EXAMPLES)(compare.items)
app.command("report", epilog=report.REPORT_EXAMPLES)(report.report)
app.command("compare", epilog=compare.COMPARE_EXAMPLES)(compare.compare)
app.command("update", epilog=fit.UPDATE_EXAMPLES)(fit.update)
app.command("plan", epilog=plan.EXAMPLES)(plan.plan)
app.add_typer(models.app, name="models", epilog=models.EXAMPLES)
app.add_typer(scan.corpora_app, name="corpora", epilog=scan.CORPORA_EXAMPLES)
app.command("scan", epilog=scan.SCAN_EXAMPLES)(scan.scan)
app.add_typer(judge.app, name="judge", epilog=judge.EXAMPLES)
app.command("curve", epilog=covariates.CURVE_EXAMPLES)(covariates.curve)
app.command("covariates", epilog=covariates.COVARIATES_EXAMPLES)(covariates.covariates)
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
