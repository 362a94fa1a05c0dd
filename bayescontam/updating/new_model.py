"""The design of a fit extended by a new model, and whether the two are comparable."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
import pymc as pm

from bayescontam._text import join_list, printable
from bayescontam._types import IntArray
from bayescontam.data.measures import guess_column, read_guess
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.inference.estimands import Reference
from bayescontam.inference.result import Fit
from bayescontam.model.build import COORDINATES, BuiltModel
from bayescontam.model.design import Design, make_design
from bayescontam.model.terms import benchmarks_with_two_models, plan_terms
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Normal

_UNDERSTOOD = {
    *COORDINATES, "a", "beta", "beta_bar", "beta_benchmark", "beta_model", "delta",
    "eta", "log_beta", "mu", "mu_bar", "sigma_a", "sigma_bb", "sigma_bm",
    "sigma_bmb", "sigma_delta", "sigma_eps", "sigma_mu", "sigma_theta", "theta", "theta_offset",
}  # fmt: skip
"""Parameters whose meaning for a newcomer is known here."""


@dataclass(frozen=True, eq=False)
class NewModel:
    """A model that was not in a fit."""

    name: str
    spec: ModelSpec
    host: Design  # of the fit
    design: Design  # of both; the newcomer is the last model
    own: IntArray  # positions of the newcomer's responses in `design`
    met: IntArray  # positions of the fit's responses to items that the newcomer answered

    @cached_property
    def built(self) -> BuiltModel:
        """The joint design as estimands take it; its PyMC model is empty, nothing is sampled.

        A fit of models that answered all items has no effects of what its models chose to
        answer, and what a newcomer chose is not modelled either.
        """
        terms = plan_terms(self.spec, self.design)
        if not len(self.host.partial):
            terms = replace(terms, entered=terms.entered - {"psi", "sigma_psi"})
        return BuiltModel(pm.Model(), self.spec, self.design, terms)

    @cached_property
    def units(self) -> IntArray:
        """Units that the newcomer answered, positions in the joint design."""
        return np.unique(self.design.unit[self.own])

    @cached_property
    def benchmarks(self) -> IntArray:
        """Benchmarks that the newcomer answered."""
        return np.unique(self.design.benchmark[self.own])

    @cached_property
    def unit_of_host(self) -> IntArray:
        """Position in the joint design of each unit of the fit."""
        return self._positions("unit", len(self.host.units))

    @cached_property
    def item_of_host(self) -> IntArray:
        """Position in the joint design of each item of the fit."""
        return self._positions("item", len(self.host.items))

    def _positions(self, field: str, count: int) -> IntArray:
        result = np.empty(count, dtype=np.int64)
        old = self.design.model < len(self.host.models)
        result[getattr(self.host, field)] = getattr(self.design, field)[old]
        return result


def split_models(responses: Responses) -> list[Responses]:
    """Return the responses of each model in a table of its own."""
    parts = responses.frame.groupby("model", sort=False, observed=True)
    return [replace(responses, frame=part.reset_index(drop=True)) for _, part in parts]


def new_models(old: Responses, given: Responses) -> Responses:
    """Return the responses of models that are not in a fit; its notes name the others."""
    known = [name for name in given.models if name in old.models]
    if not known:
        return given
    if len(known) == len(given.models):
        raise UsageError(
            f"update: {printable(given.source)} has no new model: {join_list(known)}"
            f" {'is' if len(known) == 1 else 'are'} in the fit already. To change the responses of"
            " a model, fit the whole table again"
        )
    keys, scores = ["model", "benchmark", "item"], ["n_correct", "n_trials"]
    rows = given.frame["model"].isin(known)
    both = given.frame.loc[rows, [*keys, *scores]].merge(old.frame[[*keys, *scores]], on=keys)
    differing = (both[["n_correct_x", "n_trials_x"]].to_numpy()
             != both[["n_correct_y", "n_trials_y"]].to_numpy()).any(axis=1)  # fmt: skip
    count = f"{len(known):,} model{'' if len(known) == 1 else 's'}"
    note = f"passed over the rows of {count} in the fit already: {join_list(known)}"
    if changed := list(dict.fromkeys(both.loc[differing, "model"])):
        note += (
            f"; in this table the responses of {join_list(changed)} differ from those of the "
            "fit: to"
            " use them, fit the whole table again"
        )
    frame = given.frame[~rows].reset_index(drop=True)
    return replace(given, frame=frame, notes=(*given.notes, note))


def join_responses(spec: ModelSpec, old: Responses, new: Responses) -> Responses:
    """Put the responses of new models after those of a fit."""
    unknown = [label for label in new.benchmarks if label not in old.benchmarks]
    if unknown:
        problem = f"not in the fit: {join_list(unknown)}; the fit has {join_list(old.benchmarks)}"
        advice = (
            "Nothing is known of a benchmark without a fit: leave its rows out (--where), or fit"
            " the old and new responses together with: bayescontam fit"
        )
        raise DataError([Fault(new.source, problem, column="benchmark")], advice)
    needed = ["contamination"] if spec.contamination.form != "none" else []
    needed += [spec.ability.by] if spec.ability.by != "benchmark" else []
    needed += [spec.contamination.clean_column] if spec.contamination.clean_column else []
    missing = [label for label in needed if label not in new.frame]
    if missing:
        problem = f"the fit uses a column that is not there: {join_list(missing)}"
        advice = "Add it; contamination may come from a covariates table (--covariates)."
        raise DataError([Fault(new.source, problem)], advice)
    if spec.likelihood.guess == "column":
        old, new = _with_guess(old, old), _with_guess(new, old)
    columns = [label for label in old.frame if label in new.frame]
    joined = pd.concat([old.frame[columns], new.frame[columns]], ignore_index=True)
    source = f"{old.source} and {new.source}"
    from_dates = old.from_dates and new.from_dates
    return Responses(joined, source, (*old.notes, *new.notes), from_dates)


def _with_guess(responses: Responses, fitted: Responses) -> Responses:
    """Return responses with a column ``guess``: their own, or that of the fit's items."""
    frame, source = responses.frame, responses.source
    if guess_column(frame) is None:
        known = fitted.frame.assign(guess=read_guess(fitted.frame, fitted.source))
        keys = ["benchmark", "item"]
        known = known.drop_duplicates(keys)[[*keys, "guess"]]
        frame = frame.merge(known, on=keys, how="left", validate="many_to_one")
    return replace(responses, frame=frame.assign(guess=read_guess(frame, source)))


