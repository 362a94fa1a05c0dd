"""Study specs: what is simulated, how it is fitted, and what fits must pass."""

import re
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from bayescontam._files import sha256
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.specs.base import Block, WholeSpec, keys_page, suggest
from bayescontam.specs.expression import Expression

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
Analysis = Literal[
    "decomposition",
    "novelty",
    "eight_models",
    "versions",
    "conceptarc",
    "degradation",
    "finetuning",
    "prevalence",
    "arc_concepts",
    "arc_real",
    "total_effects",
    "in_vivo",
]
"""Scripts of ``studies/``."""
Text = Annotated[str, StringConstraints(min_length=1)]
GROUPS = ("parameters", "estimands", "log_likelihood")
"""Groups of quantities; any other name is that of one parameter or estimand."""
JAX_CHAINS = 8
"""Chains of ``"jax"`` side by side, at least: what they adapt together is informed by all."""
_WORDS: Any = {
    "kind": True,
    "published": True,
    "full_replicates": True,
    "meaning": True,
    "limits": True,
    "reason": True,
    "simulator": {"fit": True},
}
"""Keys that change nothing of what is done."""


# Below each key of a block stands what it means, which `study keys` prints.
class Simulator(Block, use_attribute_docstrings=True):
    """Where true values and simulated responses come from."""

    kind: Literal["prior", "fixed", "published", "posterior"]
    """``"prior"``: parameters are drawn from the prior of a model spec. ``"fixed"``: the same, with
    the parameters below fixed at the values given. ``"published"``: the published generator by
    exposures of concepts, which no model spec describes. ``"posterior"``: parameters are drawn from
    the posterior of a fit, and its items are answered once more."""
    model: str = ""
    """Model spec, by name or by path from the study's folder. For ``"prior"`` and ``"fixed"``."""
    fit: str = ""
    """File of a fit, by path from the study's folder. For ``"posterior"``."""
    ability: Finite | Numbers | None = None
    """Log-odds of a model's accuracy at the mean contamination (``theta``): one for all models, or
    one for each. For ``"fixed"``."""
    ability_sd: NotNegative = 0.0
    """Spread of abilities around that, over pairs of model and benchmark. For ``"fixed"``."""
    slope: Finite | None = None
    """Log-odds from surely clean to surely contaminated (``beta``), mean over pairs. For
    ``"fixed"``."""
    slope_sd: NotNegative = 0.0
    """Spread of slopes around that. For ``"fixed"``."""
    difficulty_sd: NotNegative | None = None
    """Spread of item difficulties (``sigma_delta``), which are drawn anew in each replicate. For
    ``"fixed"``."""
    eps_sd: NotNegative | None = None
    """Spread of the model-by-item effects (``sigma_eps``). For ``"fixed"``."""
    parameters: dict[str, Finite] = Field(default_factory=dict)
    """Other parameters of the model spec, by name, each the same in all of its cells. For
    ``"fixed"``."""
    genuine: Share = 0.35
    """Accuracy on a clean item. For ``"published"``."""
    boost: Annotated[float, Field(ge=-1, le=1)] = 0.3
    """Gain in accuracy from clean to surely contaminated. For ``"published"``."""
    fresh: bool = True
    """Whether exposures, tasks and contaminations are drawn anew in each replicate rather than once
    for a cell. For ``"published"``."""

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


