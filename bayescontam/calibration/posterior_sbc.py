"""Posterior SBC: the table of a fit with each response answered again.

Parameters are drawn from the posterior of a fit, responses from these parameters, and the model
spec is fitted to both together. The first posterior is the prior of the second, so that ranks of
the drawn parameters are uniform, for every quantity, if both are right where the data lie
(Säilynoja, Schmitt, Bürkner & Vehtari 2025, arXiv:2502.03279).

Simulated responses are further trials of the same items by the same models, given all parameters.
Under the binomial likelihood two sets of trials inform as their sum does, so that the table has the
rows of the fit's own, with counts added and twice the trials, and its model must have the same
terms. Fits that hold no draws of what this needs are refused.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayescontam._text import join_list, printable
from bayescontam.data.responses import Responses
from bayescontam.errors import Fault, SpecError, UsageError
from bayescontam.inference.convergence import convergence
from bayescontam.inference.result import Fit
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.design import make_design
from bayescontam.model.terms import plan_terms
from bayescontam.specs.model import ModelSpec

_LABELS = ("model", "benchmark", "item")
_OF_ITEMS = {"item", "repeated", "response"}


@dataclass(frozen=True, eq=False)
class Observed:
    """A fit to simulate from; make one with `load`."""

    responses: Responses  # that it was made of
    built: BuiltModel  # the model that was fitted
    posterior: xr.Dataset  # dims (chain, draw, …)

    @classmethod
    def load(cls, path: Path) -> "Observed":
        """Read a fit."""
        fit = Fit.from_netcdf(path)
        name = printable(str(path))
        if fit.spec.contamination.exposure != "known":
            raise UsageError(
                f"{name}: its model spec '{fit.spec.name}' needs columns that the fit does not"
                " keep, so that no tables can be simulated from it; choose another fit"
            )
        if fit.record.get("difficulties") == "marginalised":
            raise UsageError(
                f"{name}: its item difficulties were integrated out, and responses to the same"
                " items are simulated from draws of them; make the fit again with difficulties"
                " sampled (--difficulties sampled)"
            )
        responses = fit.responses()
        observed = cls(responses, build(fit.spec, responses), fit.joint_posterior())
        observed._refuse_other_rows(fit, name)
        doubled_spec(fit.spec, responses, name)
        return observed

    def _refuse_other_rows(self, fit: Fit, name: str) -> None:
        """Refuse draws whose positions do not mean what they mean in the model built here."""
        data, design = fit.data["constant_data"].to_dataset(), self.built.design
        coords = design.coords
        same = all(
            np.array_equal(data[f"{label}_of_response"], getattr(design, label))
            and list(map(str, data[label].to_numpy())) == list(map(str, coords[label]))
            for label in _LABELS
        )
        if not same or set(fit.record["entered"]) != self.built.terms.entered:
            raise UsageError(
                f"{name}: the model that this version of bayescontam builds for its responses is"
                " not the one that was fitted; make the fit again"
            )

    @cached_property
    def kept(self) -> NDArray[np.int64]:
        """Positions of nearly independent draws: as many as the least well known parameter has."""
        shape = self.posterior.sizes["chain"], self.posterior.sizes["draw"]
        columns = [
            values.to_numpy().reshape(*shape, -1)
            for name, values in self.posterior.data_vars.items()
            if not _OF_ITEMS & {*values.dims, *self.built.model.named_vars_to_dims.get(name, ())}
        ]
        cells = np.concatenate(columns, axis=-1)
        ess = convergence(cells, only=["ess_bulk"])["ess_bulk"]
        total = shape[0] * shape[1]
        least = float(np.nanmin(ess, initial=total))
        return np.arange(0, total, max(1, int(np.ceil(total / max(least, 1.0)))))

    def draw(self, position: int) -> xr.Dataset:
        """Return one draw, dims (chain, draw, …) of length one."""
        chain, draw = divmod(position, self.posterior.sizes["draw"])
        at: dict[str, Any] = {"chain": [chain], "draw": [draw]}
        return self.posterior.isel(at).drop_vars(list(self.posterior.coords))

    def augmented(self, counts: NDArray[np.integer[Any]]) -> tuple[Responses, BuiltModel]:
        """Return the responses of the fit and as many trials again, as table and as model."""
        frame, design = self.responses.frame, self.built.design
        # The order of the design is that of the table, but for single trials, which come first.
        order = np.argsort((frame["n_trials"] > 1).to_numpy(), kind="stable")
        again = np.empty(len(frame), dtype=np.int64)
        again[order] = counts
        twice = frame.assign(n_correct=frame["n_correct"] + again, n_trials=2 * frame["n_trials"])
        both = replace(
            design,
            n_correct=design.n_correct + counts,
            n_trials=2 * design.n_trials,
            n_single=0,
        )
        responses = replace(self.responses, frame=twice, source="simulated")
        return responses, replace(self.built, design=both)


def doubled_spec(spec: ModelSpec, responses: Responses, source: str) -> ModelSpec:
    """Return the model spec that describes doubled trials as `spec` describes a table."""
    terms = plan_terms(spec, make_design(spec, responses)).entered
    if "eps" not in terms and spec.likelihood.has_model_by_item:
        likelihood = spec.likelihood.model_copy(update={"model_by_item": False})
        spec = spec.model_copy(update={"likelihood": likelihood})
    twice = responses.frame.assign(n_trials=2 * responses.frame["n_trials"])
    other = plan_terms(spec, make_design(spec, replace(responses, frame=twice))).entered
    singles = int((responses.frame["n_trials"] == 1).sum())
    if "eps" in terms and singles:
        problem = (
            f"{singles:,} responses have one trial and others several, which have a model-by-item"
            " effect: with as many trials again the first would have one too; fit a model spec"
            " with likelihood.model_by_item = false, or responses with several trials each"
        )
        raise SpecError([Fault(source, problem)])
    if terms != other:
        problem = (
            f"with as many trials again it has other terms: {join_list(sorted(terms ^ other))}"
        )
        raise SpecError([Fault(source, problem)])
    return spec
