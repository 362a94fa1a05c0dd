"""Reproductions written by hand: a study's file, and findings with every kind of picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.published_tables import read_published
from bayescontam.evidence.curve import Curve
from bayescontam.inference.result import Fit
from bayescontam.published import study as running
from bayescontam.published.findings import Comparison, Findings, PictureData, TableData
from bayescontam.published.study import Study
from bayescontam.specs.study import ReproductionSpec

HOSTILE = "<script>document.title=0</script>"
TEXT = f"""
kind = "reproduction"
summary = "What was printed {HOSTILE}"
analysis = "decomposition"
published = "arc_decomposition"
question = "Is it so?\\n\\nA second paragraph {HOSTILE}."
data = "Made up."
model = "None."
meaning = "Nothing."
limits = "All."
[settings]
tables = 3
[full]
tables = 7
"""
NAN = float("nan")


def spec(text: str = TEXT, name: str = "made") -> ReproductionSpec:
    return ReproductionSpec.parse(text, f"{name}.toml")


def study(folder: Path, settings: dict[str, Any], published: str = "", **changes: Any) -> Study:
    """Return a study with these settings; nothing is shown."""
    table = read_published(published)
    return Study(spec(), settings, table, folder, **changes)


class Quick(Study):
    """A study whose fits are short: good for whether things work, not for what they say."""

    def fit(self, *given: Any, **settings: Any) -> Fit:
        return super().fit(*given, **{"draws": 150, "tune": 200, "chains": 2, **settings})

    def curve(self, *given: Any, **settings: Any) -> Curve:
        return super().curve(*given, **{"draws": 150, "tune": 200, "chains": 2, **settings})


def findings() -> Findings:
    """Return findings with every kind of picture, and names that could break a page."""
    intervals = pd.DataFrame(
        {
            "label": ["a", HOSTILE, "a"], "series": ["ours", "ours", "theirs"],
            "mean": [0.25, 0.5, 0.75], "low": [0.2, 0.4, np.nan], "high": [0.3, 0.6, np.nan],
            "truth": [0.26, np.nan, np.nan],
        }
    )  # fmt: skip
    curves = pd.DataFrame(
        {"x": [0.0, 1.0], "series": "line", "mean": [0.1, 0.9], "low": 0.0, "high": [0.2, 1.0]}
    )
    shares = pd.DataFrame(
        {
            "value": [0.0, 1.0, 2.0, 2.0],
            "series": ["a", "a", "b", "b"],
            "panel": ["p", "p", "q", "q"],
        }
    )
    grid = pd.DataFrame({"row": ["r", "s"], "column": "c", "value": [0.125, np.nan]})
    return Findings(
        f"A headline {HOSTILE}",
        (
            Comparison("slope", "A | b", 0.79, -0.153, 1.729, 0.5, 0.1, 0.9, "other draws"),
            Comparison("gap", "", 0.12, NAN, NAN, 0.05, 0.0, 0.1, HOSTILE),
            Comparison("spread", "", 0.07, NAN, NAN, 0.08, NAN, NAN, "one number"),
        ),
        (
            PictureData("intervals", "Some intervals", "A caption.", intervals, "accuracy", ""),
            PictureData("curves", "A curve", "", curves, "x", "accuracy"),
            PictureData("shares", "Two shares", "", shares.assign(published=1.5), "x", "share"),
            PictureData("grid", "A grid", "", grid, "concept", "model"),
        ),
        (TableData("A table, 95 %", "Its caption.", intervals),),
        ("A note.",),
    )


def with_analysis(monkeypatch: pytest.MonkeyPatch, analyse: Any) -> None:
    """Put `analyse` in the place of every script."""
    monkeypatch.setattr(running, "analysis_of", lambda name: analyse)


RUN = {"started": "2000-01-01", "seconds": 1.0, "command": "", "full": False, "data": False,
       "seed": 1, "versions": {}}  # fmt: skip
