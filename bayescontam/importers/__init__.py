"""Readers that turn files of other programs into this package's tables."""

COMMANDS = (
    "lm-eval", "inspect", "every-eval-ever", "helm", "opencompass", "lighteval", "py-irt",
    "swe-bench", "evalplus", "livecodebench", "matrix",
)  # fmt: skip
"""What comes after ``bayescontam import``, one for each kind of file."""

ADVICE = f"files of evaluation tools are read by: bayescontam import {' | '.join(COMMANDS)}"
"""What to do with a file of another program that is given as a table."""
