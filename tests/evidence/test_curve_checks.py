"""Checks of a curve: they pass what the curve made, and name what it cannot have made."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit
from scipy.stats import norm

from bayescontam.evidence.curve_checks import (
    BINS,
    FEWEST,
    bins,
    evidence_checks,
    predictive_checks,
    replicate,
)
from bayescontam.evidence.curve_draws import CurveDraws, marginal
from bayescontam.evidence.curve_model import BuiltCurve, build_curve
from bayescontam.evidence.verdicts import Verdicts, make_verdicts
from bayescontam.inference.checks import Check, Outcome, Thresholds
from bayescontam.specs.curve import CurveSpec
from tests.support.made_evidence import judged, line, make_curve, make_draws

SPEC = CurveSpec(summary="made for a test")
HIT, CLEAR = 0.9, 0.97


def simulated(count: int, seed: int, draws: CurveDraws) -> Verdicts:
    """Return one verdict on each of two pairs of `count` items, made from the curve."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        cosine = rng.uniform(0.4, 0.95, 2)
        best = float(cosine.max())
        opened = rng.random() < expit(draws.log_odds_open(np.array([best]), 0)[0, 0])
        effect = draws.sigma_item[0, 0] * rng.standard_normal()
        for k, c in enumerate(cosine):
            p = expit(draws.log_odds(np.array([c]), 0, 0)[0, 0] + effect)
            true = opened and rng.random() < p
            called = rng.random() < (HIT if true else 1 - CLEAR)
            rows.append(judged(f"q{i}", f"{i}-{k}", int(called), cosine=float(c), best=best))
    return make_verdicts(pd.DataFrame(rows), ["quiz"], ["web"])


def posterior(draws: CurveDraws) -> xr.Dataset:
    return make_curve(draws, judges={"Ada": (HIT, CLEAR)}).data["posterior"].to_dataset()


def replicated(verdicts: Verdicts, draws: CurveDraws, seed: int = 1) -> xr.Dataset:
    return replicate(posterior(draws), BuiltCurve(None, SPEC, verdicts), seed)  # type: ignore[arg-type]


def only(checks: Any) -> Check:
    (check,) = checks
    assert isinstance(check, Check)
    return check


@pytest.mark.parametrize("sigma", [0.0, 0.8, 2.0])
def test_the_marginal_curve_is_an_integral_over_items(sigma: float) -> None:
    draws = make_draws(2, sources=2, source_shift=[0.03, -0.03], sigma_item=sigma)
    cosine = np.array([0.3, 0.62, 0.9])
    z = np.linspace(-9, 9, 4001)
    weight = norm.pdf(z) / norm.pdf(z).sum()
    for source, shift in ((-1, 0.0), (1, -0.03)):
        wanted = []
        for c in cosine:
            level = line(draws, c, draws.threshold[:, 0] + shift, draws.steepness[:, 0])
            opened = line(draws, c, draws.threshold_open[:, 0], draws.steepness_open[:, 0])
            wanted.append(expit(opened) * (expit(level[:, None] + sigma * z) @ weight))
        found = marginal(draws, cosine, 0, source)
        np.testing.assert_allclose(found, np.stack(wanted, axis=1), atol=1e-4)


def test_replicates_have_the_shares_that_the_curve_expects() -> None:
    draws = make_draws(500, sigma_item=0.8)
    verdicts = simulated(150, 1, draws)
    found = replicated(verdicts, draws)
    cells = bins(verdicts)
    names = np.unique(cells)
    p = []
    for c, i in zip(verdicts.cosine, verdicts.item, strict=True):
        z = np.linspace(-8, 8, 801)
        weight = norm.pdf(z) / norm.pdf(z).sum()
        opened = expit(draws.log_odds_open(verdicts.best[[i]], 0)[0, 0])
        true = opened * (expit(draws.log_odds(np.array([c]), 0, 0)[0, 0] + 0.8 * z) @ weight)
        p.append(true * HIT + (1 - true) * (1 - CLEAR))
    wanted = [np.array(p)[cells[np.argsort(verdicts.pair)] == cell].mean() for cell in names]
    np.testing.assert_allclose(found["share_replicated"].mean("replicate"), wanted, atol=0.02)
    assert found["count"].sum() == 300
    shares = [verdicts.called[cells == cell].mean() for cell in names]
    np.testing.assert_allclose(found["share"], shares)


def test_what_the_curve_made_passes() -> None:
    """Of 60 data sets that the curve made, hardly one fails."""
    draws = make_draws(500, sigma_item=0.8)
    failed = 0
    for seed in range(60):
        check = only(
            predictive_checks(replicated(simulated(100, seed, draws), draws), Thresholds())
        )
        failed += check.outcome is Outcome.FAILED
    # The threshold of the p-value is below 0.05.
    assert failed <= 7


