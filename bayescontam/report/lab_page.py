"""The page of a lab: what was mixed, how the models learnt, and the true effects."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from bayescontam._files import write_text
from bayescontam._format import level_text
from bayescontam._runs import read_json
from bayescontam._text import printable
from bayescontam.lab.mix import BASE, RECORD
from bayescontam.lab.training_runs import read_lab, read_losses
from bayescontam.lab.truth import (
    EFFECTS,
    Measure,
    clean_accuracy,
    curve_of,
    read_accuracies,
    resolved_measure,
    truth_of,
    truth_sentence,
)
from bayescontam.report.format import paragraphs, provenance_rows
from bayescontam.report.html import fill
from bayescontam.report.plots import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    SERIES,
    Picture,
    band,
    finish,
    legend,
    mark,
    name_rows,
    numbers,
    panels,
    plain_labels,
    plural,
    style,
)
from bayescontam.specs.lab import LabSpec, Mix

MOST_BASES = 12
"""Bases whose accuracy the page lists; responses.csv has all."""
_LOOKS: dict[str, dict[str, Any]] = {
    "exact": SERIES[1], "semantic": SERIES[0], "near": SERIES[2],
    "clean": {"color": GREY, "marker": "X"},
}  # fmt: skip
"""How each kind of mix is drawn."""
_HALVES: dict[str, dict[str, Any]] = {
    "seen": {"color": ORANGE, "marker": "s"}, "unseen": {"color": BLUE, "marker": "o"},
    "control": {"color": GREEN, "marker": "D"},
}  # fmt: skip
_KINDS = {
    "clean": "background of its own", "near": "texts near items",
    "exact": "exact duplicates", "semantic": "semantic duplicates",
}  # fmt: skip
_APART = 0.32
"""Distance of the halves in a row of accuracies."""


@dataclass(frozen=True, eq=False)
class LabResults:
    """All that the page of a lab shows."""

    spec: LabSpec
    record: Mapping[str, Any]  # what `make_mixes` wrote last
    losses: pd.DataFrame  # as `read_losses`
    answers: pd.DataFrame  # as `read_accuracies`
    effects: pd.DataFrame  # as `lab_truth`
    level: float = 0.95
    curve: pd.DataFrame | None = None  # as `curve_of`, of a lab with checkpoints
    measure: Measure = "auto"  # of accuracies

    @property
    def accuracy(self) -> str:
        """What accuracies are, in words."""
        if resolved_measure(self.measure, self.spec) == "probability":
            return "the probability of the right answer"
        return "the share of right replies"

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], level: float = 0.95, measure: Measure = "auto"
    ) -> "LabResults":
        """Read the results of a lab whose models have answered."""
        lab = Path(folder)
        spec, answers = read_lab(lab), read_accuracies(lab, measure)
        effects = truth_of(answers, spec, level=level)
        curve = None
        if spec.training.checkpoints:
            curve = curve_of(read_accuracies(lab, measure, every_epoch=True), spec, level=level)
        record, losses = read_json(lab / RECORD), read_losses(lab)
        return cls(spec, record, losses, answers, effects, level, curve, measure)


def write_lab_page(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    level: float = 0.95,
    measure: Measure = "auto",
) -> LabResults:
    """Write the page of a lab as one HTML file that needs no network.

    Parameters
    ----------
    folder : path
        Folder of a lab whose models have answered.
    path : path
        File to write.
    level : float, default 0.95
        Coverage of the intervals.
    measure : {"auto", "probability", "replies"}, default "auto"
        What accuracy is; see `lab_truth`.

    Returns
    -------
    LabResults
        What the page shows.
    """
    results = LabResults.load(folder, level, measure)
    write_text(path, render_lab(results))
    return results


def render_lab(results: LabResults) -> str:
    """Return the page of a lab as HTML."""
    spec, record = results.spec, results.record
    effects = results.effects
    name = str(record.get("name", spec.name))  # the folder's own file has one name in every lab
    content = {
        "lab_name": printable(name),
        "summary": printable(spec.summary, 400),
        "description": paragraphs(spec.description),
        "size": _size(results),
        "verdict": truth_sentence(effects, results.answers, results.level),
        "mixes": [*_mix_rows(results)],
        "clean": _clean_rows(results),
        "benchmarks": _benchmarks(results.answers),
        "bases_note": spec.training.bases > MOST_BASES,
        "shown_bases": MOST_BASES,
        "twin": printable(spec.twin, 60),
        "effects": [
            (printable(str(name)), own.to_dict("records"))
            for name, own in effects.groupby("benchmark", sort=False)
        ],
        "level": level_text(results.level),
        "accuracy": results.accuracy,
        "pictures": {
            "effects": effects_picture(results),
            "accuracies": accuracies_picture(results),
            "losses": losses_picture(results),
        },
        "curves": [curve_picture(results, name) for name in _curved(results)],
        "provenance": provenance_rows(
            {
                "Lab": f"{name} (SHA-256: {record.get('spec', '')})",
                "Seed": str(spec.seed),
                "Files": ", ".join(f"{k} {v.get('sha256', '')[:12]}"
                                   for k, v in record.get("files", {}).items()),
                "Mixed by": ", ".join(f"{k} {v}" for k, v in record.get("versions", {}).items()),
            }
        ),
        "spec_text": spec.text,
    }  # fmt: skip
    return fill("lab.html", content)


def _size(results: LabResults) -> str:
    spec, items = results.spec, results.record["items"]
    models = spec.training.bases * len(spec.mixes)
    return ", ".join(
        [
            f"{plural(models, 'model')} ({plural(spec.training.bases, 'base')} ×"
            f" {plural(len(spec.mixes), 'mix').replace('mixs', 'mixes')})",
            f"{spec.texts:,} texts each",
            f"{plural(items['seen'] + items['unseen'], 'item')} of which {items['seen']:,} are"
            " exposed",
            f"{plural(items['control'], 'control item')}",
            _answered(results),
        ]
    )


def _answered(results: LabResults) -> str:
    """Return how accuracy was found."""
    answers = results.spec.answers
    how = f"accuracy is {results.accuracy}"
    if resolved_measure(results.measure, results.spec) == "replies":
        how += f", {answers.replies:,} to each item"
    return f"{how} at temperature {answers.temperature:g}"


def _benchmarks(answers: pd.DataFrame) -> list[str]:
    """Return the names of the benchmarks, those with duplicates first."""
    exposed = answers.loc[answers["half"] != "control", "benchmark"]
    return [str(name) for name in pd.concat([exposed, answers["benchmark"]]).unique()]


def _mix_rows(results: LabResults) -> Iterator[dict[str, Any]]:
    """Yield what each mix has, and the loss at the end of training on it."""
    last = results.losses.groupby(["mix", "base"], sort=False)["loss"].last()
    for mix in results.spec.mixes:
        texts = results.record["duplicates"][mix.name] + results.record["near"].get(mix.name, 0)
        what = "background alone: the twin of all others"
        if mix.name != results.spec.twin:
            what = _KINDS[mix.kind] + (f" ({', '.join(mix.levels)})" if mix.levels else "")
        yield {
            "name": mix.name, "what": what, "copies": mix.copies, "texts": texts,
            "share": texts / results.spec.texts, "loss": float(last[mix.name].mean()),
        }  # fmt: skip


def _clean_rows(results: LabResults) -> list[dict[str, Any]]:
    """Return the accuracy of clean twins by base, then mean and standard deviation."""
    table = clean_accuracy(results.answers, clean=results.spec.twin)
    wide = table.pivot(index="base", columns="benchmark", values="accuracy")
    wide = wide.loc[table["base"].unique(), _benchmarks(results.answers)]
    ends = {"mean": wide.mean(), "standard deviation between bases": wide.std()}
    bases = [(str(base), wide.loc[base]) for base in wide.index[:MOST_BASES]]
    return [
        {"base": base, "values": values.tolist(), "strong": base in ends}
        for base, values in [*bases, *ends.items()]
    ]


@style()
def effects_picture(results: LabResults) -> Picture:
    """Draw effects against the number of texts of each exposed item."""
    effects, mixes = results.effects, results.spec.mixes
    cells = [
        (benchmark, effect)
        for benchmark in _benchmarks(results.answers)
        for effect in ("total", "spillover", "direct", "control")
        if ((effects["benchmark"] == benchmark) & (effects["effect"] == effect)).any()
    ]
    names = dict(zip(effects["benchmark"].unique(), plain_labels(effects["benchmark"].unique()),
                     strict=True))  # fmt: skip
    titles = [f"{names[benchmark]}: {effect}" for benchmark, effect in cells]
    columns = 4 if len(cells) == 4 else 3
    figure, axes = panels(
        titles, columns, 2.5, xlabel="texts for each exposed item",
        ylabel="difference of accuracies", sharey=True, sharex=True, alone=0.6,
    )  # fmt: skip
    kinds = [kind for kind in _LOOKS if kind in set(effects["kind"])]
    # Kinds of the same dose stand beside each other.
    step = max(mix.copies for mix in mixes) * 0.018
    for axis, (benchmark, effect) in zip(axes, cells, strict=True):
        axis.axhline(0, color=GREY, lw=0.8, zorder=0)
        part = effects[(effects["benchmark"] == benchmark) & (effects["effect"] == effect)]
        for k, kind in enumerate(kinds):
            own = part[part["kind"] == kind].sort_values("copies")
            x = own["copies"] + (k - (len(kinds) - 1) / 2) * step
            reach = [own["estimate"] - own["low"], own["high"] - own["estimate"]]
            axis.errorbar(x, own["estimate"], [e.fillna(0) for e in reach], ls="none", ms=5,
                          lw=1.2, **_LOOKS[kind])  # fmt: skip
            axis.plot(x, own["estimate"], color=_LOOKS[kind]["color"], lw=0.8, alpha=0.5)
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    legend(figure, [mark(_KINDS[kind], ms=5, **_LOOKS[kind]) for kind in kinds], 4)
    alt = "; ".join(
        f"{title} {
            numbers(
                effects.loc[
                    (effects['benchmark'] == benchmark) & (effects['effect'] == effect), 'estimate'
                ]
            )
        }"
        for title, (benchmark, effect) in zip(titles, cells, strict=True)
    )
    caption = (
        f"Accuracy ({results.accuracy}) less that of the clean twins of the same bases, with"
        f" {level_text(results.level)} intervals over bases. Total: on all items of a benchmark."
        " Spillover: on those that no model was trained on. Direct: what those that models were"
        " trained on gain beyond the others. Control: on a benchmark of which there are no"
        " duplicates."
    )
    return finish(figure, "effects", "Dose and effect", f"Effects: {alt}.", caption)


def _curved(results: LabResults) -> list[str]:
    """Return the benchmarks whose effects are known at each epoch."""
    return [] if results.curve is None else _benchmarks(results.answers)


@style()
def curve_picture(results: LabResults, benchmark: str) -> Picture:
    """Draw the effects on a benchmark after each epoch."""
    assert results.curve is not None
    curve = results.curve[results.curve["benchmark"] == benchmark]
    effects = [effect for effect in EFFECTS if effect in set(curve["effect"])]
    figure, axes = panels(
        effects, 3, 2.5, xlabel="epoch", ylabel="difference of accuracies", sharey=True,
        sharex=True, alone=0.6,
    )  # fmt: skip
    marks = []
    dashes: dict[str, int] = {}
    for mix in results.spec.mixes:
        if mix.name == results.spec.twin:
            continue
        look = _line(mix, dashes)
        for axis, effect in zip(axes, effects, strict=True):
            own = curve[(curve["mix"] == mix.name) & (curve["effect"] == effect)]
            axis.plot(own["epoch"], own["estimate"], marker="o", ms=3, **look)
            band(axis, own["epoch"], own["low"], own["high"], look["color"])
        marks.append(mark(plain_labels([mix.name])[0], **look))
    for axis in axes:
        axis.axhline(0, color=GREY, lw=0.8, zorder=0)
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    legend(figure, marks, 5)
    label = plain_labels([benchmark])[0]
    ranges = "; ".join(
        f"{effect} {numbers(curve.loc[curve['effect'] == effect, 'estimate'])}"
        for effect in effects
    )
    caption = (
        f"Accuracy ({results.accuracy}) after each epoch, less that of the clean twins after the"
        " same epoch, with"
        f" {level_text(results.level)} intervals over bases as bands."
    )
    name = f"epochs-{_curved(results).index(benchmark)}"
    alt = f"Effects on {label}: {ranges}."
    return finish(figure, name, f"Effects by epoch: {label}", alt, caption)


@style()
def accuracies_picture(results: LabResults) -> Picture:
    """Draw the accuracy of each mix beside that of its clean twins."""
    answers, twin = results.answers, results.spec.twin
    rows = [mix for mix in results.spec.mixes if mix.name != twin]
    benchmarks = _benchmarks(answers)
    halves = {
        name: [half for half in _HALVES if half in set(own["half"])]
        for name, own in answers.groupby("benchmark", sort=False)
    }
    means = answers.groupby(["mix", "benchmark", "half", "base"])["p"].mean()
    height = 0.8 + 0.42 * len(rows)
    figure, axes = panels(
        plain_labels(benchmarks), 2, height, xlabel="accuracy", sharey=True, sharex=True, alone=0.65
    )
    for axis, benchmark in zip(axes, benchmarks, strict=True):
        for half, shift in _shifted(halves[benchmark]):
            before = float(means[twin, benchmark, half].mean())
            for y, mix in enumerate(rows):
                own = means[mix.name, benchmark, half]
                _dumbbell(axis, y + shift, before, own.to_numpy(), _HALVES[half])
    name_rows(axes, [mix.name for mix in rows])
    shown = [half for half in _HALVES if any(half in own for own in halves.values())]
    legend(
        figure,
        [
            *(mark(f"{half} items" if half != "control" else "control", ms=6, **_HALVES[half])
              for half in shown),
            mark("clean twins", color=INK, marker="|", ms=9, mew=1.6),
            mark("each base", color=GREY, marker=".", ms=4),
        ],
        5,
    )  # fmt: skip
    alt = "; ".join(
        f"{half} items {numbers(means.xs(half, level='half').groupby(['mix', 'benchmark']).mean())}"
        for half in shown
    )
    caption = (
        f"Mean accuracy ({results.accuracy}) of the models of each mix, and of the clean twins of"
        " the same bases on the same items: seen items have duplicates in some mix, unseen ones in"
        " none. Small dots are bases."
    )
    return finish(figure, "accuracies", "Seen, unseen, control", f"Accuracy: {alt}.", caption)


def _shifted(halves: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the halves of a benchmark, each with its place in a row."""
    for at, half in enumerate(halves):
        yield half, (at - (len(halves) - 1) / 2) * _APART


