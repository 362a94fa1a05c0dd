"""The page of a curve: tables, figures and text."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import beta

from bayescontam._files import write_text
from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray
from bayescontam.data.judgements import PAIR
from bayescontam.evidence.curve import CurveDraws, marginal
from bayescontam.evidence.curve_model import first_runs, is_model
from bayescontam.inference.checks import Outcome
from bayescontam.report import format as words
from bayescontam.report.fit_figures import RAW, note_of
from bayescontam.report.fit_text import checks_sentence
from bayescontam.report.format import level_text
from bayescontam.report.html import fill
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    WIDTH,
    Picture,
    finish,
    grid,
    numbers,
    plain_labels,
    style,
)

if TYPE_CHECKING:
    from bayescontam.evidence.curve import Curve


_DRAWS = 1000
_GRID = np.linspace(0.0, 1.0, 201)
_MEANINGS = {
    "threshold": "cosine at which a match of an open item is a duplicate with probability 0.5",
    "steepness": "log-odds gained for each unit of cosine",
    "threshold_open": "cosine of the best match at which an item is open with probability 0.5",
    "steepness_open": "log-odds of being open gained for each unit of that cosine",
    "source_shift": "by how much the threshold lies higher in a source, in cosine",
    "sigma_item": "spread of items' effects, in log-odds",
    "share_further": "probability that a further chunk of a duplicate is one itself",
}
_JUDGE = ("sensitivity", "specificity")
MOST_PANELS = 9
BIN = 0.05
"""Width of the bins of cosine in which judged pairs are counted."""
_MOST_RUGS = 3000
_TAILS = [0.005, 0.025, 0.975, 0.995]
_BEST: dict[str, Any] = {"fmt": "o", "color": INK, "ms": 4.5, "lw": 0.9}
_OTHER: dict[str, Any] = {"fmt": "s", "color": GREY, "mfc": "white", "ms": 4, "lw": 0.9}
_MOST_NAMED = 4
"""Benchmarks that the verdict line names."""


def halves(curve: "Curve") -> pd.DataFrame:
    """Return at which cosine the best match of an item is a duplicate with probability 0.5."""
    draws, tails = curve.draws(_DRAWS), (1 - curve.level) / 2
    rows = []
    for number, name in enumerate(curve.benchmarks):
        # Infinite ends cannot be interpolated.
        low, median, high = np.quantile(
            half(draws, number), [tails, 0.5, 1 - tails], method="inverted_cdf"
        )
        rows.append({"benchmark": name, "median": median, "low": low, "high": high})
    return pd.DataFrame(rows)


def half(draws: CurveDraws, benchmark: int) -> FloatArray:
    """Return for each draw the cosine in [0, 1] at which the curve crosses 0.5, (draw,)."""
    p = marginal(draws, _GRID, benchmark)
    above = p >= 0.5
    after = above.argmax(axis=1)
    before, rows = np.maximum(after - 1, 0), np.arange(len(p))
    rise = np.where(after > 0, p[rows, after] - p[rows, before], 1.0)
    between = (0.5 - p[rows, before]) / rise
    crossing = _GRID[before] + between * (_GRID[1] - _GRID[0])
    crossing = np.where(after == 0, -np.inf, crossing)
    result: FloatArray = np.where(above.any(axis=1), crossing, np.inf)
    return result


def half_text(row: dict[Any, Any]) -> str:
    """Return a row of `halves` in words.

    >>> half_text({"median": 0.612, "low": 0.55, "high": float("inf")})
    '0.61 [0.55, none]'
    >>> half_text({"median": float("inf"), "low": 0.9, "high": float("inf")})
    'none in [0, 1]'
    """
    if not np.isfinite(row["median"]):
        return "none in [0, 1]"
    low, high = (f"{x:.2f}" if np.isfinite(x) else "none" for x in (row["low"], row["high"]))
    return f"{row['median']:.2f} [{low}, {high}]"


def parameters(curve: "Curve") -> list[dict[Any, Any]]:
    """Return the parameters of the curve with their convergence, judges' left out."""
    table = curve.summary()
    table = table[~table["quantity"].isin(_JUDGE)]
    return [
        {
            **row,
            "kind": "source" if row["quantity"] == "source_shift" else "benchmark",
            "meaning": _MEANINGS.get(str(row["quantity"]), ""),
        }
        for row in table.to_dict("records")
    ]