def test_what_another_curve_made_fails_and_is_named() -> None:
    verdicts = simulated(150, 1, make_draws(1, threshold=0.8, threshold_open=0.2))
    found = replicated(verdicts, make_draws(500, threshold=0.5, threshold_open=0.2))
    check = only(predictive_checks(found, Thresholds()))
    assert check.outcome is Outcome.FAILED
    assert check.value < 1e-4
    assert "the curve expects" in check.sentence
    assert float(check.sentence.split("near ")[1][:4]) == pytest.approx(0.65, abs=0.12)


def test_small_cells_are_not_judged() -> None:
    verdicts = simulated(4, 1, make_draws(1, threshold=0.9))
    check = only(
        predictive_checks(replicated(verdicts, make_draws(500, threshold=0.1)), Thresholds())
    )
    assert (check.outcome, check.value) == (Outcome.PASSED, 1.0)


def test_bins_are_of_one_benchmark_and_equally_many() -> None:
    rng = np.random.default_rng(2)
    rows = [
        judged(f"q{i}", "d", 1, benchmark=b, cosine=float(rng.random()), best=1.0)
        for b, count in (("a", 500), ("b", 45), ("c", 3))
        for i in range(count)
    ]
    verdicts = make_verdicts(pd.DataFrame(rows), ["a", "b", "c", "none"], ["web"])
    cells = bins(verdicts)
    benchmark, cosine = verdicts.benchmark[verdicts.pair], verdicts.cosine[verdicts.pair]
    for b, count in ((0, BINS), (1, 2), (2, 1)):
        own = cells[benchmark == b]
        names, sizes = np.unique(own, return_counts=True)
        assert len(names) == count
        assert sizes.min() >= FEWEST or count == 1
        assert sizes.max() - sizes.min() <= 1
        assert not set(names) & set(cells[benchmark != b])
        ends = [(cosine[(cells == n)].min(), cosine[cells == n].max()) for n in names]
        assert all(a[1] < b[0] for a, b in pairwise(ends))


def evidence(*rows: Any, benchmarks: Any = ("quiz",)) -> dict[str, Check]:
    frame = pd.DataFrame(rows, columns=[*judged("q", "d", 1, cosine=0.5, best=0.5)])
    verdicts = make_verdicts(frame, benchmarks, ["web"])
    return {check.name: check for check in evidence_checks(verdicts)}


def test_what_judgements_can_report_is_said() -> None:
    by_ada, by_model = (
        judged("q", "d", 1, judge, cosine=0.5, best=0.5) for judge in ("Ada", "llm:m")
    )
    other = judged("q", "e", 1, "llm:m", cosine=0.5, best=0.5)
    (nothing,) = evidence().values()
    assert (nothing.outcome, nothing.name) == (Outcome.CAUTION, "Judgements")
    assert "Nothing was judged: the curve is the prior" in nothing.sentence
    assert list(evidence(by_ada)) == ["Nearest documents"]
    assert evidence(by_ada, other)["Judges"].outcome is Outcome.CAUTION
    assert evidence(by_model)["Judges"].outcome is Outcome.CAUTION
    met = evidence(by_ada, by_model, other)["Judges"]
    assert (met.outcome, met.value) == (Outcome.PASSED, 1)
    bare = evidence(by_ada, benchmarks=("quiz", "exam", "more"))["Benchmarks"]
    assert (bare.outcome, bare.value) == (Outcome.CAUTION, 2)


def test_nearest_documents_show_which_items_are_open() -> None:
    def rows(benchmark: str, count: int, judge: str = "Ada", cosine: float = 0.8) -> list[Any]:
        return [
            judged(f"q{i}", f"{benchmark}-{i}", 0, judge, benchmark=benchmark, cosine=cosine,
                   best=0.8)
            for i in range(count)
        ]  # fmt: skip

    names = ("quiz", "exam", "bare")
    enough = evidence(*rows("quiz", 20), *rows("exam", 30), benchmarks=names)["Nearest documents"]
    assert (enough.outcome, enough.value) == (Outcome.PASSED, 20)
    few = evidence(
        *rows("quiz", 20), *rows("exam", 19), *rows("exam", 30, cosine=0.7), benchmarks=names
    )["Nearest documents"]
    assert few.outcome is Outcome.CAUTION
    assert "of few items were judged: 'exam (19)'." in few.sentence
    by_rule = pd.DataFrame(rows("quiz", 30, "rule:verbatim")).assign(kind="")
    checks = {c.name: c for c in evidence_checks(make_verdicts(by_rule, ["quiz"], ["web"]))}
    assert (checks["Nearest documents"].outcome, checks["Nearest documents"].value) == (
        Outcome.CAUTION,
        0,
    )


def test_the_model_is_not_needed_to_check() -> None:
    """Replicates come from draws: those of the model and those made here agree."""
    draws = make_draws(500)
    verdicts = simulated(30, 1, draws)
    built = build_curve(SPEC, verdicts)
    one = replicate(posterior(draws), built, 3)
    xr.testing.assert_equal(one, replicated(verdicts, draws, 3))