def make_newcomer(spec: ModelSpec, old: Responses, joined: Responses) -> NewModel:
    """Return a newcomer from responses joined to those of a fit."""
    host = make_design(spec, old)
    joint = host.extend(make_design(spec, joined))
    own = joint.model == len(host.models)
    met = ~own & np.isin(joint.item, joint.item[own])
    return NewModel(joined.models[-1], spec, host, joint, *map(np.flatnonzero, (own, met)))


def unsupported_terms(fit: Fit) -> str | None:
    """Say which part of a fit's model spec an update cannot handle; None if there is none."""
    spec = fit.spec
    if spec.contamination.exposure != "known":
        return "its contamination is not known for sure"
    strange = sorted(set(map(str, fit.joint_posterior().data_vars)) - _UNDERSTOOD)
    straight = spec.contamination.form in ("none", "linear")
    if strange or not straight or spec.contamination.scale != "log_odds":
        return f"the model spec '{spec.name}' has parts that an update does not know"
    return None


def refit_reason(newcomer: NewModel, fit: Fit) -> str | None:
    """Say why only a joint fit can take this model in; None where an update can."""
    spec, design, host = newcomer.spec, newcomer.design, newcomer.host
    if fresh := [name for name in design.units if name not in host.units]:
        return f"the fit has no {design.by} {join_list(fresh)}"
    terms = newcomer.built.terms.entered
    if changed := sorted(terms ^ set(fit.record["entered"])):
        return f"with one model more the model has other terms: {', '.join(changed)}"
    if (
        "delta" in terms
        and (benchmarks_with_two_models(design) != benchmarks_with_two_models(host)).any()
    ):
        return "with one model more other benchmarks have items that several models answered"
    if spec.ability.pooling == "none" and "eps" in terms:
        return "its model-by-item effect has a spread of its own, which a fit says nothing of"
    unpooled = spec.contamination.pooling == "none" and "beta" in terms
    if unpooled and not isinstance(spec.priors.beta_bar, Normal):
        return "its slope has a prior of its own that is not Normal"
    if design.clean.any():
        return "some models are known to be clean"
    return None


def differing_tables(old: Responses, joined: Responses, reference: Reference) -> list[str]:
    """Say what makes a new model's estimands other than those of the fit's models."""
    frame, name = joined.frame, joined.models[-1]
    new = frame[frame["model"] == name]
    parts = dict(list(old.frame.groupby("benchmark", sort=False)))
    return [
        sentence
        for benchmark, own in new.groupby("benchmark", sort=False)
        for sentence in _differences(
            printable(name), printable(str(benchmark)), parts[benchmark], own, reference
        )
    ]


def _differences(
    name: str, benchmark: str, old: pd.DataFrame, own: pd.DataFrame, reference: Reference
) -> Iterator[str]:
    known, items = set(old["item"]), set(own["item"])
    if fresh := len(items - known):
        yield (
            f"{name}: {fresh:,} of its {len(items):,} items of {benchmark} are not in the fit,"
            " which knows of their difficulty only how much items differ"
        )
    if missing := len(known - items):
        yield (
            f"{name} answered {len(known) - missing:,} of the fit's {len(known):,} items of"
            f" {benchmark}: its estimands are averages over other items than those of the other"
            " models, and so are ranks"
        )
    if reference == "min_observed" and "contamination" in own and "contamination" in old:
        least, before = own["contamination"].min(), old["contamination"].min()
        if least < before:
            yield (
                f"{name} has items of {benchmark} that are cleaner than all of the fit's"
                f" ({least:.3g}, {before:.3g}): genuine ability is reported at {least:.3g} here,"
                f" and at {before:.3g} in the fit"
            )
