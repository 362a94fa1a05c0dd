"""The page of a curve: tables, figures and text."""

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.patches import Patch
from scipy.stats import beta

from bayescontam._files import write_text
from bayescontam._format import level_text
from bayescontam._text import join_list, printable
from bayescontam.data.judgements import PAIR, sort_of
from bayescontam.evidence.curve import halves
from bayescontam.evidence.kinds import kind_words, opinions
from bayescontam.evidence.verdicts import first_runs
from bayescontam.inference.checks import checks_sentence, worst
from bayescontam.report.format import Names, counted, pairs_text, provenance_rows
from bayescontam.report.html import fill, sentences
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    RAW,
    Picture,
    band,
    finish,
    first_of,
    legend,
    mark,
    numbers,
    panels,
    plain_labels,
    plural,
    replicated,
    replicated_legend,
    style,
)

if TYPE_CHECKING:
    from bayescontam.evidence.curve import Curve


_MEANINGS = {
    "threshold": "cosine at which a match of an open item is a duplicate with probability 0.5",
    "steepness": "log-odds gained for each unit of cosine",
    "threshold_open": "cosine of the best match at which an item is open with probability 0.5",
    "steepness_open": "log-odds of being open gained for each unit of that cosine",
    "source_shift": "by how much the threshold lies higher in a source, in cosine",
    "sigma_item": "spread of items' effects, in log-odds",
    "share_further": "probability that a further chunk of a duplicate is one itself",
    "threshold_exact": "cosine at which half of the duplicates are exact",
    "steepness_exact": "log-odds of being exact gained for each unit of cosine",
    "chosen": "log-odds at a cosine of 0.7 that a duplicate that is not exact is of a chosen kind",
    "chosen_slope": "change of these log-odds for each unit of cosine",
    "log_odds_ratio": "log odds ratio of the truth and what a trained judge reports, at a cosine of"
    " 0.7",
    "log_odds_ratio_slope": "change of it for each unit of cosine",
    "log_odds_ratio_open": "log odds ratio of an item being open and what a trained judge reports"
    " of its nearest document",
}
_JUDGE = ("sensitivity", "specificity")
_SORTS = {
    "people": "person", "models": "language model", "rules": "rule (sensitivity: exact ones)",
    "trained": "trained",
}  # fmt: skip
MOST_PANELS = 9
BIN = 0.05
"""Width of the bins of cosine in which judged pairs are counted."""
_MOST_RUGS = 3000
_TAILS = {"low_99": 0.005, "low_95": 0.025, "high_95": 0.975, "high_99": 0.995}
_BEST: dict[str, Any] = {"marker": "o", "color": INK, "ms": 4.5, "ls": "none"}
_OTHER: dict[str, Any] = {"marker": "s", "color": GREY, "mfc": "white", "ms": 4, "ls": "none"}
_MOST_NAMED = 4
"""Benchmarks that the verdict line names."""


def write_curve_report(curve: "Curve", path: str | os.PathLike[str]) -> None:
    """Write the report of a curve as one HTML file that needs no network."""
    write_text(path, render_curve(curve))


def render_curve(curve: "Curve") -> str:
    """Return the report of a curve as HTML."""
    names = {
        kind: Names(known, f"name-{kind}")
        for kind, known in (
            ("benchmark", curve.benchmarks), ("source", curve.sources), ("judge", curve.judges),
        )
    }  # fmt: skip
    middles = halves(curve)
    content = {
        "names": names,
        "changed": [row for known in names.values() for row in known.changed()],
        "level": level_text(curve.level),
        "size": _size(curve),
        "spec_name": printable(curve.record["spec"]["name"]),
        "created": curve.record["created"],
        "verdict": _verdict(curve, middles),
        "outcome": worst(curve.checks()).value if len(curve.judged) else "failed",
        "judged": len(curve.judged),
        "halves": middles.to_dict("records"),
        "parameters": parameters(curve),
        "judges": judges(curve),
        "pictures": {"duplicates": duplicates(curve, middles), "shares": shares(curve)},
        "checks": [check.to_dict() for check in curve.checks()],
        "assumptions": sentences(
            "curve_assumptions",
            shape=curve.spec.shape, benchmarks=curve.benchmarks, sources=curve.sources,
            kinds=kind_words(curve.kinds), judges={sort_of(name) for name in curve.judges},
            predictor=printable(curve.predictor.judge, 60) if curve.predictor else "",
        ),
        "provenance": _provenance(curve),
        "spec_text": json.dumps(curve.record["spec"]["content"], indent=2, ensure_ascii=True),
    }  # fmt: skip
    return fill("curve.html", content)


