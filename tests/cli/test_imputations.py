"""From words and tasks to a fit with uncertain exposures, on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescontam
from tests.cli.conftest import FEW_DRAWS, Done
from tests.support.made_fit import drawn_from_prior

Run = Callable[..., Done]

CONCEPTS = {"Copy": ["copy", "copies"], "Count": ["count"], "Order": ["order", "sorted"]}
TASKS = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tasks that need one or two of three concepts, a corpus, and responses of two models."""
    rng = np.random.default_rng(1)
    (tmp_path / "tasks").mkdir()
    pair = {"input": [[1, 2]], "output": [[2, 1]]}
    names = [f"t{k:02}" for k in range(TASKS)]
    rows = []
    for name in names:
        (tmp_path / "tasks" / f"{name}.json").write_text(
            json.dumps({"train": [pair], "test": [pair]})
        )
        needed = rng.choice(list(CONCEPTS), size=rng.integers(1, 3), replace=False)
        rows += [(name, concept) for concept in needed]
    pd.DataFrame(rows, columns=["task", "concept"]).to_csv(tmp_path / "concepts.csv", index=False)
    words = [(concept, word) for concept, own in CONCEPTS.items() for word in own]
    pd.DataFrame(words, columns=["concept", "word"]).to_csv(tmp_path / "words.csv", index=False)
    texts = ["copy this"] * 9 + ["count them"] * 40 + ["sorted"] + ["nothing"] * 5
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "corpus.jsonl").write_text(lines)
    responses = [
        {"model": model, "benchmark": "mine", "item": f"{name}-0",
         "correct": int(rng.random() < 0.5)}
        for model in ("m1", "m2") for name in names
    ]  # fmt: skip
    pd.DataFrame(responses).to_csv(tmp_path / "responses.csv", index=False)
    return tmp_path


def test_words_to_exposures_to_imputations_to_a_fit(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    counted = run(
        "exposures", "corpus.jsonl", "--words", "words.csv", "--share", "0.1", "-o", "e.csv"
    )
    assert counted.status == 0
    assert "Wrote the exposures of 3 concepts to e.csv" in counted.out
    assert pd.read_csv("e.csv")["documents"].tolist() == [9, 40, 1]
    made = run(
        "concepts", "tasks", "--concepts", "concepts.csv", "--exposures", "e.csv",
        "--benchmark", "mine", "--imputations", "60", "-o", "i.parquet",
    )  # fmt: skip
    assert made.status == 0
    assert "Contamination of 30 items" in made.out
    assert "bayescontam fit RESPONSES --imputations i.parquet" in made.out
    with drawn_from_prior():
        fitted = run(
            "fit", "responses.csv", "--imputations", "i.parquet", "-o", "fit.nc", "--seed", "1",
            *FEW_DRAWS,
        )  # fmt: skip
    assert fitted.status == 0
    assert "contamination that imputations show" in fitted.out + fitted.err
    assert "60 imputations of 30 items: their contaminations move by 2 factors" in (
        fitted.out + fitted.err
    )
    fit = bayescontam.Fit.from_netcdf("fit.nc")
    assert fit.spec.contamination.exposure == "shared"
    assert 0 < len(fit.exposures()) < TASKS  # the most frequent concept is met as often as any
    assert fit.data["posterior"]["shared"].sizes["factor"] == 2
    update = run("update", "fit.nc", "responses.csv")
    assert update.status == 2
    assert "Traceback" not in update.err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("fit responses.csv --imputations e.csv --covariates e.csv -o f.nc", "give one of them"),
        ("fit responses.csv --imputations absent.csv -o f.nc", "no such file"),
        ("fit responses.csv --imputations words.csv -o f.nc", "imputation: no such column"),
        ("fit responses.csv --imputations i.csv -o i.csv", "is what the command reads"),
        ("concepts tasks --concepts concepts.csv -o c.csv", "is of use with --exposures"),
        ("concepts tasks --by task -o c.csv", "--by: is of use with --exposures"),
        ("concepts tasks --seed 2 -o c.csv", "--seed: is of use with --exposures"),
        ("concepts tasks --exposures words.csv -o i.csv", "exposure: no such column"),
        ("concepts tasks --exposures words.csv -o i.txt", "i.txt"),
        ("exposures corpus.jsonl --words concepts.csv -o e.csv", "word: no such column"),
        ("exposures absent --words words.csv -o e.csv", "absent"),
    ],
)
def test_bad_input_is_one_clear_message(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, line: str, problem: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "i.csv").write_text("imputation,benchmark,item,contamination\n1,b,i,0.5\n")
    before = sorted(path.name for path in folder.iterdir())
    done = run(*line.split())
    assert done.status == 2
    assert problem in done.err
    assert "Traceback" not in done.err
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("corpus", "out"),
    [("docs/a.parquet",) * 2, ("docs", "docs/e.parquet"), ("docs/*.csv", "docs/e.csv")],
)
def test_exposures_do_not_go_into_their_corpus(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, corpus: str, out: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "docs").mkdir()
    pd.DataFrame({"text": ["copy this"]}).to_parquet("docs/a.parquet")
    before = Path("docs/a.parquet").read_bytes()
    done = run("exposures", corpus, "--words", "words.csv", "--out", out)
    assert done.status == 2
    assert "is what the command reads" in done.err or "lies within what the command" in done.err
    assert [path.name for path in Path("docs").iterdir()] == ["a.parquet"]
    assert Path("docs/a.parquet").read_bytes() == before
