"""The verb ``curve``: what it prints, what it writes, and how it refuses."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.evidence.curve import Curve
from bayescontam.inference.checks import Outcome
from bayescontam.scan.results import Scan
from tests.cli.conftest import FEW_DRAWS, Done
from tests.support.made_evidence import Row, judged, make_scan, match
from tests.support.made_fit import drawn_from_prior

Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scan:
    """Work in a folder with a scan of 40 items that have two matches each."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    cosines = rng.uniform(0.4, 0.9, (40, 2))
    rows = [match(f"q{i}", float(c), f"d{k}") for i, pair in enumerate(cosines)
            for k, c in enumerate(pair)]  # fmt: skip
    return make_scan(tmp_path / "a scan", rows)


def verdicts(scan: Scan, judge: str, count: int) -> list[Row]:
    """Return verdicts that follow the cosine, on the best matches of the first items."""
    rows = scan.matches.head(count)
    reported = zip(rows["item"], rows["document"], rows["cosine"], strict=True)
    return [judged(item, document, int(c > 0.65), judge) for item, document, c in reported]


def test_without_judgements_it_is_the_prior_and_says_so(run: Run) -> None:
    done = run("curve", "a scan", "--out", "curve.nc", "--seed", 5)
    assert done.status == 0
    assert "No check failed, 1 caution (Judgements), of 1 checks.\n" in done.out
    assert "quiz: half are duplicates at a cosine of 0." in done.out
    line = r"caution: Judgements \(0, allowed .*\): Nothing was judged: the curve is the prior"
    assert re.search(line, done.out)
    assert done.out.endswith("Seed 5. Saved curve.nc.\n")
    assert re.search(r"quiz +document threshold +0\.6\d\d", done.out)
    curve = Curve.from_netcdf("curve.nc")
    assert len(curve.judged) == 0
    assert curve.record["command"] == "bayescontam curve 'a scan' --out curve.nc --seed 5"
    assert sorted(path.name for path in Path().iterdir()) == ["a scan", "curve.nc"]


def test_quiet_says_only_that_nothing_was_judged(run: Run) -> None:
    note = "caution: Nothing was judged: the curve is the prior, made for no embedder in particular"
    done = run("curve", "a scan", "-o", "curve.nc", "-q", "--strict")
    assert done == Done(0, "", f"{note}. Judge some pairs: bayescontam judge export.\n")


def test_a_spec_may_be_a_file(run: Run) -> None:
    Path("mine.toml").write_text('summary = "mine"\nshape.form = "logistic"\n')
    assert run("curve", "a scan", "-o", "curve.nc", "-q", "--spec", "mine.toml").status == 0
    assert Curve.from_netcdf("curve.nc").record["spec"]["name"] == "mine"


def test_files_of_judgements_are_joined(run: Run, scan: Scan) -> None:
    """Nothing is required of what the curve says: ``tests/evidence`` holds it against the truth."""
    ada, model = verdicts(scan, "Ada", 30), verdicts(scan, "llm:m", 60)
    pd.DataFrame(ada).to_csv("ada.csv", index=False)
    pd.DataFrame(model).to_parquet("model.parquet")
    files = ("--judgements", "ada.csv", "--judgements", "model.parquet")
    options = ("--out", "curve.nc", "--strict", "--seed", 1, *FEW_DRAWS)
    with drawn_from_prior():
        done = run("curve", "a scan", *files, *options)
    curve = Curve.from_netcdf("curve.nc")
    failed = [check for check in curve.checks() if check.outcome is Outcome.FAILED]
    assert failed  # so few draws of the prior
    assert done.status == 3
    for check in failed:
        line = rf"failed: {re.escape(check.name)} \(.*\): {re.escape(check.sentence)}\n"
        assert re.search(line, done.out)
    assert "Do not rely on this fit yet" in done.out
    assert curve.judges == ("Ada", "llm:m")
    assert len(curve.judged) == 90
    table = curve.summary().set_index(["quantity", "of"])
    shown = f"{table.loc[('specificity', 'llm:m'), 'mean']:.3f}"
    assert re.search(rf"llm:m +specificity +{shown}", done.out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no scan", "-o", "c.nc"), r"no scan: holds no finished scan: is no folder"),
        (("a scan", "-o", "gone/c.nc"), r"gone/c\.nc: cannot be written"),
        (("a scan", "-o", "c.nc", "--judgements", "no.csv"), r"no\.csv: no such file"),
        (("a scan", "-o", "c.nc", "--level", "1.5"), r"level: got 1\.5; allowed is 0\.5"),
        (("a scan", "-o", "c.nc", "--draws", "1"), r"draws: got 1; at least 4"),
        (("a scan", "-o", "c.nc", "--spec", "monoton"), r"no such curve spec \(did you mean"),
        (("a scan", "-o", "c.nc", "--judgements", "other.csv"),
         r"other\.csv: .*document 'elsewhere', chunk 0 is no pair of this scan"),
        (("a scan", "-o", "c.nc", "--judgements", "yes.csv", "--judgements", "no_.csv"),
         r"'Ada' judged item 'q0', document 'd0', chunk 0 before, and not the same"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    for name, document, called in (("other", "elsewhere", 1), ("yes", "d0", 1), ("no_", "d0", 0)):
        pd.DataFrame([judged("q0", document, called)]).to_csv(f"{name}.csv", index=False)
    done = run("curve", *arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    assert re.search(message, done.err), done.err
    assert not Path("c.nc").exists()
