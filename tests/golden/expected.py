"""Texts and numbers on disk that tests are held against, and the way to write them anew.

With ``BAYESCONTAM_REWRITE_GOLDEN=1`` every test that uses them writes them and fails, so that
no round of tests passes by it: look at the difference, commit it, and run without.
"""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

REWRITE = "BAYESCONTAM_REWRITE_GOLDEN"
_MASKS = (
    (r"\x1b\[[0-9;]*m", ""),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00|Z| UTC)?", "DATE"),
    (r"\b\d+(\.\d+)? (s|min|ms)\b", "TIME"),
    (r"bayescontam \d+\.\d+\.\d+\S*", "bayescontam VERSION"),
    (r'"(pymc|nutpie|arviz|numpy|pandas|xarray|python|bayescontam)": "[^"]*"', r'"\1": "VERSION"'),
    (r'"(sampling|judging|seconds)": [\d.]+', r'"\1": TIME'),
)

_OF_RANKS = {"r_hat": 0.01}
"""Largest relative difference of statistics of ranks: draws that are equal but for rounding, which
differs between processors, change places."""


def rewriting() -> bool:
    """Return whether files are to be written anew."""
    return os.environ.get(REWRITE) == "1"


def masked(text: str, *folders: Path) -> str:
    """Return a text without what differs between runs: dates, times, versions and folders."""
    for folder in folders:
        text = text.replace(str(folder), "FOLDER")
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def check_text(path: Path, text: str) -> None:
    """Hold a text against a file."""
    if rewriting():
        write_expected(path, text)
    assert path.exists(), f"{path.name}: there is no such file; {REWRITE}=1 writes it"
    assert text == path.read_text(encoding="utf-8"), f"differs from {path}; see {REWRITE}"


def check_numbers(path: Path, found: Any, rel: float = 1e-8) -> None:
    """Hold numbers, in lists and tables by name, against a JSON file."""
    plain = json.loads(json.dumps(found))
    if rewriting():
        write_expected(path, json.dumps(plain, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    assert path.exists(), f"{path.name}: there is no such file; {REWRITE}=1 writes it"
    wanted = json.loads(path.read_text(encoding="utf-8"))
    assert differences(plain, wanted, rel) == []


def write_expected(path: Path, text: str) -> None:
    """Write a file anew, and fail."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    pytest.fail(f"{path.name} was written anew; run without {REWRITE}")


def differences(found: Any, wanted: Any, rel: float, where: str = "") -> list[str]:
    """List the places where two contents of JSON differ, numbers by more than `rel`."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        odd = [f"{where}/{key}: only in one" for key in sorted(found.keys() ^ wanted.keys())]
        same = [key for key in found if key in wanted]
        return odd + [
            d
            for key in same
            for d in differences(
                found[key], wanted[key], max(rel, _OF_RANKS.get(key, 0.0)), f"{where}/{key}"
            )
        ]
    if isinstance(found, list) and isinstance(wanted, list):
        if len(found) != len(wanted):
            return [f"{where}: {len(found)} entries, not {len(wanted)}"]
        pairs = enumerate(zip(found, wanted, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, rel, f"{where}/{i}")]
    if _is_number(found) and _is_number(wanted):
        if _near(float(found), float(wanted), rel):
            return []
    elif found == wanted:
        return []
    return [f"{where}: {found!r}, not {wanted!r}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _near(a: float, b: float, rel: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    # What is zero but for rounding is zero.
    return math.isclose(a, b, rel_tol=rel, abs_tol=rel * 1e-3)


_NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e-?\d+")


def check_output(path: Path, text: str) -> None:
    """Hold what a command printed against a file: its words, and its numbers up to rounding.

    Numbers with a decimal point may differ by one in the last digit that is printed, and long
    ones by a millionth: how a processor rounds must not matter.
    """
    if rewriting():
        write_expected(path, text)
    assert path.exists(), f"{path.name}: there is no such file; {REWRITE}=1 writes it"
    wanted = path.read_text(encoding="utf-8")
    assert _NUMBER.sub("#", text) == _NUMBER.sub("#", wanted), f"differs from {path}; see {REWRITE}"
    pairs = zip(_NUMBER.findall(text), _NUMBER.findall(wanted), strict=True)
    assert [(found, known) for found, known in pairs if not _alike(found, known)] == []


def _alike(found: str, wanted: str) -> bool:
    digits = len(wanted.partition(".")[2])
    unit = 10.0**-digits if "e" not in wanted and digits <= 6 else 1e-10
    return math.isclose(float(found), float(wanted), rel_tol=1e-6, abs_tol=1.01 * unit)
