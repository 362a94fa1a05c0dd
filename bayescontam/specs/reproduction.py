"""Reproduction specs: a published study, how it is done again, and what its page says."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator

from bayescontam.names import visible
from bayescontam.specs.base import closest
from bayescontam.specs.whole import WholeSpec

Analysis = Literal[
    "decomposition",
    "novelty",
    "eight_models",
    "versions",
    "conceptarc",
    "finetuning",
    "prevalence",
    "arc_concepts",
]
"""Modules of `bayescontam.reproduction`."""
Text = Annotated[str, StringConstraints(min_length=1)]


class ReproductionSpec(WholeSpec):
    """A published study, done again.

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
    full : table
        Settings that ``--full`` puts in the place of those.
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

    def at_size(self, full: bool) -> dict[str, Any]:
        """Return the settings, with those of ``full`` in their place if requested."""
        return {**self.settings, **(self.full if full else {})}

    @field_validator("full")
    @classmethod
    def _replaces_settings(cls, given: dict[str, Any], info: Any) -> dict[str, Any]:
        known = info.data.get("settings", {})
        for key in given:
            if key not in known:
                hint = closest(key, known)
                raise ValueError(f"full.{visible(key, 60)}: no such setting to replace ({hint})")
        return given
