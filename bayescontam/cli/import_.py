"""Verb ``import``: logs of evaluation tools to a table of responses."""

import typer

from bayescontam.cli import import_logs, import_matrix

EXAMPLES = """
Examples:

bayescontam import lm-eval results --out responses.parquet --filter strict-match --metric acc

bayescontam import inspect logs --out responses.parquet --scorer match --partial incorrect

bayescontam import matrix scores.csv --benchmark mmlu --out responses.csv

Then: bayescontam fit responses.parquet --covariates covariates.parquet --out fit.nc
"""
app = typer.Typer(
    help="Make a table of responses from logs of evaluation tools, or from a matrix.",
    no_args_is_help=True,
)
app.command("lm-eval", epilog=import_logs.LM_EVAL_EXAMPLES)(import_logs.lm_eval)
app.command("inspect", epilog=import_logs.INSPECT_EXAMPLES)(import_logs.inspect)
app.command("every-eval-ever", epilog=import_logs.EVERY_EVAL_EVER_EXAMPLES)(
    import_logs.every_eval_ever
)
app.command("matrix", epilog=import_matrix.EXAMPLES)(import_matrix.matrix)