def judges(curve: "Curve") -> list[dict[str, Any]]:
    """Return what was learnt of each judge, with the prior beside."""
    learnt = {(row["quantity"], row["of"]): dict(row) for row in curve.summary().to_dict("records")}
    count = first_runs(curve.judged).groupby("judge").size()
    rows = []
    for name in curve.judges:
        kind = curve.spec.judges.models if is_model(name) else curve.spec.judges.people
        row: dict[str, Any] = {
            "judge": name,
            "kind": "language model" if is_model(name) else "person",
            "pairs": int(count.get(name, 0)),
        }
        for quantity in _JUDGE:
            prior = getattr(kind, quantity)
            tails = [(1 - curve.level) / 2, (1 + curve.level) / 2]
            low, high = beta.ppf(tails, prior.alpha, prior.beta)
            mean = prior.alpha / (prior.alpha + prior.beta)
            known = {"prior": mean, "prior_low": low, "prior_high": high}
            row[quantity] = learnt[quantity, name] | known
        rows.append(row)
    return rows


def judged_pairs(curve: "Curve") -> pd.DataFrame:
    """Return one row for each judged pair."""
    runs = first_runs(curve.judged)
    pairs = runs.groupby(list(PAIR), sort=False, observed=True)
    table = pairs.agg(
        cosine=("cosine", "first"), best=("best", "first"), share=("is_duplicate", "mean")
    ).reset_index()
    called, first = table["share"] > 0.5, table["cosine"] >= table["best"] - 1e-9
    return table[["benchmark", "cosine"]].assign(called=called, first=first)


def duplicates(curve: "Curve", halves: pd.DataFrame) -> Picture:
    """Draw P(duplicate | cosine) with its band over the shares that were called duplicates."""
    names, note = _benchmarks(curve)
    pairs = judged_pairs(curve)
    places = {row["benchmark"]: row for row in halves.to_dict("records")}
    lowest = min(float(pairs["cosine"].min()), 0.35) if len(pairs) else 0.0
    with style():
        figure, axes = _panels(names)
        for axis, name in zip(axes, names, strict=True):
            _band(axis, curve, name)
            _half(axis, places[name])
            own = pairs[pairs["benchmark"] == name]
            for first, look, moved in ((False, _OTHER, 0.004), (True, _BEST, -0.004)):
                _shares(axis, own[own["first"] == first], look, moved, curve.level)
            _rug(axis, own)
            axis.set_xlim(max(lowest - 0.05, -1.0), 1.0)
            axis.set_ylim(-0.06, 1.06)
            axis.set_ylabel("P(duplicate)")
        _legend(figure, bool(len(pairs)), level_text(curve.level))
        middles = "; ".join(
            f"{plain_labels([name])[0]}: {half_text(places[name])}" for name in names
        )
        alt = (
            f"P(duplicate | cosine) of {len(names)} benchmark{'s' * (len(names) > 1)}, from 0 to"
            f" 1; it is 0.5 at a cosine of {middles}. {len(pairs):,} judged pairs, of which"
            f" {int(pairs['called'].sum()):,} were called duplicates."
        )
        return finish(figure, "duplicates", "P(duplicate | cosine)", alt, _caption(curve, note))


