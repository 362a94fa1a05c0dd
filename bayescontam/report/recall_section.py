"""The part of a scan's page on duplicates that were planted in its corpus, and what was found."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from bayescontam._format import level_text, percent
from bayescontam._text import printable
from bayescontam.duplicates.recall import RANKS, Recalled
from bayescontam.duplicates.recall_scores import share_interval
from bayescontam.report.matches import LEVELS, lexical_columns, lexical_name
from bayescontam.report.plots import (
    BLUE,
    GREY,
    ORANGE,
    SERIES,
    WIDTH,
    Picture,
    band,
    drawable,
    finish,
    legend,
    mark,
    new_figure,
    note_of,
    numbers,
    panels,
    plain_labels,
    style,
)

NEAR = 10
"""Best matches of an item among which a duplicate counts as found, in the sentence on top."""
MOST_ROWS = 100
"""Rows of a table on the page."""
_MOST_NAMED, _MOST_LINES, _ON_A_LINE = 6, 8, 400
"""Levels that are named in a sentence, that have a line, and points of that line."""
_GROUP = ["kind", "level"]
_KEYS = ["benchmark", "item"]
_CHANCE: dict[str, Any] = {"color": GREY, "ls": ":", "lw": 1.4}
_MEASURES = {
    "contamination": "contamination", "p_duplicate": "P(duplicate), whole corpus",
    "p_scanned": "P(duplicate), scanned part", "expected_duplicates": "duplicates, whole corpus",
    "expected_scanned": "duplicates, scanned part", "top_cosine": "highest cosine",
}  # fmt: skip


def recall_section(found: Recalled) -> dict[str, Any]:
    """Return sentences, tables and pictures of what was found of planted duplicates."""
    labels = _labels(found.duplicates)
    known = {*found.scores["score"], *found.pair_scores["score"]}
    scores = [name for name in ("cosine", *lexical_columns(known)) if name in known]
    return {
        "finding": finding(found),
        "meaning": " ".join([_meaning(found), *map(_sentence, found.notes)]),
        "level": level_text(found.level),
        "ranks": RANKS,
        "cosines": LEVELS,
        "rows": _shown(found.table),
        "more": max(len(found.table) - MOST_ROWS, 0),
        "has_form": "form" in found.table,
        "chunks": found.chunks,
        "pictures": [p for p in (_lines(found, labels), _curves(found)) if p],
        "scores": [(name, _score_name(name)) for name in scores],
        "areas": list(_areas(found, scores)),
        "judges": list(_judges(found.judges)),
        "curve": _shown(found.curve),
        "calibration": _shown(found.calibration),
        "covariates": [
            {**row, "shown": _measure(str(row["column"]))} for row in _shown(found.covariates)
        ],
    }


def finding(found: Recalled) -> str:
    """Return how many planted duplicates are among the best matches of their item, by level."""
    rows, most = found.duplicates, _near(found)
    near = rows["rank"] <= most
    text = (
        f"Of {len(rows):,} planted duplicate{'' if len(rows) == 1 else 's'},"
        f" {_portion(near)} {'is' if len(rows) == 1 else 'are'} among the {most} best"
        f" match{'' if most == 1 else 'es'} of their item"
    )
    groups = _labels(rows)
    if len(groups) < 2:
        return f"{text}."
    named = list(groups)
    more = ""
    if (others := len(groups) - _MOST_NAMED) > 0:  # what a scan misses matters more
        named = _least_found(rows, groups, most)[:_MOST_NAMED]
        rest = "other one is" if others == 1 else f"{others} others are"
        more = f"; the {rest} found as often or more often"
    parts = [f"{groups[group]}: {_portion(near[_of(rows, group)])}" for group in named]
    return f"{text} ({'; '.join(parts)}{more})."


def _near(found: Recalled) -> int:
    """Return how many best matches of an item count as near, no more than are stored."""
    return NEAR if found.stored is None else min(NEAR, found.stored)


def _sentence(note: str) -> str:
    """Return a note as a sentence that can be shown."""
    return f"{printable(note[:1].upper() + note[1:], 400)}."


def _least_found(
    rows: pd.DataFrame, groups: Mapping[tuple[str, str], str], most: int
) -> list[tuple[str, str]]:
    """Return kinds and levels by the share that is found, the lowest first."""
    return sorted(groups, key=lambda group: (rows["rank"] <= most)[_of(rows, group)].mean())


def _portion(hit: "pd.Series[bool]") -> str:
    """Return a share in words where it is all or none."""
    return "all" if hit.all() else percent(hit.mean()) if hit.any() else "none"


def _meaning(found: Recalled) -> str:
    """Return what follows for items without matches."""
    rows, most = found.duplicates, _near(found)
    groups = _labels(rows)
    lost = [
        label
        for group, label in groups.items()
        if (rows["rank"] <= most)[_of(rows, group)].mean() < 0.5
    ]
    if not lost:
        return (
            "Most duplicates of these kinds are found: an item without close matches is evidence"
            " against duplicates of these kinds in what was searched, and of no others."
        )
    named = ", ".join(lost[:_MOST_NAMED]) + (", …" if len(lost) > _MOST_NAMED else "")
    which = f" ({named})" if len(groups) > 1 else ""
    return (
        f"A scan without matches is no evidence against duplicates of the kinds not found{which}."
    )


def _labels(rows: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return a name for each kind and level; kinds are named where there are several."""
    known = rows[_GROUP].drop_duplicates().sort_values(_GROUP)
    groups = list(known.itertuples(index=False, name=None))
    several = len({kind for kind, _ in groups}) > 1
    return {
        (kind, level): printable(f"{kind} {level}".strip() if several or not level else level, 40)
        for kind, level in groups
    }


