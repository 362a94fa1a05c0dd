"""Every study with a script, small, from its settings to its page."""

from pathlib import Path

import pytest

from bayescontam.specs.registry import load_study, shipped_studies
from tests.support.whole_studies import SMALL, assert_becomes_a_page

LONG = "in-vivo"
"""Trains models, which takes minutes: in ``benchmarks/test_reproductions.py``."""


def test_every_such_study_is_run() -> None:
    studies = {name for name in shipped_studies() if load_study(name).kind == "reproduction"}
    assert studies == set(SMALL)


# Counts that draws of a prior make next to impossible have weights that ArviZ's smoothing divides
# by, of fits that nothing is required of.
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(SMALL) - {LONG}))
def test_a_study_becomes_a_page(name: str, tmp_path: Path) -> None:
    assert_becomes_a_page(name, tmp_path)
