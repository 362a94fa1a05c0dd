"""A scan that is killed ten times, in every stage, finds what an uninterrupted one does.

Run by ``make bench-all``; takes about two minutes.
"""

import sys
from pathlib import Path

import pytest

from tests.support.killed_scans import assert_killing_changes_nothing, write_corpus

MOMENTS = [
    *[(stage, 0) for stage in ("items", "read", "chunk")],
    *[("search", shards) for shards in (0, 25, 60, 110, 150, 185)],
    ("write", 0),
]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_ten_times(tmp_path: Path) -> None:
    assert_killing_changes_nothing(write_corpus(tmp_path), MOMENTS)
