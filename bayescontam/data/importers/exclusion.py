"""Rules by which participants of a study are excluded, and what each rule changes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit, logit

from bayescontam._types import BoolArray, IntArray
from bayescontam.errors import UsageError

LEVEL = 0.95  # of intervals of accuracies by rule
ALL = "all"  # name of what all rules together leave


@dataclass(frozen=True)
class ExclusionRules:
    """Fewest of something that exclude a participant, in the order of the published study."""

    # As published (Moskvichev et al. 2023, section 5.2). A rule is off at 0.
    explanations: int = 0  # explanations that are empty or marked as nonsense
    minimal: int = 2  # minimal tasks that were not solved
    at_least: int = 0  # items that a participant must have answered to be included

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                option = "at_least" if name == "at_least" else f"exclude_{name}"
                raise UsageError(
                    f"{option}={value!r}: allowed is a whole number, and 0 for no such rule"
                )

    def in_words(self) -> dict[str, str]:
        """Return what each rule that is on says, by its name."""
        words = {
            "explanations": f"{self.explanations} or more explanations empty or nonsense",
            "minimal": f"{self.minimal} or more minimal tasks failed",
            "at_least": f"fewer than {self.at_least} items answered",
        }
        return {name: text for name, text in words.items() if getattr(self, name)}

    def excluded(self, people: pd.DataFrame) -> dict[str, BoolArray]:
        """Return which participants each rule that is on excludes, dims (participant,).

        `people` has one row for each participant, with the numbers of ``inadequate``
        explanations, ``failed`` minimal tasks and ``items``.
        """
        verdicts = {
            "explanations": people["inadequate"] >= self.explanations,
            "minimal": people["failed"] >= self.minimal,
            "at_least": people["items"] < self.at_least,
        }
        return {name: verdicts[name].to_numpy(dtype=bool) for name in self.in_words()}


def count_excluded(rules: ExclusionRules, people: pd.DataFrame) -> tuple[pd.DataFrame, BoolArray]:
    """Return what each rule removes, and which participants are excluded, (participant,).

    The table has ``rule``, numbers of ``participants`` and ``responses`` that the rule removes
    alone, and of ``further_participants`` and ``further_responses`` that it removes after the
    rules before it.
    """
    rows, gone = [], np.zeros(len(people), dtype=bool)
    items = people["items"].to_numpy()
    words = rules.in_words()
    for name, out in rules.excluded(people).items():
        further = out & ~gone
        rows.append(
            {
                "rule": words[name], "participants": int(out.sum()),
                "responses": int(items[out].sum()), "further_participants": int(further.sum()),
                "further_responses": int(items[further].sum()),
            }
        )  # fmt: skip
        gone |= out
    columns = ["rule", "participants", "responses", "further_participants", "further_responses"]
    return pd.DataFrame(rows, columns=columns), gone


def accuracy_by_rule(
    rules: ExclusionRules, people: pd.DataFrame, scored: pd.DataFrame
) -> pd.DataFrame:
    """Return accuracies under no rule, under each rule alone, and under all of them.

    `people` has one row for each participant and is indexed by their names; `scored` one for each
    response, with ``participant``, ``item``, ``correct`` and ``concept`` ("" where there is none).
    The result has ``rule``, ``concept`` ("" for all items), numbers of ``participants``,
    ``responses`` and ``items``, and ``accuracy`` with ``low`` and ``high``; see
    `accuracy_of_people`. ``change`` is by how much the accuracy lies above that under no rule.
    """
    out = rules.excluded(people)
    included = {"none": np.ones(len(people), dtype=bool)}
    included |= {text: ~out[name] for name, text in rules.in_words().items()}
    if len(out) > 1:
        included[ALL] = ~np.logical_or.reduce(list(out.values()))
    rows = [
        {"rule": rule} | row
        for rule, rows_of in included.items()
        for row in _accuracies(scored[scored["participant"].isin(people.index[rows_of])])
    ]
    table = pd.DataFrame(rows)
    without = table[table["rule"] == "none"].set_index("concept")["accuracy"]
    return table.assign(change=table["accuracy"] - table["concept"].map(without))


def _accuracies(scored: pd.DataFrame) -> Iterator[dict[str, object]]:
    parts = [("", scored)]
    if scored["concept"].any():
        parts += [(str(name), part) for name, part in scored.groupby("concept") if name]
    for concept, part in parts:
        person, item = (pd.factorize(part[name])[0] for name in ("participant", "item"))
        value, low, high = accuracy_of_people(person, item, part["correct"].to_numpy())
        yield {
            "concept": concept, "participants": int(part["participant"].nunique()),
            "responses": len(part), "items": int(part["item"].nunique()),
            "accuracy": value, "low": low, "high": high,
        }  # fmt: skip


def accuracy_of_people(
    person: IntArray, item: IntArray, correct: IntArray
) -> tuple[float, float, float]:
    """Return the mean over items of the share of people who solve one, with an interval.

    The items are fixed and the participants a sample of a population, whose responses to several
    items go together: the variance is that of the jackknife which leaves out one participant at
    a time (Tukey 1958; Efron & Stein 1981, doi:10.1214/aos/1176345462), on the log-odds, with
    Student's t. NaN where nothing varies, since no spread can be estimated then.

    Responses are given by the positions of their ``person`` and ``item``, each pair once.

    >>> person, item = np.repeat([0, 1, 2, 3], 2), np.tile([0, 1], 4)
    >>> correct = np.array([1, 1, 1, 0, 0, 1, 0, 0])
    >>> value, low, high = accuracy_of_people(person, item, correct)
    >>> round(value, 3), round(low, 2), round(high, 2)
    (0.5, 0.07, 0.93)
    """
    if not len(person):
        return math.nan, math.nan, math.nan
    size = np.bincount(item).astype(float)
    right = np.bincount(item, correct)
    share = right / size
    value = float(share.mean())
    people = int(person.max()) + 1
    # Without a participant, shares of the items that they answered change, and an item that
    # nobody else answered is no more among those that are averaged.
    others = size[item] - 1
    alone = others == 0
    changed = np.where(alone, 0.0, (right[item] - correct) / np.where(alone, 1.0, others))
    total = share.sum() + np.bincount(person, changed - share[item], minlength=people)
    count = len(size) - np.bincount(person, alone, minlength=people)
    if people < 2 or (count == 0).any() or not 0 < value < 1:
        return value, math.nan, math.nan
    without = total / count
    se = math.sqrt((people - 1) / people * float(((without - without.mean()) ** 2).sum()))
    if se == 0:
        return value, math.nan, math.nan
    reach = stats.t.ppf((1 + LEVEL) / 2, people - 1) * se / (value * (1 - value))
    low, high = (float(expit(logit(value) + side * reach)) for side in (-1, 1))
    return value, low, high
