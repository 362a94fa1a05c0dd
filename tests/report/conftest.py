"""What all tests of the report share: two made-up fits, and a browser."""

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.specs.registry import load_model
from tests.support.browser import browser as browser
from tests.support.made_fit import drawn_from_prior
from tests.support.pages import undrawn as undrawn

MODELS = ("<script>document.title=0</script>", "m" * 10_000, "$a_1^2$ \\frac{ 中\x07")
BENCHMARKS = ("Quiz", "quiz\n<b>")
UNANSWERED = MODELS[1], BENCHMARKS[1]
SAMPLING = Sampling(draws=200, chains=2)


@pytest.fixture(scope="session")
def hostile() -> Fit:
    """Three models and two benchmarks with hostile names; the last model is clean."""
    rng = np.random.default_rng(5)
    rows = []
    for model, ability in zip(MODELS, (1.0, 0.0, -0.5), strict=True):
        for b, benchmark in enumerate(BENCHMARKS):
            if (model, benchmark) == UNANSWERED:
                continue
            dose = np.linspace(0, 1, 40) * (model != MODELS[2])
            p = 1 / (1 + np.exp(-(ability + 2.5 * dose - 0.5 * b)))
            for i in range(40):
                rows.append((model, benchmark, f"i{b}-{i}", int(rng.random() < p[i]), dose[i]))
    columns = ["model", "benchmark", "item", "correct", "contamination"]
    return _fit(pd.DataFrame(rows, columns=columns), "hierarchical")


@pytest.fixture(scope="session")
def by_concept() -> Fit:
    """Three models, five concepts of one benchmark, no contamination."""
    rng = np.random.default_rng(6)
    names = ["above", "<i>below</i>", "left", "right", "c" * 300]
    rows = [
        (f"model-{m}", "puzzles", f"{concept[:9]}-{i}", int(rng.random() < 0.3 + 0.2 * m), concept)
        for m in range(3)
        for concept in names
        for i in range(8)
    ]
    return _fit(
        pd.DataFrame(rows, columns=["model", "benchmark", "item", "correct", "concept"]), "concepts"
    )


def _fit(table: pd.DataFrame, spec: str) -> Fit:
    responses = Responses.from_frame(table, source="made <up>.csv")
    with drawn_from_prior():
        return fit_responses(responses, load_model(spec), Options(seed=1, sampling=SAMPLING))
