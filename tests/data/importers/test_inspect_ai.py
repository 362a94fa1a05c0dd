"""Logs of Inspect: what the tool wrote is what is read; what has no score is missing."""

import math
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayescontam.data.importers.inspect_ai import Scoring, import_inspect
from bayescontam.data.importers.logs import Imported
from bayescontam.errors import DataError, MissingExtraError, UsageError
from tests.support.write_inspect import EPOCHS, MODELS, SAMPLES, TASKS, fails, value

CHOICES: dict[str, Any] = {
    "scorer": ["graded", "graded.right"],
    "partial": "leave-out",
    "threshold": 0.5,
}
LETTERS = {"C": 1.0, "I": 0.0, "N": 0.0}


def outcome(task: str, model: str, item: int, epoch: int) -> float | str:
    """Work out what counts, or why nothing does, with `CHOICES`."""
    if fails(task, model, item, epoch):
        return "error in the sample"
    found = value(task, model, item, epoch)
    if isinstance(found, dict):
        return float(found["right"])
    if isinstance(found, float):
        return "unscored" if math.isnan(found) else float(found >= 0.5)
    return LETTERS.get(str(found), "partial credit (P)")


def expected() -> tuple[pd.DataFrame, dict[tuple[str, str], int]]:
    rows, left = [], {}
    for model in MODELS:
        for task in TASKS:
            for item in range(1, SAMPLES + 1):
                for epoch in range(1, EPOCHS + 1):
                    found = outcome(task, model, item, epoch)
                    if isinstance(found, str):
                        left[task, found] = left.get((task, found), 0) + 1
                    else:
                        rows.append((f"mockllm/{model}", task, str(item), found))
    trials = pd.DataFrame(rows, columns=["model", "benchmark", "item", "correct"])
    groups = trials.groupby(["model", "benchmark", "item"])["correct"]
    return groups.agg(n_correct="sum", n_trials="size").reset_index(), left


def comparable(found: Imported) -> pd.DataFrame:
    columns = ["model", "benchmark", "item", "n_correct", "n_trials"]
    return found.frame.sort_values(columns[:3], ignore_index=True)[columns]


def left_of(found: Imported) -> dict[tuple[str, str], int]:
    rows = found.left_out.itertuples(index=False, name=None)
    return {(where, reason): count for where, reason, count in rows}


@pytest.fixture
def copied(inspect_logs: Path, tmp_path: Path) -> Path:
    """Return a copy of the logs, to be changed."""
    return Path(shutil.copytree(inspect_logs, tmp_path / "logs"))


def one(folder: Path, task: str, ending: str = "eval") -> Path:
    return sorted(folder.glob(f"*_{task}_*.{ending}"))[0]


def test_what_the_tool_logged_becomes_responses(inspect_logs: Path) -> None:
    keep = ["metadata.level", "t=metadata.task", "value=metadata.level"]
    found = import_inspect([inspect_logs], **CHOICES, keep=keep)
    assert found.frame["value"].equals(found.frame["level"].rename("value"))
    table, left = expected()
    pd.testing.assert_frame_equal(comparable(found), table, check_dtype=False)
    assert left_of(found) == left
    assert {reason for _, reason in left} >= {"error in the sample", "unscored"}
    assert (found.frame["level"] == found.frame["item"].astype(int) % 3).all()
    assert (found.frame["t"] == found.frame["benchmark"]).all()
    assert dict(zip(found.read["benchmark"], found.read["chosen"], strict=True)) == {
        "letters": "graded", "numbers": "graded", "rubric": "graded.right",
    }  # fmt: skip
    letters = [
        value("letters", model, item, epoch)
        for model in MODELS
        for item in range(1, SAMPLES + 1)
        for epoch in range(1, EPOCHS + 1)
        if not fails("letters", model, item, epoch)
    ]
    note = f"{letters.count('N')} trials with no answer (N) count as incorrect"
    assert found.notes == (note,)


def test_scorers_are_requested_and_never_guessed(inspect_logs: Path) -> None:
    with pytest.raises(UsageError, match=r"--scorer: needed.*letters has 'always' \(\d+ samples"):
        import_inspect([inspect_logs])
    with pytest.raises(UsageError, match=r"rubric has 'graded\.empty'"):
        import_inspect([inspect_logs], scorer=["graded"], threshold=0.5, partial="correct")
    empty = import_inspect(
        [inspect_logs], scorer=["letters=always", "graded", "graded.polite"], threshold=0.5
    )
    assert empty.read.set_index("benchmark")["correct"]["letters"] == 1.0


