"""The PyMC model of a model spec and a table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm

from bayescontam._text import printable
from bayescontam.data.covariates import Covariates, Missing
from bayescontam.data.measures import Scale
from bayescontam.data.responses import Path, Responses, given_responses
from bayescontam.model.auto import choose_spec
from bayescontam.model.design import Design, make_design
from bayescontam.model.effect_names import effect_words
from bayescontam.model.effects import add_effects
from bayescontam.model.guessing import add_guess
from bayescontam.model.likelihood import (
    add_model_by_item,
    add_repeats,
    add_responses,
    has_own_spreads,
    plan_repeats,
    spreads_of_repeats,
)
from bayescontam.model.marginal import Difficulties, Lattice, add_marginalised, make_grid
from bayescontam.model.measurement_error import add_mixture
from bayescontam.model.predictor import Data, linear_predictor, response_slopes
from bayescontam.model.priors import Stretch, stretch
from bayescontam.model.terms import Terms, plan_terms
from bayescontam.model.transforms import make_informing_data
from bayescontam.specs.model import ModelSpec

_LEVELS = (
    "beta_level", "beta_bar_level", "beta_benchmark_level", "beta_model_mean",
    "beta_model_coordinates",
)  # fmt: skip
_SLOPES = ("beta", "beta_free", "beta_bar", "beta_benchmark", "beta_model")
_ABILITIES = ("theta_level", "mu_level", "mu_bar_level", "delta_coordinates", "kappa_level")
COORDINATES = (
    "a_coordinates",
    "a_base_coordinates",
    "theta_base_level",
    "t_coordinates",
    "t_start",
    "t_step",
    "psi_coordinates",
    "xi_level",
    *_ABILITIES,
    *_LEVELS,
    *(f"{name}_rise" for name in (*_LEVELS, *_SLOPES)),
)
"""Variables that only the sampler needs: others, with meanings, follow from them."""
Varying = Literal["nothing", "counts", "doses"]
"""What of a table is data of its PyMC model: ``"doses"`` are contaminations, and counts too.

