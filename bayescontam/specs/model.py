"""Model specs, one block for each part of a model."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from bayescontam.errors import Fault, SpecError
from bayescontam.specs.base import Block, WholeSpec, validate
from bayescontam.specs.priors import (
    AnyPrior,
    Beta,
    Dirichlet,
    Exponential,
    HalfNormal,
    HalfStudentT,
    Normal,
    PositivePrior,
    RealPrior,
)

Probability = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
_OneGuess = Annotated[Probability, Tag("number")] | Annotated[Beta, Tag("prior")]
Inside = Annotated[float, Field(gt=0, lt=1)]


def _guess_kind(value: Any) -> str:
    """Say what somebody who wrote a value meant by it, so that one error is reported, not three."""
    if isinstance(value, Beta):
        return "prior"
    if not isinstance(value, Mapping):
        return "number"
    keys = value.keys()
    return "prior" if "family" in keys or {"alpha", "beta"} == keys else "each"


def _whole_kind(value: Any) -> str:
    return "column" if isinstance(value, str) else _guess_kind(value)


Guess = Annotated[
    Annotated[Literal["column"], Tag("column")]
    | _OneGuess
    | Annotated[dict[str, Annotated[_OneGuess, Discriminator(_guess_kind)]], Tag("each")],
    Discriminator(_whole_kind),
]
"""A number, a prior, either for each benchmark, or ``"column"``: of each item in the table."""


def _switch_kind(value: Any) -> str:
    return "word" if value == "shared" else "switch"


ModelByItem = Annotated[
    Annotated[bool, Tag("switch")] | Annotated[Literal["shared"], Tag("word")],
    Discriminator(_switch_kind),
]
"""``True``, ``False``, or ``"shared"``: with one spread for all."""


class Likelihood(Block):
    """How responses arise from the linear predictor."""

    family: Literal["binomial"] = "binomial"
    """Distribution of ``n_correct`` out of ``n_trials``."""
    link: Literal["logit"] = "logit"
    """Scale on which effects add up."""
    guess: Guess = 0.0
    """Accuracy of blind guessing, in [0, 1): a number, or a prior where it is to be estimated, of
    each benchmark its own. Benchmarks that a table leaves out have 0. With ``"column"`` each item
    has its own, from the responses: their column ``guess``, or 1 / ``n_options``."""
    trials: Literal["repeats", "items"] = "repeats"
    """What the trials of one row are: repeated answers to one item, or answers to different items
    that were counted together, as in printed tables. Rows of items weigh by their number of items
    in every mean."""
    model_by_item: ModelByItem = True
    """Whether repeated trials of one model on one item share a random effect (overdispersion).
    Without it they count as independent items. Rows of different items have none. Its spread is one
    for all where abilities are pooled, and where not each pair of model and benchmark has its own;
    with ``"shared"`` it is one for all in any case."""

    @property
    def has_model_by_item(self) -> bool:
        """Whether repeated trials share an effect; rows of different items never do."""
        return bool(self.model_by_item) and self.trials == "repeats"


class Ability(Block):
    """What a model can do."""

    by: Annotated[str, StringConstraints(min_length=1, max_length=200)] = "benchmark"
    """Unit of ability: ``"benchmark"``, or an item column such as ``"concept"`` whose values split
    each benchmark into groups."""
    pooling: Literal["partial", "within", "none"] = "partial"
    """Whether abilities share information across models and units. ``"within"``: across models on
    each unit, and not across the units of a model, which may be good at one and bad at others."""
    lineage: Literal["none", "base"] = "none"
    """Whether models that descend from one base, as the responses' column ``base`` says, share
    what they can do without contamination: twins, whose training differs in contamination, then
    show what it does to a whole benchmark."""
    twins: Literal["similar", "identical"] = "similar"
    """How models of one base differ without contamination: by what their own training changes
    everywhere and on each benchmark, or not at all, where only contamination differs by
    construction."""
    checkpoints: Literal["independent", "walk"] = "independent"
    """With a lineage: whether what training changes everywhere is another thing in each model, or
    a random walk along the checkpoints of a run, by the responses' columns ``checkpoint`` and,
    where a base has several runs, ``run``."""
    LATER: ClassVar[frozenset[str]] = frozenset({"lineage", "twins", "checkpoints"})

    @model_validator(mode="after")
    def _lineage_is_pooled(self) -> Self:
        if self.lineage != "none" and self.pooling != "partial":
            raise ValueError("ability.lineage = 'base' needs ability.pooling = 'partial'")
        if self.twins != "similar" and self.lineage == "none":
            raise ValueError(f"ability.twins = '{self.twins}' needs ability.lineage = 'base'")
        similar = self.lineage != "none" and self.twins == "similar"
        if self.checkpoints != "independent" and not similar:
            raise ValueError(
                "ability.checkpoints = 'walk' needs ability.lineage = 'base' and twins = 'similar'"
            )
        return self


class Difficulty(Block):
    """What items differ in."""

    form: Literal["random", "none"] = "random"
    """A random effect for every item that several models answered, or nothing."""
    discrimination: Literal["equal", "random", "by_pair"] = "equal"
    """Whether items distinguish able models from others equally well, or each by a factor of its
    own on the log-odds. ``"by_pair"``: each pair of model and benchmark has a factor, by which its
    log-odds fall with difficulty: small for a model that fails at easy items or solves hard ones
    from memory."""
    selection: Literal["modelled", "ignored"] = "modelled"
    """Where models answered different items: whether mean difficulty depends on which models
    answered an item, as it does where they chose what to answer."""


_OF_RESPONSES = frozenset(
    {"model", "benchmark", "item", "n_correct", "n_trials", "correct", "score", "contamination"}
)
"""Columns of responses whose meaning is fixed."""


class Contamination(Block):
    """How contamination moves the linear predictor."""

    form: Literal["linear", "monotone", "none"] = "linear"
    """Dose-response on the log-odds scale: a straight line, or one that bends at the knots and
    never turns; ``"none"`` needs no contamination data."""
    knots: Annotated[tuple[Inside, ...], Field(strict=False, min_length=1)] = (
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
    )  # fmt: skip
    """Contaminations between which a monotone dose-response is straight."""
    scale: Literal["log_odds", "accuracy"] = "log_odds"
    """What is a straight line in contamination (or bends where `form` says so): the log-odds, or an
    item's accuracy itself, between that of a clean and that of a surely contaminated item. The
    slope is the difference of their log-odds with both."""
    sign: Literal["any", "positive"] = "any"
    """Whether the slope may be negative."""
    pooling: Literal["partial", "none"] = "partial"
    """Whether slopes share information across models and benchmarks."""
    interaction: Literal["none", "difficulty"] = "none"
    """Whether the slope depends on how difficult an item is."""
    spillover: bool = False
    """Whether contamination of a benchmark's items also lifts its other items: an effect of the
    mean contamination of a model on a benchmark. One coefficient serves all, or with
    ability.lineage each base, benchmark and kind of duplicates has its own, partially pooled."""
    kinds: str = ""
    """With spillover and lineage: a column of the responses, the kind of duplicates of an item
    that a model was exposed to, such as ``exact``; each kind has a coefficient of its own."""
    LATER: ClassVar[frozenset[str]] = frozenset({"kinds"})
    confounding: Literal["none", "anchored", "sensitivity"] = "none"
    """What is assumed of items' difficulty and their contamination. ``"none"``: they are
    independent, so that the slope is due to contamination. ``"anchored"``: difficulty has a
    regression on contamination, identified by models that are known to be clean. ``"sensitivity"``:
    that regression has the stated prior ``kappa``, and nothing but the prior distinguishes it from
    the slope."""
    clean: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Models known to be clean, whose slopes are zero."""
    clean_column: str = ""
    """Instead: a column of the responses, 1 for models known to be clean and 0 for others."""
    exposure: Literal["known", "noisy", "latent", "shared"] = "known"
    """What the covariate shows about the true contamination. ``"known"``: it is the column
    ``contamination``. ``"noisy"``: it has a Beta distribution of mean ``contamination`` and
    standard deviation ``contamination_sd``. ``"latent"``: it is 1 with probability ``p_duplicate``
    and 0 otherwise. ``"shared"``: its log-odds move by the columns ``shared_1``, ``shared_2``, …
    times factors that all items share, so that its expectation is ``contamination``."""

    @model_validator(mode="after")
    def _knots_rise(self) -> Self:
        if any(a >= b for a, b in pairwise(self.knots)):
            raise ValueError("contamination.knots must rise, each larger than the one before")
        return self

    @model_validator(mode="after")
    def _clean_is_said_once(self) -> Self:
        if self.clean and self.clean_column:
            raise ValueError("contamination.clean and clean_column: give one of the two")
        said = bool(self.clean or self.clean_column)
        if self.confounding == "anchored" and not said:
            raise ValueError(
                "contamination.confounding = 'anchored' needs models that are known to be clean:"
                " name them in contamination.clean, or a column in contamination.clean_column"
            )
        if self.confounding != "anchored" and said:
            raise ValueError(
                "contamination.clean and clean_column are for confounding = 'anchored'; set it, or"
                " leave them out"
            )
        return self


