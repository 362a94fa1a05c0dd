"""The curve on published judgements: pairs of benchmark and corpus texts.

They try out the fit and calibrate nothing: the pairs were not chosen by cosine, 86 of 100
are duplicates, and many corpus texts of MBPP are no more than a link, so that their cosines
with another embedder are near zero. Run by ``make bench-all``.
"""

import numpy as np
import pandas as pd

from bayescontam.evidence.curve import Curve, fit_judged_curve
from bayescontam.evidence.curve_draws import marginal
from bayescontam.inference.checks import Outcome
from bayescontam.scan.embedders import load_embedder
from bayescontam.specs.corpus import Embedding
from bayescontam.specs.registry import load_curve
from tests.support.real_data import shared

CHECKS = ("divergences", "R-hat of estimands", "Bulk ESS of estimands", "Judgements by cosine")


def published() -> pd.DataFrame:
    """Return the published pairs as judgements of one language model, without cosines."""
    pairs = pd.read_json(shared("judged_pairs.jsonl"), lines=True, dtype={"test_id": str})
    names = {"test_id": "item", "corpus_id": "document", "is_sd": "is_duplicate"}
    return pairs.rename(columns=names | {"match_type": "kind"}).assign(
        source="corpus", chunk=0, judge="llm:published"
    )


def fitted(judged: pd.DataFrame) -> Curve:
    """Fit the default curve; an item's best match is the best of its pairs."""
    best = judged.groupby(["benchmark", "item"])["cosine"].transform("max")
    names = {"benchmarks": ("mbpp", "codeforces"), "sources": ("corpus",)}
    return fit_judged_curve(judged.assign(best=best), names, load_curve("monotone"), seed=1)


def assert_sampled_well(curve: Curve) -> None:
    outcomes = {check.name: check.outcome for check in curve.checks()}
    assert {name: outcomes[name] for name in CHECKS} == dict.fromkeys(CHECKS, Outcome.PASSED)
    assert outcomes["Judges"] is Outcome.CAUTION  # no person has checked the model


def test_pairs_with_a_published_cosine_draw_the_threshold_down() -> None:
    judged = published().rename(columns={"similarity": "cosine"}).dropna(subset="cosine")
    assert (len(judged), judged["is_duplicate"].sum()) == (18, 18)
    curve = fitted(judged)
    assert_sampled_well(curve)
    for benchmark in (0, 1):
        reported = marginal(curve.draws(), np.array([0.6]), benchmark).mean()
        # All 18, of cosines about 0.63, are duplicates: a Beta(1/2, 1/2) posterior is at 0.97.
        # The prior alone gives 0.15.
        assert reported > 0.75


def test_all_pairs_with_the_offline_embedder() -> None:
    judged = published()
    embedder = load_embedder(Embedding(), "cpu")
    items = embedder.embed(judged["test_text"].tolist(), "query")
    chunks = embedder.embed(judged["corpus_text"].tolist(), "passage")
    judged["cosine"] = (items * chunks).sum(axis=1).astype(float)
    curve = fitted(judged)
    assert_sampled_well(curve)
    for b in range(len(curve.benchmarks)):
        low, middle, high = marginal(curve.draws(), np.array([0.3, 0.6, 0.9]), b).mean(axis=0)
        assert low < middle < high
