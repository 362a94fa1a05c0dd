"""Page of a curve: one HTML file that says how P(duplicate | cosine) was learnt."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescontam.inference.checks import Outcome
from bayescontam.names import listed, visible
from bayescontam.report import curve_figures, curve_tables, words
from bayescontam.report.template import fill
from bayescontam.report.verdicts import checks_sentence
from bayescontam.storage import write_text

if TYPE_CHECKING:
    from bayescontam.evidence.duplicates import Curve

_MOST_NAMED = 4
"""Benchmarks that the verdict line names."""


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
    halves = curve_tables.halves(curve)
    outcomes = {check.outcome for check in curve.checks()} or {Outcome.PASSED}
    worst = next(kind for kind in reversed(Outcome) if kind in outcomes)
    content = {
        "names": names,
        "changed": [row for known in names.values() for row in known.changed()],
        "level": words.level_text(curve.level),
        "size": _size(curve),
        "spec_name": visible(curve.record["spec"]["name"]),
        "created": curve.record["created"],
        "verdict": verdict(curve, halves),
        "outcome": worst.value if len(curve.judged) else "failed",
        "judged": len(curve.judged),
        "halves": [
            {**row, "text": curve_tables.half_text(row)} for row in halves.to_dict("records")
        ],
        "parameters": curve_tables.parameters(curve),
        "judges": curve_tables.judges(curve),
        "pictures": {
            "duplicates": curve_figures.duplicates(curve, halves),
            "shares": curve_figures.shares(curve),
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
    return "; ".join(visible(part, 600) for part in parts)


def verdict(curve: "Curve", halves: pd.DataFrame) -> str:
    """Return the sentence on top: whether the checks hold, and where P = 0.5."""
    rows = halves.head(_MOST_NAMED).to_dict("records")
    where = "; ".join(
        f"{curve_tables.half_text(row)} in '{visible(row['benchmark'], 40)}'" for row in rows
    )
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
        ("Judges", listed(curve.judges, 20) if curve.judges else "none"),
        ("Pairs", f"{record['pairs']:,}"),
        ("Command", record["command"] or "not recorded (made from Python)"),
        ("Made", record["created"]),
        ("Sampler", sampler),
        ("Seed", str(record["seed"])),
        ("Intervals", f"{words.level_text(curve.level)}, equal-tailed"),
        ("Versions", _pairs(record.get("versions") or {})),
    ]
    return [(name, visible(value, 20_000)) for name, value in rows if value]


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
