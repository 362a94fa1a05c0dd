"""Verb ``mastery``: what it prints below its tables."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.inference.findings import verdict_line
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.sampling import Sampling
from bayescontam.specs.registry import load_model
from tests.cli.conftest import Done
from tests.support.made_fit import drawn_from_prior


def test_intervals_in_the_last_sentences_have_the_level_of_the_tables(
    run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    rng = np.random.default_rng(3)
    rows = [
        (model, "b", f"{concept} {i}", int(rng.random() < p), concept)
        for model, p in {"able": 0.8, "weak": 0.3}.items()
        for concept in ("above", "below")
        for i in range(6)
    ]
    columns = ["model", "benchmark", "item", "correct", "concept"]
    responses = Responses.from_frame(pd.DataFrame(rows, columns=columns))
    options = Options(seed=1, sampling=Sampling(draws=100, chains=2))
    with drawn_from_prior():
        fit = fit_responses(responses, load_model("concepts"), options)
    fit.to_netcdf(tmp_path / "fit.nc")
    assert verdict_line(fit, 0.5) != verdict_line(fit)
    for level in (None, 0.5):
        given = () if level is None else ("--level", level)
        assert verdict_line(fit, level) in run("mastery", tmp_path / "fit.nc", *given).out
