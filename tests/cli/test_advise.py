"""Verb ``advise``: notes on the data whatever the format."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Done
from tests.support.simulated_responses import simulate

Run = Callable[..., Done]


@pytest.mark.parametrize("kind", ["table", "csv", "json"])
def test_what_was_changed_in_the_data_is_noted(run: Run, tmp_path: Path, kind: str) -> None:
    frame = simulate(0, models=3, benchmarks=1, items=12).responses
    frame = frame.assign(correct=frame.pop("n_correct").astype(float)).drop(columns="n_trials")
    frame.loc[frame.index[:5], "correct"] = None
    pd.DataFrame(frame).to_csv(tmp_path / "r.csv", index=False)
    done = run("advise", tmp_path / "r.csv", "--drop-missing", "--format", kind)
    assert done.status == 0, done.err
    assert "dropped 5 of 36 responses" in " ".join(done.err.split())