def test_partial_credit_and_numbers_need_a_choice(inspect_logs: Path) -> None:
    letters = sorted(inspect_logs.glob("*_letters_*"))
    with pytest.raises(DataError, match=r"graded is partial credit \(P\); say .*--partial"):
        import_inspect(letters, scorer=["graded"])
    credit = {
        choice: import_inspect(letters, scorer=["graded"], partial=choice).frame["n_correct"].sum()
        for choice in ("correct", "incorrect")
    }
    _, left = expected()
    assert credit["correct"] - credit["incorrect"] == left["letters", "partial credit (P)"]
    with pytest.raises(DataError, match="neither 0 nor 1; give the value"):
        import_inspect(sorted(inspect_logs.glob("*_numbers_*")))
    with pytest.raises(DataError, match=r"no scored trial is left; left out: .*unscored"):
        import_inspect(sorted(inspect_logs.glob("*_rubric_*")), scorer=["graded.empty"])
    with pytest.raises(UsageError, match="partial='half': allowed are"):
        import_inspect(letters, partial="half")  # type: ignore[arg-type]


def test_a_log_in_both_formats_or_twice_counts_once(copied: Path) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    log = one(copied, "letters")
    write_eval_log(read_eval_log(str(log)), str(log.with_suffix(".json")))
    shutil.copyfile(log, copied / f"copy-{log.name}")
    found = import_inspect([copied, log], **CHOICES)
    table, left = expected()
    pd.testing.assert_frame_equal(comparable(found), table, check_dtype=False)
    again = left_of(found)["letters", "answers that occur again in the same run"]
    samples = [(item, epoch) for item in range(1, SAMPLES + 1) for epoch in range(1, EPOCHS + 1)]
    scored = [outcome("letters", MODELS[0], *sample) for sample in samples]
    assert again == 2 * sum(isinstance(one, float) for one in scored)
    assert left_of(found)["letters", "error in the sample"] > left["letters", "error in the sample"]


def _edited(log: Path, how: Any) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    content = read_eval_log(str(log))
    how(content)
    write_eval_log(content, str(log))


def test_one_sample_scored_in_two_ways_is_refused(copied: Path) -> None:
    log = one(copied, "letters")
    other = log.with_name(f"other-{log.name}")
    shutil.copyfile(log, other)

    def rescore(content: Any) -> None:
        for sample in content.samples:
            if sample.scores:
                sample.scores["graded"].value = "I" if sample.scores["graded"].value == "C" else "C"

    _edited(other, rescore)
    with pytest.raises(
        DataError,
        match=r"occurs again in the same run, with another answer.*\n.*give one of the files",
    ):
        import_inspect([log, other], scorer=["graded"], partial="leave-out")


def test_invalidated_and_unfinished_samples_are_missing(copied: Path) -> None:
    from inspect_ai.log import ProvenanceData, invalidate_samples, read_eval_log, write_eval_log

    log = one(copied, "rubric")
    content = read_eval_log(str(log))
    kept = [sample for sample in content.samples if not sample.error]
    spoilt = kept[0]
    content.samples = [sample for sample in content.samples if sample is not kept[1]]
    content.status = "cancelled"
    why = ProvenanceData(author="me", reason="wrong target")
    write_eval_log(invalidate_samples(content, [spoilt.uuid], why), str(log))
    found = import_inspect([log], scorer=["graded.right"])
    left = left_of(found)
    assert left["rubric", "sample was invalidated"] == 1
    assert left["rubric", "sample was not run"] == 1
    assert found.read["trials"].item() == len(kept) - 2
    assert "runs that did not end well (1 cancelled)" in found.notes[0]


def test_ids_that_stand_for_other_texts_are_refused(copied: Path) -> None:
    log = one(copied, "rubric", "json")

    def shuffle(content: Any) -> None:
        for sample in content.samples:
            sample.input = f"another question {sample.id}"

    _edited(log, shuffle)
    with pytest.raises(DataError, match=r"has another text than in .*\n.*was shuffled"):
        import_inspect(sorted(copied.glob("*_rubric_*")), scorer=["graded.right"])


def test_runs_with_other_settings_are_no_repeats(copied: Path) -> None:
    log = one(copied, "rubric")
    other = log.with_name(f"later-{log.name}")
    shutil.copyfile(log, other)

    def warm(content: Any) -> None:
        content.eval.model_generate_config.temperature = 0.7
        content.eval.eval_id = "another"
        for sample in content.samples:
            sample.uuid = f"new {sample.uuid}"

    _edited(other, warm)
    with pytest.raises(DataError, match=r"org/small on rubric: temperature=default"):
        import_inspect([log, other], scorer=["graded.right"])
    pooled = import_inspect([log, other], scorer=["graded.right"], differing="pool").frame
    assert pooled["n_trials"].max() == 2 * EPOCHS
    split = import_inspect([log, other], scorer=["graded.right"], differing="split").frame
    assert split["n_trials"].max() == EPOCHS
    assert split["model"].nunique() == 2


