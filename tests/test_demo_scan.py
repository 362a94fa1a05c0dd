"""What the demo simulates: verdicts and responses of a truth that is known."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from bayescontam.cli import demo as verb
from bayescontam.errors import MissingExtraError
from bayescontam.evidence import curve as curve_module
from bayescontam.inference import pipeline
from bayescontam.scan import run
from bayescontam.scan import synthetic as demo_scan
from bayescontam.scan.results import Scan
from bayescontam.scan.synthetic import (
    BY_A_PERSON,
    JUDGED_EACH,
    read_truth,
    simulated_judgements,
    simulated_responses,
)
from tests.support.made_fit import drawn_from_prior
from tests.support.pages import undrawn

__all__ = ["undrawn"]

ITEMS = 600


class MadeUp:
    """Ten matches of each item: of every third item, the documents of rank 1 and 3 hold it."""

    def __init__(self) -> None:
        rows = [("quiz", f"{i:03d}", rank, f"d{i}-{min(rank, 9)}")
                for i in range(ITEMS) for rank in range(1, 11)]  # fmt: skip
        self.matches = pd.DataFrame(rows, columns=["benchmark", "item", "rank", "document"])
        self.matches = self.matches.assign(source="web", chunk=self.matches["rank"] // 10)

    @property
    def truth(self) -> pd.DataFrame:
        hit = np.arange(ITEMS) % 3 == 0
        documents = [f"d{i}-1 d{i}-3" if hit[i] else "" for i in range(ITEMS)]
        kinds = np.where(hit, np.where(np.arange(ITEMS) % 2, "exact", "paraphrased"), "none")
        return pd.DataFrame(
            {
                "benchmark": "quiz", "item": [f"{i:03d}" for i in range(ITEMS)], "kind": kinds,
                "n_duplicates": 2 * hit, "documents": documents,
            }
        )  # fmt: skip


@pytest.fixture(scope="module")
def judged() -> pd.DataFrame:
    made = MadeUp()
    return simulated_judgements(made, made.truth, 1).frame  # type: ignore[arg-type]


def true(frame: pd.DataFrame) -> np.ndarray:
    number = frame["item"].astype(int)
    return ((number % 3 == 0) & frame["document"].str.contains("-[13]$")).to_numpy()


def test_the_model_errs_in_one_of_twenty_pairs(judged: pd.DataFrame) -> None:
    own = judged[judged["judge"] == "llm:simulated"]
    assert len(own) == ITEMS * JUDGED_EACH
    wrong = (own["is_duplicate"] == 1).to_numpy() != true(own)
    # Four standard errors of 3,000 throws.
    assert abs(wrong.mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / len(own))


def test_the_person_is_always_right(judged: pd.DataFrame) -> None:
    own = judged[judged["judge"] == "simulated person"]
    assert len(own) == BY_A_PERSON
    assert ((own["is_duplicate"] == 1).to_numpy() == true(own)).all()
    pairs = judged[judged["judge"] == "llm:simulated"].set_index(["item", "document"]).index
    assert own.set_index(["item", "document"]).index.isin(pairs).all()


def test_kinds_are_those_of_the_truth(judged: pd.DataFrame) -> None:
    right = judged[true(judged) & (judged["is_duplicate"] == 1)]
    odd = right["item"].astype(int) % 2 == 1
    assert (right["kind"] == np.where(odd, "exact", "equivalent")).all()
    assert len(right) > 300


def test_the_seed_decides(judged: pd.DataFrame) -> None:
    made = MadeUp()
    again = simulated_judgements(made, made.truth, 1).frame  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(again, judged)


def test_models_remember_the_items_with_duplicates() -> None:
    truth = pd.concat([MadeUp().truth.assign(benchmark=f"b{i}") for i in range(40)])
    frame = simulated_responses(truth, 3).frame
    assert frame["model"].nunique() == 6
    duplicated = frame["item"].astype(int) % 3 == 0
    rng = np.random.default_rng(0)
    ability = np.repeat(np.linspace(1, -1, 6), 100_000)
    eta = ability - rng.standard_normal(len(ability))
    clean = expit(eta).mean()
    assert frame.loc[~duplicated, "n_correct"].mean() == pytest.approx(clean, abs=0.01)
    lifted = expit(eta + rng.normal(1.5, 0.5, len(eta))).mean()
    # Of six slopes the mean has a standard error of 0.2, which is 0.03 of accuracy.
    assert frame.loc[duplicated, "n_correct"].mean() == pytest.approx(lifted, abs=0.1)


def test_names_like_numbers_stay_names(tmp_path: Path) -> None:
    (tmp_path / "generated").mkdir()
    text = "benchmark,item,kind,n_duplicates,documents\ngenerated,007,none,0,\n"
    (tmp_path / "generated" / "truth.csv").write_text(text)
    truth = read_truth(tmp_path)
    assert truth["item"].tolist() == ["007"]
    assert truth["documents"].tolist() == [""]


def test_without_the_extra_the_scan_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise MissingExtraError("this needs 'torch'; pip install 'bayescontam[scan]'")

    monkeypatch.setattr("bayescontam.scan.run.run_scan", missing)
    monkeypatch.setattr(verb, "_fit_printed_figures", lambda *_: None)
    monkeypatch.setattr(demo_scan, "MANIFEST", "no-such-manifest")  # of the process beside
    verb.demo(tmp_path, quiet=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Left out: the scan and what is made of it.")
    assert "pip install 'bayescontam[scan]'" in said.err
    assert list(tmp_path.iterdir()) == []


SMALL = """
summary = "small"
[generated]
items = 40
documents = 400
[embedding]
model = "hashing"
"""


@pytest.mark.slow
def test_the_scan_is_made_beside_the_first_fits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifest, out = tmp_path / "small.toml", tmp_path / "demo"
    manifest.write_text(SMALL)
    monkeypatch.setattr(demo_scan, "MANIFEST", str(manifest))
    with verb._scanning(out) as scanned:
        assert scanned() == 0
    scan = Scan.load(out / "scan")
    assert len(scan.items) == 40


def test_a_scan_that_is_not_wanted_any_more_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also one that does not hear that it is to end."""
    started: list[subprocess.Popen[bytes]] = []

    def deaf(*_: object, **options: Any) -> subprocess.Popen[bytes]:
        code = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            " open('deaf', 'w'); time.sleep(60)"
        )
        process = popen([sys.executable, "-c", code], cwd=tmp_path, **options)
        while not (tmp_path / "deaf").exists():
            time.sleep(0.02)
        started.append(process)
        return process

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", deaf)
    monkeypatch.setattr(verb, "PATIENCE", 0.1)
    with pytest.raises(KeyboardInterrupt), verb._scanning(tmp_path):
        raise KeyboardInterrupt
    assert started[0].poll() is not None


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_from_a_corpus_to_a_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo in one process: a small corpus, an embedder without a model, no sampler."""
    monkeypatch.setattr(run, "run_scan", partial(run.run_scan, jobs=1))
    manifest = tmp_path / "small.toml"
    manifest.write_text(SMALL)
    few: dict[str, Any] = {"draws": 200, "tune": 300, "chains": 2}
    monkeypatch.setattr(demo_scan, "MANIFEST", str(manifest))
    monkeypatch.setattr(pipeline, "fit", partial(pipeline.fit, **few))
    monkeypatch.setattr(curve_module, "fit_curve", partial(curve_module.fit_curve, **few))
    scan = verb._scan_made_up_corpus(tmp_path, True, "")
    assert isinstance(scan, Scan)
    with drawn_from_prior():
        verb._fit_scanned(scan, tmp_path, False, "bayescontam demo")
    files = {path.name for path in tmp_path.iterdir()}
    wanted = {"scan", "judgements.csv", "curve.nc", "curve.html", "covariates.parquet"}
    assert files == wanted | {"scan.html", "responses.parquet", "fit.nc", "fit.html", "small.toml"}
    page = (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert page.count('<tr><td><a class="name" href="#item-') == 40
    assert "Contamination, with the responses" in page
    said = capsys.readouterr().out
    assert "simulated from the known truth" in said
    assert " of 40; in truth 16." in said
