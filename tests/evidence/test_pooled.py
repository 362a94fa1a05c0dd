"""Like pairs as one: the same density where pairs are the same, and nearly so where alike."""

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest

from bayescontam.evidence.curve_model import build_curve
from bayescontam.evidence.verdicts import MOST_PAIRS, WIDTH, Verdicts, make_verdicts, pooled
from bayescontam.specs.registry import load_curve
from tests.support.made_evidence import judged

SPEC = load_curve("monotone")
TRUTH: dict[str, Any] = {
    "sigma_shape": 0.4, "sigma_item": 1.1, "threshold_bar": 0.63, "steepness_bar": 14.0,
    "threshold_open_bar": 0.6, "steepness_open_bar": 17.0, "sigma_source": 0.05,
    "source_offset": np.array([0.6, -0.6]),
    "bend": np.array([0.5, -0.4, 0.1, 0.3, -0.2, -0.6, 0.3]),
    "sensitivity": np.array([0.96, 0.9]), "specificity": np.array([0.99, 0.97]),
    "share_further": 0.3, "threshold_exact_bar": 0.9, "steepness_exact": 20.0,
    "chosen_bar": 0.4, "chosen_slope": 2.0, "naming": np.array([0.8]),
}  # fmt: skip
KIND = {1: "equivalent", 0: ""}


def table(spread: float, copies: int = 4) -> pd.DataFrame:
    """Return verdicts on documents of 30 items, of which each stands near `copies` - 1 others."""
    rng = np.random.default_rng(1)
    rows = []
    for i in range(30):
        # In the middle of a range of like cosines, so that a small spread does not leave it.
        cosines = (np.floor(rng.uniform(0.4, 0.9, 3) / WIDTH) + 0.5) * WIDTH
        best = float(cosines.max()) + WIDTH
        for k, cosine in enumerate(cosines):
            called, person = int(rng.random() < cosine - 0.3), rng.random() < 0.4
            source, chunk = ("web", "books")[k % 2], k % 2
            for copy in range(copies):
                lead = float(cosine + spread * rng.uniform(-0.5, 0.5))
                more = {"lead": 0, "lead_cosine": lead, "place": float(1 + 2 * k), "chunk": chunk}
                for judge in ("llm:m", "Ada")[: 1 + person]:
                    row = judged(f"i{i}", f"d{k}-{copy}", called, judge, cosine=lead, best=best)
                    named = KIND[called] if judge == "Ada" else ""
                    rows.append(row | more | {"source": source, "kind": named})
    return pd.DataFrame(rows)


def log_density(verdicts: Verdicts, **other: Any) -> float:
    model = build_curve(SPEC, verdicts).model
    values = {v.name: (TRUTH | other)[v.name] for v in model.free_RVs}
    return float(pm.do(model, values).compile_logp(mode="FAST_COMPILE")({}))


@pytest.mark.parametrize("kinds", [(), ("equivalent", "subset")], ids=["any", "two kinds"])
def test_the_same_pairs_pooled_have_the_same_density(kinds: tuple[str, ...]) -> None:
    verdicts = make_verdicts(table(0.0), ["quiz"], ["web", "books"], kinds)
    one = pooled(verdicts, most=0)
    assert len(verdicts) == 360
    assert one.count is not None
    assert one.count.sum() == 360
    assert len(one) <= 90
    assert one.further.any()
    for steepness in (8.0, 30.0):
        expected = log_density(verdicts, steepness_bar=steepness)
        assert log_density(one, steepness_bar=steepness) == pytest.approx(expected, rel=1e-9)


def test_what_a_trained_judge_reported_is_pooled_too() -> None:
    def informs(pairs: pd.DataFrame) -> pd.DataFrame:
        even = pairs["item"].str[1:].astype(int) % 2 == 0
        sign = np.where(even & (pairs["source"] == "web"), 1.0, -1.0)
        share = np.where(sign > 0, 0.3, 0.7)
        return pairs.assign(sign=sign, share=share, sign_open=sign, share_open=share)

    verdicts = make_verdicts(table(0.0), ["quiz"], ["web", "books"], informs=informs)
    one = pooled(verdicts, most=0)
    assert len(one) <= 90
    ratios = {"log_odds_ratio": 2.0, "log_odds_ratio_slope": 3.0, "log_odds_ratio_open": 1.0}
    expected = log_density(verdicts, **ratios)
    assert log_density(one, **ratios) == pytest.approx(expected, rel=1e-9)
    assert log_density(one, **ratios | {"log_odds_ratio": 0.0}) != pytest.approx(expected, abs=1)


def test_like_pairs_pooled_have_nearly_the_same_density() -> None:
    verdicts = make_verdicts(table(WIDTH), ["quiz"], ["web", "books"])
    one = pooled(verdicts, most=0)
    assert len(one) < len(verdicts) / 3
    places = [{"threshold_bar": t, "steepness_bar": s} for t in (0.6, 0.7) for s in (8.0, 20.0)]
    exact, found = (np.array([log_density(v, **at) for at in places]) for v in (verdicts, one))
    # Differences between curves that fit badly and well are dozens; these are what matters.
    assert np.ptp(exact) > 20
    np.testing.assert_allclose(found - found[0], exact - exact[0], atol=0.5)


def test_few_pairs_stay_as_they_are() -> None:
    verdicts = make_verdicts(table(WIDTH), ["quiz"], ["web", "books"])
    assert len(verdicts) <= MOST_PAIRS
    assert pooled(verdicts) is verdicts


def test_many_pairs_are_pooled_and_all_are_checked() -> None:
    verdicts = make_verdicts(table(0.0, copies=30), ["quiz"], ["web", "books"])
    built = build_curve(SPEC, verdicts)
    assert len(verdicts) > MOST_PAIRS
    assert built.verdicts is verdicts
    assert len(built.model.coords["pair"]) <= 90
