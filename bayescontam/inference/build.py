"""Build: a model spec and tables to a PyMC model."""

from dataclasses import dataclass

import numpy as np
import pymc as pm

from bayescontam.inference.design import Design, make_design
from bayescontam.inference.effects import (
    add_abilities,
    add_difficulties,
    add_slopes,
    linear_predictor,
)
from bayescontam.inference.likelihood import add_model_by_item, add_responses
from bayescontam.inference.mixture import add_mixture
from bayescontam.inference.terms import Terms, plan_terms
from bayescontam.responses import Responses
from bayescontam.specs.model import ModelSpec


@dataclass(frozen=True, eq=False)
class Built:
    """A PyMC model with what it was built from.

    Attributes
    ----------
    model : pymc.Model
        Dims ``model``, ``benchmark``, ``concept`` (if abilities are by concept),
        ``item``, ``response`` and ``repeated`` (responses with several trials).
    spec : ModelSpec
    design : Design
    terms : Terms
    """

    model: pm.Model
    spec: ModelSpec
    design: Design
    terms: Terms


def build(spec: ModelSpec, responses: Responses) -> Built:
    """Build the PyMC model of a model spec for a table of responses.

    Parameters
    ----------
    spec : ModelSpec
    responses : Responses

    Returns
    -------
    Built

    Raises
    ------
    DataError
        If the table lacks what the spec needs.
    SpecError
        If the spec names what the table does not have.
    """
    design = make_design(spec, responses)
    return build_design(spec, design)


def build_design(spec: ModelSpec, design: Design) -> Built:
    """Build the PyMC model of a model spec for a design; see `build`."""
    terms = plan_terms(spec, design)
    coords = dict(design.coords)
    if "eps" in terms:
        coords["repeated"] = np.arange(design.n_single, len(design))
    with pm.Model(coords=coords) as model:
        theta = add_abilities(spec, design, terms)
        beta = add_slopes(spec, design, terms)
        effects = {
            "theta": theta.ravel(),
            "beta": None if beta is None else beta.ravel(),
            "delta": add_difficulties(spec, design, terms),
        }
        predictor = linear_predictor(effects, design)
        if design.exposure is None:
            eta = add_model_by_item(spec, design, terms, predictor)
            add_responses(spec, design, eta)
        else:
            add_mixture(spec, design, terms, predictor, beta)
    return Built(model, spec, design, terms)