def _size(curve: "Curve") -> str:
    parts = [
        f"{len(curve.outcomes):,} judgements of {curve.record['pairs']:,} pairs",
        counted(curve.benchmarks, "benchmark"),
        counted(curve.sources, "source"),
        counted(curve.judges, "judge") if curve.judges else "no judge",
    ]
    return "; ".join(printable(part, 600) for part in parts)


def _verdict(curve: "Curve", middles: pd.DataFrame) -> str:
    """Return the sentence on top: whether the checks hold, and where P = 0.5."""
    rows = middles.head(_MOST_NAMED).to_dict("records")
    where = "; ".join(f"{row['text']} in '{printable(row['benchmark'], 40)}'" for row in rows)
    if (more := len(curve.benchmarks) - len(rows)) > 0:
        where += f"; {more:,} more benchmarks"
    one = f"a duplicate{kind_words(curve.kinds)}"
    half = f"the cosine at which an item's best match is as likely {one} as not: {where}"
    if not len(curve.judged):
        return (
            "Nothing was judged: this curve is the prior, a guess that knows neither the embedder"
            " nor the corpus. Do not report numbers that rest on it; judge some pairs first:"
            f" bayescontam judge export. What it guesses: {half}."
        )
    said = checks_sentence(curve.checks()).replace("this fit", "this curve")
    return f"{said}; {half}."


def parameters(curve: "Curve") -> list[dict[Any, Any]]:
    """Return the parameters of the curve with their convergence, judges' left out."""
    table = curve.summary()
    table = table[~table["quantity"].isin([*_JUDGE, "naming"])]
    kinds = table["quantity"].eq("source_shift").map({True: "source", False: "benchmark"})
    meanings = table["quantity"].map(_MEANINGS).fillna("")
    return table.assign(kind=kinds, meaning=meanings).to_dict("records")


def judges(curve: "Curve") -> list[dict[str, Any]]:
    """Return the estimates for each judge, next to their prior."""
    estimated = {
        (row["quantity"], row["of"]): dict(row) for row in curve.summary().to_dict("records")
    }
    count = first_runs(curve.judged).groupby("judge").size()
    rows = []
    for name in curve.judges:
        priors = getattr(curve.spec.judges, sort_of(name))
        row: dict[str, Any] = {
            "judge": name,
            "kind": _SORTS[sort_of(name)],
            "pairs": int(count.get(name, 0)),
        }
        for quantity in _JUDGE:
            prior = getattr(priors, quantity)
            tails = [(1 - curve.level) / 2, (1 + curve.level) / 2]
            low, high = beta.ppf(tails, prior.alpha, prior.beta)
            mean = prior.alpha / (prior.alpha + prior.beta)
            known = {"prior": mean, "prior_low": low, "prior_high": high}
            row[quantity] = estimated[quantity, name] | known
        rows.append(row)
    return rows


def judged_pairs(curve: "Curve") -> pd.DataFrame:
    """Return one row for each judged pair: ``benchmark, cosine, called, first``."""
    said = opinions(first_runs(curve.outcomes), curve.kinds)
    pairs = said.groupby(list(PAIR), sort=False, observed=True)
    table = pairs.agg(
        cosine=("cosine", "first"), best=("best", "first"), share=("is_duplicate", "mean")
    ).reset_index()
    called, first = table["share"] > 0.5, table["cosine"] >= table["best"] - 1e-9
    return table[["benchmark", "cosine"]].assign(called=called, first=first)


