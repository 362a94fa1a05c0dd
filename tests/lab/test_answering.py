"""The answers of a lab: a table of responses, the same rows after kills, and what is refused."""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from bayescontam.data.responses import Responses, read_responses
from bayescontam.errors import DataError, TaskError, UsageError
from bayescontam.lab.answer import answer_probabilities
from bayescontam.lab.answering import (
    CHECKPOINT_COLUMNS,
    COLUMNS,
    answer_lab,
)
from bayescontam.lab.grading import grade_exact
from bayescontam.lab.items import questions_of, read_items
from bayescontam.lab.mix import make_mixes
from bayescontam.lab.training_runs import train_lab
from bayescontam.model.auto import compose_spec
from bayescontam.model.design import make_design
from bayescontam.parallel import shared_workers
from bayescontam.specs.lab import LabSpec
from tests.support.forks import Forks, forking
from tests.support.processes import running
from tests.support.small_lab import (
    BASES,
    CHECKPOINTED,
    CONTROLS,
    EPOCHS,
    ITEMS,
    MIXES,
    SEEN,
    K,
    answered_lab,
    checkpointed_lab,
    trained_lab,
)

__all__ = ["answered_lab", "checkpointed_lab", "trained_lab"]

MODELS = [f"base-{base}/{mix}" for base in range(BASES) for mix in MIXES]


@pytest.fixture
def lab(trained_lab: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_lab, tmp_path / "lab"))