def _caption(curve: "Curve", note: str) -> str:
    band = (
        "Line and band: probability that the best match of a random item is a duplicate, with its"
        f" {level_text(curve.level)} band; diamond: where it is 0.5."
    )
    if not len(curve.judged):
        return f"{band} Nothing was judged: this is the prior.{note}"
    return (
        f"{band} Circles: best matches of items that were judged, in bins of cosine of width"
        f" {BIN:g}: share called duplicates by most judges, with binomial intervals. Squares:"
        " the other judged matches, which need not lie on the line: their items have a better"
        " match, or lack one. Judges err, so that shares of clean pairs are not quite zero."
        f" Ticks: single pairs, called duplicates (top) or not (bottom).{note}"
    )


def _band(axis: Any, curve: "Curve", name: str) -> None:
    number = curve.benchmarks.index(name)
    cells = curve.tree["curves"].to_dataset().isel(benchmark=number)
    x = cells["cosine"].to_numpy()
    axis.fill_between(x, cells["low"], cells["high"], color=BLUE, alpha=0.18, lw=0)
    axis.plot(x, cells["mean"], color=BLUE, lw=1.8)


def _half(axis: Any, row: dict[Any, Any]) -> None:
    """Mark where P = 0.5, with its interval; nothing where it is nowhere."""
    if not np.isfinite(row["median"]):
        return
    axis.hlines(0.5, max(row["low"], -1.0), min(row["high"], 1.0), color=ORANGE, lw=1.6)
    axis.plot(row["median"], 0.5, **RAW)


def _shares(
    axis: Any, pairs: pd.DataFrame, look: dict[str, Any], moved: float, level: float
) -> None:
    """Draw shares called duplicates in bins of cosine, with Jeffreys' intervals."""
    if pairs.empty:
        return
    cells = pairs.groupby(np.floor(pairs["cosine"] / BIN))
    x, k, n = cells["cosine"].mean(), cells["called"].sum(), cells.size()
    low, high = (beta.ppf(q, k + 0.5, n - k + 0.5) for q in ((1 - level) / 2, (1 + level) / 2))
    share = (k / n).to_numpy()
    bars = np.maximum([share - np.where(k == 0, 0, low), np.where(k == n, 1, high) - share], 0)
    axis.errorbar(x + moved, share, bars, **look)