def _provenance(curve: "Curve") -> list[tuple[str, str]]:
    """Return where the curve comes from: judgements, spec, sampler, seed, command."""
    record = curve.record
    sampling = dict(record["sampling"])
    engine = sampling.pop("engine")
    sampling.pop("difficulties", None)  # which a curve does not have
    kinds = Counter("duplicate" if x else "no duplicate" for x in curve.outcomes["is_duplicate"])
    said = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    sampler = f"{engine}; {pairs_text(sampling)}" if said else "draws from the prior"
    return provenance_rows(
        {
            "Curve spec": f"{record['spec']['name']} (SHA-256 {record['spec']['hash']})",
            "Duplicates": f"those{kind_words(curve.kinds)}" if curve.kinds else "of any kind",
            "Judgements": f"{len(curve.outcomes):,} ({said})" if said else "none",
            "Judges": join_list(curve.judges, 20) if curve.judges else "none",
            "Pairs": f"{record['pairs']:,}",
            "Trained judge as predictor": _predictor(curve),
            "Held-out verdicts": "; ".join(_held_out(curve)) or "none",
            "Command": record["command"] or "not recorded (made from Python)",
            "Made": record["created"],
            "Sampler": sampler,
            "Seed": record["seed"],
            "Intervals": f"{level_text(curve.level)}, equal-tailed",
            "Versions": pairs_text(record.get("versions") or {}),
        }
    )


def _predictor(curve: "Curve") -> str:
    if (of := curve.predictor) is None:
        return "none"
    return (
        f"{printable(of.judge, 60)}, {len(of.reported):,} pairs, {sum(of.read):,} of which people"
        " or language models judged as well"
    )


def _held_out(curve: "Curve") -> list[str]:
    return [
        f"{printable(name, 60)}: right in {tp:,} of {tp + fn:,} duplicates and {tn:,} of"
        f" {tn + fp:,} others"
        for name, (tp, fn, tn, fp) in curve.validated.items()
    ]


@style()
def duplicates(curve: "Curve", middles: pd.DataFrame) -> Picture:
    """Draw P(duplicate | cosine) with its band over the shares that were called duplicates."""
    names, note = first_of(curve.benchmarks, MOST_PANELS, "benchmarks")
    pairs, level = judged_pairs(curve), level_text(curve.level)
    places = {row["benchmark"]: row for row in middles.to_dict("records")}
    lowest = min(float(pairs["cosine"].min()), 0.35) if len(pairs) else 0.0
    figure, axes = _panels(names, "P(duplicate)")
    for axis, name in zip(axes, names, strict=True):
        cells = curve.data["curves"].to_dataset().isel(benchmark=curve.benchmarks.index(name))
        x = cells["cosine"].to_numpy()
        band(axis, x, cells["low"], cells["high"])
        axis.plot(x, cells["mean"], color=BLUE, lw=1.8)
        if "any" in cells:
            axis.plot(x, cells["any"], color=GREY, lw=1.2, ls="--")
        row, own = places[name], pairs[pairs["benchmark"] == name]
        if np.isfinite(row["median"]):
            axis.hlines(0.5, max(row["low"], -1.0), min(row["high"], 1.0), color=ORANGE, lw=1.6)
            axis.plot(row["median"], 0.5, **RAW)
        for first, look, moved in ((False, _OTHER, 0.004), (True, _BEST, -0.004)):
            _shares(axis, own[own["first"] == first], look, moved, curve.level)
        _rug(axis, own)
        axis.set_xlim(max(lowest - 0.05, -1.0), 1.0)
        axis.set_ylim(-0.06, 1.06)
    marks: list[Any] = [
        mark("mean", color=BLUE, lw=1.8),
        Patch(color=BLUE, alpha=0.18, label=f"{level} band"),
        mark("P = 0.5", **RAW),
    ]
    if curve.kinds:
        marks.append(mark("any duplicate", color=GREY, lw=1.2, ls="--"))
    if len(pairs):
        marks += [mark("best matches, judged", **_BEST), mark("other matches, judged", **_OTHER)]
    legend(figure, marks, 5)
    where = "; ".join(f"{plain_labels([name])[0]}: {places[name]['text']}" for name in names)
    alt = (
        f"P(duplicate | cosine) of {plural(len(names), 'benchmark')}, from 0 to 1; it is 0.5 at a"
        f" cosine of {where}. {len(pairs):,} judged pairs, of which {int(pairs['called'].sum()):,}"
        " were called duplicates."
    )
    caption = (
        "Line and band: probability that the best match of a random item is a duplicate"
        f"{kind_words(curve.kinds)}, with its {level} band; diamond: where it is 0.5."
    )
    if curve.kinds:
        caption += " Dashed: mean of the probability that it is a duplicate of any kind."
    if len(pairs):
        caption += (
            " Circles: best matches of items that were judged, in bins of cosine of width"
            f" {BIN:g}: share called duplicates by most judges, with binomial intervals. Squares:"
            " the other judged matches, which need not lie on the line: their items have a better"
            " match, or lack one. Judges err, so that shares of clean pairs are not quite zero."
            " Ticks: single pairs, called duplicates (top) or not (bottom)."
        )
    else:
        caption += " Nothing was judged: this is the prior."
    return finish(figure, "duplicates", "P(duplicate | cosine)", alt, caption + note)