class Priors(Block):
    """Priors of the top-level parameters, on the log-odds scale."""

    mu: RealPrior = Normal(family="normal", mu=0.0, sigma=1.5)
    """Mean ability of a benchmark; of a concept, where they are too few to estimate a spread."""
    mu_bar: RealPrior = Normal(family="normal", mu=0.0, sigma=1.5)
    sigma_mu: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    """Mean abilities of concepts have this mean and this spread."""
    theta: RealPrior = Normal(family="normal", mu=0.0, sigma=1.0)
    """Ability itself where abilities are not pooled; ability relative to ``mu`` where there are too
    few to learn their spread."""
    sigma_a: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    sigma_theta: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    """Spread of models' general ability, and of their ability in one unit."""
    beta_bar: AnyPrior = Normal(family="normal", mu=0.0, sigma=2.0)
    """Slope: log-odds from surely clean to surely contaminated."""
    sigma_bm: PositivePrior = HalfNormal(family="half_normal", sigma=0.5)
    sigma_bb: PositivePrior = HalfNormal(family="half_normal", sigma=0.5)
    sigma_bmb: PositivePrior = HalfNormal(family="half_normal", sigma=0.5)
    """Spread of slopes over models, over benchmarks, and over pairs of both. On the log scale where
    slopes are positive."""
    increments: Dirichlet = Dirichlet(family="dirichlet", alpha=0.5)
    """Parts of a monotone dose-response's rise that its segments have."""
    gamma: RealPrior = Normal(family="normal", mu=0.0, sigma=0.5)
    """Change of the slope for one log-odds more of difficulty."""
    kappa: RealPrior = Normal(family="normal", mu=0.0, sigma=1.0)
    """Difficulty of surely contaminated items, less that of clean ones."""
    spillover: RealPrior = Normal(family="normal", mu=0.0, sigma=1.0)
    """Log-odds by which all items are lifted where all of a benchmark's are contaminated."""
    lambda_bar: RealPrior = Normal(family="normal", mu=0.0, sigma=1.5)
    """The same with lineage: mean coefficient of spillover over benchmarks, bases and kinds."""
    sigma_lb: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    sigma_lk: PositivePrior = HalfNormal(family="half_normal", sigma=0.5)
    sigma_lambda: PositivePrior = HalfNormal(family="half_normal", sigma=0.5)
    """Spread of coefficients of spillover over benchmarks, over kinds of duplicates, and over
    combinations of base, benchmark and kind."""
    sigma_t: PositivePrior = HalfNormal(family="half_normal", sigma=0.5)
    """Spread of what models' own training changes everywhere, around their base."""
    sigma_step: PositivePrior = HalfNormal(family="half_normal", sigma=0.25)
    """Spread of what training changes everywhere between two checkpoints of a run."""
    sigma_twin: PositivePrior = HalfNormal(family="half_normal", sigma=0.25)
    """Spread of how models of one base differ in one unit for other reasons."""
    sigma_delta: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    """Spread of item difficulty."""
    sigma_psi: PositivePrior = HalfNormal(family="half_normal", sigma=2.0)
    """Spread of what models' choice of items shows about their difficulty."""
    sigma_eps: PositivePrior = Exponential(family="exponential", scale=2.0)
    """Spread of the model-by-item effect."""
    sigma_alpha: PositivePrior = HalfNormal(family="half_normal", sigma=0.5)
    """Spread of discriminations, of items or of pairs, on the log scale."""
    sigma_zeta: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    """Spread of the abilities of participants, where a model is a group of people."""
    sigma_xi: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    """Spread of what an item has in common for the people of one group, beyond its difficulty."""
    LATER: ClassVar[frozenset[str]] = frozenset(
        {
            "lambda_bar",
            "sigma_lb",
            "sigma_lk",
            "sigma_lambda",
            "sigma_t",
            "sigma_step",
            "sigma_twin",
            "sigma_zeta",
            "sigma_xi",
        }
    )


