"""Tables as people have them, from the command line up to the model that would be fitted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import bayescontam.inference.pipeline
from bayescontam.data.responses import Responses
from bayescontam.errors import FitError
from bayescontam.specs.model import ModelSpec
from tests.cli.conftest import Done

MODELS, ITEMS = ("a", "b", "c"), range(8)
PLAIN = "model,benchmark,item,correct\n" + "".join(
    f"{model},quiz,q{item},{(item + len(model)) % 2}\n" for model in MODELS for item in ITEMS
)


class Fitting:
    """What the command line would have fitted."""

    table: Responses
    spec: ModelSpec


@pytest.fixture
def fit(
    run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Done, Fitting]]:
    """Give a function that writes files, runs ``fit`` on the first and stops before it samples."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, **files: str) -> tuple[Done, Fitting]:
        fitting = Fitting()

        def stop(table: Responses, spec: ModelSpec, *_: Any) -> NoReturn:
            fitting.table, fitting.spec = table, spec
            raise FitError("stopped")

        monkeypatch.setattr(bayescontam.inference.pipeline, "fit_responses", stop)
        for name, text in files.items():
            (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
        return run("fit", f"{next(iter(files))}.csv", *arguments, "--out", "fit.nc"), fitting

    return call


Fit = Callable[..., tuple[Done, Fitting]]


def test_a_german_spreadsheet(fit: Fit) -> None:
    text = "model;benchmark;item;correct;contamination\r\n" + "".join(
        f"m;quiz;q{item};{item % 2};0,{item}\r\n" for item in ITEMS
    )
    done, fitting = fit(table="\ufeff" + text)
    assert fitting.table.frame["contamination"].tolist() == [item / 10 for item in ITEMS]
    assert "note: table.csv: columns are separated by ';'" in done.err
    assert "note: table.csv: decimal commas in 'contamination': 0,5 was read as 0.5" in done.err


FLAGGED = "benchmark,item,contamination\nquiz,q1,1\nquiz,q6,1\n"


def test_a_list_of_what_was_found(fit: Fit) -> None:
    done, fitting = fit(
        "--covariates", "found.csv", "--missing-contamination", "zero", table=PLAIN, found=FLAGGED
    )
    assert fitting.table.frame["contamination"].tolist() == [0, 1, 0, 0, 0, 0, 1, 0] * 3
    assert "18 of 24 responses (6 items) without a covariate got contamination 0" in done.err
    assert "caution" not in done.err


def test_imputing_a_list_of_what_was_found_cautions_before_the_fit(fit: Fit) -> None:
    done, fitting = fit(
        "--covariates", "found.csv", "--missing-contamination", "impute", "--quiet",
        table=PLAIN, found=FLAGGED,
    )  # fmt: skip
    caution = next(line for line in done.err.splitlines() if line.startswith("caution: "))
    assert caution.startswith("caution: contamination of all items of 'quiz' is now 1: its effect")
    assert caution in fitting.table.notes
    assert done.err.index(caution) < done.err.index("stopped")


@pytest.mark.parametrize(
    ("scale", "cells", "read"),
    [("percent", ["0%", "50 %"], [0, 0.5]), ("count", ["0", "8"], [0, 1])],
)
def test_scales_of_responses_and_of_covariates(
    fit: Fit, scale: str, cells: list[str], read: list[float]
) -> None:
    covariates = "benchmark,item,contamination\n" + "".join(
        f"quiz,q{item},{cells[item % 2]}\n" for item in ITEMS
    )
    option = ("--contamination-scale", scale)
    done, fitting = fit(*option, "--covariates", "c.csv", table=PLAIN, c=covariates)
    assert fitting.table.frame["contamination"].tolist() == read * 12
    assert any(note.startswith("contamination is") for note in fitting.table.notes)
    own = PLAIN.replace("correct\n", "correct,contamination\n", 1)
    own = "\n".join(
        f"{line},{cells[int(line.split(',')[2][1:]) % 2]}" if ",q" in line else line
        for line in own.splitlines()
    )
    assert fit(*option, table=own)[1].table.frame["contamination"].tolist() == read * 12
    done, _ = fit(*option, table=PLAIN)
    assert (done.status, "has no column 'contamination'" in done.err) == (2, True)


RELEASED = "benchmark,item,released\n" + "".join(
    f"quiz,q{item},2023-0{item + 1}\n" for item in ITEMS
)
CUTOFF = "model,cutoff\na,2022-12-31\nb,2023-04-15\nc,\n"


def test_dates_compose_the_anchored_model(fit: Fit) -> None:
    files = {"table": PLAIN, "items": RELEASED, "models": CUTOFF}
    options = ("--released", "items.csv", "--cutoff", "models.csv")
    done, _ = fit(*options, **files)
    assert done.status == 2
    assert "no cutoff of 1 of 3 models: 'c'" in done.err
    done, fitting = fit(*options, "--missing-contamination", "drop", **files)
    frame = fitting.table.frame
    assert frame["contamination"].tolist() == [0] * 8 + [1] * 4 + [0] * 4
    assert frame["clean"].tolist() == [1] * 8 + [0] * 8
    assert fitting.spec.contamination.confounding == "anchored"
    assert "1 of 2 models are clean" in done.err
    _, fitting = fit(*options, "--clean", "c", **files)
    assert fitting.table.frame["clean"].tolist() == [1] * 8 + [0] * 8 + [1] * 8
    done, _ = fit(*options, "--missing-contamination", "drop", "--clean-margin", "1", **files)
    assert "0 of 2 models are clean (the cutoff precedes all items by more than 1 day)" in done.err


def test_models_declared_clean_need_a_spec_with_a_use_for_them(fit: Fit) -> None:
    table = PLAIN.replace("correct\n", "correct,contamination\n", 1).replace(",1\n", ",1,0.5\n")
    table = table.replace(",0\n", ",0,0\n")
    _, fitting = fit("--clean", "a", table=table)
    assert fitting.spec.contamination.clean_column == "clean"
    done, _ = fit("--clean", "a", "--model", "single", table=table)
    assert "clean: model spec 'single' does not use the column 'clean'" in done.err
    done, _ = fit("--clean", "A", table=table)
    assert "has no model 'A'; did you mean 'a'?" in done.err
    assert (done.status, done.out) == (2, "")
