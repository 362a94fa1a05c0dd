"""Commands that plant duplicates, and count which of them were found."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Done
from tests.support.json_lines import write_rows
from tests.support.made_curve import make_curve
from tests.support.made_scan import BENCHMARKS, STRATA, make_scan

Run = Callable[..., Done]
OPTIONS = "Which one?\nA. This one.\nB. That one."


@pytest.fixture
def plant(run: Run, tmp_path: Path) -> Callable[..., Done]:
    """Give a function that plants two levels of duplicates of eight items."""
    rows = [
        {"benchmark": "quiz", "item": f"i{k}", "duplicate": f"i{k}/{level}", "kind": "semantic",
         "level": level, "text": text}
        for k in range(8) for level, text in (("plain", "Why so?"), ("bent", OPTIONS))
    ]  # fmt: skip
    made = write_rows(tmp_path / "made.jsonl", rows)
    corpus = write_rows(tmp_path / "c.jsonl", [{"id": f"d{k}", "text": "Text."} for k in range(20)])
    out = tmp_path / "planted"
    return lambda *more: run(
        "duplicates", "plant", corpus, "--duplicates", made, "--out", out, *more
    )


def test_some_levels_are_planted_in_forms(plant: Callable[..., Done], tmp_path: Path) -> None:
    done = plant("--only", "bent", "--tables", "0.5", "--wrapped", "0.5", "--share", "1")
    assert done.status == 0
    truth = pd.read_csv(tmp_path / "planted" / "truth.csv")
    assert {*truth["level"]} == {"bent"}
    tables = int((truth["form"] == "table").sum())
    assert 0 < tables < len(truth) == 8
    assert (
        f"note: {8 - tables} duplicates to be wrapped are planted as made: no prose longer than"
        " the width drawn" in done.err
    )
    done = plant("--only", "plain", "--tables", "1", "--share", "1")
    assert "note: 8 duplicates to be set as a table are planted as made: no options" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "odd"], "levels (--only): got 'odd'; there are 'plain', 'bent'"),
        (["--wrapped", "2"], "wrapped: got 2.0; allowed is a number from 0 to 1"),
        (["--wrapped", "0.7", "--tables", "0.7"], "wrapped, tables: got 0.7 and 0.7"),
    ],
)
def test_what_cannot_be_planted_is_refused(
    plant: Callable[..., Done], tmp_path: Path, options: list[str], message: str
) -> None:
    done = plant(*options)
    assert done.status == 2
    assert message in " ".join(done.err.split())
    assert not (tmp_path / "planted").exists()


def test_why_a_corpus_has_no_documents_is_said(plant: Callable[..., Done]) -> None:
    done = plant("--text", "body")
    assert done.status == 2
    said = " ".join(done.err.split())
    assert "has no text in the field 'body' (20 of them)" in said
    assert "the field of its text (--text)" in said


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a scan, and all that is known of what was planted in its corpus."""
    folder = tmp_path_factory.mktemp("recall")
    made = make_scan()
    first = made.matches[made.matches["rank"] == 1]
    truth = first[["benchmark", "item", "document", "start", "end"]].assign(
        duplicate="x", kind="semantic", level="near", copy=1, place="alone", form="as made"
    )
    truth.loc[truth.index[1::2], ["document", "place"]] = ["", "absent"]
    keys = ["benchmark", "item", "source", "document", "chunk"]
    covariates = made.items[["benchmark", "item"]].assign(
        contamination=[1.0, 0.0] * (len(made.items) // 2)
    )
    paths = {name: folder / f"{name}.csv" for name in ("truth", "judgements", "covariates")}
    truth.to_csv(paths["truth"], index=False)
    first[keys].assign(judge="Ada", is_duplicate=1).to_csv(paths["judgements"], index=False)
    covariates.to_csv(paths["covariates"], index=False)
    sources = tuple(dict.fromkeys(source for source, _ in STRATA))
    make_curve(BENCHMARKS, sources, 0.5).to_netcdf(folder / "curve.nc")
    return paths | {"scan": made.write(folder / "scan"), "curve": folder / "curve.nc"}


def options_of(files: dict[str, Path], *names: str) -> list[object]:
    given = [part for name in names for part in (f"--{name}", files[name])]
    return [files["scan"], "--truth", files["truth"], *given]


def test_what_is_given_is_counted(run: Run, files: dict[str, Path]) -> None:
    every = options_of(files, "judgements", "curve", "covariates")
    done = run("recall", *every)
    assert done.status == 0, done.err
    for heading in ("Judges, of planted", "The curve: P(dup", "The curve, by prob", "Covariates,"):
        assert heading in done.out
    done = run("recall", *every, "--format", "json")
    content = json.loads(done.out)
    assert [*content] == [
        "recall", "scores", "roc", "pair_scores", "judges", "curve", "calibration", "covariates",
    ]  # fmt: skip
    [judge] = content["judges"]
    # Ada called every match a duplicate, those of items without one too.
    assert (judge["recall"], judge["false_alarms"], judge["judged"]) == (1.0, 1.0, 30)
    [row] = content["covariates"]
    assert (row["column"], row["auc"], row["reliability"]) == ("contamination", 1.0, 1.0)
    done = run("recall", *every, "--format", "csv")
    assert done.out.startswith("kind,level,place,planted,median_cosine,recall@1,")


def test_nothing_else_is_printed_without(run: Run, files: dict[str, Path]) -> None:
    done = run("recall", *options_of(files))
    assert done.status == 0
    assert "recall@10" in " ".join(done.out.split())
    for heading in ("Judges", "The curve", "Covariates"):
        assert heading not in done.out


def test_what_is_not_known_is_noted(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    """The scan stores 20 matches of each item."""
    for output in ("table", "csv", "json"):
        done = run("recall", *options_of(files), "--format", output)
        assert "note: recall@100: not known, since the scan stores the 20 best" in done.err
    assert json.loads(done.out)["recall"][0]["recall@100"] is None
    table = pd.read_csv(files["truth"])
    table.assign(document="None").to_csv(tmp_path / "truth.csv", index=False)
    done = run("recall", files["scan"], "--truth", tmp_path / "truth.csv")
    assert "note: no match names any of the 1 documents of the truth, such as 'None'" in done.err


def test_other_judgements_are_refused(run: Run, files: dict[str, Path], tmp_path: Path) -> None:
    table = pd.read_csv(files["judgements"]).assign(document="nowhere")
    table.drop_duplicates(["benchmark", "item"]).to_csv(tmp_path / "other.csv", index=False)
    done = run("recall", *options_of(files), "--judgements", tmp_path / "other.csv")
    assert done.status == 2
    assert "is no pair of this scan" in done.err


@pytest.mark.usefixtures("undrawn")
def test_a_scan_is_reported_with_what_was_planted(
    run: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "scan.html"
    done = run("report", *options_of(files, "judgements", "curve"), "--out", out)
    assert done.status == 0, done.err
    page = out.read_text(encoding="utf-8")
    assert "Of 30 planted duplicates, all are among the 10 best matches of their item." in page
    for heading in ("Judges", "The curve", "Contamination of items"):
        assert f"<h3>{heading}</h3>" in page


@pytest.mark.parametrize(
    ("which", "options", "message"),
    [
        ("curve", ["truth"], "--truth: .* is a curve, and its report does not take that"),
        ("scan", ["judgements"], "--judgements: give --truth, too"),
        ("curve", ["judgements", "truth"], "--judgements, --truth: .* is a curve"),
    ],
)
def test_only_scans_have_a_truth(
    run: Run, files: dict[str, Path], tmp_path: Path, which: str, options: list[str], message: str
) -> None:
    given = [part for name in options for part in (f"--{name}", files[name])]
    done = run("report", files[which], *given, "--out", tmp_path / "page.html")
    assert done.status == 2
    assert re.search(message, done.err), done.err
    assert not (tmp_path / "page.html").exists()


def test_the_truth_is_not_written_over(run: Run, files: dict[str, Path]) -> None:
    before = files["truth"].read_bytes()
    done = run("report", *options_of(files), "--out", files["truth"])
    assert done.status == 2
    assert files["truth"].read_bytes() == before