Fits have constants alone. With counts as data, nutpie compiled 800 responses in 39 seconds of the
processor, not 30, for the same time a gradient (0.066 ms), and rounding moved a seed's draws.
"""
_DOSES = {
    "beta": "dose",
    "increments": "reach_dose",
    "kappa": "item_dose",
    "spillover": "cell_dose",
}
"""What each effect has the linear predictor take from a design."""
WIDTH = 60  # longest name of a model, benchmark or item in a sentence
_WORDS = {
    "theta": "ability of {model} on {unit}",
    "mu": "mean ability on {unit}",
    "mu_bar": "mean ability on {unit}",
    "a": "general ability of {model}",
    "beta": "slope of {model} on {unit}",
    "beta_free": "slope of {model} on {unit}",
    "log_beta": "log slope of {model} on {unit}",
    "beta_bar": "mean slope",
    "beta_benchmark": "mean slope on {unit}",
    "beta_model": "slope of {model} beyond the mean",
    "delta": "difficulty of item {item}",
    "alpha": "discrimination of item {item}",
    "alpha_pair": "discrimination of {model} on {unit}",
    "log_alpha_pair": "log discrimination of {model} on {unit}",
    "log_alpha": "log discrimination of item {item}",
    "kappa": "difficulty of contaminated items on {unit}",
    "gamma": "effect of difficulty on slopes",
    "shared": "factor {factor} of what is unsure of contamination",
    "spillover": "coefficient of spillover of {model} on {unit}",
    "lambda_bar": "mean coefficient of spillover",
    "lambda_benchmark": "mean coefficient of spillover on {unit}",
    "lambda_kind": "coefficient of spillover of one kind of duplicates",
    "lambda": "coefficient of spillover of {exposure}",
    "theta_base": "ability of base {base} on {unit}",
    "a_base": "general ability of base {base}",
    "t": "what the training of {model} changes everywhere",
    "sigma_t": "spread of what models' own training changes everywhere",
    "sigma_step": "spread of what training changes between checkpoints",
    "sigma_twin": "spread of how twins differ",
    "sigma_lb": "spread of coefficients of spillover over benchmarks",
    "sigma_lk": "spread of coefficients of spillover over kinds of duplicates",
    "sigma_lambda": "spread of coefficients of spillover over bases and kinds",
    "guess": "accuracy of blind guessing on {unit}",
    "increments": "segment {segment} of the dose-response",
    "sigma_a": "spread of general abilities",
    "sigma_theta": "spread of abilities",
    "sigma_mu": "spread of mean abilities",
    "sigma_bm": "spread of slopes over models",
    "sigma_bb": "spread of slopes over benchmarks",
    "sigma_bmb": "spread of slopes over pairs of model and benchmark",
    "sigma_delta": "spread of difficulties on {unit}",
    "sigma_alpha": "spread of discriminations",
    "sigma_eps": "spread of model-by-item effects",
    "psi": "difficulty of the items that {model} answered, beyond others, on {unit}",
    "sigma_psi": "spread of how much harder answered items are",
    "zeta": "ability of participant {participant}",
    "xi": "effect of {participant_item} beyond difficulty",
    "sigma_zeta": "spread of participants' abilities",
    "sigma_xi": "spread of items' effects for people",
}


@dataclass(frozen=True, eq=False)
class BuiltModel:
    """A PyMC model with what it was built from."""

    # dims `model`, `benchmark`, `concept` (if abilities are by concept), `item`, `response`,
    # `repeated` (responses with several trials) and `segment` (of a monotone dose-response)
    model: pm.Model
    spec: ModelSpec
    design: Design
    terms: Terms
    # where item difficulties are integrated out: what stands in for the items
    lattice: Lattice | None = None

    def data(self) -> dict[str, Any]:
        """Return the values of what is data of the model, under their names."""
        return {str(each.name): each.get_value() for each in self.model.data_vars}


def build(
    spec: ModelSpec, responses: Responses, difficulties: Difficulties = "sampled"
) -> BuiltModel:
    """Build the PyMC model of a model spec for a table of responses."""
    return build_design(spec, make_design(spec, responses), difficulties=difficulties)


def build_design(
    spec: ModelSpec,
    design: Design,
    varying: Varying = "nothing",
    difficulties: Difficulties = "sampled",
) -> BuiltModel:
    """Build the PyMC model of a model spec for a design."""
    terms = plan_terms(spec, design)
    lattice = make_grid(spec, design, terms, difficulties)
    coords = {name: labels for name, labels in design.coords.items() if name != "response"}
    if "eps" in terms:  # of what is sampled for each, if anything is
        coords["repeated"] = np.arange(design.n_single, len(design))
    if design.shared is not None:
        coords["factor"] = np.arange(1, design.shared.loadings.shape[1] + 1)
    if "increments" in terms:
        coords["segment"] = np.arange(len(design.knots) + 1)
    with pm.Model(coords=coords) as model:
        # Numbered, without labels: PyMC would have an object for each, 400 MB of 10⁷ responses.
        model.add_coord("response", length=len(design))
        if lattice is None:
            _add_responses(spec, design, terms, varying)
        else:
            others = replace(terms, entered=terms.entered - {"delta"}, integrated=True)
            effects = add_effects(spec, design, others, Stretch(), {})
            add_marginalised(spec, design, effects, lattice)
    return BuiltModel(model, spec, design, terms, lattice)


def _add_responses(spec: ModelSpec, design: Design, terms: Terms, varying: Varying) -> None:
    """Add effects and, given them, responses to the current PyMC model."""
    counts: Any = design.n_correct
    doses: Data = {}
    if varying != "nothing":
        counts = pm.Data("counts", counts)
    if varying == "doses":
        names = [name for symbol, name in _DOSES.items() if symbol in terms]
        names += ["contamination"] if design.additive else []
        doses = {name: pm.Data(name, getattr(design, name)) for name in names}
    spreads = spreads_of_repeats(spec, design) if "eps" in terms else None
    factor = Stretch()  # by how much effects are larger than their priors say
    if spreads is not None:
        own = has_own_spreads(spec)
        cells = spreads[0].reshape(design.answered.shape) if own else spreads[0][0]
        factor = Stretch(stretch(cells), by_cell=own)
    effects = add_effects(spec, design, terms, factor, doses)
    predictor = linear_predictor(effects, design, doses)
    guess = add_guess(spec, design)
    table = plan_repeats(design, terms, guess)
    if table is not None and spreads is not None:
        add_repeats(design, counts, predictor, spreads, guess, table)
    elif design.exposure is None:
        eta = add_model_by_item(design, predictor, spreads)
        add_responses(design, counts, eta, guess)
    else:
        slope = response_slopes(effects, design)
        add_mixture(design, counts, predictor, slope, guess, spreads)
    if varying != "nothing":
        make_informing_data(pm.modelcontext(None))


def in_words(name: str, place: Mapping[str, object] | None = None) -> str:
    """Return what an element of a variable is called in a sentence.

    >>> in_words("delta", {"item": 3184})
    'difficulty of item 3184'
    >>> in_words("genuine_ability_direct", {"model": "m", "benchmark": "b"})
    'genuine ability (direct) of m on b'
    >>> in_words("threshold", {"source": "web"})
    'threshold[web]'
    >>> in_words("p_shift", {"benchmark": "b"})
    'p_shift[b]'
    """
    given = {dim: printable(str(label), WIDTH) for dim, label in (place or {}).items()}
    labels = dict(given)
    if "benchmark" in labels or "concept" in labels:
        labels["unit"] = labels.get("concept") or labels.get("benchmark", "")
    words = _WORDS.get(name)
    if words is None and {"model", "unit"} <= set(labels):
        words = f"{effect_words(name)} of {{model}} on {{unit}}"
    if words is None:
        return name + (f"[{', '.join(given.values())}]" if given else "")
    # A spread without a dim is one for all.
    return words.format_map(_Labels(labels)).removesuffix(" of  on ").removesuffix(" on ")


class _Labels(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def build_model(
    model: ModelSpec | Mapping[str, Any] | Path,
    responses: Responses | pd.DataFrame | Path,
    *,
    priors: Mapping[str, Any] | None = None,
    covariates: Covariates | pd.DataFrame | Path | None = None,
    missing_contamination: Missing = "error",
    contamination_scale: Scale = "share",
    difficulties: Difficulties = "sampled",
) -> pm.Model:
    """Build the PyMC model that `fit` would sample.

    Parameters
    ----------
    model : ModelSpec, str, path-like or mapping
        Model spec, as for `fit`.
    responses : Responses, pandas.DataFrame or path-like
        Responses, or a table or file of them.
    priors : mapping of str to mapping, optional
        Priors that replace those of the model spec.
    covariates : Covariates, pandas.DataFrame or path-like, optional
        Contamination of the items, if it is not in the responses.
    missing_contamination : {"error", "zero", "drop", "impute"}, default "error"
        As for `fit`.
    contamination_scale : {"share", "percent", "count"}, default "share"
        As for `fit`.
    difficulties : {"sampled", "marginalised", "auto"}, default "sampled"
        Whether item difficulties are parameters, or integrated out of the likelihood.

    Returns
    -------
    pymc.Model
        An ordinary one: sample it, draw from its prior, look at its graph. Dims ``model``,
        ``benchmark``, ``item`` and ``response``, and ``repeated`` for responses with several
        trials. Rows with one trial come before those with several.

    Raises
    ------
    DataError, SpecError, UsageError
        If something given cannot be used.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "model": "m", "benchmark": "b", "item": ["i", "j"], "correct": [1, 0],
    ...     "contamination": [0.1, 0.6],
    ... })
    >>> [v.name for v in build_model("single", table).free_RVs]
    ['theta', 'beta']
    """
    table = given_responses(responses, covariates, missing_contamination, contamination_scale)
    spec, table = choose_spec(model, table, priors=priors)
    return build(spec, table, difficulties).model
