"""Numbers, intervals and names as a page shows them, and cuts of long tables."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from bayescontam._text import join_list, printable, short_labels
from bayescontam.inference.result import Fit

NAME_WIDTH = 40
"""Longest name in a table; longer ones are spelt out once, in a list of names."""

MOST_REFERENCES = 12
"""Benchmarks whose reference contamination is named one by one."""

TERMS = {
    "a": "a general ability of each model, shared by all benchmarks",
    "sigma_theta": "the spread of abilities, learnt from the data",
    "sigma_mu": "the spread of concepts, learnt from the data",
    "beta": "the contamination slope",
    "u": "slopes that differ by model",
    "v": "slopes that differ by benchmark",
    "w": "slopes that differ by pair of model and benchmark",
    "increments": "the bends of the dose-response",
    "spillover": "the lift of a whole benchmark by contamination of its items",
    "kappa": "the difficulty of contaminated items",
    "gamma": "slopes that depend on difficulty",
    "delta": "item difficulty",
    "alpha": "items that distinguish models better or worse",
    "eps": "the effect of a model on an item, shared by repeated trials",
}
"""What the symbols of a fit's terms stand for."""
MOST_LISTED = 4000
"""Rows of a table of pairs; the headline table has all."""


class Names:
    """Labels of hostile, long or alike names, and the full text of those that were changed."""

    def __init__(self, names: Iterable[str], prefix: str) -> None:
        known = list(dict.fromkeys(names))
        self._labels = dict(zip(known, short_labels(known, NAME_WIDTH), strict=True))
        self._ids = {
            name: f"{prefix}-{i}" for i, name in enumerate(known) if self._labels[name] != name
        }

    def label(self, name: object) -> str:
        """Return the label of a name."""
        return self._labels.get(str(name), printable(str(name), NAME_WIDTH))

    def anchor(self, name: object) -> str:
        """Return the identifier of the full text; empty where the label is the name."""
        return self._ids.get(str(name), "")

    def changed(self) -> Iterator[tuple[str, str, str]]:
        """Yield identifier, label and full text, escaped, of each name that was changed."""
        for name, anchor in self._ids.items():
            yield anchor, self._labels[name], printable(name, 10**9)


def number(value: object, digits: int = 3) -> str:
    """Return a number with `digits` decimals and a true minus; "–" where there is none.

    >>> number(0.65678), number(-0.5, 2), number(float("nan")), number(-0.0001)
    ('0.657', '−0.50', '–', '0.000')
    """
    known = _float(value)
    if math.isnan(known):
        return "–"
    if math.isinf(known):
        return "∞" if known > 0 else "−∞"
    text = f"{known:,.{digits}f}"
    return text.lstrip("-") if not float(text.replace(",", "")) else text.replace("-", "−")


def raw(value: object) -> str:
    """Return a number as a script reads it, to sort by; empty where there is none.

    >>> raw(0.123456789), raw(-2), raw(float("nan")), raw(float("inf"))
    ('0.123457', '-2', '', 'Infinity')
    """
    known = _float(value)
    if math.isnan(known):
        return ""
    return f"{known:.6g}" if math.isfinite(known) else f"{'-' if known < 0 else ''}Infinity"


def probability(value: object) -> str:
    """Return a probability that never claims certainty.

    >>> probability(0.5), probability(1.0), probability(0.0)
    ('0.500', '> 0.999', '< 0.001')
    """
    known = _float(value)
    if known < 0.001:
        return "< 0.001"
    return "> 0.999" if known > 0.999 else number(known)


def percent(value: object) -> str:
    """Return a share as a percentage.

    >>> percent(0.0517)
    '5.2 %'
    """
    text = number(_float(value) * 100, 1)
    return text if text == "–" else f"{text} %"


