"""Where the real data lie that some tests read, and names that people may give to things."""

import os
from pathlib import Path

import pytest
from hypothesis import strategies as st

_ROOT = Path(__file__).resolve().parents[2]

HOSTILE = [
    "NA", "nan", "null", "None", "007", "True", "1e5", "1.0", " padded ", "Case", "case",
    "two\nlines", "carriage\rreturn", "both\r\n", 'quo"te', "'", "a,b", "a\tb", "a;b", "#x",
    "\x01\x1b[31m", "a\u2028b", "a\x85b", "\ufeffbom", "é", "e\u0301", "😀", "=1+1", "<b>",
    "x" * 10_000,
]  # fmt: skip
"""Names that readers tend to change."""


def shared(name: str) -> Path:
    """Return the path of a file of real data; skip the test where it is absent."""
    folder = Path(os.environ.get("BAYESCONTAM_DATA") or _ROOT.parent / "shared" / "data")
    if not (folder / name).exists():
        pytest.skip(f"no shared data: {name} is not in {folder}; see BAYESCONTAM_DATA")
    return folder / name


def names() -> st.SearchStrategy[str]:
    """Return a strategy of names: any Unicode text that is not blank and holds no NUL."""
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    texts = st.text(letters, min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
    return st.sampled_from(HOSTILE) | texts
