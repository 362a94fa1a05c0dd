"""Scans that are killed again and again find what an uninterrupted one does.

More kills, in every stage, are in ``benchmarks/test_kill.py``.
"""

import sys
from pathlib import Path

import pytest

from tests.support.killed_scans import assert_killing_changes_nothing, write_corpus


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_in_three_stages(tmp_path: Path) -> None:
    moments = [("read", 0), ("search", 60), ("write", 0)]
    assert_killing_changes_nothing(write_corpus(tmp_path), moments)
