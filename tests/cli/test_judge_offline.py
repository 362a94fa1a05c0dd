"""``judge verbatim``, ``train`` and ``apply`` on the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.judgements import PAIR, Judgements, read_judgements, write_judgements
from bayescontam.evidence.choice import all_pairs
from bayescontam.evidence.trained_judge import train_judge
from bayescontam.scan.results import Scan
from tests.cli.conftest import Done
from tests.support.made_scan import BENCHMARKS, make_scan

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a scan with hostile names and texts; every fourth item is there word for word."""
    return make_scan().write(tmp_path_factory.mktemp("judged") / "a scan")


@pytest.fixture(scope="module")
def judged(scan: Path) -> Judgements:
    """Return verdicts: a duplicate has the words of the item, in any order."""
    pairs = all_pairs(Scan.load(scan))
    words = [set(str(text).split()) for text in pairs["text"]]
    there = [set(str(text).split()) for text in pairs["chunk_text"]]
    same = [len(a & b) / max(len(a), 1) > 0.9 for a, b in zip(words, there, strict=True)]
    table = pairs[list(PAIR)].assign(judge="Ada", is_duplicate=np.array(same, int))
    return Judgements.from_frame(table)


@pytest.fixture(scope="module")
def judge(scan: Path, judged: Judgements, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a judge that learnt from these."""
    folder = tmp_path_factory.mktemp("judge") / "j"
    train_judge(Scan.load(scan), judged, name="small", seed=2).save(folder)
    return folder


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: Judgements) -> None:
    monkeypatch.chdir(tmp_path)
    write_judgements("ada.csv", judged)


def test_verbatim_copies_are_judged(run: Run, scan: Path) -> None:
    done = run("judge", "verbatim", scan, "--out", "v.csv", "--quiet")
    assert (done.status, done.out, done.err) == (0, "", "")
    pairs = all_pairs(Scan.load(scan))
    frame = read_judgements("v.csv").frame
    assert len(frame) == len(pairs)
    table = frame.merge(pairs, on=list(PAIR))
    plain = [
        str(item) in str(chunk)
        for item, chunk in zip(table["text"], table["chunk_text"], strict=True)
    ]
    known = table["is_duplicate"].notna().to_numpy()
    assert sum(plain) >= 10
    assert (table["is_duplicate"][known] >= np.array(plain, int)[known]).all()
    assert set(table["kind"][table["is_duplicate"] == 1]) == {"exact"}
    # Some hostile texts have fewer than eight words.
    assert frame["comment"].str.startswith("unjudged: the item has fewer than 8 words").any()


def test_verbatim_of_some_pairs_and_again(run: Run, scan: Path) -> None:
    done = run("judge", "verbatim", scan, "-o", "v.csv", "--per-item", 2, "--benchmark", "quiz")
    lines = done.out.splitlines()
    assert lines[-1] == "Wrote v.csv (60 judgements)."
    assert lines[-2].startswith("rule:verbatim judged ")
    assert set(read_judgements("v.csv").frame["benchmark"]) == {"quiz"}
    before = Path("v.csv").read_bytes()
    again = run("judge", "verbatim", scan, "-o", "v.csv", "--per-item", 2, "--benchmark", "quiz")
    assert (again.out, Path("v.csv").read_bytes()) == (done.out, before)
    # A shorter limit judges more, and adds its verdicts where there were none.
    short = read_judgements("v.csv").frame["is_duplicate"].isna().sum()
    options = ("--per-item", 2, "--benchmark", "quiz", "--min-words", 1)
    assert run("judge", "verbatim", scan, "-o", "v.csv", *options).status == 0
    assert read_judgements("v.csv").frame["is_duplicate"].isna().sum() < short


def test_train_and_apply(run: Run, scan: Path, judged: Judgements, judge: Path) -> None:
    done = run("judge", "train", scan, "ada.csv", "--name", "small", "--out", "j", "--seed", 2)
    assert done.status == 0
    out = done.out.splitlines()
    assert out[0].startswith(f"trained:small learnt from {len(judged.frame):,} pairs of 60 items,")
    assert out[-1] == f"bayescontam judge apply '{scan}' j --out judgements.csv"
    assert "judge - cosine alone" in done.out
    assert Path("j/judge.json").read_bytes() == (judge / "judge.json").read_bytes()
    report = json.loads(Path("j/validation.json").read_text())
    assert report["judge"] == "trained:small"
    done = run("judge", "apply", scan, "j", "--out", "all.parquet")
    assert done.status == 0
    frame = read_judgements("all.parquet").frame
    assert len(frame) == len(judged.frame)
    counts = report["true_positive"] + report["false_positive"]
    # Of pairs that it learnt from the verdicts are the held-out ones.
    assert frame["is_duplicate"].sum() == counts
    assert done.out.splitlines()[-1] == f"Wrote all.parquet ({len(frame):,} judgements)."


def test_apply_to_some_pairs(run: Run, scan: Path, judge: Path) -> None:
    done = run("judge", "apply", scan, judge, "-o", "a.csv", "--pairs", 30, "--seed", 4, "--quiet")
    assert (done.status, done.out) == (0, "")
    assert len(read_judgements("a.csv").frame) == 30
    refused = run("judge", "apply", scan, judge, "-o", "b.csv", "--per-item", 1, "--seed", 4)
    assert refused.status == 2
    assert "--seed: is of the choice of --pairs, and none is made; leave it out" in refused.err
    run("judge", "apply", scan, judge, "-o", "b.csv", "--per-item", 1, "--benchmark", BENCHMARKS[1])
    frame = read_judgements("b.csv").frame
    assert (len(frame), set(frame["benchmark"])) == (30, {BENCHMARKS[1]})


def test_errors(run: Run, scan: Path, judge: Path) -> None:
    cases = {
        (
            "judge",
            "train",
            scan,
            "ada.csv",
            "--name",
            "x",
            "--out",
            judge,
        ): "j: holds a trained judge; give another name, or remove it",
        ("judge", "apply", scan, "none", "-o", "a.csv"): (
            "none: holds no trained judge (no judge.json); make one with 'bayescontam judge train'"
        ),
        ("judge", "apply", scan, judge, "-o", "a.csv", "--pairs", 3, "--per-item", 3): (
            "--pairs and --per-item: give one; a choice is made by one of the two"
        ),
        ("judge", "verbatim", scan, "-o", "a.txt"): "a.txt",
        ("judge", "verbatim", scan, "-o", "a.csv", "--share", 0.2): (
            "share: got 0.2; allowed is above 0.5, up to 1"
        ),
        ("judge", "verbatim", scan, "-o", "a.csv", "--benchmark", "quizz"): (
            "no benchmark 'quizz' in this scan"
        ),
    }
    for arguments, message in cases.items():
        done = run(*arguments)
        assert done.status == 2
        assert message in done.err
        assert not list(Path().glob("a.*"))
    frame = pd.read_csv("ada.csv")
    frame[frame["is_duplicate"] == 0].to_csv("clean.csv", index=False)
    done = run("judge", "train", scan, "clean.csv", "--name", "x", "--out", "k")
    assert done.status == 2
    assert "0 duplicates on 0 items; needed are at least 10 on 5 items" in done.err
    assert not Path("k").exists()


def test_people_may_not_have_names_of_rules_and_trained_judges(run: Run, scan: Path) -> None:
    assert run("judge", "export", scan, "-o", "s.csv", "--pairs", 4).status == 0
    sheet = pd.read_csv("s.csv", dtype=str, keep_default_na=False).assign(is_duplicate="1")
    sheet.to_csv("s.csv", index=False)
    for name, whom in (("rule:mine", "rules"), ("trained:x", "trained judges")):
        done = run("judge", "import", scan, "s.csv", "--judge", name, "--out", "j.csv")
        assert done.status == 2
        assert f"names that start with '{name.split(':')[0]}:' are for {whom}" in done.err
