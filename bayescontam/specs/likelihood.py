"""Likelihood: the block of a model spec that says how responses arise."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from bayescontam.specs.base import Block
from bayescontam.specs.priors import Beta

Probability = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


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


_OneGuess = Annotated[Probability, Tag("number")] | Annotated[Beta, Tag("prior")]
Guess = Annotated[
    Annotated[Literal["column"], Tag("column")]
    | _OneGuess
    | Annotated[dict[str, Annotated[_OneGuess, Discriminator(_guess_kind)]], Tag("each")],
    Discriminator(_whole_kind),
]
"""A number, a prior, either for each benchmark, or ``"column"``: of each item in the table."""


class Likelihood(Block):
    """How responses arise from the linear predictor.

    Attributes
    ----------
    family : {"binomial"}
        Distribution of ``n_correct`` out of ``n_trials``.
    link : {"logit"}
        Scale on which effects add up.
    guess : float or Beta, table of benchmark to float or Beta, or "column", default 0
        Accuracy of blind guessing, in [0, 1): a number, or a prior where it is to be
        estimated, of each benchmark its own. Benchmarks that a table leaves out have 0.
        With ``"column"`` each item has its own, from the responses: their column
        ``guess``, or 1 / ``n_options``.
    trials : {"repeats", "items"}, default "repeats"
        What the trials of one row are: repeated answers to one item, or answers to
        different items that were counted together, as in printed tables. Rows of items
        weigh by their number of items in every mean.
    model_by_item : bool, default true
        Whether repeated trials of one model on one item share a random effect
        (overdispersion). Without it they count as independent items. Rows of
        different items have none.
    """

    family: Literal["binomial"] = "binomial"
    link: Literal["logit"] = "logit"
    guess: Guess = 0.0
    trials: Literal["repeats", "items"] = "repeats"
    model_by_item: bool = True

    @property
    def has_model_by_item(self) -> bool:
        """Whether repeated trials share an effect; rows of different items never do."""
        return self.model_by_item and self.trials == "repeats"