def _rug(axis: Any, pairs: pd.DataFrame) -> None:
    step = max(1, len(pairs) // _MOST_RUGS)
    for called, low, high in ((True, 1.025, 1.06), (False, -0.06, -0.025)):
        x = pairs.loc[pairs["called"] == called, "cosine"].sort_values()[::step]
        axis.vlines(x, low, high, color=INK, lw=0.4, alpha=0.6)


def _legend(figure: Any, judged: bool, level: str) -> None:
    marks: list[Any] = [
        Line2D([], [], color=BLUE, lw=1.8, label="mean"),
        Patch(color=BLUE, alpha=0.18, label=f"{level} band"),
        Line2D([], [], label="P = 0.5", **RAW),
    ]
    if judged:
        marks += [
            Line2D([], [], ls="none", marker="o", color=INK, ms=4.5, label="best matches, judged"),
            Line2D([], [], ls="none", marker="s", color=GREY, mfc="white", ms=4,
                   label="other matches, judged"),
        ]  # fmt: skip
    figure.legend(handles=marks, loc="outside upper left", ncols=5)


def shares(curve: "Curve") -> Picture | None:
    """Draw observed against replicated shares called duplicates; None if nothing was judged."""
    if "predictive" not in curve.tree:
        return None
    cells = curve.tree["predictive"].to_dataset()
    names, note = _benchmarks(curve)
    observed, outside = cells["share"].to_numpy(), 0
    tails = np.quantile(cells["share_replicated"].to_numpy(), _TAILS, axis=0)
    with style():
        figure, axes = _panels(names)
        for axis, name in zip(axes, names, strict=True):
            own = cells["benchmark_of_cell"].to_numpy() == curve.benchmarks.index(name)
            x, (low99, low, high, high99) = cells["cosine"].to_numpy()[own], tails[:, own]
            axis.vlines(x, low99, high99, color=PALE, lw=6)
            axis.vlines(x, low, high, color="#a6a6a6", lw=6)
            axis.plot(x, observed[own], **RAW)
            axis.set_ylabel("share called duplicates")
            axis.margins(x=0.08)
        marks = [
            Line2D([], [], label="observed share", **RAW),
            Line2D([], [], color="#a6a6a6", lw=6, label="95 % of replicated judgements"),
            Line2D([], [], color=PALE, lw=6, label="99 %"),
        ]
        figure.legend(handles=marks, loc="outside upper left", ncols=3)
        outside = int(((observed < tails[1]) | (observed > tails[2])).sum())
        alt = (
            f"Observed and replicated shares of judgements that call a pair a duplicate"
            f" ({numbers(observed)}): {outside} of {len(observed)} observed ones are outside the"
            " 95 % interval of replicated judgements."
        )
        caption = (
            "All judgements, in bins of about equally many, at their mean cosine. Judgements of"
            " the same pairs by the same judges are replicated from the fit, errors included."
            " Shares that leave the bars in a pattern speak against the form of the curve."
            f"{note}"
        )
        return finish(figure, "shares", "Predicted judgements", alt, caption)


def _panels(names: list[str]) -> tuple[Any, list[Any]]:
    width = WIDTH if len(names) > 1 else WIDTH * 0.75
    figure, axes = grid(len(names), max(2, min(3, len(names))), 2.9, width=width)
    for axis, title in zip(axes, plain_labels(names), strict=True):
        axis.set_title(title)
        axis.set_xlabel("cosine")
    return figure, axes


def _benchmarks(curve: "Curve") -> tuple[list[str], str]:
    drawn = list(curve.benchmarks[:MOST_PANELS])
    return drawn, note_of(len(drawn), len(curve.benchmarks), "benchmarks", "the first")


def write_curve_report(curve: "Curve", path: str | os.PathLike[str]) -> None:
    """Write the report of a curve as one HTML file that needs no network."""
    write_text(path, render_curve(curve))


def render_curve(curve: "Curve") -> str:
    """Return the report of a curve as HTML."""
    names = {
        "benchmark": words.Names(curve.benchmarks, "name-benchmark"),
        "source": words.Names(curve.sources, "name-source"),
        "judge": words.Names(curve.judges, "name-judge"),
    }
    thresholds = halves(curve)
    outcomes = {check.outcome for check in curve.checks()} or {Outcome.PASSED}
    worst = next(kind for kind in reversed(Outcome) if kind in outcomes)
    content = {
        "names": names,
        "changed": [row for known in names.values() for row in known.changed()],
        "level": words.level_text(curve.level),
        "size": _size(curve),
        "spec_name": printable(curve.record["spec"]["name"]),
        "created": curve.record["created"],
        "verdict": verdict(curve, thresholds),
        "outcome": worst.value if len(curve.judged) else "failed",
        "judged": len(curve.judged),
        "halves": [{**row, "text": half_text(row)} for row in thresholds.to_dict("records")],
        "parameters": parameters(curve),
        "judges": judges(curve),
        "pictures": {
            "duplicates": duplicates(curve, thresholds),
            "shares": shares(curve),
        },
        "checks": [check.to_dict() for check in curve.checks()],
        "assumptions": list(assumptions(curve)),
        "provenance": provenance(curve),
        "spec_text": json.dumps(curve.record["spec"]["content"], indent=2, ensure_ascii=True),
    }
    return fill("curve.html", content)


def _size(curve: "Curve") -> str:
    parts = [
        f"{len(curve.judged):,} judgements of {curve.record['pairs']:,} pairs",
        words.counted(curve.benchmarks, "benchmark"),
        words.counted(curve.sources, "source"),
        words.counted(curve.judges, "judge") if curve.judges else "no judge",
    ]
    return "; ".join(printable(part, 600) for part in parts)


def verdict(curve: "Curve", halves: pd.DataFrame) -> str:
    """Return the sentence on top: whether the checks hold, and where P = 0.5."""
    rows = halves.head(_MOST_NAMED).to_dict("records")
    where = "; ".join(f"{half_text(row)} in '{printable(row['benchmark'], 40)}'" for row in rows)
    if (more := len(curve.benchmarks) - len(rows)) > 0:
        where += f"; {more:,} more benchmarks"
    half = f"the cosine at which an item's best match is as likely a duplicate as not: {where}"
    if not len(curve.judged):
        return (
            "Nothing was judged: this curve is the prior, a guess that knows neither the embedder"
            " nor the corpus. Do not report numbers that rest on it; judge some pairs first:"
            f" bayescontam judge export. What it guesses: {half}."
        )
    said = checks_sentence(curve.checks()).replace("this fit", "this curve")
    return f"{said}; {half}."


def assumptions(curve: "Curve") -> Iterator[str]:
    """Yield what the curve assumes, one sentence or two each."""
    shape = curve.spec.shape
    yield (
        "Only some items, those that are open, have duplicates at all; the higher the cosine of"
        " an item's best match, the likelier it is open. So ten texts near a clean item are not"
        " ten chances of a duplicate."
    )
    form = "a straight line in the cosine"
    if shape.form != "logistic":
        knots = ", ".join(f"{knot:g}" for knot in shape.knots)
        form = f"a line in the cosine that may bend at {knots} and never falls"
    yield f"On the log-odds scale, a match of an open item is a duplicate along {form}."
    if shape.item_effect:
        yield (
            "Items differ: that one match is a duplicate makes others of the same item likelier"
            " (sigma_item)."
        )
    if len(curve.benchmarks) > 1:
        yield (
            "Benchmarks have curves of their own, drawn towards each other where little was judged."
        )
    if len(curve.sources) > 1:
        yield "Sources of the corpus shift the threshold of the cosine, and nothing else."
    yield from _about_judges(curve)
    yield (
        "The curve holds for the embedder, the text of the items that was looked for, and the"
        " length of chunks of the scan whose pairs were judged. Another scan needs its own."
    )


def _about_judges(curve: "Curve") -> Iterator[str]:
    yield (
        "Judges err. Each calls a duplicate one with a probability of its own (sensitivity), and"
        " another pair none (specificity), alike at all cosines; given the truth, judges err"
        " independently of each other. What all of them misjudge alike cannot be seen."
    )
    yield (
        "Judges whose names begin with 'llm:' are language models; all others are taken for"
        " people, who are nearly always right, and by whom the models are measured. Further"
        " runs of a language model repeat its errors, and do not count."
    )


def provenance(curve: "Curve") -> list[tuple[str, str]]:
    """Return where the curve comes from: judgements, spec, sampler, seed, command."""
    record = curve.record
    sampling = dict(record["sampling"])
    engine = sampling.pop("engine")
    sampling.pop("difficulties", None)  # which a curve does not have
    kinds = Counter("duplicate" if x else "no duplicate" for x in curve.judged["is_duplicate"])
    said = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    sampler = f"{engine}; {_pairs(sampling)}" if len(curve.judged) else "draws from the prior"
    rows = [
        ("Curve spec", f"{record['spec']['name']} (SHA-256 {record['spec']['hash']})"),
        ("Judgements", f"{len(curve.judged):,} ({said})" if said else "none"),
        ("Judges", join_list(curve.judges, 20) if curve.judges else "none"),
        ("Pairs", f"{record['pairs']:,}"),
        ("Command", record["command"] or "not recorded (made from Python)"),
        ("Made", record["created"]),
        ("Sampler", sampler),
        ("Seed", str(record["seed"])),
        ("Intervals", f"{words.level_text(curve.level)}, equal-tailed"),
        ("Versions", _pairs(record.get("versions") or {})),
    ]
    return [(name, printable(value, 20_000)) for name, value in rows if value]


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