class Layout(Block, use_attribute_docstrings=True):
    """Size and contaminations of a simulated table."""

    models: Count = 1
    """Models of each table."""
    benchmarks: Count = 1
    """Benchmarks of each table."""
    items: Annotated[int, Field(ge=2, le=1_000_000)] = 200
    """Items of each benchmark; every model answers all."""
    trials: Count = 1
    """Trials of each response."""
    contamination_mean: Inside = 0.4
    """Mean of the Beta distribution from which contaminations of items are drawn, once for a cell.
    Where ``simulator.kind`` is ``"published"`` they come from the exposures."""
    contamination_sd: Annotated[float, Field(gt=0, lt=0.5)] = 0.2
    """Standard deviation of that distribution."""
    p_duplicate_sd: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Uncertainty of each item's ``p_duplicate``: standard deviation as a share of the largest
    possible, √(p (1 − p)). Only model specs with latent duplicates read it."""

    @model_validator(mode="after")
    def _spread_is_possible(self) -> Self:
        mean, sd = self.contamination_mean, self.contamination_sd
        if sd**2 >= mean * (1 - mean):
            raise ValueError(
                f"design.contamination_sd: got {sd:g}; with a mean of {mean:g} it must be less than"
                f" {(mean * (1 - mean)) ** 0.5:.3g}"
            )
        return self


class ReproductionSpec(WholeSpec):
    """An analysis with a page of its own, such as a published study, done again.

    Attributes
    ----------
    kind : "reproduction"
        What distinguishes such a file from that of a simulation study.
    summary : str
        One line that says what was published.
    question, data, model, meaning, limits : str
        Text of the page: paragraphs with an empty line between them. What is asked, of which
        data, by which model; what the result means, and what it does not.
    analysis : str
        What is done.
    published : str, optional
        Table of printed numbers in ``studies/data``, without ``.csv``; empty if there are none.
    seed : int, default 1
        Seed of everything random.
    settings : table
        Numbers, texts and lists for the analysis.
    full, smoke : table
        Settings that ``--full`` and ``--smoke`` put in the place of those.
    """

    kind: Literal["reproduction"]
    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    question: Text
    data: Text
    model: Text
    meaning: Text
    limits: Text
    analysis: Analysis
    published: str = ""
    seed: Annotated[int, Field(ge=0)] = 1
    settings: dict[str, Any] = Field(default_factory=dict)
    full: dict[str, Any] = Field(default_factory=dict)
    smoke: dict[str, Any] = Field(default={})
    LATER: ClassVar[frozenset[str]] = frozenset({"smoke"})

    def at_size(self, full: bool = False, smoke: bool = False) -> dict[str, Any]:
        """Return the settings, with those of the size that is requested in their place."""
        if full and smoke:
            raise UsageError("full and smoke: give one of the two")
        if smoke and not self.smoke:
            raise UsageError(f"smoke: '{self.name}' has no such size; leave it out")
        return {**self.settings, **(self.full if full else self.smoke if smoke else {})}

    @field_validator("full", "smoke")
    @classmethod
    def _replaces_settings(cls, given: dict[str, Any], info: Any) -> dict[str, Any]:
        known = info.data.get("settings", {})
        for key in given:
            if key not in known:
                hint = suggest(key, known)
                shown = f"{info.field_name}.{printable(key, 60)}"
                raise ValueError(f"{shown}: no such setting to replace ({hint})")
        return given


def _without_marks(name: str) -> str:
    if re.search(r"[\s/\\|,=]", name):
        raise ValueError("a name without blanks, slashes, bars, commas and equals signs is needed")
    return name


Name = Annotated[
    str, StringConstraints(min_length=1, max_length=60), AfterValidator(_without_marks)
]


class SamplingSpec(Block, use_attribute_docstrings=True):
    """How posteriors are sampled, at the first try."""

    engine: Literal["nutpie", "jax", "pymc"] = "nutpie"
    """Sampler. ``"nutpie"`` is NUTS. ``"jax"`` (ChEES-HMC in single precision) needs the extra
    ``jax`` and is faster for many small tables; ``"nutpie"`` takes its place where a model cannot
    be compiled once for all tables of a cell. ``"pymc"`` is NUTS too, and some six times slower."""
    draws: Annotated[int, Field(ge=50, le=100_000)] = 1000
    """Draws of each chain after tuning."""
    tune: Annotated[int, Field(ge=50, le=100_000)] = 500
    """Draws of each chain before those, used to adapt the sampler. Chains of ``"jax"`` adapt
    together, so that 200 are enough."""
    chains: Annotated[int, Field(ge=2, le=16)] = 2
    """Chains of each fit. ``"jax"`` divides the draws among 8 chains if these are fewer."""
    target_accept: Inside = 0.9
    """Acceptance probability that the step size is adapted to."""

    @property
    def run(self) -> tuple[int, int]:
        """Chains that the engine runs, and draws that it keeps of each."""
        if self.engine != "jax":
            return self.chains, self.draws
        chains = max(JAX_CHAINS, self.chains)
        return chains, -(-self.draws * self.chains // chains)


class Gates(Block, use_attribute_docstrings=True):
    """What a fit must pass; one that does not is sampled again for longer, once.

    Looser than what `bayescontam.fit` asks for, since fits are short and many: with two
    chains and some hundred effective draws the largest R-hat of eighty quantities is above
    1.02 in one sound fit of ten, and above 1.03 in hardly any.
    """

    rhat: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 1.03
    """Largest R-hat allowed of any quantity."""
    ess: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 100.0
    """Smallest bulk ESS allowed of any quantity. Ranks are right whatever it is, only coarser; an
    interval from n independent draws covers about 2 / n too little, so that studies of coverage
    need more, about 400."""
    divergences: Share = 0.01
    """Largest share of divergent draws allowed."""


class Estimator(Block, use_attribute_docstrings=True):
    """What is fitted to each simulated table."""

    name: Name
    """Its name in the results: no spaces, and none of ``/ \\ | , =``."""
    kind: Literal["model", "bootstrap"] = "model"
    """A model spec, or the bootstrap around a penalised logistic regression."""
    model: str = ""
    """Model spec, by name or by path from the study's folder."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Keys of the model spec to change, written as in its file: ``changes.priors.beta_bar = …``."""
    reversed: bool = False
    """Whether it is given 1 − contamination: a fit that is wrong on purpose, to see that the study
    detects it."""
    resamples: Annotated[int, Field(ge=100, le=1_000_000)] = 1000
    """Resamples of the bootstrap."""

    @model_validator(mode="after")
    def _keys_go_with_kind(self) -> Self:
        if bool(self.model) != (self.kind == "model"):
            needs = "has no model spec" if self.model else "needs a model spec: model = …"
            raise ValueError(f"the estimator '{self.name}' of kind '{self.kind}' {needs}")
        others = ("changes", "reversed") if self.kind == "bootstrap" else ("resamples",)
        for wrong in self.model_fields_set & set(others):
            raise ValueError(f"the estimator '{self.name}' of kind '{self.kind}' has no {wrong}")
        return self


