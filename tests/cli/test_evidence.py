"""Command ``evidence``: what it writes and prints, and what it refuses."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.covariates import read_covariates
from bayescontam.evidence import model_evidence
from tests.cli.conftest import FEW_DRAWS, Done
from tests.support.made_curve import from_prior
from tests.support.made_scores import made_scores

Run = Callable[..., Done]


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where a table of losses is, of which low ones are of seen items."""
    monkeypatch.chdir(tmp_path)
    table = made_scores(np.random.default_rng(2), [0.4], 2.5, 100, 60, counts=False)
    table = table.drop(columns="seen").assign(score=-table["score"])
    table.rename(columns={"score": "loss", "control": "new"}).to_csv("losses.csv", index=False)


NAMED = ("--column", "score=loss", "--column", "control=new", "--lower-is-seen", "--seed", "1")


def test_covariates_are_written_and_shares_printed(
    run: Run, scores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Also by the prior scores of seen items tend to be the higher ones.
    monkeypatch.setattr(model_evidence, "sample_model", from_prior)
    done = run("evidence", "losses.csv", "-o", "c.csv", *NAMED, *FEW_DRAWS)
    assert done.status == 0
    assert re.search(r"model +items +controls +share +", done.out), done.out
    assert re.search(r"m0 +100 +60 +0\.\d+", done.out), done.out
    assert "Assumed: controls have the scores that the other items would have had" in done.out
    assert "Seed 1. Wrote c.csv (160 rows)." in done.out
    covariates = read_covariates("c.csv").frame
    assert covariates["contamination"].between(0, 1).all()
    table = pd.read_csv("losses.csv")
    rows = covariates["control"] == 0
    # Low losses are those of seen items.
    assert np.corrcoef(table.loc[rows, "loss"], covariates.loc[rows, "p_duplicate"])[0, 1] < -0.5
    again = run("evidence", "losses.csv", "-o", "again.csv", *NAMED, *FEW_DRAWS, "--json")
    found = json.loads(again.out)
    assert found["models"][0]["model"] == "m0"
    assert found["seed"] == 1
    assert {"name", "outcome", "sentence"} <= found["checks"][0].keys()
    assert Path("again.csv").read_text() == Path("c.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("losses.csv", "-o", "c.csv"), r"control: no such column"),
        (("losses.csv", "-o", "losses.csv"), r"is what the command reads"),
        (("losses.csv", "-o", "c.xlsx", *NAMED), r"c\.xlsx: "),
        (("none.csv", "-o", "c.csv"), r"none\.csv: no such file"),
        (("losses.csv", "-o", "c.csv", "--column", "score"),
         r"--column: got 'score'; allowed is NAME=COLUMN, each name once"),
        (("losses.csv", "-o", "c.csv", "--column", "control=model", "--column", "score=loss"),
         r"control: got 'm0'.*, allowed is 1 \(known clean"),
        (("losses.csv", "-o", "c.csv", *NAMED, "--level", "3"), r"level: got 3"),
        (("losses.csv", "-o", "c.csv", *NAMED, "--draws", "1"), r"draws: got 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(
    run: Run, scores: None, arguments: tuple[str, ...], message: str
) -> None:
    done = run("evidence", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    assert re.search(message, done.err), done.err
    assert not Path("c.csv").exists()
