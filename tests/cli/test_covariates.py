"""The verb ``covariates``: what it prints, what it writes, and that ``fit`` takes it."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.evidence import curve as evidence
from bayescontam.evidence.curve import Curve
from bayescontam.inference.checks import Check, Outcome
from tests.cli.conftest import FEW_DRAWS, Done
from tests.support.made_evidence import judged, make_curve, make_draws, make_scan, match
from tests.support.made_fit import drawn_from_prior

Run = Callable[..., Done]
SURE = make_draws(20, sources=2, threshold=0.6, steepness=500.0, threshold_open=0.2)
SOURCES = ("web", "books")
ODD = "q\x1b[31m\r\n,\"<b>'"


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a scan of a tenth of the web, and a curve that is sure."""
    monkeypatch.chdir(tmp_path)
    rows = [match(f"q{i}", 0.7 if i < 12 else 0.5) for i in range(30)]
    rows += [match(ODD, 0.8, source="books")]
    make_scan(tmp_path / "scan", rows, shares={"web": 0.1, "books": 1.0},
              unlisted=[match("q20", 0.41, "u", copies=50)])  # fmt: skip
    curve(tmp_path / "curve.nc")


def curve(path: Path, outcome: Outcome = Outcome.PASSED) -> None:
    check = Check("Divergences", outcome, 3.0, "≤ 0", "Draw again.")
    made = make_curve(SURE, sources=SOURCES, checks=[check])
    made.to_netcdf(path)


def test_it_reports_what_it_found_and_on_what_that_rests(run: Run) -> None:
    done = run("covariates", "scan", "--curve", "curve.nc", "--out", "c.parquet")
    assert done.status == 0
    table = pd.read_parquet("c.parquet")
    seen = table["p_scanned"] > 0.5
    assert seen.sum() == 13
    assert (table["contamination"] >= table["p_scanned"]).all()
    assert "benchmark: quiz\n" in done.out
    assert re.search(
        r"scanned part +31 +0\.4\d\d \[0\.419, 0\.419\] +1[23] \[13, 13\] +1[23] \[1[23], 1[34]\]",
        done.out,
    )
    assert "whole corpus" in done.out
    assert "Of source web, 10 % was searched.\n" in done.out
    assert "books" not in done.out
    assert "documents: those that hold a duplicate, copies counted (median).\n" in done.out
    assert "not listed one by one" not in done.out
    assert "Curve: All 1 checks passed.\n" in done.out
    assert done.out.endswith("Wrote c.parquet (31 items).\n")
    left = sorted(path.name for path in Path().iterdir())
    assert left == ["c.parquet", "curve.nc", "scan"]


def test_a_text_file_says_the_same(run: Run) -> None:
    for name in ("c.csv", "c.parquet"):
        assert run("covariates", "scan", "--curve", "curve.nc", "-o", name, "-q") == Done(0, "", "")
    one, other = pd.read_csv("c.csv"), pd.read_parquet("c.parquet")
    assert one["item"].tolist() == other["item"].tolist()
    assert one.columns.tolist() == other.columns.tolist()
    for name in ("contamination", "contamination_sd", "p_duplicate_sd", "expected_duplicates"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-12)


def test_options_reach_the_weighing(run: Run) -> None:
    floor = ("--floor", "0.75", "--draws", "7")
    assert run("covariates", "scan", "--curve", "curve.nc", "-o", "c.csv", "-q", *floor).status == 0
    table = pd.read_csv("c.csv")
    assert (table["p_scanned"] > 0.5).sum() == 1


def test_a_failed_check_of_the_curve_is_reported(run: Run) -> None:
    curve(Path("bad.nc"), Outcome.FAILED)
    arguments = ("covariates", "scan", "--curve", "bad.nc", "-o", "c.csv")
    done = run(*arguments)
    assert done.status == 0
    assert re.search(r"failed: Divergences( \(.*\))?: Draw again\.\n", done.out)
    assert "Do not rely on this fit yet" in done.out
    Path("c.csv").unlink()
    assert run(*arguments, "-q", "--strict") == Done(3, "", "")
    assert Path("c.csv").exists()
    assert run(*arguments[:3], "curve.nc", "-o", "c.csv", "-q", "--strict").status == 0


