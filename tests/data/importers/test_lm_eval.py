"""Logs of lm-evaluation-harness: what the tool wrote is what is read, and nothing is guessed."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayescontam
from bayescontam.data.importers.lm_eval import import_lm_eval
from bayescontam.data.importers.logs import Imported, Importing
from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, UsageError
from tests.support.write_lm_eval import ANSWERS, DOCS, RUNS, TASKS, digit, wordy

CHOICES = {"filter": ["flexible"], "metric": ["acc"]}
EASY = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def expected(filter: str) -> pd.DataFrame:
    """Work out responses from what the model was made to answer."""
    rows = []
    for model, run in RUNS:
        for task in TASKS:
            for number in range(DOCS):
                question = f"{task} question {number}"
                strict = task == "words" or (task == "digits" and filter == "strict")
                right = digit(model, run, question) == ANSWERS[number % 4]
                correct = right and not (strict and wordy(question))
                rows.append((model, task, question, int(correct)))
    trials = pd.DataFrame(rows, columns=["model", "benchmark", "question", "correct"])
    groups = trials.groupby(["model", "benchmark", "question"])["correct"]
    return groups.agg(n_correct="sum", n_trials="size").reset_index()


def comparable(found: Imported) -> pd.DataFrame:
    columns = ["model", "benchmark", "question", "n_correct", "n_trials"]
    return found.frame.sort_values(columns[:3], ignore_index=True)[columns]


@pytest.fixture
def copied(lm_eval_logs: Path, tmp_path: Path) -> Path:
    """Return a copy of the logs, to be changed."""
    return Path(shutil.copytree(lm_eval_logs, tmp_path / "out"))


def one(folder: Path, pattern: str) -> Path:
    return sorted(folder.rglob(pattern))[0]


def change(path: Path, how: Callable[[dict[str, Any]], Any]) -> None:
    """Change each object of a file of lines."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        how(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def change_results(path: Path, how: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    how(content)
    path.write_text(json.dumps(content, indent=2))


@pytest.mark.parametrize("filter", ["strict", "flexible"])
def test_what_the_tool_logged_becomes_responses(lm_eval_logs: Path, filter: str) -> None:
    keep = ["doc.question", "topic=doc.meta.topic"]
    found = import_lm_eval([lm_eval_logs], filter=[filter], metric=["acc"], keep=keep)
    pd.testing.assert_frame_equal(comparable(found), expected(filter), check_dtype=False)
    assert (found.frame["topic"] == found.frame["question"].map(_topic)).all()
    assert set(found.read["runs"]) == {3}
    assert found.read.set_index("benchmark")["trials"].to_dict() == dict.fromkeys(TASKS, 3 * DOCS)
    other = {"strict": "flexible", "flexible": "strict"}[filter]
    left = ("digits", f"rows of another filter: {other}", 3 * DOCS)
    assert list(found.left_out.itertuples(index=False, name=None)) == [left]
    again = Responses.from_frame(found.frame)
    assert again.frame.equals(found.frame)


def test_one_name_or_path_may_stand_alone(lm_eval_logs: Path) -> None:
    found = bayescontam.import_lm_eval(
        str(lm_eval_logs), filter="flexible", metric="acc", keep="doc.question"
    )
    wanted = import_lm_eval([lm_eval_logs], **CHOICES, keep=["doc.question"])
    assert found.frame.equals(wanted.frame)
    assert found.responses.models == ("org/large", "org/small")


def _topic(question: str) -> str:
    return f"t{int(question.split()[-1]) % 3}"


def test_hashes_are_those_of_the_documents(lm_eval_logs: Path) -> None:
    found = import_lm_eval([lm_eval_logs], **CHOICES)
    rows = [
        json.loads(line)
        for file in lm_eval_logs.rglob("samples_*")
        for line in file.read_text().splitlines()
    ]
    assert set(found.frame["item"]) == {row["doc_hash"] for row in rows}


def test_choices_are_requested_and_never_guessed(lm_eval_logs: Path) -> None:
    with pytest.raises(UsageError, match=r"--filter: needed.*digits has 'flexible' \(48 rows\), '"):
        import_lm_eval([lm_eval_logs], metric=["acc"])
    with pytest.raises(UsageError, match=r"--metric: needed.*choice has 'acc' \(48 rows\), 'acc_n"):
        import_lm_eval([lm_eval_logs], filter=["strict"])
    with pytest.raises(UsageError, match="--metric: 'f1' occurs nowhere"):
        import_lm_eval([lm_eval_logs], filter=["strict"], metric=["f1"])
    own = import_lm_eval([lm_eval_logs], filter=["digits=strict"], metric=["choice=acc_norm"])
    assert list(own.read["chosen"]) == [
        "acc_norm, filter none", "exact_match, filter strict", "exact_match, filter none",
    ]  # fmt: skip


