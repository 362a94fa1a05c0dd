"""The part of a scan's page on prevalence: tables, pictures, and what they say in words."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayescontam._format import interval, level_text, percent
from bayescontam._text import printable
from bayescontam._types import FloatArray
from bayescontam.evidence.covariates import ItemContamination
from bayescontam.evidence.curve import halves
from bayescontam.evidence.kinds import kind_words
from bayescontam.evidence.prevalence import benchmarks_of, column_of, is_number
from bayescontam.evidence.prevalence_tables import prevalence_tables
from bayescontam.evidence.trend import trend_lines
from bayescontam.inference.checks import Outcome, checks_sentence, worst
from bayescontam.report.curve_page import duplicates
from bayescontam.report.evidence import Evidence
from bayescontam.report.matches import MOST_ITEMS, anchors
from bayescontam.report.plots import Picture
from bayescontam.report.prevalence_figures import by_column, by_kind, by_matches, by_source

_MOST_NAMED = 4
"""Benchmarks that the verdict line names."""
MOST_ROWS = 200
"""Rows of a table."""


def prevalence_section(
    evidence: Evidence,
    items: pd.DataFrame | None = None,
    by: str | None = None,
    beside: Evidence | None = None,
) -> dict[str, Any]:
    """Return tables and pictures of prevalence; `beside` is of another curve of the scan."""
    level = evidence.curve.level
    tables = prevalence_tables(evidence.weighed, level, items, by)
    table, rates = tables["prevalence"], tables["duplicate_rate"]
    parts = table[table["by"].isin(["source", "kind"])]
    if len(evidence.weighed.sources) < 2:
        parts = parts[parts["by"] != "source"]
    rows = _rows(table, tables["duplicate_numbers"])
    judged = len(evidence.curve.judged)
    in_tail = table[table["by"] == "tail"].set_index("benchmark")
    return {
        "level": level_text(level),
        "of_kinds": kind_words(evidence.curve.kinds),
        "verdict": _verdict(rows, evidence),
        "outcome": worst(evidence.curve.checks()).value if judged else "failed",
        "rows": rows,
        **_listed("parts", parts),
        "rates": [
            {**row, "in_tail": in_tail.loc[row["benchmark"]].to_dict()}
            for row in rates.head(MOST_ROWS).to_dict("records") if row["sampled"]
        ],
        **_listed("groups", tables.get("prevalence_by")),
        "trends": tables["prevalence_trend"].to_dict("records")
        if "prevalence_trend" in tables else [],
        "column": printable(by or "", 60),
        "pictures": list(_pictures(evidence, tables, items, by, beside)),
        "most": most_contaminated(evidence),
        "n_items": len(evidence.items),
        "judged": judged,
        "shares": _shares(evidence),
        "rest": _rest(evidence),
    }  # fmt: skip


def _listed(name: str, table: pd.DataFrame | None) -> dict[str, Any]:
    """Return rows of a table that a page lists, and their number in all."""
    if table is None:
        return {name: [], f"n_{name}": 0}
    rows = table.head(MOST_ROWS).to_dict("records")
    shown = [{**row, "group": printable(str(row["group"]), 60)} for row in rows]
    return {name: shown, f"n_{name}": len(table)}


def _pictures(
    evidence: Evidence,
    tables: dict[str, pd.DataFrame],
    items: pd.DataFrame | None,
    by: str | None,
    beside: Evidence | None,
) -> Iterator[Picture]:
    level = evidence.curve.level
    drawn, every = [evidence], [tables]
    if beside is not None:
        drawn, every = (
            [evidence, beside],
            [tables, prevalence_tables(beside.weighed, level, items, by)],
        )
    labels = [one.label for one in drawn]
    for number, one in enumerate(drawn):
        curve = duplicates(one.curve, halves(one.curve))
        title = f"{curve.title}, {one.label}" if beside else curve.title
        yield replace(curve, name=f"curve-{number + 1}", title=title)
    views = {
        view: {
            label: own["prevalence"][own["prevalence"]["by"] == view]
            for label, own in zip(labels, every, strict=True)
        }
        for view in ("matches", "source")
    }
    yield by_matches(views["matches"], level)
    if len(evidence.weighed.sources) > 1:
        yield by_source(views["source"], level)
    if items is not None and by is not None:
        groups = [own["prevalence_by"] for own in every]
        series = {
            label: table[table["kind"] == ""] for label, table in zip(labels, groups, strict=True)
        }
        yield by_column(series, by, level, _lines(evidence.weighed, items, by))
        kinds = by_kind(groups[0], by, level)
        if kinds is not None:
            yield kinds


def _lines(
    weighed: ItemContamination, items: pd.DataFrame, by: str
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return the trend of each benchmark on a numeric column: values, and draws of shares there."""
    values, lines = column_of(weighed, items, by), {}
    if is_number(values):
        for benchmark, own in benchmarks_of(weighed):
            x = values[own].to_numpy(float)
            if x.std() > 0:
                at = np.linspace(x.min(), x.max(), 61)
                lines[benchmark] = at, trend_lines(1 - weighed.none[:, own], x, at, 0)
    return lines