def _needing(what: str) -> str:
    return what if what.startswith("ability") else f"contamination has {what}"


_OF_SPILLOVER = ("lambda_bar", "sigma_lb", "sigma_lk", "sigma_lambda")
_OF_TWINS = ("sigma_t", "sigma_twin")


class ModelSpec(WholeSpec):
    """A statistical model of responses, made of blocks that combine freely.

    Read one with `load_model`. Every block has defaults, so that a file holds only
    what it changes; the shipped files spell everything out.

    Attributes
    ----------
    summary : str
        One line that says what the model spec is for.
    description : str
        What it assumes and when to choose it.
    likelihood, ability, difficulty, contamination, priors : Block
        Its parts.
    """

    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: str = ""
    likelihood: Likelihood = Likelihood()
    ability: Ability = Ability()
    difficulty: Difficulty = Difficulty()
    contamination: Contamination = Contamination()
    priors: Priors = Priors()

    def _check_given(self) -> None:
        refuse_odd_keys(self)

    @property
    def without_participants(self) -> str | None:
        """Why participants cannot be levels within their model; None where they can."""
        reasons = {
            "contamination has an effect": self.contamination.form != "none",
            "models have a lineage": self.ability.lineage != "none",
            "items or pairs discriminate differently": self.difficulty.discrimination != "equal",
            "rows count different items": self.likelihood.trials == "items",
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    @model_validator(mode="after")
    def _exposure_fits_rows(self) -> Self:
        exposure = self.contamination.exposure
        if exposure != "known" and self.contamination.form != "linear":
            raise ValueError(
                f"contamination.exposure = '{exposure}' needs contamination.form = 'linear'"
            )
        if exposure != "known" and self.contamination.scale != "log_odds":
            raise ValueError(
                f"contamination.exposure = '{exposure}' needs contamination.scale = 'log_odds'"
            )
        if exposure == "latent" and self.likelihood.trials == "items":
            raise ValueError(
                "contamination.exposure = 'latent' is of one item, and with likelihood.trials ="
                " 'items' a row is several; use exposure = 'noisy', or trials = 'repeats'"
            )
        return self

    @model_validator(mode="after")
    def _parts_have_what_they_change(self) -> Self:
        block = self.contamination
        wanted = {
            "contamination.spillover": block.spillover,
            "contamination.interaction": block.interaction != "none",
            "contamination.confounding": block.confounding != "none",
        }
        for key in (key for key, wants in wanted.items() if wants and block.form == "none"):
            raise ValueError(f"{key} needs contamination.form = 'linear' or 'monotone'")
        of_items = {
            "contamination.interaction": block.interaction != "none",
            "difficulty.discrimination": self.difficulty.discrimination != "equal",
        }
        for key in (key for key, wants in of_items.items() if wants):
            if self.difficulty.form == "none":
                raise ValueError(f"{key} needs difficulty.form = 'random'")
        return self

    @model_validator(mode="after")
    def _nothing_is_said_in_vain(self) -> Self:
        block, priors = self.contamination, self.priors
        lineage, spilled = self.ability.lineage != "none", block.spillover
        similar, owned = lineage and self.ability.twins == "similar", lineage and spilled
        both = "spillover = true and ability has lineage = 'base'"
        owners = {
            "contamination.knots": (block, block.form == "monotone", "form = 'monotone'"),
            "priors.gamma": (priors, block.interaction != "none", "interaction = 'difficulty'"),
            "priors.kappa": (priors, block.confounding != "none", "a kind of confounding"),
            "priors.spillover": (
                priors, spilled and not lineage, "spillover = true and ability has no lineage"
            ),
            "contamination.kinds": (block, owned, both),
            **{f"priors.{name}": (priors, owned, both) for name in _OF_SPILLOVER},
            **{
                f"priors.{name}": (priors, not self.without_participants, "form = 'none'")
                for name in ("sigma_zeta", "sigma_xi")
            },
            "priors.sigma_step": (
                priors, self.ability.checkpoints == "walk", "ability has checkpoints = 'walk'"
            ),
        }  # fmt: skip
        if not similar and any(
            getattr(priors, name) != type(priors).model_fields[name].default for name in _OF_TWINS
        ):
            raise ValueError(
                "priors.sigma_t and sigma_twin have no effect unless ability has lineage = 'base'"
                " and twins = 'similar'; set that, or leave them out"
            )
        for key, (owner, used, needs) in owners.items():
            name = key.partition(".")[2]
            if not used and getattr(owner, name) != type(owner).model_fields[name].default:
                raise ValueError(
                    f"{key} has no effect unless {_needing(needs)}; set that, or leave this out"
                )
        return self

    @model_validator(mode="after")
    def _slope_prior_fits_sign(self) -> Self:
        positive = isinstance(self.priors.beta_bar, HalfNormal | HalfStudentT | Exponential)
        if self.contamination.sign == "positive" and not positive:
            raise ValueError(
                "contamination.sign = 'positive' needs a prior on values >= 0 for priors.beta_bar:"
                " half_normal, half_student_t or exponential"
            )
        if self.contamination.sign == "any" and positive:
            raise ValueError(
                "priors.beta_bar allows only values >= 0; with it say contamination.sign ="
                " 'positive', so that everything that follows knows"
            )
        return self


def refuse_odd_keys(spec: ModelSpec) -> None:
    """Raise a `SpecError` if a key has no effect, or not the one that it states."""
    # Not by validation: a fit that was stored with such a key can be read.
    ability, difficulty, block = spec.ability, spec.difficulty, spec.contamination
    none = block.form == "none"
    form, random = "contamination.form = 'linear' or 'monotone'", "difficulty.form = 'random'"
    slopes = ("sigma_bm", "sigma_bb", "sigma_bmb")
    rules: list[tuple[bool, str, str, tuple[str, ...]]] = [
        (none, form, "contamination", ("scale", "sign", "pooling")),
        (none, form, "priors", ("beta_bar",)),
        (none or block.pooling == "none", "contamination.pooling = 'partial'", "priors", slopes),
        (
            block.form != "monotone", "contamination.form = 'monotone'", "priors",
            ("increments",),
        ),
        (difficulty.form == "none", random, "difficulty", ("selection",)),
        (difficulty.form == "none", random, "priors", ("sigma_delta",)),
        (
            difficulty.form == "none" or difficulty.selection == "ignored",
            "difficulty.selection = 'modelled'", "priors", ("sigma_psi",),
        ),
        (
            difficulty.discrimination == "equal",
            "difficulty.discrimination = 'random' or 'by_pair'", "priors", ("sigma_alpha",),
        ),
        (
            not spec.likelihood.has_model_by_item,
            "likelihood.model_by_item, and trials = 'repeats'", "priors", ("sigma_eps",),
        ),
        (ability.by == "benchmark", "ability.by = a column", "priors", ("mu_bar", "sigma_mu")),
        (
            ability.pooling == "none", "ability.pooling = 'partial' or 'within'", "priors",
            ("mu", "sigma_theta"),
        ),
        (ability.pooling != "partial", "ability.pooling = 'partial'", "priors", ("sigma_a",)),
    ]  # fmt: skip
    faults = [
        Fault(
            f"model spec '{spec.name}'",
            f"'{column}' is a column of the responses with another meaning; name one of its own",
            column=f"contamination.{key}",
        )
        for key in ("kinds", "clean_column")
        if (column := getattr(block, key)) in _OF_RESPONSES
    ]
    if block.sign == "positive" and block.interaction != "none":
        problem = (
            "is 'positive', but with interaction = 'difficulty' slopes of hard or easy items can"
            " still be negative; leave one of the two out"
        )
        faults.append(Fault(f"model spec '{spec.name}'", problem, column="contamination.sign"))
    for idle, needs, table, names in rules:
        owner = getattr(spec, table)
        faults += [
            Fault(f"model spec '{spec.name}'", problem, column=key)
            for problem in [f"has no effect without {needs}; set that, or leave this out"]
            for name in names
            if idle and getattr(owner, name) != type(owner).model_fields[name].default
            for key in [f"{table}.{name}"]
        ]
    if faults:
        raise SpecError(faults)


def spec_with_priors(spec: ModelSpec, priors: Mapping[str, Any]) -> ModelSpec:
    """Return a model spec with some other priors, by the keys of its table ``priors``."""
    if not priors:
        return spec
    given = {
        name: prior.model_dump() if isinstance(prior, Block) else prior
        for name, prior in priors.items()
    }
    content = spec.model_dump()
    content["priors"] |= given
    changed = restored_spec(content, f"{spec.name} with other priors", "")
    refuse_odd_keys(changed)
    return changed


def restored_spec(content: Mapping[str, Any], name: str, text: str) -> ModelSpec:
    """Return a model spec from its content, as ``model_dump`` gives it, and its file's text."""
    spec = validate(ModelSpec, content, name)
    spec._name, spec._text = name, text
    return spec