GRID = {
    **dict.fromkeys(("slope", "slope_sd", "ability_sd", "difficulty_sd", "eps_sd"), "simulator"),
    **dict.fromkeys(("ability", "genuine", "boost"), "simulator"),
    **dict.fromkeys(Layout.model_fields, "design"),
}
"""Keys that a grid may vary, and the block in which each stands."""


class StudySpec(WholeSpec):
    """A study: many simulated tables, each fitted by every estimator.

    Attributes
    ----------
    kind : {"simulation"}, default "simulation"
        Kind of study: a simulation. (The other kind, ``"reproduction"``, is that of published
        studies that ship with the package.)
    summary : str
        One line that says what the study is for.
    description : str
        What it asks and how to read the answer.
    meaning : str
        What its results mean: paragraphs for the page.
    limits : str
        What its results do not show: paragraphs for the page.
    published : str, optional
        Table of printed numbers in ``studies/data``, without ``.csv``, that the page puts
        beside the results.
    reason : str, optional
        Why printed numbers and ours may differ, for ``bayescontam study compare``.
    replicates : int
        Simulated tables of each cell. More can be added to a finished run.
    full_replicates : int, optional
        Simulated tables of each cell with ``--full``. Default: there is no full size.
    simulator, design, sampling, gates : Block
    estimators : list of Estimator
    quantities : list of str
        Any of ``"parameters"``, ``"estimands"`` and ``"log_likelihood"``, or names of single
        quantities; may be empty if there are expressions. An estimator that has no parameters
        in common with the simulator is judged by the others. ``"genuine_ability"``,
        ``"overfitting"`` and ``"overfitting_fraction"`` stand for those of the direct effect,
        such as ``"overfitting_direct"``, where a model spec or its table has no spillover;
        the bootstrap and the published generator have the direct effect only.
    expressions : table of str to str
        Further quantities: formulas of parameters and estimands, such as
        ``"theta[0, 0] - theta[1, 0]"``.
    grid : table of str to list
        Keys of simulator or design that vary, with their values. Each combination is a cell.
        A key of the grid takes the place of the same key in its block.
    reference : {"min_observed", "zero"} or float, default "min_observed"
        Contamination level at which genuine ability is evaluated.
    audit : float, default 0.02
        Share of replicates, drawn at random, that a second engine fits too.
    """

    kind: Literal["simulation"] = "simulation"
    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: str = ""
    meaning: str = ""
    limits: str = ""
    published: str = ""
    reason: str = ""
    replicates: Count
    full_replicates: Count | None = None
    simulator: Simulator
    design: Layout = Layout()
    estimators: Annotated[tuple[Estimator, ...], Field(strict=False, min_length=1)]
    quantities: Annotated[tuple[str, ...], Field(strict=False)] = GROUPS
    expressions: dict[Name, str] = Field(default_factory=dict)
    grid: dict[str, Numbers] = Field(default_factory=dict)
    reference: Literal["min_observed", "zero"] | Share = "min_observed"
    sampling: SamplingSpec = SamplingSpec()
    gates: Gates = Gates()
    audit: Share = 0.02

    @property
    def hash(self) -> str:
        """SHA-256 of the meaning: neither words nor the number of replicates count.

        Nor does the path of a fit. What the fit holds is part of the plan's hash.
        """
        words = {"summary": "-", "description": "", "replicates": 1}
        plain = self.model_copy(update=words)
        return sha256(plain.model_dump_json(exclude=_WORDS).encode())

    def count(self, full: bool = False) -> int:
        """Return how many replicates a cell has, at the default size or at the full one.

        Raises
        ------
        UsageError
            If the full size is requested and there is none.
        """
        if not full:
            return self.replicates
        if self.full_replicates is None:
            raise UsageError(
                f"full: '{self.name}' has no other size than {self.replicates:,} replicates;"
                " leave it out, or say how many with replicates"
            )
        return self.full_replicates

    def cells(self) -> dict[str, tuple[Simulator, Layout]]:
        """Return the simulator and design of every cell, under the cell's name.

        Examples
        --------
        >>> one = {"name": "a", "model": "single"}
        >>> study = StudySpec(summary="s", replicates=1, estimators=[one], grid={"slope": [0, 2]},
        ...                   simulator={"kind": "fixed", "model": "single"})
        >>> list(study.cells())
        ['slope=0', 'slope=2']
        """
        points = [dict(zip(self.grid, at, strict=True)) for at in product(*self.grid.values())]
        named = (", ".join(f"{key}={value:g}" for key, value in p.items()) for p in points)
        return {name: self._at(point) for name, point in zip(named, points, strict=True)}

    def _at(self, point: Mapping[str, float]) -> tuple[Simulator, Layout]:
        blocks: dict[str, Any] = {
            name: getattr(self, name).model_dump(exclude_unset=True)
            for name in ("simulator", "design")
        }
        for key, value in point.items():
            whole = key in Layout.model_fields and Layout.model_fields[key].annotation is int
            blocks[GRID[key]][key] = int(value) if whole and value == int(value) else value
        return Simulator(**blocks["simulator"]), Layout(**blocks["design"])

    @field_validator("expressions")
    @classmethod
    def _expressions_are_formulas(cls, given: dict[str, str]) -> dict[str, str]:
        for name, text in given.items():
            if name.endswith("_nominal"):
                raise ValueError(
                    f"{name}: names that end in '_nominal' are those of truths of the published"
                    " generator; choose another"
                )
            try:
                Expression(text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return given

    @field_validator("grid", mode="before")
    @classmethod
    def _grid_holds_lists(cls, given: Any) -> Any:
        for key, values in given.items() if isinstance(given, Mapping) else ():
            if not isinstance(values, list | tuple):
                shown = printable(str(values), 40)
                raise ValueError(
                    f"{printable(key, 60)}: got {shown}; give a list, such as [{shown}]"
                )
        return given

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [estimator.name for estimator in self.estimators]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"estimators: two have the name '{min(twice)}'; give each its own")
        return self

    @model_validator(mode="after")
    def _something_is_asked(self) -> Self:
        if not self.quantities and not self.expressions:
            raise ValueError("quantities: got []; name one or more, or give expressions")
        return self

    @model_validator(mode="after")
    def _grid_is_possible(self) -> Self:
        for key, values in self.grid.items():
            if key not in GRID:
                raise ValueError(f"grid.{printable(key, 60)}: unknown key ({suggest(key, GRID)})")
            if len(set(values)) < len(values):
                raise ValueError(f"grid.{key}: a value stands there twice")
        cells, points = self.cells(), prod(map(len, self.grid.values()))
        if len(cells) < points:
            raise ValueError(
                f"grid: {points} combinations have {len(cells)} names between them, since values"
                " are distinguished by 6 digits; choose values that differ in these"
            )
        return self

    @model_validator(mode="after")
    def _bootstrap_has_its_reference(self) -> Self:
        # It reports genuine ability at the smallest contamination of a model's items, always.
        if any(each.kind == "bootstrap" for each in self.estimators):
            if self.reference != "min_observed":
                raise ValueError(
                    f"reference: got {self.reference!r}; an estimator of kind 'bootstrap' takes"
                    " 'min_observed'"
                )
            models = {self.design.models, *self.grid.get("models", ())}
            if self.simulator.kind == "published" and models != {1}:
                raise ValueError(
                    "design.models: an estimator of kind 'bootstrap' needs 1 beside"
                    " simulator.kind = 'published', whose models have contaminations of their own"
                )
        return self

    @model_validator(mode="after")
    def _spreads_have_a_middle(self) -> Self:
        given = {*self.simulator.model_fields_set, *self.grid}
        for mean in ("ability", "slope"):
            if f"{mean}_sd" in given and mean not in given:
                raise ValueError(f"simulator.{mean}_sd is around simulator.{mean}; give both")
        return self

    @model_validator(mode="after")
    def _tables_have_one_source(self) -> Self:
        given = {*self.design.model_fields_set, *(set(self.grid) & set(Layout.model_fields))}
        spread = given & {"contamination_mean", "contamination_sd", "p_duplicate_sd"}
        if self.simulator.kind == "published" and spread:
            raise ValueError(
                f"design.{min(spread)}: contaminations of simulator.kind = 'published' come from"
                " exposures; leave it out"
            )
        if self.simulator.kind == "posterior" and given:
            raise ValueError(
                f"design.{min(given)}: tables of simulator.kind = 'posterior' are as large as the"
                " fit's own; leave it out"
            )
        return self


def study_keys_page() -> str:
    """Return the keys of a study's file as a page of Markdown."""
    about = (
        "A study is a TOML file. `bayescontam study show NAME --toml > mine.toml` copies one that"
        " ships, `bayescontam study run mine.toml --out DIR` runs it. Unknown keys are refused."
        " `bayescontam study keys` prints this page in the terminal."
    )
    return keys_page(StudySpec, "Keys of a study's file", about)