def content(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_every_model_answers_every_item(answered_lab: Path) -> None:
    table = read_responses(answered_lab / "responses.csv").frame
    assert set(table) == set(COLUMNS)
    assert len(table) == len(MODELS) * (ITEMS + CONTROLS)
    assert [*dict.fromkeys(table["model"])] == MODELS
    assert (table["model"] == table["base"] + "/" + table["mix"]).all()
    assert set(table["n_trials"]) == {K}
    assert table["p"].between(0, 1, inclusive="neither").all()
    halves = table.groupby("half")["item"].nunique().to_dict()
    assert halves == {"seen": SEEN, "unseen": ITEMS - SEEN, "control": CONTROLS}


def test_contamination_is_that_of_the_mix(answered_lab: Path) -> None:
    table = pd.read_csv(answered_lab / "responses.csv", keep_default_na=False)
    duplicates = table["mix"].map(lambda mix: mix.startswith(("exact", "semantic")))
    hit = (table["half"] == "seen") & duplicates
    assert (table["contamination"] == hit).all()
    assert (table["copies"] == table["mix"].map(MIXES).where(hit, 0)).all()
    kinds = table["mix"].str.partition("-")[0].where(hit, "")
    assert (table["duplicate_kind"] == kinds).all()


def test_stored_replies_are_those_that_were_graded(answered_lab: Path) -> None:
    items = {row["item"]: row for row in read_items(answered_lab)}
    stored = pd.read_parquet(answered_lab / "answers" / "base-1" / "exact-4.parquet")
    right = [items[item]["answer"] for item in stored["item"]]
    assert stored["n_correct"].tolist() == grade_exact([*stored["replies"]], right).right.tolist()
    assert stored["n_trials"].tolist() == [len(own) for own in stored["replies"]]
    p = answer_probabilities(
        answered_lab / "models" / "base-1" / "exact-4", questions_of([*items.values()]), right,
        temperature=0.8, ends=True,
    )  # fmt: skip
    assert stored["p"].tolist() == p.tolist()


def test_shares_of_right_replies_agree_with_probabilities(answered_lab: Path) -> None:
    """Over all models, within five standard errors."""
    table = pd.read_csv(answered_lab / "responses.csv")
    error = np.sqrt((K * table["p"] * (1 - table["p"])).sum())
    assert table["n_correct"].sum() > 10
    assert abs(table["n_correct"].sum() - K * table["p"].sum()) < 5 * error


def test_models_draw_samples_of_their_own(answered_lab: Path) -> None:
    """Twins hardly differ here, so that common samples would show in equal replies."""
    tables = [
        pd.read_parquet(answered_lab / "answers" / "base-0" / f"{mix}.parquet")
        for mix in ("clean", "near-2")
    ]
    one, other = (np.concatenate([*table["replies"]]) for table in tables)
    assert (one == other).mean() < 0.5


def test_a_finished_run_changes_nothing(answered_lab: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(answered_lab, tmp_path / "lab"))
    before = {path: path.stat().st_mtime_ns for path in (folder / "answers").rglob("*.parquet")}
    table = answer_lab(folder, jobs=1)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert content(folder) == content(answered_lab)
    read = pd.read_csv(folder / "responses.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(table.astype(read.dtypes), read, rtol=1e-12)


def test_every_checkpoint_answers(checkpointed_lab: Path) -> None:
    table = read_responses(checkpointed_lab / "responses.csv").frame
    assert {*table} == {*COLUMNS, *CHECKPOINT_COLUMNS}
    runs = [f"base-{base}/{mix}" for base in range(2) for mix in ("clean", "exact-4")]
    names = [f"{run}{end}" for run in runs for end in ("@1", "@2", "")]
    assert [*dict.fromkeys(table["model"])] == names
    assert len(table) == len(names) * (ITEMS + CONTROLS)
    ends = table["model"].str.partition("@")[2].replace("", str(EPOCHS)).astype(int)
    assert (table["checkpoint"] == ends).all()
    assert (table["run"] == table["mix"]).all()
    files = {path.name for path in (checkpointed_lab / "answers" / "base-1").iterdir()}
    assert files == {f"{name[7:]}.parquet" for name in names}
    for end, place in (("@2", "epochs/2"), ("", ".")):
        stored = pd.read_parquet(checkpointed_lab / "answers" / "base-1" / f"exact-4{end}.parquet")
        items = read_items(checkpointed_lab)
        p = answer_probabilities(
            checkpointed_lab / "models" / "base-1" / "exact-4" / place, questions_of(items),
            [row["answer"] for row in items], temperature=0.8, ends=True,
        )  # fmt: skip
        assert stored["p"].tolist() == p.tolist()


def test_answers_of_another_epoch_are_not_used(checkpointed_lab: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpointed_lab, tmp_path / "lab"))
    one, other, last = (
        folder / "answers" / "base-0" / f"clean{end}.parquet" for end in ("@1", "@2", "")
    )
    one.write_bytes(other.read_bytes())
    last.unlink()
    table = answer_lab(folder, jobs=1)
    assert content(folder) == content(checkpointed_lab)
    read = pd.read_csv(folder / "responses.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(table.astype(read.dtypes), read, rtol=1e-12)
    assert table.attrs["left"] == 0
    (folder / "models" / "base-1" / "clean" / "model.safetensors").unlink()
    (folder / "responses.csv").unlink()
    assert answer_lab(folder, jobs=1).attrs["left"] == EPOCHS
    assert not (folder / "responses.csv").exists()


def test_a_fit_takes_checkpoints_for_a_walk_along_each_run(checkpointed_lab: Path) -> None:
    responses = read_responses(checkpointed_lab / "responses.csv")
    spec, _ = compose_spec(responses)
    assert (spec.ability.lineage, spec.ability.checkpoints) == ("base", "walk")
    lineage = make_design(spec, responses).lineage
    assert lineage is not None
    assert {*lineage.run} == {
        f"base-{base}, {mix}" for base in range(2) for mix in ("clean", "exact-4")
    }
    assert lineage.walk is not None
    starts, steps = lineage.walk
    assert starts.sum(axis=0).tolist() == [EPOCHS] * 4  # models of each run
    np.testing.assert_allclose(steps.sum(axis=0), [2, 1] * 4)  # those after each step
    none = Responses.from_frame(responses.frame.drop(columns=[*CHECKPOINT_COLUMNS]))
    assert compose_spec(none)[0].ability.checkpoints == "independent"


@pytest.mark.slow
def test_workers_train_and_find_what_one_process_does(answered_lab: Path, lab: Path) -> None:
    shutil.rmtree(lab / "models")
    with shared_workers("local"):  # they would take seconds to import the same once more
        train_lab(lab, jobs=2)
        answer_lab(lab, jobs=2)
    assert content(lab) == content(answered_lab)


def test_models_that_are_not_trained_are_left(answered_lab: Path, lab: Path) -> None:
    late = [lab / "models" / name / "model.safetensors" for name in MODELS[-2:]]
    for path in late:
        path.rename(path.with_suffix(".later"))
    table = answer_lab(lab, jobs=1)
    assert table.attrs["left"] == 2
    assert [*dict.fromkeys(table["model"])] == MODELS[:-2]
    assert not (lab / "responses.csv").exists()
    for path in late:
        path.with_suffix(".later").rename(path)
    assert answer_lab(lab, jobs=1).attrs["left"] == 0
    assert content(lab) == content(answered_lab)


def test_answers_of_another_training_are_not_used(answered_lab: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(answered_lab, tmp_path / "lab"))
    one, other = (folder / "answers" / "base-2" / f"{mix}.parquet" for mix in ("clean", "exact-2"))
    one.write_bytes(other.read_bytes())
    torn = folder / "answers" / "base-0" / "clean.parquet"
    torn.write_bytes(torn.read_bytes()[:100])
    answer_lab(folder, jobs=1)
    assert content(folder) == content(answered_lab)


PROGRAM = """
import sys
import pyarrow.dataset  # all of these once: they take seconds
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
from bayescontam.lab.answering import answer_lab

def run():
    answer_lab(sys.argv[1], jobs=1)
"""


def kill_when(answer: Forks, moment: Callable[[], bool]) -> None:
    """Have a lab answer, and kill it at a moment."""
    child, end = answer.start(), time.monotonic() + 60
    while running(child) and not moment() and time.monotonic() < end:
        time.sleep(0.0002)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    assert answer.ended() == -signal.SIGKILL, "it ended before it could be killed"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs fork, SIGKILL and /proc")
def test_kills_change_no_row(answered_lab: Path, lab: Path) -> None:
    """Before the first answers, while a file is written, and after ever more models."""
    place = lab / "answers"

    def after(count: int) -> Callable[[], bool]:
        return lambda: len([*place.glob("*/*.parquet")]) >= count

    moments = [
        place.exists, lambda: any(place.glob("*/.*.part")), after(1), after(4), after(8), after(13),
    ]  # fmt: skip
    with forking(PROGRAM, str(lab)) as answer:
        for moment in moments:
            kill_when(answer, moment)
    assert after(13)()
    assert not (lab / "responses.csv").exists()
    answer_lab(lab, jobs=1)
    assert content(lab) == content(answered_lab)


def test_what_cannot_answer_is_refused(lab: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no texts of a lab"):
        answer_lab(tmp_path)
    with pytest.raises(UsageError, match="device: got 'abacus', which torch cannot use"):
        answer_lab(lab, jobs=1, device="abacus")
    with pytest.raises(UsageError, match="address and gpus are for Ray"):
        answer_lab(lab, gpus=0.5)
    shutil.rmtree(lab / "models")
    with pytest.raises(UsageError, match="no model is trained; train first: bayescontam lab train"):
        answer_lab(lab, jobs=1)


def test_twins_answer_on_one_device(answered_lab: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(answered_lab, tmp_path / "lab"))
    path = folder / "answers" / "base-0" / "clean.parquet"
    table = pyarrow.parquet.read_table(path)
    known = table.schema.metadata
    assert known[b"bayescontam.device"] == b"cpu"
    metadata = {**known, b"bayescontam.device": b"cuda:1"}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)
    assert answer_lab(folder, jobs=1).attrs["left"] == 0  # all have answered: nothing is computed
    (folder / "answers" / "base-0" / "exact-2.parquet").unlink()
    message = "base-0/clean answered on 'cuda:1', and this is 'cpu'; repeat that, or remove"
    with pytest.raises(UsageError, match=message):
        answer_lab(folder, jobs=1)


def test_a_reply_that_is_always_the_same_is_one_trial(tmp_path: Path) -> None:
    spec = CHECKPOINTED.replace("temperature = 0.8", "temperature = 0")
    spec = spec.replace("bases = 2", "bases = 1").replace("checkpoints = true", "batch = 64")
    spec = spec.replace("epochs = 3, batch = 16,", "epochs = 1,")
    lab = make_mixes(LabSpec.parse(spec, "greedy.toml"), tmp_path / "lab").folder
    train_lab(lab, jobs=1)
    table = answer_lab(lab, jobs=1)
    assert {*table["n_trials"]} == {1}
    assert table["n_correct"].tolist() == table["p"].tolist()
    stored = pd.read_parquet(lab / "answers" / "base-0" / "clean.parquet")
    assert {len(own) for own in stored["replies"]} == {1}


def test_items_that_no_model_knows_are_named_once(lab: Path) -> None:
    path = lab / "items.jsonl"
    path.write_text(path.read_text().replace('"answer": "', '"answer": "about-', 2))
    with pytest.raises(DataError) as caught:
        answer_lab(lab, jobs=1)
    assert "items.jsonl: rows 1, 2: answers: got 'about-" in str(caught.value)
    assert str(caught.value).count("which is empty or has words that the tokenizer does not") == 1
    assert not [*(lab / "answers").glob("*/*.parquet")]


def test_a_full_disk_is_reported(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "answers")

    monkeypatch.setattr(pyarrow.parquet, "write_table", full)
    with pytest.raises(TaskError, match="answers: No space left on device; free some space, then"):
        answer_lab(lab, jobs=1)
    assert not [path for path in (lab / "answers").rglob("*") if path.is_file()][1:]
