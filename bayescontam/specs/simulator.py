"""Simulator: where simulated tables of responses come from, and how large they are."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bayescontam.specs.base import Block

Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Inside = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Numbers = Annotated[tuple[Finite, ...], Field(strict=False, min_length=1)]

_FIXED = (
    "ability", "ability_sd", "slope", "slope_sd", "difficulty_sd", "eps_sd", "parameters",
)  # fmt: skip
_PUBLISHED = ("genuine", "boost", "fresh")
_SOURCES = (
    ("model", "a model spec", ("prior", "fixed")),
    ("fit", "the file of a fit", ("posterior",)),
)
"""Keys that say where true values come from, and the kinds that need them."""


class Simulator(Block):
    """Where true values and simulated responses come from.

    Attributes
    ----------
    kind : {"prior", "fixed", "published", "posterior"}
        ``"prior"``: parameters are drawn from the prior of a model spec.
        ``"fixed"``: the same, with the parameters below fixed at the values given.
        ``"published"``: the published generator by exposures of concepts, which no model spec
        describes. ``"posterior"``: parameters are drawn from the posterior of a fit, and its
        items are answered once more.
    model : str
        Model spec, by name or by path from the study's folder. For ``"prior"`` and
        ``"fixed"``.
    fit : str
        File of a fit, by path from the study's folder. For ``"posterior"``.
    ability : float or list
        Log-odds of a model's accuracy at the mean contamination (``theta``): one for all
        models, or one for each. For ``"fixed"``.
    ability_sd : float, default 0
        Spread of abilities around that, over pairs of model and benchmark. For ``"fixed"``.
    slope : float
        Log-odds from surely clean to surely contaminated (``beta``), mean over pairs. For
        ``"fixed"``.
    slope_sd : float, default 0
        Spread of slopes around that. For ``"fixed"``.
    difficulty_sd : float
        Spread of item difficulties (``sigma_delta``), which are drawn anew in each replicate.
        For ``"fixed"``.
    eps_sd : float
        Spread of the model-by-item effects (``sigma_eps``). For ``"fixed"``.
    parameters : table of str to float
        Other parameters of the model spec, by name, each the same in all of its cells. For
        ``"fixed"``.
    genuine : float, default 0.35
        Accuracy on a clean item. For ``"published"``.
    boost : float, default 0.3
        Gain in accuracy from clean to surely contaminated. For ``"published"``.
    fresh : bool, default true
        Whether exposures, tasks and contaminations are drawn anew in each replicate rather
        than once for a cell. For ``"published"``.
    """

    kind: Literal["prior", "fixed", "published", "posterior"]
    model: str = ""
    fit: str = ""
    ability: Finite | Numbers | None = None
    ability_sd: NotNegative = 0.0
    slope: Finite | None = None
    slope_sd: NotNegative = 0.0
    difficulty_sd: NotNegative | None = None
    eps_sd: NotNegative | None = None
    parameters: dict[str, Finite] = Field(default_factory=dict)
    genuine: Share = 0.35
    boost: Annotated[float, Field(ge=-1, le=1)] = 0.3
    fresh: bool = True

    @model_validator(mode="after")
    def _keys_go_with_kind(self) -> Self:
        allowed = {"fixed": _FIXED, "published": _PUBLISHED}.get(self.kind, ())
        others = {*_FIXED, *_PUBLISHED} - set(allowed)
        for key in sorted(self.model_fields_set & others):
            kind = "published" if key in _PUBLISHED else "fixed"
            raise ValueError(f"simulator.{key} is for simulator.kind = '{kind}'; leave it out")
        for key, what, kinds in _SOURCES:
            if bool(getattr(self, key)) != (self.kind in kinds):
                needs = f"needs {what}" if self.kind in kinds else "has none; leave out"
                raise ValueError(f"simulator.kind = '{self.kind}' {needs}: simulator.{key}")
        if not 0 <= self.genuine + self.boost <= 1:
            raise ValueError("simulator.genuine + simulator.boost must be an accuracy, in [0, 1]")
        return self


class Layout(Block):
    """Size and contaminations of a simulated table.

    Attributes
    ----------
    models : int, default 1
        Models of each table.
    benchmarks : int, default 1
        Benchmarks of each table.
    items : int, default 200
        Items of each benchmark; every model answers all.
    trials : int, default 1
        Trials of each response.
    contamination_mean : float, default 0.4
        Mean of the Beta distribution from which contaminations of items are drawn, once for a
        cell. Where ``simulator.kind`` is ``"published"`` they come from the exposures.
    contamination_sd : float, default 0.2
        Standard deviation of that distribution.
    p_duplicate_sd : float, default 0
        Uncertainty of each item's ``p_duplicate``: standard deviation as a share of the
        largest possible, √(p (1 − p)). Only model specs with latent duplicates read it.
    """

    models: Count = 1
    benchmarks: Count = 1
    items: Annotated[int, Field(ge=2, le=1_000_000)] = 200
    trials: Count = 1
    contamination_mean: Inside = 0.4
    contamination_sd: Annotated[float, Field(gt=0, lt=0.5)] = 0.2
    p_duplicate_sd: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _spread_is_possible(self) -> Self:
        mean, sd = self.contamination_mean, self.contamination_sd
        if sd**2 >= mean * (1 - mean):
            raise ValueError(
                f"design.contamination_sd: got {sd:g}; with a mean of {mean:g} it must be less than"
                f" {(mean * (1 - mean)) ** 0.5:.3g}"
            )
        return self