@EASY
@given(data=st.data())
def test_order_and_copies_of_files_and_rows_change_nothing(
    data: st.DataObject, lm_eval_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shuffled")
    shutil.copytree(lm_eval_logs, folder / "out")
    files = sorted((folder / "out").rglob("samples_*"))
    copies = data.draw(st.lists(st.sampled_from(files), max_size=3, unique=True))
    for number, file in enumerate(copies):
        place = folder / f"copy{number}" / file.parent.name
        shutil.copytree(file.parent, place, ignore=lambda *_: [])
        files += sorted(place.glob("samples_*"))
    for file in data.draw(st.lists(st.sampled_from(files), max_size=3, unique=True)):
        lines = data.draw(st.permutations(file.read_text().splitlines(keepends=True)))
        file.write_text("".join(lines))
    given = data.draw(st.permutations(files))
    found = import_lm_eval(given, **CHOICES, keep=["doc.question"])
    pd.testing.assert_frame_equal(comparable(found), expected("flexible"), check_dtype=False)


@EASY
@given(share=st.floats(0.0, 1.0), zipped=st.booleans())
def test_truncated_files_are_named_by_line_or_counted(
    share: float, zipped: bool, lm_eval_logs: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = one(lm_eval_logs / "org__small", "samples_words_*")
    whole = source.read_bytes()
    cut = whole[: round(share * len(whole))]
    complete = whole[: len(cut) + 1].count(b"\n")
    file = tmp_path_factory.mktemp("cut") / (source.name + ".gz" * zipped)
    file.write_bytes(gzip.compress(cut) if zipped else cut)
    broken = len(cut) > 0 and not cut.endswith(b"\n") and complete == cut.count(b"\n")
    if broken:
        message = rf"{re.escape(file.name)}: line {complete + 1}: is no whole JSON"
        with pytest.raises(DataError, match=message):
            import_lm_eval([file], model="m")
    if complete:
        found = import_lm_eval([file], model="m", skip_broken=True)
        assert len(found.frame) == complete
        assert found.left_out["left_out"].tolist() == [1] * broken


def test_logs_of_0_4_1_name_items_by_number(copied: Path, tmp_path: Path) -> None:
    """Rows in one JSON list without hashes, metrics and filters, beside results.json."""
    for model in ("org__small", "org__large"):
        old = tmp_path / "old" / model
        old.mkdir(parents=True)
        results = json.loads(one(copied / model, "results_*").read_text())
        args = ",".join(f"{k}={v}" for k, v in results["config"]["model_args"].items())
        content = {key: results[key] for key in ("configs", "versions", "n-shot")}
        content["config"] = {"model": "dummy", "model_args": args}
        (old / "results.json").write_text(json.dumps(content))
        for task in ("choice", "words"):
            lines = one(copied / model, f"samples_{task}_*").read_text().splitlines()
            rows = [json.loads(line) for line in lines]
            gone = ("doc_hash", "prompt_hash", "target_hash", "filter", "metrics")
            kept = [{k: v for k, v in row.items() if k not in gone} for row in rows]
            name = re.sub("/|=", "__", args) + f"_{task}.jsonl"
            (old / name).write_text(json.dumps(kept, indent=2))
    found = import_lm_eval([tmp_path / "old"], metric=["acc"], keep=["doc.question"])
    wanted = import_lm_eval(
        [one(copied / m, f"samples_{t}_*") for m in ("org__small", "org__large") for t in TASKS],
        filter=["strict"], metric=["acc"], keep=["doc.question"],
    )  # fmt: skip
    table = comparable(wanted)
    table = table[table["benchmark"] != "digits"].reset_index(drop=True)
    pd.testing.assert_frame_equal(comparable(found), table)
    assert sorted(found.frame["item"].unique(), key=int) == [str(n) for n in range(DOCS)]
    assert "without hashes of documents" in found.notes[0]


def test_mixed_versions_agree_on_numbers_or_are_refused(copied: Path) -> None:
    file = one(copied / "org__small", "samples_choice_*")
    change(file, lambda row: row.pop("doc_hash"))
    files = sorted(copied.rglob("samples_choice_*"))
    found = import_lm_eval(files, metric=["acc"], keep=["doc.question"])
    wanted = expected("strict")
    wanted = wanted[wanted["benchmark"] == "choice"].reset_index(drop=True)
    pd.testing.assert_frame_equal(comparable(found), wanted, check_dtype=False)
    assert set(found.frame["item"]) == {str(n) for n in range(DOCS)}
    change(file, lambda row: row["doc"].update(question="another"))
    with pytest.raises(DataError, match="item '0' of choice has another text than in"):
        import_lm_eval(files, metric=["acc"])


def test_filters_that_are_not_named_are_refused(copied: Path) -> None:
    file = one(copied / "org__small", "samples_digits_*")
    change(file, lambda row: row.pop("filter"))
    results = one(copied / "org__small", "results_*")
    order = ["strict", "flexible"]
    with pytest.raises(UsageError, match=r"'flexible' .16 rows.*2 rows for each document"):
        import_lm_eval([file])
    for name in order:
        found = import_lm_eval([file], filter=name, keep=["doc.question"])
        wanted = expected(name).query("model == 'org/small' and benchmark == 'digits'")
        pd.testing.assert_frame_equal(
            comparable(found), wanted.reset_index(drop=True), check_dtype=False
        )
    change_results(results, lambda content: content["configs"]["digits"].pop("filter_list"))
    with pytest.raises(DataError, match=r"16 documents occur 2 times, .* 1 filters .'none'"):
        import_lm_eval([file])
    results.unlink()
    with pytest.raises(UsageError, match=r"'unnamed-1' .16 rows.*no results file names them"):
        import_lm_eval([file], model="org/small", skip_broken=True)


def _revision(results: dict[str, Any]) -> None:
    results["config"]["model_args"]["revision"] = "step1000"


def _shots(results: dict[str, Any]) -> None:
    results["n-shot"]["words"] = 5


@pytest.mark.parametrize(
    ("how", "reported", "names"),
    [
        (_revision, "org/large on choice: revision=default", {"step1000", "default"}),
        (_shots, "org/large on words: n-shot=0", {"5", "0"}),
    ],
)
def test_runs_with_other_settings_are_no_repeats(
    copied: Path, how: Callable[[dict[str, Any]], None], reported: str, names: set[str]
) -> None:
    change_results(sorted((copied / "org__large").glob("results_*"))[1], how)
    with pytest.raises(DataError, match=rf"{re.escape(reported)}(?s:.*)--differing split"):
        import_lm_eval([copied], **CHOICES)
    split = import_lm_eval([copied], **CHOICES, differing="split").frame
    apart = split[split["model"].str.contains("[", regex=False)]
    assert {name.split("=")[1].rstrip("]") for name in apart["model"].unique()} == names
    assert set(apart["n_trials"]) == {1}
    pooled = import_lm_eval([copied], **CHOICES, differing="pool", keep=["doc.question"])
    pd.testing.assert_frame_equal(comparable(pooled), expected("flexible"), check_dtype=False)
    assert set(pooled.frame.groupby("model")["n_trials"].max()) == {1, 2}
    assert "and were combined" in pooled.notes[0]


def test_a_run_in_which_nothing_was_random_counts_once(copied: Path) -> None:
    first, second = sorted((copied / "org__large").glob("samples_words_*"))
    second.write_bytes(first.read_bytes())
    found = import_lm_eval([first, second])
    assert set(found.frame["n_trials"]) == {1}
    row = ("words", "answers of a run that is there already", DOCS)
    assert list(found.left_out.itertuples(index=False, name=None)) == [row]


def test_metrics_that_are_no_verdicts_need_a_threshold(copied: Path) -> None:
    file = one(copied / "org__small", "samples_words_*")
    change(file, lambda row: row.update(exact_match=row["doc_id"] / DOCS))
    with pytest.raises(DataError, match=r"exact_match is not 0 or 1 in 15 rows, such as 0\.0625"):
        import_lm_eval([file])
    found = import_lm_eval([file], threshold=0.5)
    assert found.frame["n_correct"].sum() == DOCS / 2
    results = one(copied / "org__small", "results_*")
    change_results(results, lambda c: c["higher_is_better"]["words"].update(exact_match=False))
    with pytest.raises(DataError, match="lower is better for metric exact_match"):
        import_lm_eval([file])
    assert import_lm_eval([file], threshold=0.25).frame["n_correct"].sum() == 5
    change(file, lambda row: row.update(exact_match=[0, 1]))
    with pytest.raises(DataError, match=r"is \[0, 1\], which is no number"):
        import_lm_eval([file], threshold=0.5)


def test_missing_values_are_left_out_and_counted(copied: Path) -> None:
    file = one(copied / "org__small", "samples_words_*")
    change(file, lambda row: row.update(exact_match=None if row["doc_id"] < 3 else 1.0))
    found = import_lm_eval([file])
    assert len(found.frame) == DOCS - 3
    assert list(found.left_out.iloc[0]) == ["words", "no value of exact_match", 3]
    change(file, lambda row: row.update(exact_match=float("nan")))
    with pytest.raises(DataError, match=r"no scored trial is left; left out: words: no value.*16"):
        import_lm_eval([file])


def test_the_model_is_named_by_results_or_by_hand(copied: Path) -> None:
    file = one(copied / "org__small", "samples_words_*")
    results = one(copied / "org__small", "results_*")
    change_results(results, lambda content: content["config"].update(model_args=None))
    found = import_lm_eval([file])
    assert set(found.frame["model"]) == {"dummy"}
    assert "called after its kind, 'dummy'" in found.notes[0]
    results.unlink()
    with pytest.raises(UsageError, match=r"--model: needed.*--model 'org__small=org/small'"):
        import_lm_eval([file])
    assert set(import_lm_eval([file], model="mine").frame["model"]) == {"mine"}


def test_documents_that_occur_twice_are_trials_of_one_item(copied: Path) -> None:
    file = one(copied / "org__small", "samples_words_*")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[1]["doc_hash"] = rows[0]["doc_hash"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = import_lm_eval([file])
    twice = found.frame.set_index("item").loc[rows[0]["doc_hash"]]
    assert twice["n_trials"] == 2
    assert "1 documents occur again under another number" in found.notes[0]


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (["doc.none"], "--keep doc.none: no row has it"),
        (["item"], "the name 'item' is taken"),
        (["a=doc.question", "a=doc.answer"], "the name 'a' is taken"),
        (["doc."], "is no column path"),
    ],
)
def test_columns_that_cannot_be_kept_are_refused(
    lm_eval_logs: Path, keep: list[str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        import_lm_eval([lm_eval_logs], **CHOICES, keep=keep)


def test_kept_columns_must_agree_between_repeats(lm_eval_logs: Path) -> None:
    with pytest.raises(UsageError, match=r"--keep doc.choices: got '\['"):
        import_lm_eval([lm_eval_logs], **CHOICES, keep=["doc.choices"])
    with pytest.raises(DataError, match=r"kept: differs between trials(?s:.*)--keep"):
        import_lm_eval([*lm_eval_logs.rglob("samples_words*")], keep=["kept=exact_match"])


def test_paths_without_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no samples_TASK_DATE"):
        import_lm_eval([tmp_path])
    with pytest.raises(UsageError, match="no such file or folder"):
        import_lm_eval([tmp_path / "none"])
    (tmp_path / "rows.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"nor a results\.json beside it names the task"):
        import_lm_eval([tmp_path / "rows.jsonl"])


def test_answers_name_their_line_and_file(lm_eval_logs: Path) -> None:
    found = import_lm_eval(lm_eval_logs, **CHOICES).frame
    files = {
        name: (lm_eval_logs / name).read_text().splitlines() for name in set(found["log_file"])
    }
    assert len(files) > 1
    for row in found.itertuples():
        place = re.fullmatch(r"doc_id (\S+), line (\d+)", row.log_sample)
        assert place
        logged = json.loads(files[row.log_file][int(place[2]) - 1])
        assert (str(logged["doc_id"]), logged["doc_hash"]) == (place[1], row.item)
        assert logged["filter"] == ("flexible" if row.benchmark == "digits" else "none")


def test_names_of_logs_distinguish_folders(lm_eval_logs: Path, tmp_path: Path) -> None:
    first, second = (
        shutil.copytree(lm_eval_logs, tmp_path / name / "out") for name in ("one", "two")
    )
    found = import_lm_eval([first, second], **CHOICES, copies="count")
    assert set(found.frame["log_file"].str.split("/").str[:2].str.join("/")) == {"one/out"}
    files = found.runs["file"].to_list()
    names = Importing([first, second], {}).log_names(files)
    assert [tmp_path / name for name in names.values()] == list(map(Path, names))


def test_a_link_in_a_folder_has_the_name_that_it_has_there(tmp_path: Path) -> None:
    for name in ("away", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / "away" / "x.jsonl").touch()
    link = tmp_path / "logs" / "y.jsonl"
    link.symlink_to(tmp_path / "away" / "x.jsonl")
    given = str(link)
    assert Importing(tmp_path / "logs", {}).log_names([given]) == {given: "y.jsonl"}
    # Folders that have nothing in common but the root do not say where they are.
    found = Importing([tmp_path / "logs", Path("/usr")], {}).log_names([given])
    assert found == {given: "logs/y.jsonl"}


def test_columns_of_the_log_cannot_be_stored_twice(lm_eval_logs: Path) -> None:
    with pytest.raises(UsageError, match="the name 'log_file' is taken"):
        import_lm_eval(lm_eval_logs, **CHOICES, keep="log_file=doc.question")
