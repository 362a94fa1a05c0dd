"""Replicates: ranks, gates, second tries, and rows of fits that could not be made."""

from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayescontam.calibration import runner as replicating
from bayescontam.calibration.estimators import SampledDraws, faults_of
from bayescontam.calibration.quantities import Measured
from bayescontam.calibration.runner import ReplicateRunner
from bayescontam.calibration.sbc import rank_of
from bayescontam.calibration.storage import COLUMNS
from bayescontam.calibration.study import Cell, Plan, plan_of
from bayescontam.data.responses import Responses
from bayescontam.errors import SpecError
from bayescontam.model.build import build
from bayescontam.specs.study import Gates, SamplingSpec, StudySpec
from tests.support.small_studies import planned

RNG = np.random.default_rng(5)


class Fake:
    """An engine whose tries come from a list: a shift between chains, a share, or an error."""

    name = "fake"

    def __init__(self, spec: Any, tries: list[Any]) -> None:
        self._spec, self._tries = spec, tries
        self.asked: list[tuple[int, SamplingSpec]] = []

    def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
        self.asked.append((seed, sampling))
        outcome = self._tries[len(self.asked) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        shift, diverged = outcome
        draws = np.random.default_rng(seed).standard_normal((2, 2, sampling.draws, 1, 1))
        draws[:, 1] += shift
        dims = ("chain", "draw", "model", "benchmark")
        posterior = xr.Dataset({"theta": (dims, draws[0]), "beta": (dims, draws[1])})
        return SampledDraws(posterior, diverged, build(self._spec, responses))


def rows_of(
    monkeypatch: pytest.MonkeyPatch, tries: list[Any], *lines: str
) -> tuple[pd.DataFrame, Fake]:
    plan, cell = planned("prior", "single", *lines, items=10)
    fake = Fake(plan.specs["single"], tries)
    monkeypatch.setattr(replicating, "engine_of", lambda *_: fake)
    return ReplicateRunner(plan, cell).rows(0), fake


def test_a_formula_without_a_value_is_no_fault_of_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = 'expressions.half = "log(theta[0, 0])"', 'expressions.whole = "theta[0, 0]"'
    rows, fake = rows_of(monkeypatch, [(0.0, 0.0)], "quantities = []", *lines)
    assert len(fake.asked) == 1
    assert set(rows["status"]) == {"passed"}
    half, whole = (rows.set_index("quantity").loc[name] for name in ("half", "whole"))
    assert (half["rank"], half["ranks"]) == (-1, 0)
    assert np.isnan(half["mean"])
    assert np.isfinite(whole["mean"])
    assert whole["ranks"] > 0


@pytest.mark.parametrize(
    ("tries", "status", "reasons"),
    [
        ([(0, 0.0)], "passed", []),
        ([(0, 0.01)], "passed", []),
        ([(5, 0.0), (0, 0.0)], "rerun", ["R-hat", "ESS"]),
        ([(0, 0.02), (0, 0.0)], "rerun", ["2.0% of draws diverged"]),
        ([(0, 0.02), (5, 0.0)], "failed", ["2.0% of draws diverged; then, for longer: R-hat"]),
        ([RuntimeError("no\nstart"), (0, 0.0)], "rerun", ["no draws: no start"]),
    ],
)
def test_a_fit_that_fails_a_gate_is_tried_once_more(
    monkeypatch: pytest.MonkeyPatch, tries: list[Any], status: str, reasons: list[str]
) -> None:
    rows, fake = rows_of(monkeypatch, tries)
    assert list(rows.columns) == list(COLUMNS)
    assert set(rows["status"]) == {status}
    assert all(reason in rows["reason"][0] for reason in reasons)
    assert (rows["reason"] == "").all() == (not reasons)
    assert [each.draws for _, each in fake.asked] == [1000, 4000][: len(tries)]
    assert len({seed for seed, _ in fake.asked}) == len(tries)
    # What the rows say is of the last try.
    seed, sampling = fake.asked[-1]
    theta = np.random.default_rng(seed).standard_normal((2, 2, sampling.draws))[0]
    theta[1] += tries[-1][0]
    row = rows.set_index("quantity").loc["theta"]
    assert row["mean"] == pytest.approx(theta.mean())
    assert row["mcse"] == pytest.approx(float(az.mcse(theta, method="mean")), rel=1e-6)
    np.testing.assert_allclose(
        row[["low_90", "high_90"]].astype(float), np.quantile(theta, [0.05, 0.95])
    )


def test_a_fit_that_cannot_be_made_has_rows_without_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, _ = rows_of(monkeypatch, [RuntimeError("a"), RuntimeError("b")])
    made, _ = rows_of(monkeypatch, [(0, 0.0)])
    assert rows[["quantity", "where", "truth"]].equals(made[["quantity", "where", "truth"]])
    assert set(rows["status"]) == {"failed"}
    assert rows["reason"][0] == "no draws: a; then, for longer: no draws: b"
    assert rows[["mean", "sd", "mcse", "ess", "low_95", "high_95"]].isna().all().all()
    assert (set(rows["rank"]), set(rows["ranks"])) == ({-1}, {0})


def test_other_errors_are_not_taken_for_results(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="a mistake"):
        rows_of(monkeypatch, [ValueError("a mistake")])


def test_nothing_in_common_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, cell = planned("prior", "single", "quantities = ['theta']", items=5)
    fake = Fake(plan.specs["single"], [(0, 0.0)])
    monkeypatch.setattr(replicating, "engine_of", lambda *_: fake)
    nothing = Measured((), np.empty((2, 9, 0)))
    monkeypatch.setattr(replicating, "measure", lambda *_: nothing)
    with pytest.raises(SpecError, match="the estimator 'single' has none of the quantities"):
        ReplicateRunner(plan, cell).rows(0)


def test_a_bootstrap_that_has_nothing_requested_is_refused() -> None:
    plan, cell = _beside_bootstrap("single", "quantities = ['novelty_gap']")
    with pytest.raises(SpecError, match="the estimator 'bootstrap' has none of the quantities"):
        ReplicateRunner(plan, cell).rows(0)


def test_what_no_fit_is_needed_for_is_reported_without_one() -> None:
    ReplicateRunner(*_beside_bootstrap("single")).check()
    with pytest.raises(SpecError, match="the estimator 'bootstrap' has none of the quantities"):
        ReplicateRunner(*_beside_bootstrap("single", "quantities = ['theta']")).check()
    head = (
        'summary = "s"\nreplicates = 4\ndesign.items = 12\nsimulator.kind = "prior"\n'
        'simulator.model = "hierarchical"\n[[estimators]]\nname = "other"\nmodel = "anchored"\n'
    )
    plan = plan_of(StudySpec.parse(head, "test.toml"), Path())
    with pytest.raises(
        SpecError, match=r"estimators: the estimator 'other' cannot be fitted .*clean"
    ):
        ReplicateRunner(plan, plan.cells[0]).check()


@pytest.mark.parametrize(
    ("model", "reported"),
    [("latent_duplicate", "the truth is reported at 0;"), ("spillover", None)],
)
def test_truth_and_estimate_at_two_references_are_refused(model: str, reported: str | None) -> None:
    """Nobody could distinguish a bias from another meaning of genuine ability."""
    message = "the estimator 'bootstrap' reports genuine ability at contamination 0"
    with pytest.raises(
        SpecError, match=f"reference: {message}.*{reported or 'truth'}.*leave the boo"
    ):
        ReplicateRunner(*_beside_bootstrap(model)).rows(0)
    rows = ReplicateRunner(*_beside_bootstrap(model, "quantities = ['accuracy']")).rows(0)
    assert set(rows["quantity"]) == {"accuracy"}


def test_a_plug_in_for_a_latent_event_needs_a_reference_of_both() -> None:
    estimator = '[[estimators]]\nname = "plug-in"\nmodel = "hierarchical"\n'
    head = (
        'summary = "s"\nreplicates = 4\ndesign.items = 12\nsimulator.kind = "prior"\n'
        'simulator.model = "latent_duplicate"\n'
    )
    for line, refused in (("", True), ("reference = 'zero'\n", False)):
        plan = plan_of(StudySpec.parse(f"{head}{line}{estimator}", "test.toml"), Path())
        replicates = ReplicateRunner(plan, plan.cells[0])
        if refused:
            with pytest.raises(
                SpecError, match=r"reference: the estimator 'plug-in' .* set 'zero'"
            ):
                replicates._simulate  # noqa: B018
        else:
            assert replicates._simulate.design is not None


def _beside_bootstrap(model: str, *lines: str) -> tuple[Plan, Cell]:
    text = (
        'summary = "s"\nreplicates = 4\ndesign = { items = 12, models = 3 }\n'
        f'simulator = {{ kind = "prior", model = "{model}" }}\n{"".join(lines)}\n'
        '[[estimators]]\nname = "bootstrap"\nkind = "bootstrap"\nresamples = 100\n'
    )
    plan = plan_of(StudySpec.parse(text, "test.toml"), Path())
    return plan, plan.cells[0]


def test_replicates_have_seeds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, cell = planned("prior", "single", items=10)
    fake = Fake(plan.specs["single"], [(0, 0.0)] * 4)
    monkeypatch.setattr(replicating, "engine_of", lambda *_: fake)
    first, again = ReplicateRunner(plan, cell), ReplicateRunner(plan, cell)
    tables = [each.rows(replicate) for each, replicate in ((first, 0), (first, 1), (again, 0))]
    seeds = [seed for seed, _ in fake.asked]
    assert seeds[0] == seeds[2] != seeds[1]
    same = tables[0].drop(columns="seconds").equals(tables[2].drop(columns="seconds"))
    assert same  # ties too are broken by the replicate's own lot


@pytest.mark.parametrize("gate", ["rhat", "ess", "divergences"])
def test_each_gate_stops_at_its_own_threshold(gate: str) -> None:
    """Just inside passes and just outside does not; a constant is no fault."""
    gates = Gates(rhat=1.05, ess=150.0, divergences=0.02)
    keys = [("theta", "model 1"), ("constant", ""), ("mu", "")]
    for factor, count in ((1 - 1e-9, 0), (1 + 1e-9, 1)):
        ess, rhat, diverged = np.array([900.0, np.nan, 800.0]), np.array([1.0, np.nan, 1.01]), 0.0
        if gate == "rhat":
            rhat[0] = 1.05 * factor
        elif gate == "ess":
            ess[0] = 150.0 / factor
        else:
            diverged = 0.02 * factor
        faults = faults_of(keys, ess, rhat, diverged, gates)
        assert len(faults) == count
        assert all("theta (model 1)" in fault for fault in faults if gate != "divergences")


def test_ranks_of_independent_draws_are_uniform() -> None:
    """Each rank from 0 to 9 comes up as often as any other."""
    draws = RNG.standard_normal((20_000, 9))
    truth = RNG.standard_normal(20_000)
    found = [rank_of(t, d, 9.0, RNG) for t, d in zip(truth, draws, strict=True)]
    counts = np.bincount([rank for rank, _ in found], minlength=10)
    assert {ranks for _, ranks in found} == {9}
    assert ((counts - 2000) ** 2 / 2000).sum() < 27.9  # chi-square of 9 degrees, p = 0.001


def test_ties_are_broken_at_random() -> None:
    draws = np.array([0.0, 1.0, 1.0 + 1e-15, 1.0, 2.0])
    found = [rank_of(1.0, draws, np.nan, RNG) for _ in range(4000)]
    counts = np.bincount([rank for rank, _ in found], minlength=6)
    assert set(np.flatnonzero(counts)) == {1, 2, 3, 4}
    assert (abs(counts[1:5] - 1000) < 150).all()


@pytest.mark.parametrize(
    ("ess", "kept"), [(1000, 1000), (5000, 1000), (500, 500), (300, 250), (0.2, 1)]
)
def test_draws_are_thinned_to_their_effective_size(ess: float, kept: int) -> None:
    draws = np.arange(1000.0)
    rank, ranks = rank_of(499.5, draws, ess, RNG)
    assert ranks == kept
    assert abs(rank - kept / 2) <= 1


def test_what_is_not_finite_has_no_rank() -> None:
    draws = np.array([0.0, np.nan, 1.0])
    assert rank_of(0.5, draws, 3.0, RNG) == (-1, 0)
    assert rank_of(np.inf, draws[[0, 2]], 2.0, RNG) == (-1, 0)


def test_bootstrap_rows_carry_the_truth_in_both_definitions() -> None:
    plan, cell = planned("published", items=60)
    bootstrap = plan.study.estimators[0].model_copy(
        update={"name": "b", "kind": "bootstrap", "model": "", "resamples": 200}
    )
    plan = replicating.Plan(plan.study.model_copy(update={"estimators": (bootstrap,)}), {}, None)
    rows = ReplicateRunner(plan, cell).rows(2)
    assert list(rows.columns) == list(COLUMNS)
    own = rows.set_index("quantity")
    assert own.loc["genuine_ability_direct_nominal", "truth"] == 0.35
    assert own.loc["genuine_ability_direct", "truth"] > 0.35
    figures = ["mean", "sd", "low_95", "high_95"]
    assert own.loc["genuine_ability_direct_nominal", figures].equals(
        own.loc["genuine_ability_direct", figures].rename("genuine_ability_direct_nominal")
    )
    assert (set(own["estimator"]), set(own["replicate"]), set(own["ranks"])) == ({"b"}, {2}, {0})
    assert (own["seconds"] > 0).all()
    # The bootstrap has no range of contaminations, and a slope here has no truth.
    assert not {"novelty_gap", "slope"} & set(own.index)


def test_an_estimator_of_the_reverse_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, cell = planned("prior", "single", items=10)
    upside = plan.study.estimators[0].model_copy(update={"reversed": True})
    plan = replicating.Plan(
        plan.study.model_copy(update={"estimators": (upside,)}), plan.specs, plan.truth
    )
    seen: list[pd.DataFrame] = []

    class Watching(Fake):
        def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
            seen.append(responses.frame)
            return super().draw(responses, seed, sampling)

    fake = Watching(plan.specs["single"], [(0, 0.0)])
    monkeypatch.setattr(replicating, "engine_of", lambda *_: fake)
    replicates = ReplicateRunner(plan, cell)
    replicates.rows(0)
    plain = replicates._simulate(0).responses.frame
    np.testing.assert_allclose(seen[0]["contamination"], 1 - plain["contamination"])
    assert seen[0]["n_correct"].equals(plain["n_correct"])