def _of(rows: pd.DataFrame, group: tuple[str, str]) -> "pd.Series[bool]":
    return (rows["kind"] == group[0]) & (rows["level"] == group[1])


def _shown(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the first rows of a table, texts made safe to show."""
    rows = table.head(MOST_ROWS).to_dict("records")
    return [
        {k: printable(v, 60) if isinstance(v, str) else v for k, v in row.items()} for row in rows
    ]


def _score_name(name: str) -> str:
    return "cosine" if name == "cosine" else lexical_name(name)


def _measure(column: str) -> str:
    """Return the name of a covariate as people read it."""
    stem, _, rest = column.partition("_")
    if column in _MEASURES:
        return _MEASURES[column]
    if stem == "max" and lexical_columns([rest]):
        return f"highest {lexical_name(rest)}"
    return printable(f"P(duplicate), {stem} {rest}" if stem in ("source", "kind") else column, 60)


def _areas(found: Recalled, scores: list[str]) -> Iterator[dict[str, Any]]:
    """Yield areas under the curve, of items and then of pairs of each kind and level."""
    rest = ("auc", "auc_low", "auc_high")
    if len(found.scores):
        own = found.scores.set_index("score")[[*rest]].to_dict("index")
        yield {"what": "items, by their best match", "planted": None, "of": own}
    for group, rows in list(found.pair_scores.groupby(_GROUP))[:MOST_ROWS]:
        label = printable(" ".join(filter(None, map(str, group))), 60)
        own = rows.set_index("score")[[*rest]].to_dict("index")
        counts = {"planted": int(rows["planted"].max()), "others": int(rows["others"].max())}
        yield {"what": f"pairs, {label}", "of": own} | counts


def _judges(table: pd.DataFrame) -> Iterator[dict[Any, Any]]:
    """Yield the rows of judges, each with whether it is the judge's first."""
    known = ""
    for row in _shown(table):
        yield {**row, "first": row["judge"] != known}
        known = row["judge"]


@style()
def _lines(found: Recalled, labels: dict[tuple[str, str], str]) -> Picture:
    """Draw the share that is found by rank and by cosine, a line for each level."""
    rows, level, near = found.duplicates, level_text(found.level), _near(found)
    drawn = list(labels)
    if len(drawn) > _MOST_LINES:
        spread = np.linspace(0, len(drawn) - 1, _MOST_LINES).round().astype(int)
        drawn = [_least_found(rows, labels, near)[at] for at in spread]
    names = dict(zip(drawn, plain_labels([labels[group] for group in drawn]), strict=True))
    top = max(int(rows["rank"].max()) if rows["rank"].notna().any() else 1, max(RANKS))
    top = max(2, top if found.stored is None else min(top, found.stored))
    ranks = np.unique(np.geomspace(1, top, 40).round())
    lowest = rows["cosine"].min() if rows["cosine"].notna().any() else 0.0
    cosines = np.linspace(np.floor(lowest * 20) / 20, 1.0, 61)
    figure = new_figure(WIDTH, 3.3)
    left, right = figure.subplots(1, 2, sharey=True)
    for group, look in zip(drawn, SERIES, strict=False):
        own = rows[_of(rows, group)]
        items = list(own[_KEYS].itertuples(index=False, name=None))
        for axis, x, name in ((left, ranks, "rank"), (right, cosines, "cosine")):
            value = own[name].to_numpy(float)
            hits = [value <= at if name == "rank" else value >= at for at in x]
            share, low, high = np.array([share_interval(hit, items, found.level) for hit in hits]).T
            band(axis, x, low, high, look["color"])
            axis.plot(x, share, **look, ms=4.5, lw=1.6, markevery=0.13, clip_on=False, zorder=3)
    left.plot(ranks, np.minimum(ranks / found.chunks, 1), **_CHANCE)
    left.set_xscale("log")
    left.xaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50, *[100] * (top >= 100)]))
    left.xaxis.set_minor_locator(NullLocator())
    left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    left.set_xlabel("among so many best matches of the item (log scale)")
    left.set_ylabel("share of planted duplicates")
    left.set_ylim(0, 1)
    left.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    right.set_xlim(cosines[0], 1.0)
    right.set_xlabel("with a cosine of at least")
    for axis in (left, right):
        axis.grid()
    marks = [
        mark(names[group], **look, ls="-", ms=4.5, lw=1.6)
        for group, look in zip(drawn, SERIES, strict=False)
    ]
    legend(figure, [*marks, mark("chunks at random", **_CHANCE)], 4)
    found_near = [
        f"{names[group]} {(rows['rank'] <= near)[_of(rows, group)].mean():.2f}" for group in drawn
    ]
    alt = (
        f"Share of {len(rows):,} planted duplicates that is found, by rank up to {top} and by"
        f" cosine from {numbers(cosines)}; among the {near} best matches: {', '.join(found_near)}."
    )
    caption = (
        f"By kind and level, with {level} bands. Left: how far down an item's matches one must go."
        " Right: how many are missed if matches below a cosine are not looked at; those that are"
        " not stored count as lower than any."
        f"{note_of(len(drawn), len(labels), 'levels', 'from the least to the most found')}"
    )
    return finish(figure, "planted-found", "Planted duplicates that are found", alt, caption)


