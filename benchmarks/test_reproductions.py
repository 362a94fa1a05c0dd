"""Reproductions by simulation at their default size, and a small one with trained models.

Run by ``make bench-all``.
"""

import time
from pathlib import Path

import pytest

from bayescontam.published.study import run_reproduction
from bayescontam.report.published_page import write_reproduction_report
from tests.support.whole_studies import assert_becomes_a_page

NAMES = ["arc-decomposition", "arc-versions", "eight-models", "novelty"]
MOST_SECONDS = 600
"""Of two quiet cores; processor seconds of both are twice as many."""


@pytest.mark.parametrize("name", NAMES)
def test_a_published_study_is_done_again_within_ten_minutes(name: str, tmp_path: Path) -> None:
    started = time.process_time()
    found = run_reproduction(name, tmp_path)
    seconds = time.process_time() - started
    print(f"\n{name}: {seconds:.0f} processor seconds. {found.headline}")
    for note in found.notes:
        print(note)
    assert seconds < 2 * MOST_SECONDS
    assert not [note for note in found.notes if "failed the check" in note]
    write_reproduction_report(tmp_path)
    again = time.process_time()
    second = run_reproduction(name, tmp_path)
    assert time.process_time() - again < 0.5 * seconds  # finished fits are used again
    assert second.headline == found.headline


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_trained_models_become_a_page(tmp_path: Path) -> None:
    assert_becomes_a_page("in-vivo", tmp_path)
