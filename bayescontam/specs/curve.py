"""Curve specs: the model of P(duplicate | cosine)."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from bayescontam.specs.base import Block, WholeSpec
from bayescontam.specs.priors import Beta, HalfNormal, LogNormal, Normal, PositivePrior, RealPrior

Cosine = Annotated[float, Field(gt=-1, lt=1)]


class Shape(Block):
    """How the log-odds of a duplicate rise with the cosine."""

    form: Literal["monotone", "logistic"] = "monotone"
    """Piecewise-linear and rising, of which a straight line is the centre; or that line."""
    knots: Annotated[tuple[Cosine, ...], Field(strict=False, min_length=1)] = (
        0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
    )  # fmt: skip
    """Cosines between which the line is straight. Beyond the first and the last it goes on as it
    is."""
    item_effect: bool = True
    """Whether the matches of one item share an effect: texts close to one item may all be
    duplicates of it, or none."""
    crowding: Annotated[float, Field(ge=0, le=2)] = 1.0
    """By how much the log-odds fall with the log of a document's place among those of the item, the
    nearest first. At 1 an item that has ten times as many documents near it is not expected to have
    more duplicates; at 0 it is expected to have ten times as many."""

    @model_validator(mode="after")
    def _knots_rise(self) -> Self:
        if any(a >= b for a, b in zip(self.knots, self.knots[1:], strict=False)):
            raise ValueError("shape.knots must rise, each larger than the one before")
        return self


class LinePriors(Block):
    """Priors of one rising curve."""

    threshold: RealPrior = Normal(family="normal", mu=0.65, sigma=0.1)
    """Cosine at which the probability is one half."""
    steepness: LogNormal = LogNormal(family="log_normal", mu=2.9, sigma=0.5)
    """Log-odds per unit of cosine."""


class KindPriors(Block):
    """Priors of what kinds duplicates are of; used where a rule judged, or kinds were chosen."""

    exact: LinePriors = LinePriors(threshold=Normal(family="normal", mu=0.9, sigma=0.1))
    """Share of the duplicates that are exact, which rises with the cosine."""
    sigma_exact: PositivePrior = HalfNormal(family="half_normal", sigma=0.1)
    """Spread of that threshold over benchmarks, in cosine."""
    chosen: RealPrior = Normal(family="normal", mu=0.0, sigma=1.5)
    """Log-odds, at a cosine of 0.7, that a duplicate that is not exact is of a chosen kind."""
    chosen_slope: RealPrior = Normal(family="normal", mu=0.0, sigma=5.0)
    """By how much these log-odds change per unit of cosine."""
    sigma_chosen: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    """Spread of these log-odds over benchmarks."""


class CurvePriors(Block):
    """Priors of the curve."""

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"kinds", "log_odds_ratio", "log_odds_ratio_slope", "log_odds_ratio_open"}
    )

    items: LinePriors = LinePriors()
    """Of an item being open, by the cosine of its best match: only open items have duplicates."""
    matches: LinePriors = LinePriors()
    """Of a match of an open item being a duplicate, by its cosine."""
    sigma_threshold: PositivePrior = HalfNormal(family="half_normal", sigma=0.05)
    sigma_steepness: PositivePrior = HalfNormal(family="half_normal", sigma=0.3)
    """Spread over benchmarks: of the threshold in cosine, of the steepness on the log scale."""
    sigma_source: PositivePrior = HalfNormal(family="half_normal", sigma=0.03)
    """Spread of the threshold over sources of the corpus (training stages), in cosine."""
    sigma_shape: PositivePrior = HalfNormal(family="half_normal", sigma=0.3)
    """Spread of the log of the steepness over the segments of the curve."""
    sigma_item: PositivePrior = HalfNormal(family="half_normal", sigma=1.0)
    """Spread of items' effects, in log-odds."""
    share_further: Beta = Beta(family="beta", alpha=1, beta=1)
    """Probability that a further chunk of a document that is a duplicate, beside the one nearest to
    the item, is one itself; used where such chunks were judged."""
    kinds: KindPriors = KindPriors()
    """Of the kinds of duplicates."""
    log_odds_ratio: RealPrior = Normal(family="normal", mu=3.0, sigma=2.0)
    """Of the truth and what a trained judge reports, at a cosine of 0.7; used where people or
    language models judged some of its pairs."""
    log_odds_ratio_slope: RealPrior = Normal(family="normal", mu=0.0, sigma=5.0)
    """By how much it changes per unit of cosine."""
    log_odds_ratio_open: RealPrior = Normal(family="normal", mu=2.0, sigma=2.0)
    """Of an item being open and what a trained judge reports of its nearest document."""


class JudgePriors(Block):
    """Priors of what judges get right."""

    LATER: ClassVar[frozenset[str]] = frozenset({"kind"})
    sensitivity: Beta
    """Probability that a duplicate is called one; of rules: that an exact duplicate is found."""
    specificity: Beta
    """Probability that another pair is not called a duplicate."""
    kind: Beta = Beta(family="beta", alpha=19, beta=1)
    """Probability that the kind that is given is right, of those that the curve distinguishes."""


class Judges(Block):
    """Priors by the kind of judge."""

    LATER: ClassVar[frozenset[str]] = frozenset({"rules", "trained"})
    people: JudgePriors = JudgePriors(
        sensitivity=Beta(family="beta", alpha=97, beta=3),
        specificity=Beta(family="beta", alpha=99, beta=1),
    )
    """People are nearly right; against them language models are measured."""
    models: JudgePriors = JudgePriors(
        sensitivity=Beta(family="beta", alpha=18, beta=2),
        specificity=Beta(family="beta", alpha=49, beta=1),
    )
    """Judges whose name starts with ``llm:``."""
    rules: JudgePriors = JudgePriors(
        sensitivity=Beta(family="beta", alpha=38, beta=2),
        specificity=Beta(family="beta", alpha=999, beta=1),
    )
    """Judges whose name starts with ``rule:``: they look for exact duplicates only."""
    trained: JudgePriors = JudgePriors(
        sensitivity=Beta(family="beta", alpha=8, beta=2),
        specificity=Beta(family="beta", alpha=19, beta=1),
    )
    """Judges whose name starts with ``trained:``: learnt from the judgements of others."""


class CurveSpec(WholeSpec):
    """A model of P(duplicate | cosine).

    Attributes
    ----------
    summary : str
        One line that says what the curve spec is for.
    description : str
        What it assumes and when to choose it.
    shape, priors, judges : Block
        Its parts.
    """

    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: str = ""
    shape: Shape = Shape()
    priors: CurvePriors = CurvePriors()
    judges: Judges = Judges()
