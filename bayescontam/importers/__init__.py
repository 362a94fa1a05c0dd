"""Readers that turn files of other programs into this package's tables."""

TOOLS = {
    "lm-eval": "lm-evaluation-harness or lmms-eval",
    "inspect": "Inspect",
    "every-eval-ever": "Every Eval Ever",
    "helm": "HELM",
    "opencompass": "OpenCompass",
    "lighteval": "lighteval",
    "py-irt": "py-irt",
    "swe-bench": "SWE-bench",
    "evalplus": "EvalPlus",
    "livecodebench": "LiveCodeBench",
}
"""What comes after ``bayescontam import`` for each tool whose logs are read, and its name."""

COMMANDS = (*TOOLS, "matrix")
"""What comes after ``bayescontam import``, one for each kind of file."""

ADVICE = f"files of evaluation tools are read by: bayescontam import {' | '.join(COMMANDS)}"
"""What to do with a file of another program that is given as a table."""
