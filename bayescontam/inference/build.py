"""Build: a model spec and tables to a PyMC model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pymc as pm

from bayescontam._types import IntArray
from bayescontam.inference.design import Design, make_design
from bayescontam.inference.effects import (
    add_abilities,
    add_confounding,
    add_difficulties,
    add_discriminations,
    add_increments,
    add_scalar,
    add_selection,
    add_slopes,
    rise_of_increments,
)
from bayescontam.inference.guess import add_guess
from bayescontam.inference.lattice import Lattice
from bayescontam.inference.likelihood import add_model_by_item, add_responses, spreads_of_repeats
from bayescontam.inference.marginalised import Difficulties, add_marginalised, plan_lattice
from bayescontam.inference.mixture import add_mixture
from bayescontam.inference.predictor import Effects, linear_predictor, response_slopes
from bayescontam.inference.priors import Tensor
from bayescontam.inference.repeats import add_repeats, plan_repeats
from bayescontam.inference.stretch import Stretch, stretch
from bayescontam.inference.terms import Terms, plan_terms
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec


@dataclass(frozen=True, eq=False)
class Built:
    """A PyMC model with what it was built from."""

    # dims `model`, `benchmark`, `concept` (if abilities are by concept), `item`, `response`,
    # `repeated` (responses with several trials) and `segment` (of a monotone dose-response)
    model: pm.Model
    spec: ModelSpec
    design: Design
    terms: Terms
    # where item difficulties are integrated out: what stands in for the items
    lattice: Lattice | None = None


def build(spec: ModelSpec, responses: Responses, difficulties: Difficulties = "sampled") -> Built:
    """Build the PyMC model of a model spec for a table of responses."""
    design = make_design(spec, responses)
    terms = plan_terms(spec, design)
    lattice = plan_lattice(spec, design, terms, difficulties)
    if lattice is not None:
        return _build_marginalised(spec, design, terms, lattice)
    return build_design(spec, design)


def build_design(
    spec: ModelSpec, design: Design, seen: Callable[[Design], Any] = lambda design: design
) -> Built:
    """Build the PyMC model of a model spec for a design; see `build`."""
    terms = plan_terms(spec, design)
    coords = dict(design.coords)
    if "eps" in terms:  # of what is sampled for each, if anything is
        coords["repeated"] = np.arange(design.n_single, len(design))
    if "increments" in terms:
        coords["segment"] = np.arange(len(design.knots) + 1)
    with pm.Model(coords=coords) as model:
        shown = seen(design)
        spreads = spreads_of_repeats(spec, design) if "eps" in terms else None
        effects = _add_effects(spec, design, terms, shown, _stretch(spec, design, spreads))
        predictor = linear_predictor(effects, shown)
        guess = add_guess(spec, design)
        table = plan_repeats(design, terms, guess)
        if table is not None and spreads is not None:
            add_repeats(design, predictor, spreads, guess, table)
        elif design.exposure is None:
            eta = add_model_by_item(design, predictor, spreads)
            add_responses(design, eta, guess)
        else:
            slope = response_slopes(effects, design)
            add_mixture(design, predictor, slope, guess, spreads)
    return Built(model, spec, design, terms)


def _build_marginalised(spec: ModelSpec, design: Design, terms: Terms, lattice: Lattice) -> Built:
    """Build the PyMC model of a design with item difficulties integrated out."""
    coords = dict(design.coords)
    if "increments" in terms:
        coords["segment"] = np.arange(len(design.knots) + 1)
    with pm.Model(coords=coords) as model:
        others = replace(terms, entered=terms.entered - {"delta"}, integrated=True)
        effects = _add_effects(spec, design, others, design, Stretch())
        add_marginalised(spec, design, effects, lattice)
    return Built(model, spec, design, terms, lattice)


def _stretch(spec: ModelSpec, design: Design, spreads: tuple[Tensor, IntArray] | None) -> Stretch:
    """Return by how much effects are larger than their priors say; see `Stretch`."""
    if spreads is None:
        return Stretch()
    if spec.ability.pooling != "none":
        return Stretch(stretch(spreads[0][0]))
    return Stretch(stretch(spreads[0]).reshape(design.answered.shape), by_cell=True)


def _add_effects(
    spec: ModelSpec, design: Design, terms: Terms, seen: Any, stretched: Stretch
) -> Effects:
    factor = partial(stretched.of, spec=spec, design=design)
    # Coordinates follow contaminations only where these stay what they are.
    fixed = seen is design
    delta = add_difficulties(spec, design, terms, factor, fixed)
    confounded = delta if fixed else None
    theta = add_abilities(spec, design, terms, factor, delta)
    increments = add_increments(spec, design, terms)
    unit = None if increments is None else rise_of_increments(increments, seen)
    beta = add_slopes(spec, design, terms, factor, unit, confounded)
    psi = add_selection(spec, design, terms, factor)
    return {
        "theta": theta.ravel(),
        "beta": None if beta is None else beta.ravel(),
        "psi": None if psi is None else psi.ravel(),
        "delta": delta,
        "alpha": add_discriminations(spec, design, terms),
        "increments": increments,
        "kappa": add_confounding(spec, design, terms, factor, confounded),
        "gamma": add_scalar("gamma", spec, terms, factor),
        "spillover": add_scalar("spillover", spec, terms, factor),
    }