def _dumbbell(axis: Any, y: float, before: float, after: Any, look: Mapping[str, Any]) -> None:
    """Draw accuracies of bases, their mean, and the way from that of the clean twins."""
    mean = float(np.mean(after))
    axis.hlines(y, before, mean, color=look["color"], lw=2, alpha=0.4)
    axis.plot(after, np.full(len(after), y), ls="none", marker=".", ms=3, color=GREY, alpha=0.7)
    axis.plot([before], [y], ls="none", marker="|", ms=9, mew=1.6, color=INK)
    axis.plot([mean], [y], ls="none", ms=6, **look)


@style()
def losses_picture(results: LabResults) -> Picture:
    """Draw the loss of each epoch, before the mixes and on them."""
    losses = results.losses
    before, after = losses[losses["mix"] == BASE], losses[losses["mix"] != BASE]
    titles = [*(["pretraining"] if len(before) else []), "mixes"]
    figure, axes = panels(titles, 2, 2.6, xlabel="epoch", ylabel="loss per token, nats", alone=0.65)
    if len(before):
        _curves(axes[0], before, {"color": INK})
    marks = []
    dashes: dict[str, int] = {}
    for mix in results.spec.mixes:
        look = _line(mix, dashes)
        _curves(axes[-1], after[after["mix"] == mix.name], look)
        marks.append(mark(plain_labels([mix.name])[0], **look))
    for axis in axes:
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    legend(figure, marks, 5)
    last = after.groupby(["mix", "base"], sort=False)["loss"].last()
    alt = f"Loss of the last epoch on the mixes {numbers(last)} nats per token."
    caption = (
        "Mean cross-entropy of a token in each epoch, of a mix over its bases; pale lines are those"
        " of each base."
    )
    return finish(figure, "losses", "Losses", alt, caption)


def _line(mix: Mix, used: dict[str, int]) -> dict[str, Any]:
    """Return the line of a mix: its colour is that of the kind, its dashes its own."""
    number = used[mix.kind] = used.get(mix.kind, -1) + 1
    return {"color": _LOOKS[mix.kind]["color"], "ls": ("-", "--", ":", "-.")[number % 4]}


def _curves(axis: Any, losses: pd.DataFrame, look: Mapping[str, Any]) -> None:
    for _, own in losses.groupby("base", sort=False):
        axis.plot(own["epoch"], own["loss"], lw=0.6, color=PALE, zorder=0)
    means = losses.groupby("epoch")["loss"].mean()
    marker = "o" if len(means) == 1 else None
    axis.plot(means.index, means, ms=4, marker=marker, **look)
