"""Entry: what an update reports of one model, by weights or by a joint fit."""

import time
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd

from bayescontam.errors import FitError
from bayescontam.inference.checks import Outcome
from bayescontam.inference.fit import Options, fit_responses
from bayescontam.inference.fitted import Fit
from bayescontam.inference.joining.newcomer import make_newcomer, refit_reason, strange_parts
from bayescontam.inference.joining.updated import Updated, update_draws
from bayescontam.inference.joining.weighted import COLUMNS, summarise_weighted
from bayescontam.inference.ordering import first_places
from bayescontam.names import visible
from bayescontam.progress import stage
from bayescontam.responses import Responses
from bayescontam.seeds import stream
from bayescontam.specs.model import ModelSpec

HOPELESS = 1.0
"""Pareto k of weights that more draws would not help."""
Refit = Literal["auto", "never", "always"]
"""When old and new responses are fitted together: where weights cannot be trusted, …"""


@dataclass(frozen=True, eq=False)
class Entry:
    """What an update reports of one model."""

    model: str
    # whether draws of the fit were weighed, or the fit was made again with the model
    method: Literal["update", "refit"]
    estimands: pd.DataFrame  # see `bayescontam.updating.Update.estimands`
    p_better: pd.DataFrame  # see `bayescontam.updating.Update.p_better`
    # pareto_k, ess: tail shape of the weights, and how many equal draws they are worth; NaN where
    # none were computed
    pareto_k: float
    ess: float
    verdict: str  # a sentence that says how far to trust this
    seconds: float  # how long it took
    fit: Fit | None = None  # the joint fit, where one was made
    # observed score of the model on each benchmark: mean over items of the share of correct trials
    raw: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Desk:
    """Where new models are taken in, one by one."""

    fit: Fit
    old: Responses  # those of the fit
    options: Options  # of the update, and of a joint fit
    draws: int  # number of draws to weigh
    refit: Refit
    progress: bool  # whether to show what goes on

    def entry(self, joined: Responses) -> Entry:
        """Weigh the fit's draws for one model, or fit again where that cannot be trusted."""
        return replace(self._entry(joined), raw=raw_scores(self.fit.spec, joined))

    def _entry(self, joined: Responses) -> Entry:
        started = time.perf_counter()
        name, updated = joined.models[-1], None
        reason = "requested" if self.refit == "always" else strange_parts(self.fit)
        if reason is None:
            with stage(self.progress, f"weighing the fit's draws for {visible(name)}"):
                reason, updated = self._weighed(joined)
        if reason is None and updated is not None:
            return _updated_entry(updated, self.options.level, time.perf_counter() - started)
        if self.refit == "never":
            advice = "allow it (--refit auto)"
            raise FitError(f"{visible(name)}: needs a joint fit: {reason}; {advice}")
        joint = fit_responses(joined, self.fit.spec, self.options, self.progress)
        return _refitted_entry(joint, name, updated, str(reason), time.perf_counter() - started)

    def _weighed(self, joined: Responses) -> tuple[str | None, Updated | None]:
        """Return why weights cannot be trusted, if so, and what they say."""
        newcomer = make_newcomer(self.fit.spec, self.old, joined)
        if reason := refit_reason(newcomer, self.fit):
            return reason, None
        for number in (self.draws, 4 * self.draws):
            rng = stream(self.options.seed, "update", newcomer.name, number)
            options = self.options
            averaged = options.items, options.population
            updated = update_draws(self.fit, newcomer, options.reference, rng, number, *averaged)
            if updated.doubt is None or updated.pareto_k > HOPELESS:
                break
        return updated.doubt, updated


def raw_scores(spec: ModelSpec, joined: Responses) -> dict[str, float]:
    """Return the observed score of the last model of a table on each of its benchmarks."""
    own = joined.frame[joined.frame["model"] == joined.models[-1]]
    share = own["n_correct"] / own["n_trials"]
    # Where the trials of a row are different items, each of them counts.
    weight = own["n_trials"] if spec.likelihood.trials == "items" else share * 0 + 1
    sums = pd.DataFrame({"right": share * weight, "of": weight})
    sums = sums.groupby(own["benchmark"], sort=False, observed=True).sum()
    return {str(name): float(row["right"] / row["of"]) for name, row in sums.iterrows()}


def _updated_entry(updated: Updated, level: float, seconds: float) -> Entry:
    name = updated.newcomer.name
    groups = {}
    for group, values in updated.groups.items():
        rank = values["rank"].transpose("chain", "draw", "model", ...)
        first = rank.copy(data=first_places(rank.to_numpy())).sel(model=name, drop=True)
        own = values.sel(model=name, drop=True)
        groups[group] = summarise_weighted(own, updated.weights, level, first)
    table = groups["estimands"]
    if (parts := groups.get("estimands_by_concept")) is not None:
        design = updated.newcomer.design
        owner = [design.benchmarks[k] for k in design.benchmark_of_unit]
        parts.insert(
            0, "benchmark", parts["concept"].map(dict(zip(design.units, owner, strict=True)))
        )
        table.insert(1, "concept", "")
        table = pd.concat([table, parts], ignore_index=True)
    table.insert(0, "model", name)
    better = updated.p_better()
    better.insert(0, "model", name)
    verdict = (
        f"the weights can be trusted: Pareto k {updated.pareto_k:.2f} (at most"
        f" {updated.most_k:.2f}), worth {updated.weights.ess:.0f} draws"
    )
    return Entry(
        name, "update", table, better, updated.pareto_k, updated.weights.ess, verdict, seconds
    )


def _refitted_entry(
    joint: Fit, name: str, updated: Updated | None, reason: str, seconds: float
) -> Entry:
    table = joint.estimands()
    table = table[table["model"] == name].rename(columns={"ess_bulk": "ess"})
    keys = [key for key in ("model", "benchmark", "concept", "quantity") if key in table]
    probability = joint.p_better().sel(model=name, drop=True).rename("probability")
    better = probability.transpose("benchmark", "other").to_series().dropna().reset_index()
    better.insert(0, "model", name)
    failed = [check.name for check in joint.checks() if check.outcome is Outcome.FAILED]
    verdict = f"fitted together with the old responses: {reason}"
    if failed:
        verdict += f"; checks that failed: {', '.join(failed)}"
    return Entry(
        name, "refit", table[[*keys, *COLUMNS]].reset_index(drop=True), better,
        float("nan") if updated is None else updated.pareto_k,
        float("nan") if updated is None else updated.weights.ess, verdict, seconds, joint,
    )  # fmt: skip
