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
for _name, _verb, _examples in (
    ("lm-eval", import_logs.lm_eval, import_logs.LM_EVAL_EXAMPLES),
    ("inspect", import_logs.inspect, import_logs.INSPECT_EXAMPLES),
    ("every-eval-ever", import_logs.every_eval_ever, import_logs.EVERY_EVAL_EVER_EXAMPLES),
    ("helm", import_logs.helm, import_logs.HELM_EXAMPLES),
    ("opencompass", import_logs.opencompass, import_logs.OPENCOMPASS_EXAMPLES),
    ("lighteval", import_logs.lighteval, import_logs.LIGHTEVAL_EXAMPLES),
    ("py-irt", import_logs.py_irt, import_logs.PY_IRT_EXAMPLES),
    ("swe-bench", import_logs.swe_bench, import_logs.SWE_BENCH_EXAMPLES),
    ("evalplus", import_logs.evalplus, import_logs.EVALPLUS_EXAMPLES),
    ("livecodebench", import_logs.livecodebench, import_logs.LIVECODEBENCH_EXAMPLES),
    ("matrix", import_matrix.matrix, import_matrix.EXAMPLES),
):
    app.command(_name, epilog=_examples)(_verb)