def _panels(names: list[str], ylabel: str) -> tuple[Any, list[Any]]:
    return panels(plain_labels(names), 3, 2.9, xlabel="cosine", ylabel=ylabel, alone=0.75)


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
    axis.errorbar(x + moved, share, bars, **look, elinewidth=0.9)


def _rug(axis: Any, pairs: pd.DataFrame) -> None:
    step = max(1, len(pairs) // _MOST_RUGS)
    for called, low, high in ((True, 1.025, 1.06), (False, -0.06, -0.025)):
        x = pairs.loc[pairs["called"] == called, "cosine"].sort_values()[::step]
        axis.vlines(x, low, high, color=INK, lw=0.4, alpha=0.6)


@style()
def shares(curve: "Curve") -> Picture | None:
    """Draw observed against replicated shares called duplicates; None if nothing was judged."""
    if "predictive" not in curve.data:
        return None
    cells = curve.data["predictive"].to_dataset()
    names, note = first_of(curve.benchmarks, MOST_PANELS, "benchmarks")
    tails = np.quantile(cells["share_replicated"].to_numpy(), list(_TAILS.values()), axis=0)
    table = pd.DataFrame(dict(zip(_TAILS, tails, strict=True))).assign(
        cosine=cells["cosine"].to_numpy(), share=cells["share"].to_numpy()
    )
    figure, axes = _panels(names, "share called duplicates")
    for axis, name in zip(axes, names, strict=True):
        own = table[cells["benchmark_of_cell"].to_numpy() == curve.benchmarks.index(name)]
        replicated(axis, own["cosine"], own, own["share"])
        axis.margins(x=0.08)
    replicated_legend(figure, "observed share", "replicated judgements")
    outside = int(((table["share"] < table["low_95"]) | (table["share"] > table["high_95"])).sum())
    alt = (
        f"Observed and replicated shares of judgements that call a pair a duplicate"
        f" ({numbers(table['share'])}): {outside} of {len(table)} observed ones are outside the"
        " 95 % interval of replicated judgements."
    )
    caption = (
        "All judgements, in bins of about equally many, at their mean cosine. Judgements of"
        " the same pairs by the same judges are replicated from the fit, errors included."
        f" Shares that leave the bars in a pattern speak against the form of the curve.{note}"
    )
    return finish(figure, "shares", "Predicted judgements", alt, caption)