@pytest.mark.parametrize("ending", ["eval", "json"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_logs_are_named_or_counted(copied: Path, ending: str, share: float) -> None:
    log = one(copied, "numbers", ending)
    data = log.read_bytes()
    log.write_bytes(data[: round(share * len(data))])
    with pytest.raises(DataError, match=rf"{log.name}: as a log of Inspect: cannot be read"):
        import_inspect([copied], **CHOICES)
    found = import_inspect([copied], **CHOICES, skip_broken=True)
    assert left_of(found)[str(log), "broken rows"] == 1
    wanted, _ = expected()
    gone = (wanted["benchmark"] == "numbers") & (
        wanted["model"] == f"mockllm/{MODELS[ending == 'json']}"
    )
    table = wanted[~gone].reset_index(drop=True)
    pd.testing.assert_frame_equal(comparable(found), table, check_dtype=False)


def test_paths_without_logs_and_unknown_columns_are_refused(
    inspect_logs: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"holds no logs of Inspect"):
        import_inspect([tmp_path])
    with pytest.raises(UsageError, match="no such file or folder"):
        import_inspect([tmp_path / "none.eval"])
    with pytest.raises(UsageError, match=r"--keep metadata\.none: no sample has it"):
        import_inspect([inspect_logs], **CHOICES, keep=["metadata.none"])
    with pytest.raises(UsageError, match=r"--keep metadata.more: got .*only text, numbers, true"):
        import_inspect([inspect_logs], **CHOICES, keep=["metadata.more"])


def test_without_the_package_the_install_line_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.delitem(sys.modules, "inspect_ai.log", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'bayescontam\[inspect\]'"):
        import_inspect([tmp_path])


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("C", 1.0), ("I", 0.0), ("N", 0.0), (True, 1.0), (False, 0.0), (1, 1.0), (0.0, 0.0),
        ("yes", 1.0), ("No", 0.0), ("TRUE", 1.0), ("1", 1.0), (None, "unscored"),
        (float("nan"), "unscored"), ("nan", "unscored"),
    ],
)  # fmt: skip
def test_values_with_a_meaning_are_read(given: Any, read: float | str) -> None:
    assert Scoring().read(given) == read


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("P", "is partial credit"), (0.5, "is 0.5, neither"), (2, "is 2, neither"),
        ("0.5", "is 0.5, neither"), ("perhaps", "is 'perhaps'; allowed"), ([1, 0], "allowed is"),
        (float("inf"), "is inf, neither"), ("c", "is 'c'; allowed"),
    ],
)  # fmt: skip
def test_values_without_a_meaning_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scoring().read(given)


def test_letters_are_not_held_against_a_threshold() -> None:
    scoring = Scoring(partial="correct", no_answer="leave-out", threshold=5)
    found = [scoring.read(given) for given in ("C", "I", "P", "N", 5, 4.9)]
    assert found == [1.0, 0.0, 1.0, "no answer (N)", 1.0, 0.0]


def test_logs_larger_than_they_look_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("summaries.json", b" " * 10**6)
    assert path.stat().st_size < 10_000
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "900kB")
    with pytest.raises(DataError, match=r"large\.eval: unpacks to more than 900 kB\n.*MAX_FILE"):
        import_inspect([path], **CHOICES)
    monkeypatch.setenv("BAYESCONTAM_MAX_FILE", "1MB")
    with pytest.raises(DataError, match="cannot be read"):
        import_inspect([path], **CHOICES)


def test_answers_name_their_sample_and_log(inspect_logs: Path, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log

    folder = Path(shutil.copytree(inspect_logs, tmp_path / "logs" / "deep"))
    found = import_inspect(tmp_path / "logs", **CHOICES).frame
    logs = {
        name: read_eval_log(str(tmp_path / "logs" / name)) for name in found["log_file"].unique()
    }
    for row in found.itertuples():
        log = logs[row.log_file]
        assert (log.eval.model, log.eval.task) == (row.model, row.benchmark)
        known = [f"sample {s.id}, epoch {s.epoch}" for s in log.samples if str(s.id) == row.item]
        assert row.log_sample in known
    # Names are those in the folder that all paths have in common, wherever it is.
    for paths in (folder, sorted(folder.iterdir())):
        names = import_inspect(paths, **CHOICES).frame["log_file"]
        assert {f"deep/{name}" for name in names} == set(found["log_file"])
