"""Which pairs inform most: against what verdicts do to every draw, one by one."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.active import VerdictGains, informative_pairs
from bayescontam.evidence.covariates import item_contamination
from bayescontam.scan.results import Scan
from benchmarks.test_active_choice import compare
from tests.support.made_evidence import judged, make_curve, make_draws, make_scan, match


class World:
    """Two items with two documents each; what is open and true is enumerated for every draw."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.draws = 4
        self.open = rng.uniform(0.3, 0.9, (self.draws, 2))
        self.p = rng.uniform(0.1, 0.9, (self.draws, 4))
        self.hit, self.clear = rng.uniform(0.8, 1.0, (2, self.draws))
        self.item = np.array([0, 0, 1, 1])
        self.states = np.array(list(product([0, 1], repeat=6)))  # open, open, four documents

    def gains(self) -> VerdictGains:
        none = 1 - self.open * (1 - np.stack([
            (1 - self.p[:, self.item == i]).prod(axis=1) for i in (0, 1)], axis=1))  # fmt: skip
        duplicate = self.open[:, self.item] * self.p

        def both(pair: int) -> tuple[np.ndarray, np.ndarray]:
            others = np.flatnonzero(self.item == self.item[pair])
            joint = self.open[:, [self.item[pair]]] * self.p[:, [pair]] * self.p[:, others]
            joint[:, others == pair] = duplicate[:, [pair]]
            return others, joint

        weights = np.array([[0.5, 0.5]])
        return VerdictGains(none, weights, self.item, duplicate, (self.hit, self.clear), both)

    def joint(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return probability, share of items and P(verdict 1) of every draw and state."""
        open_, true = self.states[:, :2], self.states[:, 2:]
        p = np.where(open_[None], self.open[:, None], 1 - self.open[:, None]).prod(axis=2)
        chance = self.p[:, None] * open_[:, self.item][None]
        p = p * np.where(true[None], chance, 1 - chance).prod(axis=2) / self.draws
        share = np.broadcast_to(
            np.stack([true[:, :2].any(axis=1), true[:, 2:].any(axis=1)]).mean(axis=0), p.shape
        )
        called = np.where(true[None], self.hit[:, None, None], 1 - self.clear[:, None, None])
        return p, share, called


def variance(weight: np.ndarray, value: np.ndarray) -> float:
    weight = weight / weight.sum()
    mean = (weight * value).sum()
    return float((weight * (value - mean) ** 2).sum())


@pytest.mark.parametrize("seed", range(5))
def test_gains_are_those_of_every_state_enumerated(seed: int) -> None:
    world = World(seed)
    p, share, called = world.joint()
    assert p.sum() == pytest.approx(1)
    expected = []
    for pair in range(4):
        parts = (p * called[:, :, pair], p * (1 - called[:, :, pair]))
        expected.append(sum(part.sum() * variance(part, share) for part in parts))
    gains = world.gains()
    assert gains.variance[0] == pytest.approx(variance(p, share))
    assert gains.mean[0] == pytest.approx((p * share).sum())
    (best,) = gains.choose(1)
    assert best == int(np.argmin(expected))
    assert gains.left[0] == pytest.approx(expected[best])


@pytest.mark.parametrize("seed", range(5))
def test_of_several_the_variance_left_is_that_of_the_best_linear_prediction(seed: int) -> None:
    world = World(seed)
    p, share, called = world.joint()
    gains = world.gains()
    chosen = gains.choose(3)
    assert len(set(chosen)) == 3
    mean = (p[..., None] * called).sum(axis=(0, 1))
    cross = (p[..., None] * (share - (p * share).sum())[..., None] * called).sum(axis=(0, 1))
    among = np.einsum("st,sta,stb->ab", p, called - mean, called - mean)
    among[np.diag_indices(4)] = mean * (1 - mean)
    own, inner = cross[chosen], among[np.ix_(chosen, chosen)]
    left = variance(p, share) - own @ np.linalg.solve(inner, own)
    assert gains.left[0] == pytest.approx(left)


def test_what_is_known_is_not_judged() -> None:
    world = World(1)
    world.open[:] = 1.0
    world.p[:] = [0.5, 0.0, 1.0, 0.0]  # the second item surely has a duplicate
    world.hit[:], world.clear[:] = 1.0, 1.0
    assert world.gains().choose(4) == [0]


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """Items whose nearest documents are surely none, doubtful, or surely duplicates."""
    rows = [
        match(f"{name}{i}", cosine - 0.001 * i, f"{name}{i}")
        for name, cosine in (("low", 0.45), ("middle", 0.7), ("high", 0.95))
        for i in range(6)
    ]
    tail = [match("middle0", 0.5, "tail"), match("low0", 0.2, "far")]
    return make_scan(tmp_path_factory.mktemp("active") / "scan", rows, tail=tail)


def curve(**options: Any) -> Any:
    draws = make_draws(
        40, threshold=np.linspace(0.68, 0.72, 40)[:, None], steepness=40.0, threshold_open=0.1,
        steepness_open=60.0,
    )  # fmt: skip
    return make_curve(draws, **options)


def test_doubtful_items_are_judged_first(scan: Scan) -> None:
    found = informative_pairs(scan, curve(), 6, draws=40)
    assert {name[:6] for name in found.pairs["item"]} == {"middle"}
    assert len(set(found.pairs["item"])) == 6
    assert found.pairs["p_duplicate"].between(0.3, 0.7).all()
    assert found.pairs[["text", "chunk_text"]].notna().all(axis=None)
    row = found.expected.iloc[0]
    weighed = item_contamination(scan, curve(), draws=40)
    p = 1 - weighed.none
    assert row["mean"] == pytest.approx(p.mean())
    total = p.mean(axis=1).var() + (p * (1 - p)).sum(axis=1).mean() / 18**2
    assert row["sd"] == pytest.approx(np.sqrt(total))
    assert row["sd_expected"] < 0.5 * row["sd"]


def test_verdicts_of_this_judge_are_not_requested_again(scan: Scan) -> None:
    own = [judged(f"middle{i}", f"middle{i}", i % 2) for i in range(5)]
    known = curve(judged=own, judges={"Ada": (0.97, 0.99)})
    for judge in ("Ada", None):
        found = informative_pairs(scan, known, 3, judge=judge, draws=40)
        assert found.pairs["item"].iloc[0] == "middle5"
        assert not set(found.pairs["document"]) & {f"middle{i}" for i in range(5)}
    # A judge who errs is checked where it leaves doubt.
    by_model = [{**row, "judge": "llm:x"} for row in own]
    errs = curve(judged=by_model, judges={"llm:x": (0.7, 0.7)})
    found = informative_pairs(scan, errs, 6, draws=40)
    assert {name[:6] for name in found.pairs["item"]} == {"middle"}
    again = informative_pairs(scan, errs, 6, judge="llm:x#2", draws=40)
    assert again.pairs["item"].iloc[0] == "middle5"


def test_one_item(scan: Scan) -> None:
    found = informative_pairs(scan, curve(), 2, item="middle3", draws=40)
    assert found.pairs["item"].iloc[0] == "middle3"
    assert found.expected["item"].tolist() == ["middle3"]
    assert found.expected["sd_expected"].iloc[0] < 0.3


def test_the_tail_is_offered_above_the_floor(scan: Scan) -> None:
    every = informative_pairs(scan, curve(), 99, draws=40).pairs
    assert "tail" in set(every["document"])
    assert "far" not in set(every["document"])
    assert not every.duplicated(["item", "document"]).any()


def test_what_cannot_be_chosen(scan: Scan) -> None:
    with pytest.raises(UsageError, match="no item 'x' in 'quiz'; there are 'low0', 'low1'"):
        informative_pairs(scan, curve(), item="x")
    with pytest.raises(UsageError, match="got 0 pairs to choose"):
        informative_pairs(scan, curve(), 0)
    with pytest.raises(UsageError, match="no benchmark 'x' in this scan"):
        informative_pairs(scan, curve(), benchmarks=["x"])


def test_a_name_in_two_benchmarks_is_not_clear(tmp_path: Path) -> None:
    rows = [match("q", 0.7, name, benchmark=name) for name in ("one", "two")]
    made = make_scan(tmp_path, rows)
    both = make_curve(make_draws(20, 2), ("one", "two"))
    with pytest.raises(UsageError, match="item 'q' stands in 'one', 'two'; name the benchmark"):
        informative_pairs(made, both, item="q")
    found = informative_pairs(made, both, item="q", benchmarks=["two"], draws=20)
    assert found.pairs["benchmark"].tolist() == ["two"]


def test_nothing_to_learn(tmp_path: Path) -> None:
    made = make_scan(tmp_path, [match("q", 0.7, "d")])
    sure = make_curve(make_draws(20, threshold=-5.0, threshold_open=-5.0, steepness=1e3))
    with pytest.raises(DataError, match="no verdict that is left is expected to inform on preva"):
        informative_pairs(made, sure, draws=20)


def test_nothing_left_to_judge(scan: Scan) -> None:
    """As at the end of judging, fitting and choosing again; or with a floor above all cosines."""
    names = [f"{name}{i}" for name in ("low", "middle", "high") for i in range(6)]
    every = [judged(name, name, 0) for name in names]
    every += [judged("middle0", "tail", 0), judged("low0", "far", 0)]
    known = curve(judged=every, judges={"Ada": (0.97, 0.99)})
    with pytest.raises(DataError, match="no verdict that is left is expected to inform"):
        informative_pairs(scan, known, 3, judge="Ada", draws=40)
    with pytest.raises(DataError, match="no verdict that is left is expected to inform"):
        informative_pairs(scan, curve(), 3, floor=0.99, draws=40)


def test_chosen_verdicts_narrow_intervals_more_than_random_ones() -> None:
    """Of ``make bench-all`` two scans; with this seed, so that it cannot fail by chance."""
    table = compare(range(2), seed=3, last=60)
    width = table[table["verdicts"] == 60].groupby("way")["width"].mean()
    assert width["active"] < width["random"]
