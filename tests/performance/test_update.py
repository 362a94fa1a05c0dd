"""Updates against joint fits, of models left out of real tables. Run by ``make bench``."""

import numpy as np
import pandas as pd

from bayescontam.responses import read_responses
from tests.data import shared
from tests.refits import compared, left_out


def test_left_out_program_of_conceptarc_agrees_with_a_joint_fit():
    table = read_responses(shared("conceptarc.csv"), where="not minimal")
    joint, updated = left_out(table, "gpt-4-t0", "concepts")
    accuracy = compared(joint, updated).xs("accuracy", level="quantity")
    assert accuracy["z"].abs().max() < 4
    assert accuracy["ratio"].between(0.8, 1.2).all()


def test_left_out_language_model_agrees_with_a_joint_fit():
    table = read_responses(
        shared("llm_benchmarks.parquet"),
        where="benchmark in ['GPQA Diamond', 'HumanEval'] and model < 'llm-08'",
    ).frame
    rng = np.random.default_rng(3)
    dose = pd.Series(rng.beta(0.6, 1.4, table["item"].nunique()), table["item"].unique())
    table["contamination"] = table["item"].map(dose).to_numpy()
    joint, updated = left_out(table, "llm-05", "hierarchical")
    figures = compared(joint, updated).drop("rank", level="quantity")
    assert figures["z"].abs().max() < 4
    assert figures["ratio"].between(0.85, 1.15).all()