def level_text(level: float) -> str:
    """Return the probability of intervals.

    >>> level_text(0.95), level_text(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * level:g} %"


def interval(low: object, high: object, digits: int = 3) -> str:
    """Return an interval; empty where it has no width, for constants, or is not known.

    >>> interval(0.5861, 0.6556), interval(-0.0001, 0.1), interval(0.0, 0.0)
    ('[0.586, 0.656]', '[−0.000, 0.100]', '')
    """
    if _float(low) == _float(high) or math.isnan(_float(low)):
        return ""
    return f"[{_bound(low, digits)}, {_bound(high, digits)}]"


def _bound(value: object, digits: int) -> str:
    """Keep the sign of what rounds to zero: it says whether the interval excludes zero."""
    text = number(value, digits)
    return f"−{text}" if _float(value) < 0 and not text.startswith("−") else text


def from_half(slope: object) -> float:
    """Return the accuracy that a slope in log-odds makes of one half.

    >>> from_half(0.0), round(from_half(2.0), 2)
    (0.5, 0.88)
    """
    return 0.5 * (1 + math.tanh(_float(slope) / 2))


def measured(value: object) -> str:
    """Return a value of a check: counts and large numbers whole, others to three or four decimals.

    >>> measured(0.0), measured(5482.238), measured(90.732), measured(1.00165), measured(0.4757)
    ('0', '5,482', '91', '1.0016', '0.476')
    """
    known = _float(value)
    if math.isfinite(known) and (known == int(known) or abs(known) >= 20):
        return number(known, 0)
    return number(known, 4 if 0.99 < abs(known) < 1.1 else 3)


def place(value: object) -> str:
    """Return a rank: whole, or with a half where models share one; "–" where there is none.

    >>> place(3.0), place(2.5), place(float("nan"))
    ('3', '2.5', '–')
    """
    known = _float(value)
    return "–" if math.isnan(known) else f"{known:g}"


def _float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def in_file(file: str) -> str:
    """Return where all rows of a table are found of which the page has a part.

    >>> in_file("slopes")
    "slopes.csv of 'bayescontam report --tables'"
    """
    return f"{file}.csv of 'bayescontam report --tables'"


def reference_levels(fit: Fit) -> dict[str, float]:
    """Return the reference contamination of each benchmark, of a fit with contamination."""
    lowest = fit.tree["curves"].to_dataset()["contamination"].isel(point=0)
    reference = fit.record["reference"]
    if reference != "min_observed":
        lowest = lowest * 0 + (0.0 if reference == "zero" else float(reference))
    names = [str(name) for name in lowest["benchmark"].to_numpy()]
    return dict(zip(names, lowest.to_numpy().astype(float).tolist(), strict=True))


def reference_text(fit: Fit) -> str:
    """Return at which contamination genuine ability is evaluated, with the value."""
    levels = reference_levels(fit)
    values = list(levels.values())
    if fit.spec.contamination.exposure == "latent" and not any(values):
        return "contamination 0, no duplicate, in every benchmark"
    if fit.record["reference"] != "min_observed":
        return f"contamination {values[0]:.3g} in every benchmark"
    if max(values) - min(values) < 5e-4:
        return f"the smallest observed contamination, {values[0]:.3g} in every benchmark"
    if len(levels) > MOST_REFERENCES:
        return (
            f"the smallest observed contamination of each benchmark, {min(values):.3g} to"
            f" {max(values):.3g} (all: the first contamination of each in {in_file('curves')})"
        )
    lowest = [f"{printable(name, NAME_WIDTH)}: {value:.3g}" for name, value in levels.items()]
    return f"the smallest observed contamination of each benchmark ({'; '.join(lowest)})"


def contamination_name(fit: Fit) -> str:
    """Return what items are placed by where they have one contamination each."""
    return (
        "contamination" if fit.spec.contamination.exposure == "known" else "expected contamination"
    )


def estimand_texts(fit: Fit) -> list[tuple[str, str]]:
    """Return each quantity that the page shows with its meaning."""
    unit = "items that the model answered"
    texts = [
        ("Raw accuracy", f"The observed score: mean over {unit} of the share of correct trials."),
        ("Accuracy", "What the fit infers of it: mean probability of a correct answer."),
    ]
    if "identification" not in fit.tree:
        return [*texts, ("P(best)", "Posterior probability of the highest accuracy.")]
    return [
        *texts,
        (
            "Genuine ability",
            "The accuracy that the fit expects on the same items if all had the reference"
            f" contamination: {reference_text(fit)}.",
        ),
        ("Overfitting", "Accuracy less genuine ability: the part due to contamination."),
        *_spillover_text(fit),
        ("Overfitting fraction", "Overfitting as a share of accuracy."),
        ("Slope", _slope_text(fit)),
        ("P(best)", "Posterior probability of the highest genuine ability on the benchmark."),
    ]


def _slope_text(fit: Fit) -> str:
    log_odds = fit.spec.contamination.scale == "log_odds"
    what = "Log-odds of a correct answer" if log_odds else "Accuracy"
    text = f"{what} gained from surely clean to surely contaminated."
    if log_odds:
        text += (
            " In accuracy: what becomes of an item that would be solved half of the time if clean."
        )
    return text


def _spillover_text(fit: Fit) -> Iterator[tuple[str, str]]:
    if "spillover" in fit.record["entered"]:
        meaning = "The part of overfitting that items at the reference have too: the lift of all"
        yield "Spillover", f"{meaning} items by the mean contamination of the model's."


def left_out(fit: Fit) -> list[tuple[str, str, str]]:
    """Return symbol, meaning and reason for each term that the data could not carry."""
    return [
        (symbol, TERMS.get(symbol, ""), printable(reason, 10_000))
        for symbol, reason in fit.record["left_out"]
    ]


def provenance(fit: Fit) -> list[tuple[str, str]]:
    """Return where the fit comes from: data, spec, sampler, seed, versions, times."""
    record: dict[str, Any] = fit.record
    sampling, data = record["sampling"], record["data"]
    options = {name: v for name, v in sampling.items() if name not in ("engine", "difficulties")}
    # Fits of earlier versions say nothing of difficulties: they were sampled.
    marginalised = record.get("difficulties") == "marginalised"
    how = "; item difficulties integrated out, and drawn afterwards" if marginalised else ""
    rows = [
        ("Model spec", f"{record['spec']['name']} (SHA-256 {record['spec']['hash']})"),
        ("Data", f"{data['source']}: {data['responses']:,} responses (SHA-256 {data['hash']})"),
        ("Command", record["command"] or "not recorded (made from Python)"),
        ("Made", f"{record['created']}, {_seconds(record['seconds'])}"),
        ("Sampler", f"{sampling['engine']}; {_pairs(options)}{how}"),
        ("Seed", str(record["seed"])),
        ("Intervals", f"{level_text(record['level'])}, equal-tailed"),
        ("Thresholds of checks", _pairs(record["thresholds"])),
        ("Versions", ", ".join(f"{name} {value}" for name, value in record["versions"].items())),
    ]
    return [(name, printable(value, 20_000)) for name, value in rows]


def _seconds(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())


def items_of(fit: Fit) -> str:
    """Return how many items a fit has, or groups of items where rows count different ones."""
    count = fit.tree["constant_data"].sizes["item"]
    grouped = fit.spec.likelihood.trials == "items"
    return f"{count:,} {'groups of ' if grouped else ''}items"


def counted(names: Sequence[str], what: str) -> str:
    """Return how many names there are, and which, if few.

    >>> counted(["a", "b"], "model"), counted(["quiz"], "benchmark")
    ("2 models ('a', 'b')", "benchmark 'quiz'")
    """
    if len(names) == 1:
        return f"{what} {join_list(names)}"
    text = f"{len(names):,} {what}s"
    return f"{text} ({join_list(names, 4)})" if len(names) <= 4 else text


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, each on one line.

    >>> paragraphs("one\\ntwo\\n\\nthree\\n")
    ['one two', 'three']
    """
    parts = (" ".join(part.split()) for part in text.split("\n\n"))
    return [printable(part, 20_000) for part in parts if part]


def longest_rows(table: pd.DataFrame, score: str, file: str) -> dict[str, Any]:
    """Return the rows of a table that the page has."""
    shown, note = table, ""
    if len(table) > MOST_LISTED:
        size = table[score].abs().sort_values(ascending=False, kind="stable")
        shown = table.loc[size.index[:MOST_LISTED].sort_values()]
        said = score.replace("_", " ")
        note = (
            f"Only {len(shown):,} of {len(table):,} rows are on the page (largest {said}). All:"
            f" {in_file(file)}."
        )
    return {"rows": shown.to_dict("records"), "of": len(table), "note": note}