def _rows(table: pd.DataFrame, documents: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return one row for each benchmark: whole corpus, scanned part, numbers of documents."""
    found = {by: part.set_index("benchmark") for by, part in documents.groupby("by")}
    views = {by: part.set_index("benchmark") for by, part in table.groupby("by")}
    return [
        {
            "benchmark": name,
            "items": int(views["corpus"].loc[name, "items"]),
            "corpus": views["corpus"].loc[name].to_dict(),
            "scanned": views["scanned"].loc[name].to_dict(),
            "documents": found["corpus"].loc[name].to_dict(),
            "documents_scanned": found["scanned"].loc[name].to_dict(),
        }
        for name in list(found["corpus"].index)[:MOST_ROWS]
    ]


def _verdict(rows: list[dict[Any, Any]], evidence: Evidence) -> str:
    """Return how many items have a duplicate, and whether that may be believed."""
    curve, outcome = evidence.curve, worst(evidence.curve.checks())
    named = []
    for row in rows[:_MOST_NAMED]:
        found = row["corpus"]
        count = f"{found['n_mean']:,.0f} {interval(found['n_low'], found['n_high'], 0)}"
        named.append(f"{count} of {row['items']:,} of '{printable(str(row['benchmark']), 40)}'")
    if more := len(rows) - len(named):
        named.append(f"{more:,} more benchmarks below")
    text = (
        f"Items with at least one duplicate{kind_words(curve.kinds)} in the corpus"
        f" ({level_text(curve.level)} interval):"
        f" {'; '.join(named)}."
    )
    if not len(curve.judged):
        return f"{text} Nothing was judged: these numbers rest on a prior, and are no finding."
    if outcome is Outcome.FAILED:
        return f"{text} Do not rely on it yet: checks of the curve failed, see its own page."
    if outcome is Outcome.CAUTION:
        return f"{text} Curve: {checks_sentence(curve.checks())}, see its own page."
    return text


def most_contaminated(evidence: Evidence) -> list[dict[Any, Any]]:
    """Return the items that most probably have duplicates, as rows of a table."""
    kinds = [name for name in evidence.items if str(name).startswith("kind_")]
    places = anchors(evidence.scan)
    return [
        {
            **row,
            "anchor": places[row["benchmark"], row["item"]],
            "item": printable(str(row["item"]), 60),
            "kinds": _kinds(row, kinds),
        }
        for row in evidence.ranked().head(MOST_ITEMS).to_dict("records")
    ]


def _kinds(row: dict[Any, Any], columns: list[Any]) -> str:
    """Return the kinds that an item has duplicates of with a probability of at least 0.1."""
    likely = sorted((name for name in columns if row[name] >= 0.1), key=lambda name: -row[name])
    return ", ".join(f"{name.removeprefix('kind_')} {row[name]:.2f}" for name in likely)


def _shares(evidence: Evidence) -> str:
    """State what share of the corpus was scanned, and what follows for the rest."""
    pairs = list(zip(evidence.weighed.sources, evidence.weighed.shares.tolist(), strict=True))
    if all(share == 1 for _, share in pairs):
        return "The whole corpus was searched: nothing had to be scaled up."
    named = [f"{percent(share)} of {printable(name, 40)}" for name, share in pairs[:20]]
    more = f" and {len(pairs) - 20} more sources" if len(pairs) > 20 else ""
    return (
        f"Documents that were searched: {', '.join(named)}{more}; short ones were not. What the"
        " rest holds is inferred from how duplicates are spread over the items."
    )


def _rest(evidence: Evidence) -> str:
    """Say how much of the expected number rests on matches that nobody can read."""
    scanned = float(evidence.items["expected_scanned"].sum())
    rest = float(evidence.items["expected_rest"].sum())
    share = rest / scanned if scanned > 0 else 0.0
    text = (
        f"Of the duplicates expected in the scanned part, {percent(share)} are among matches"
        " that the scan counted but did not list."
    )
    if share > 0.2:
        text += (
            " That is much: it rests on the lower end of the curve. Judge pairs at low cosines, or"
            " list more matches of each item (top_k)."
        )
    return text