def test_without_a_curve_one_is_made(run: Run) -> None:
    arguments = ("-o", "c.csv", "--seed", 4, "--save-curve", "kept.nc", "--draws", 50)
    done = run("covariates", "scan", *arguments)
    assert done.status == 0
    assert re.search(r"caution: Judgements \(0, allowed .*\): Nothing was judged", done.out)
    kept = Curve.from_netcdf("kept.nc")
    assert kept.record["seed"] == 4
    first = Path("c.csv").read_bytes()
    assert run("covariates", "scan", "--curve", "kept.nc", "-o", "c.csv", "--draws", 50).status == 0
    assert Path("c.csv").read_bytes() == first
    note = "caution: Nothing was judged: the curve is the prior, made for no embedder in particular"
    for given in (arguments[:4], ("--curve", "kept.nc", "-o", "c.csv", "--draws", 50)):
        silent = run("covariates", "scan", *given, "--quiet")
        assert (silent.status, silent.out) == (0, "")
        assert silent.err == f"{note}. Judge some pairs: bayescontam judge export.\n"


@pytest.mark.slow
def test_judgements_make_the_curve(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(evidence.fit_curve, draws=200, tune=300, chains=2)
    monkeypatch.setattr(evidence, "fit_curve", few)
    rows = [judged(f"q{i}", f"q{i} at {0.7 if i < 12 else 0.5}", int(i < 12)) for i in range(28)]
    pd.DataFrame(rows).to_csv("judged.csv", index=False)
    done = run("covariates", "scan", "--judgements", "judged.csv", "-o", "c.csv", "--seed", 1)
    assert done.status == 0
    table = pd.read_csv("c.csv").set_index("item")
    assert table["judged"].sum() == 28
    assert table.loc["q0", "p_scanned"] > 0.95
    assert table.loc["q27", "p_scanned"] < 0.3


@pytest.mark.parametrize("name", ["c.parquet", "c.csv"])
def test_fit_takes_the_table(run: Run, name: str) -> None:
    assert run("covariates", "scan", "--curve", "curve.nc", "-o", name, "-q").status == 0
    items = [*(f"q{i}" for i in range(30)), ODD]
    rows = {"model": "m", "benchmark": "quiz", "item": items, "correct": [1, 0] * 15 + [1]}
    pd.DataFrame(rows).to_json("responses.jsonl", orient="records", lines=True)
    with drawn_from_prior():
        done = run(
            "fit", "responses.jsonl", "--covariates", name, "-m", "single", "-o", "fit.nc",
            "-q", *FEW_DRAWS,
        )  # fmt: skip
    assert done == Done(0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scan", "-o", "c.xlsx"), r"c\.xlsx: the file name ends in '\.xlsx'; allowed for"),
        (("scan", "-o", "gone/c.csv"), r"gone/c\.csv: cannot be written"),
        (("scan", "-o", "c.csv", "--save-curve", "gone/k.nc"), r"gone/k\.nc: cannot be written"),
        (("no", "-o", "c.csv"), r"no: holds no finished scan"),
        (("scan", "-o", "c.csv", "--curve", "no.nc"), r"no\.nc: no such file; make a curve"),
        (("scan", "-o", "c.csv", "--curve", "c.nc", "--kind", "exact", "--validation", "v.json"),
         r"takes no --kind, --validation"),
        (("scan", "-o", "c.csv", "--kind", "exakt"), r"did you mean 'exact'"),
        (("scan", "-o", "c.csv", "--validation", "v.json"), r"v\.json: cannot be read"),
        (("scan", "-o", "c.csv", "--curve", "curve.nc", "--judgements", "j.csv"),
         r"--curve: is fitted already, and takes no --judgements; leave one out"),
        (("scan", "-o", "c.csv", "--curve", "curve.nc", "--seed", "1", "--spec", "monotone"),
         r"takes no --spec, --seed"),
        (("scan", "-o", "c.csv", "--curve", "curve.nc", "--floor", "2"), r"floor: got 2\.0"),
        (("scan", "-o", "c.csv", "--curve", "curve.nc", "--draws", "0"), r"draws: got 0"),
        (("scan", "-o", "c.csv", "--curve", "curve.nc", "--level", "0"), r"level: got 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("covariates", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    assert re.search(message, done.err), done.err
    assert not Path("c.csv").exists()


def test_a_name_that_no_text_file_holds_is_refused(run: Run, tmp_path: Path) -> None:
    make_scan(tmp_path / "odd", [match("q\0x", 0.9)])
    make_curve(make_draws(3)).to_netcdf(tmp_path / "one.nc")
    done = run("covariates", "odd", "--curve", "one.nc", "-o", "c.csv")
    assert done.status == 2
    assert "c.csv: a name holds a NUL character, which no CSV file can; write .parquet" in done.err
    assert not Path("c.csv").exists()
    assert run("covariates", "odd", "--curve", "one.nc", "-o", "c.parquet", "-q").status == 0
    assert pd.read_parquet("c.parquet")["item"].tolist() == ["q\0x"]