@style()
def _curves(found: Recalled) -> Picture | None:
    """Draw for each lexical score the ROC curve of items beside that of the cosine."""
    roc = found.roc
    if not len(roc):
        return None
    areas = found.scores.set_index("score")["auc"].to_dict()
    names = lexical_columns(roc["score"].unique()) or ["cosine"]
    titles = [f"{_score_name(name)}: area {areas[name]:.2f}" for name in names]
    figure, axes = panels(
        titles, 3, 2.7, xlabel="share of items without one", ylabel="share of items with one",
        alone=0.5, sharey=True, sharex=True,
    )  # fmt: skip
    for axis, name in zip(axes, names, strict=True):
        axis.plot([0, 1], [0, 1], **_CHANCE)
        for score, color, look in ((name, ORANGE, "-"), ("cosine", BLUE, "--")):
            x, y = _thinned(roc[roc["score"] == score])
            axis.plot(x, y, color=color, ls=look, lw=1.8, clip_on=False)
        axis.set_aspect("equal")
        axis.set_xlim(0, 1)
        axis.set_ylim(0, 1)
        axis.grid()
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
            side.set_major_formatter(PercentFormatter(1.0, decimals=0))
    marks = [mark(f"cosine: area {areas['cosine']:.2f}", color=BLUE, ls="--", lw=1.8)]
    if names != ["cosine"]:
        marks.insert(0, mark("score of the panel", color=ORANGE, lw=1.8))
    legend(figure, [*marks, mark("no better than chance", **_CHANCE)])
    each = ", ".join(f"{drawable(_score_name(str(k)))} {v:.2f}" for k, v in areas.items())
    alt = f"ROC curves of items with a planted duplicate against those without; areas: {each}."
    caption = (
        "Share of items whose best match scores that high or higher, from the highest score to the"
        " lowest. Lexical scores are those of the stored matches, which the cosine has found."
        " Items of which none was planted may have duplicates of their own in the corpus."
    )
    return finish(figure, "planted-roc", "Items with a planted duplicate or none", alt, caption)


def _thinned(rows: pd.DataFrame) -> tuple[Any, Any]:
    """Return the points of a ROC curve, few enough to draw."""
    at = np.unique(np.linspace(0, len(rows) - 1, _ON_A_LINE).astype(int))
    points = rows.iloc[at]
    return points["false_positive_rate"].to_numpy(), points["true_positive_rate"].to_numpy()
