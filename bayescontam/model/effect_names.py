"""Names of what contamination does to scores: those of its total effect, or of its direct one.

A slope over items shows what an item gains from its own contamination, the direct effect. Only a
fit with a term for spillover, what items gain from the contamination of others, has the total.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

GENUINE, OVERFITTING, FRACTION = "genuine_ability", "overfitting", "overfitting_fraction"
SPILLOVER = f"{OVERFITTING}_spillover"
"""The part of the total effect that items at the reference contamination have too."""


@dataclass(frozen=True)
class EffectNames:
    """Names of the estimands that depend on which effect of contamination a fit estimates."""

    ability: str  # accuracy without the effect
    overfitting: str  # the effect
    fraction: str  # the effect as a share of accuracy

    @classmethod
    def of(cls, spillover: bool) -> "EffectNames":
        """Return the names of a fit by whether it has a term for spillover."""
        return TOTAL if spillover else DIRECT

    @classmethod
    def among(cls, names: "Container[str] | xr.Dataset") -> "EffectNames | None":
        """Return those that a table or a group has; None where nothing is of contamination.

        >>> EffectNames.among(["accuracy", "overfitting_direct"]).ability
        'genuine_ability_direct'
        """
        for each in (TOTAL, DIRECT):
            if any(name in names for name in (each.ability, each.overfitting, each.fraction)):
                return each
        return None

    @property
    def total(self) -> bool:
        """Whether they are of the total effect."""
        return self.ability == GENUINE

    @property
    def verdict(self) -> str:
        """Column of the verdict on the effect."""
        return f"{self.overfitting}_verdict"

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that the effect is the sum of; none of a direct one."""
        return (DIRECT.overfitting, SPILLOVER) if self.total else ()

    @property
    def effect(self) -> str:
        """What a sentence calls the effect."""
        return "total effect" if self.total else "direct effect"

    def meant(self, name: str) -> str:
        """Return the estimand that a name of the total effect stands for where there is none.

        >>> DIRECT.meant("overfitting"), TOTAL.meant("overfitting"), DIRECT.meant("slope")
        ('overfitting_direct', 'overfitting', 'slope')
        """
        known = {GENUINE: self.ability, OVERFITTING: self.overfitting, FRACTION: self.fraction}
        return known.get(name, name)


TOTAL = EffectNames(GENUINE, OVERFITTING, FRACTION)
DIRECT = EffectNames(*(f"{name}_direct" for name in (GENUINE, OVERFITTING, FRACTION)))
_KINDS = ("direct", "spillover")
"""Words of names that state which effect they are of."""
EFFECTS = (OVERFITTING, DIRECT.overfitting, SPILLOVER, FRACTION, DIRECT.fraction)
"""Effects of contamination on accuracy, and shares of it."""
ABILITIES = (GENUINE, DIRECT.ability)
"""Accuracies without the effect."""


def word_list(name: str) -> list[str]:
    """Return the words of a name, the effect that it is of in brackets.

    >>> word_list("overfitting_fraction_direct")
    ['overfitting', 'fraction', '(direct)']
    """
    first, *others = name.split("_")
    return [first, *(f"({word})" if word in _KINDS else word for word in others)]


def effect_words(name: str) -> str:
    """Return a name in words, the effect that it is of in brackets.

    >>> effect_words("genuine_ability_direct")
    'genuine ability (direct)'
    """
    return " ".join(word_list(name))


def effect_head(name: str) -> str:
    """Return the heading of a column.

    >>> effect_head("overfitting_direct")
    'Overfitting (direct)'
    """
    words = effect_words(name)
    return words[:1].upper() + words[1:]
