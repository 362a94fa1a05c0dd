"""Logs of HELM, OpenCompass, lighteval, py-irt, SWE-bench, EvalPlus and LiveCodeBench."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import bayescontam
from bayescontam.data.importers.logs import Imported
from bayescontam.data.tools import TOOLS, import_advice, tool_of
from bayescontam.errors import DataError, UsageError
from tests.support.real_data import shared
from tests.support.write_logs import (
    ART,
    BOTH,
    HARNESS,
    STATS,
    SUBJECTS,
    details,
    dump,
    each_tool,
    helm,
    instance,
    lighteval,
    livecodebench,
    performance,
    rows,
    solved,
    stat,
    state,
)


def test_helm_unperturbed_instances_and_their_trials(tmp_path: Path) -> None:
    helm(tmp_path, STATS)
    found = bayescontam.import_helm(tmp_path)
    assert rows(found) == [["org/m", ART, "id1", 1, 2], ["org/m", ART, "id2", 2, 2]]
    assert found.left_out.to_numpy().tolist() == [[ART, "perturbed instance", 1]]
    grouped = bayescontam.import_helm(tmp_path, group="mmlu=mmlu:*").frame
    assert set(grouped["benchmark"]) == {"mmlu"}
    assert set(grouped["subtask"]) == {ART}


def test_helm_statistics_are_chosen_and_settings_count(tmp_path: Path) -> None:
    both = [instance("id1", 0, 1.0, stats=[stat("exact_match", 1.0), stat("f1_score", 0.5)])]
    helm(tmp_path / "a", both)
    with pytest.raises(UsageError, match=r"'exact_match' \(1 instances\), 'f1_score'"):
        bayescontam.import_helm(tmp_path)
    assert rows(bayescontam.import_helm(tmp_path, metric="f1_score", threshold=0.5))[0][3] == 1
    helm(tmp_path / "b", both, temperature=0.7)
    with pytest.raises(DataError, match=r"temperature=default(?s:.*)temperature=0\.7"):
        bayescontam.import_helm(tmp_path, metric="exact_match")
    helm(tmp_path / "c", [*both, instance("id1", 0, 0.0)])
    with pytest.raises(DataError, match="entry 2: has another value of 'exact_match' than before"):
        bayescontam.import_helm(tmp_path / "c", metric="exact_match")


@pytest.mark.parametrize(("text", "said"), [("q", "A"), ("other", "A"), ("q", "B")])
def test_helm_states_say_what_was_answered(tmp_path: Path, text: str, said: str) -> None:
    for suite, own_text, own in (("v1", "q", "A"), ("v2", text, said)):
        run = helm(tmp_path / suite, [instance("id1", 0, 1.0)])
        states = {"request_states": [state("id1", own_text, own)]}
        dump(run.with_name("scenario_state.json"), states)
    if text != "q":
        with pytest.raises(DataError, match=r"item 'id1' of .* has another text than in"):
            bayescontam.import_helm(tmp_path)
        return
    found = bayescontam.import_helm(tmp_path, keep="instance.split")
    assert rows(found)[0][3:] == ([1, 1] if said == "A" else [2, 2])
    assert found.frame["split"].tolist() == ["test"]


def test_helm_real_runs() -> None:
    folder = shared("real/logs_every_eval_ever/helm")
    found = bayescontam.import_helm(folder, metric="exact_match")
    assert found.read["items"].tolist() == [10, 10, 5]
    assert set(found.frame["model"]) == {"eleutherai/pythia-1b-v0", "openai/gpt2"}
    assert found.left_out.empty


def test_opencompass_details(tmp_path: Path) -> None:
    work = tmp_path / "outputs" / "20260203_101112"
    dump(work / "results" / "org-m" / "gsm8k.json", details(True, False, True))
    dump(work / "predictions" / "org-m" / "gsm8k.json", {"0": {"prediction": "18"}})
    listed = [{"pred": "a", "answer": "r0", "correct": True}]
    dump(work / "results" / "org-n" / "gsm8k.json", {"details": listed})
    found = bayescontam.import_opencompass(tmp_path)
    assert rows(found) == [
        ["org-m", "gsm8k", "0", 1, 1], ["org-m", "gsm8k", "1", 0, 1],
        ["org-m", "gsm8k", "2", 1, 1], ["org-n", "gsm8k", "0", 1, 1],
    ]  # fmt: skip
    alone = dump(tmp_path / "gsm8k.json", details(True))
    with pytest.raises(UsageError, match="--model: needed"):
        bayescontam.import_opencompass(alone)
    assert rows(bayescontam.import_opencompass(alone, model="m"))[0][0] == "m"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"accuracy": 66.7}, r"no 'details' of samples, only 'accuracy'\n.*--dump-eval-details"),
        (details(None, None), r"sample 0: has no 'correct'; .*and 1 more like it"),
        (details(True, references="r"), "needed.*'correct'.*'model_correct'"),
    ],
)
def test_opencompass_results_without_verdicts_are_refused(
    tmp_path: Path, content: Any, message: str
) -> None:
    if "needed" in message:
        content = details(True, model_correct=False)
    file = dump(tmp_path / "results" / "m" / "quiz.json", content)
    with pytest.raises((DataError, UsageError), match=message):
        bayescontam.import_opencompass(file)


def test_opencompass_true_and_false_are_no_verdicts_unless_named(tmp_path: Path) -> None:
    content = details(None, None, truncated=True, judged=False)
    content["details"]["1"]["judged"] = True
    file = dump(tmp_path / "results" / "m" / "quiz.json", content)
    with pytest.raises(DataError) as caught:
        bayescontam.import_opencompass(file)
    assert "sample 0: has no 'correct', only true or false in 'truncated', 'judged'" in str(
        caught.value
    )
    assert "or name another verdict (metric, --metric)" in str(caught.value)
    for named in ("judged", "quiz=judged"):
        found = bayescontam.import_opencompass(file, metric=named)
        assert [row[2:4] for row in rows(found)] == [["0", 0], ["1", 1]]
    with pytest.raises(DataError, match="has no 'correct', only true or false"):
        bayescontam.import_opencompass(file, metric="other")


def test_opencompass_numbers_with_other_references_are_refused(tmp_path: Path) -> None:
    dump(tmp_path / "results" / "m" / "quiz.json", details(True))
    dump(tmp_path / "results" / "n" / "quiz.json", details(True, references="other"))
    with pytest.raises(DataError, match="item '0' of quiz has another text than in"):
        bayescontam.import_opencompass(tmp_path)


def test_lighteval_structs_and_models_in_folders(tmp_path: Path) -> None:
    date = "2026-02-03T10-11-12.000001"
    lighteval(tmp_path / "details" / "org" / "m" / date, ["q0", "q1"], BOTH)
    lighteval(tmp_path / "details" / "org" / "n" / date, ["q1", "q0"], BOTH)
    found = bayescontam.import_lighteval(tmp_path, metric="em", keep="doc.query")
    right = found.frame[["model", "benchmark", "query", "n_correct"]]
    assert sorted(right.to_numpy().tolist()) == [
        ["org/m", "gsm8k", "q0", 1], ["org/m", "gsm8k", "q1", 0],
        ["org/n", "gsm8k", "q0", 0], ["org/n", "gsm8k", "q1", 1],
    ]  # fmt: skip
    assert found.frame["item"].nunique() == 2
    found = bayescontam.import_lighteval(tmp_path, metric="pass@1")
    assert found.left_out.to_numpy().tolist() == [["gsm8k", "no value of pass@1", 2]]
    with pytest.raises(UsageError, match=r"gsm8k has 'em' \(4 rows\), 'pass@1' \(4 rows\)"):
        bayescontam.import_lighteval(tmp_path)


def test_lighteval_documents_that_are_alike_are_noted(tmp_path: Path) -> None:
    metrics = [{"em": 1.0}, {"em": 0.0}, {"em": 1.0}]
    for name in ("m", "n"):
        lighteval(tmp_path / "details" / "org" / name, ["q", "q", "other"], metrics)
    found = bayescontam.import_lighteval(tmp_path)
    assert sorted(row[3:] for row in rows(found)) == [[1, 1], [1, 1], [1, 2], [1, 2]]
    wanted = "gsm8k: 1 documents occur again under another number; their answers count as trials"
    assert [note for note in found.notes if wanted in note] == [f"{wanted} of one item"]


def test_lighteval_old_columns_and_other_files(tmp_path: Path) -> None:
    file = tmp_path / "details_arc_2024-01-31.parquet"
    old = {"example": ["q0", "q1"], "metrics": [{"acc": 1}, {"acc": 0}], "predictions": ["a", "b"]}
    pd.DataFrame(old).to_parquet(file)
    found = bayescontam.import_lighteval(file, model="org/m")
    assert found.frame["n_correct"].sum() == 1
    text = pd.DataFrame({"doc": ["{}"], "metric": ["{'acc': 1.0}"]})
    text.to_parquet(file)
    assert bayescontam.import_lighteval(file, model="m").frame["n_correct"].tolist() == [1]
    pd.DataFrame({"a": [1]}).to_parquet(file)
    with pytest.raises(DataError, match="there is no column 'metric'; found 'a'"):
        bayescontam.import_lighteval(file, model="m")
    file.write_bytes(b"PAR1 broken")
    with pytest.raises(DataError, match="as a Parquet file: cannot be read"):
        bayescontam.import_lighteval(file, model="m")


@pytest.mark.parametrize("name", ["r.jsonlines", "r.jsonl"])
def test_py_irt_absent_is_missing(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("".join(json.dumps(own) + "\n" for own in SUBJECTS))
    wanted = [
        ["a", "swe", "i1", 1, 1], ["a", "swe", "i2", 0, 1], ["a", "swe", "i3", 0, 1],
        ["b", "swe", "i1", 1, 1], ["b", "swe", "i3", 1, 1],
    ]  # fmt: skip
    found = bayescontam.import_py_irt(file, benchmark="swe")
    assert rows(found) == wanted
    assert found.left_out["left_out"].tolist() == [1]
    assert rows(bayescontam.import_matrix(file, benchmark="swe")) == wanted


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"subject_id": "a", "responses": {"i1": 1, "i1": 0}}', "line 1: .*repeated key 'i1'"),
        (json.dumps(SUBJECTS[0]) + "\n" + json.dumps(SUBJECTS[0]), "line 2: subject 'a' again"),
        ('{"subject_id": 5, "responses": {}}', "line 1: has no text 'subject_id'"),
        ('{"subject_id": "a", "responses": {"i1": 0.5}}', "response is not 0 or 1 in 1 rows"),
        (
            '{"subject_id": "a", "responses": {"i1": "yes"}}',
            "line 1, item 'i1': the response is 'yes', which is no number; allowed are 0, 1, true",
        ),
        ('{"subject_id": "a", "responses": {"i1": [true]}}', r"the response is \[True\], which"),
    ],
)
def test_py_irt_lines_that_mean_nothing_are_refused(
    tmp_path: Path, line: str, message: str
) -> None:
    file = tmp_path / "r.jsonlines"
    file.write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        bayescontam.import_py_irt(file, benchmark="swe")


def test_swe_bench_reports_of_the_harness(tmp_path: Path) -> None:
    file = dump(tmp_path / "org__m-1.5.run1.json", HARNESS)
    found = bayescontam.import_swe_bench(file)
    assert [row[2:4] for row in rows(found)] == [["a", 1], ["b", 0], ["c", 0]]
    assert set(found.frame["model"]) == {"org/m-1.5"}
    assert found.left_out.to_numpy().tolist() == [
        ["swe-bench", "error in the instance", 1], ["swe-bench", "instance was not run", 1],
    ]  # fmt: skip
    found = bayescontam.import_swe_bench(tmp_path, errors="incorrect", benchmark="verified")
    assert [row[1:4] for row in rows(found)] == [["verified", i, int(i == "a")] for i in "abcd"]
    assert "1 instances with an error count as incorrect" in found.notes


def test_swe_bench_instances_that_were_not_run_are_missing(tmp_path: Path) -> None:
    """Also where all instances of the benchmark are given: reports state what they missed."""
    ids = tmp_path / "ids.txt"
    ids.write_text("a\nb\nc\nd\n")
    part = {
        "total_instances": 4,
        "submitted_ids": ["a", "b"],
        "completed_ids": ["a", "b"],
        "resolved_ids": ["a"],
        "unresolved_ids": ["b"],
        "error_ids": [],
        "empty_patch_ids": [],
    }
    file = dump(tmp_path / "whole" / "org__m.run1.json", part)
    for item, right in (("a", True), ("b", False)):
        own = tmp_path / "logs" / "run_evaluation" / "run1" / "org__m" / item / "report.json"
        dump(own, {item: {"resolved": right}})
    for place in (file, tmp_path / "logs"):
        found = bayescontam.import_swe_bench(place, items=ids)
        assert [row[2:] for row in rows(found)] == [["a", 1, 1], ["b", 0, 1]]
        assert not [note for note in found.notes if "copy" in note]
    ids.write_text("a\nc\n")
    with pytest.raises(DataError, match="ids are not in --items"):
        bayescontam.import_swe_bench(file, items=ids)


@pytest.mark.parametrize("name", ["ids.txt", "ids.json", "ids.csv", "ids.table.txt"])
def test_swe_bench_results_of_the_leaderboard_need_all_instances(tmp_path: Path, name: str) -> None:
    board = tmp_path / "verified"
    for model, resolved in (("2024_x", ["a", "b"]), ("2025_y", ["b"])):
        lists = {"resolved": resolved, "no_generation": ["c"], "no_logs": ["d"]}
        dump(board / model / "results" / "results.json", lists)
    with pytest.raises(UsageError, match=r"--items: needed, because .*and 1 more list resolved"):
        bayescontam.import_swe_bench(board)
    items = tmp_path / name
    ids = ["a", "b", "c", "d", "e"]
    table = "item\n" + "\n".join(ids)
    texts = {"txt": "\n".join(ids), "json": json.dumps(ids), "csv": table, "table.txt": table}
    items.write_text(texts[name.partition(".")[2]], encoding="utf-8-sig" if "txt" in name else None)
    frame = bayescontam.import_swe_bench(board, items=items).frame
    assert frame.groupby("model")["n_correct"].sum().to_dict() == {"2024_x": 2, "2025_y": 1}
    assert frame.groupby("model").size().to_dict() == {"2024_x": 4, "2025_y": 4}
    items.write_text('["a"]' if name == "ids.json" else "item\na")
    with pytest.raises(DataError, match="ids are not in --items"):
        bayescontam.import_swe_bench(board, items=items)
    if name == "ids.txt":
        items.write_bytes(b"a\nb\xff\n")
        with pytest.raises(UsageError, match=r"is not text in UTF-8 \(byte 3\)"):
            bayescontam.import_swe_bench(board, items=items)


def test_swe_bench_notes_name_the_report_that_is_a_copy(tmp_path: Path) -> None:
    logs = tmp_path / "logs" / "run_evaluation" / "run1" / "org__m"
    for item, right in (("a", True), ("b", False)):
        dump(logs / item / "report.json", {item: {"resolved": right}})
    whole = dump(tmp_path / "org__m.run1.json", HARNESS)
    found = bayescontam.import_swe_bench(tmp_path)
    assert [row[2:] for row in rows(found)] == [["a", 1, 1], ["b", 0, 1], ["c", 0, 1]]
    assert found.read["runs"].tolist() == [1]
    runs = found.runs.set_index("file")
    assert runs.loc[str(whole), ["trials", "count"]].tolist() == [3, 1]
    note = next(note for note in found.notes if "is a copy" in note)
    assert "org__m.run1.json is a copy in 2 of its 3 answers" in note
    assert "a/report.json has too" in note or "b/report.json has too" in note


def test_py_irt_messages_name_its_own_options(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text('{"subject_id": "a", "responses": {"i1": 0.5, "i2": "1"}}\n')
    with pytest.raises(DataError) as caught:
        bayescontam.import_py_irt(file, benchmark="swe")
    assert "metric" not in str(caught.value)
    with pytest.raises(DataError, match=r"\ngive the value from which a response is correct"):
        bayescontam.import_py_irt(file, benchmark="swe", skip_broken=True)
    found = bayescontam.import_py_irt(file, benchmark="swe", skip_broken=True, threshold=0.5)
    assert rows(found) == [["a", "swe", "i1", 1, 1]]
    assert found.left_out["left_out"].tolist() == [1]


def test_swe_bench_reports_of_instances_are_one_run(tmp_path: Path) -> None:
    for item, right in (("a", True), ("b", False)):
        file = tmp_path / "logs" / "run_evaluation" / "run1" / "org__m" / item / "report.json"
        dump(file, {item: {"patch_exists": True, "resolved": right}})
    found = bayescontam.import_swe_bench(tmp_path)
    assert rows(found) == [["org/m", "swe-bench", "a", 1, 1], ["org/m", "swe-bench", "b", 0, 1]]
    assert found.read["runs"].tolist() == [1]
    other = dump(tmp_path / "x" / "report.json", {"score": 1})
    with pytest.raises(DataError, match="has no resolved ids, only 'score'"):
        bayescontam.import_swe_bench(other)


def test_evalplus_samples_are_trials(tmp_path: Path) -> None:
    tasks = {
        "HumanEval/0": [solved("pass", "pass"), solved("pass", "fail")],
        "HumanEval/1": [solved("pass", "pass"), solved("fail", "pass")],
    }
    file = dump(tmp_path / "org--m_vllm_temp_0.8_eval_results.json", {"eval": tasks})
    found = {
        metric: [row[2:] for row in rows(bayescontam.import_evalplus(file, metric=metric))]
        for metric in ("base", "plus")
    }
    assert found["base"] == [["HumanEval/0", 2, 2], ["HumanEval/1", 1, 2]]
    assert found["plus"] == [["HumanEval/0", 1, 2], ["HumanEval/1", 1, 2]]
    with pytest.raises(UsageError, match=r"humaneval has 'base' \(4 samples\), 'plus'"):
        bayescontam.import_evalplus(tmp_path)
    assert rows(bayescontam.import_evalplus(file, metric="plus"))[0][:2] == ["org/m", "humaneval"]


def test_evalplus_old_results_and_faults(tmp_path: Path) -> None:
    old = {"Mbpp/2": {"nfiles": 2, "base": [["success", []], ["timed out", []]], "plus": []}}
    file = dump(tmp_path / "m_temp_0.0" / "eval_results.json", {"eval": old})
    assert rows(bayescontam.import_evalplus(tmp_path)) == [["m", "mbpp", "Mbpp/2", 1, 2]]
    odd = {"Mbpp/2": [solved("maybe", "pass"), solved("perhaps", "pass")], "Mbpp/3": [5]}
    dump(file, {"eval": odd})
    with pytest.raises(DataError) as caught:
        bayescontam.import_evalplus(file)
    assert len(caught.value.faults) == 2
    assert "task Mbpp/2, sample 0: its status is 'maybe'; allowed are pass" in str(caught.value)
    dump(file, {"score": 1})
    with pytest.raises(DataError, match="has no object 'eval'"):
        bayescontam.import_evalplus(file)
    file.write_text('{"eval": {"Mbpp/2": [], "Mbpp/2": []}}')
    with pytest.raises(DataError, match="repeated key 'Mbpp/2'"):
        bayescontam.import_evalplus(file)


def test_livecodebench_shares_are_counts_with_dates(tmp_path: Path) -> None:
    found = bayescontam.import_livecodebench(livecodebench(tmp_path), keep="difficulty")
    assert rows(found) == [
        ["C", "livecodebench-atcoder", "q3", 1, 10],
        ["A", "livecodebench-leetcode", "q1", 3, 10],
        ["A", "livecodebench-leetcode", "q2", 10, 10],
        ["B (n=1)", "livecodebench-leetcode", "q1", 1, 1],
    ]
    dates = found.frame.set_index(["model", "item"])[["released", "cutoff"]]
    assert dates.loc[("A", "q1")].tolist() == ["2023-08-31", "2023-05-23"]
    assert dates.loc[("A", "q2"), "released"] == "2023-01-31"
    assert pd.isna(dates.loc[("C", "q3"), "cutoff"])
    assert "10 generations for each problem" in found.notes[2]
    assert "models without a known cutoff: 'C'" in found.notes[1]
    more = bayescontam.import_livecodebench(tmp_path, generations=20)
    assert rows(more)[0][3:] == [2, 20]
    with pytest.raises(DataError, match=r"'pass@1' 30 of A is no share of 4 generations"):
        bayescontam.import_livecodebench(tmp_path, generations=4)


def test_livecodebench_cutoffs_from_a_table(tmp_path: Path) -> None:
    file, table = livecodebench(tmp_path), tmp_path / "c.csv"
    table.write_text("model,cutoff\norg/a,2024-01-31\nC,\nZ,2024-01-31\n")
    found = bayescontam.import_livecodebench(file, cutoffs=table)
    dates = found.frame.groupby("model")["cutoff"].first()
    assert dates["A"] == "2024-01-31"
    assert pd.isna(dates["B (n=1)"])
    assert pd.isna(dates["C"])
    assert "cutoffs of models that have no results: 'Z'" in found.notes
    table.write_text("model,cutoff\norg/a,2024-01\n")
    months = bayescontam.import_livecodebench(file, cutoffs=table).frame.groupby("model")["cutoff"]
    assert months.first()["A"] == "2024-01"
    for text, error, message in (
        ("model,cutoff\nA,soon\n", DataError, "row 1: cutoff: got 'soon', allowed is a date"),
        ("model,cutoff\nZ,2024-01-31\n", UsageError, "none of its models is in the results"),
        ("model,day\nA,2024-01-31\n", UsageError, "no column 'cutoff'; found 'model', 'day'"),
        ("model,cutoff\nA,2024-01-31\nA,2024-01-30\n", DataError, "another cutoff than before"),
        ("model,cutoff\nA,2024-01-31\norg/a,2024-01-30\n", UsageError, "'A' has two cutoffs"),
    ):
        table.write_text(text)
        with pytest.raises(error, match=message):
            bayescontam.import_livecodebench(file, cutoffs=table)


def test_livecodebench_faults_are_one_message_a_cause(tmp_path: Path) -> None:
    board = [performance("q1", "A", 130.0), performance("q2", "A", 140.0), {"model": "A"}]
    with pytest.raises(DataError) as caught:
        bayescontam.import_livecodebench(livecodebench(tmp_path, board))
    assert len(caught.value.faults) == 2
    shares = [performance("q1", "A", 1.0), performance("q2", "A", 0.0)]
    with pytest.raises(DataError, match=r"largest 'pass@1' is 1: a fraction; per cent is expected"):
        bayescontam.import_livecodebench(livecodebench(tmp_path, shares))
    seconds = [performance("q1", "A", 30.0) | {"date": 1692662400}]
    with pytest.raises(DataError, match=r"is 1970-01-20: in seconds"):
        bayescontam.import_livecodebench(livecodebench(tmp_path, seconds))
    twice = [performance("q1", "A", 30.0), performance("q1", "A", 40.0)]
    with pytest.raises(DataError, match="item 'q1' of livecodebench-leetcode occurs again"):
        bayescontam.import_livecodebench(livecodebench(tmp_path, twice))


def test_files_are_recognised_by_content(tmp_path: Path) -> None:
    made = each_tool(tmp_path)
    assert set(made) == set(TOOLS)
    for tool, file in made.items():
        assert tool_of(file) == tool
        assert f"bayescontam import {tool} " in import_advice(file)
        if tool != "py-irt":
            with pytest.raises(UsageError, match=rf"is no matrix; this looks like .* {tool} "):
                bayescontam.import_matrix(file, benchmark="quiz")
    table = tmp_path / "r.csv"
    table.write_text("model,q1\nA,1\n")
    for other in (table, dump(tmp_path / "o.json", [{"model": "A"}]), tmp_path / "none.json"):
        assert tool_of(other) is None
        assert import_advice(other) == ""


@pytest.mark.parametrize(
    "read",
    [
        bayescontam.import_helm, bayescontam.import_opencompass, bayescontam.import_lighteval,
        bayescontam.import_swe_bench, bayescontam.import_evalplus,
        bayescontam.import_livecodebench,
    ],
)  # fmt: skip
def test_folders_without_logs_and_unknown_options_are_refused(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    with pytest.raises(UsageError, match="holds no "):
        read(tmp_path)
    with pytest.raises(TypeError, match="unknown options: 'kept'"):
        read(tmp_path, kept="x")
    with pytest.raises(UsageError, match="copies='x': allowed are 'leave-out', 'count'"):
        read(tmp_path, copies="x")


def test_files_of_tools_are_named_where_a_table_is_wanted(tmp_path: Path) -> None:
    made = {
        "opencompass": dump(tmp_path / "gsm8k.json", details(True, False)),
        "evalplus": dump(tmp_path / "e.json", {"eval": {"HumanEval/0": [solved("pass", None)]}}),
        "lighteval": lighteval(tmp_path, ["q0"], [{"em": 1.0}]),
        "helm": helm(tmp_path, STATS),
    }
    for tool, file in made.items():
        with pytest.raises(DataError) as caught:
            bayescontam.read_responses(file)
        assert f"make a table of it with bayescontam import {tool} " in str(caught.value)


def test_livecodebench_real_table_comes_back(tmp_path: Path) -> None:
    """Shares and milliseconds as the leaderboard has them, made of the table, give it again."""
    table = pd.read_csv(shared("real/lcb_2024-04.csv"), dtype={"item": str})
    days = {
        name: pd.to_datetime(table[name]).astype("int64") // {"us": 10**3, "ns": 10**6}[unit]
        for name in ("released", "model_cutoff")
        for unit in [pd.to_datetime(table[name]).dt.unit]
    }
    board = [
        performance(row.item, row.model, 100 * row.n_correct / row.n_trials, date=int(date))
        | {"platform": row.benchmark.removeprefix("livecodebench-")}
        for row, date in zip(table.itertuples(), days["released"], strict=True)
    ]
    cutoffs = dict(zip(table["model"], days["model_cutoff"], strict=True))
    models = [{"model_repr": name, "release_date": int(day)} for name, day in cutoffs.items()]
    content = {"performances": board, "models": models}
    file = dump(tmp_path / "performances_generation.json", content)
    found = bayescontam.import_livecodebench(file).frame
    keys = ["benchmark", "model", "item"]
    columns = ["n_correct", "n_trials", "released", "cutoff"]
    wanted = table.rename(columns={"model_cutoff": "cutoff"}).set_index(keys)[columns].sort_index()
    got = found.set_index(keys)[columns].sort_index()
    pd.testing.assert_frame_equal(got, wanted, check_dtype=False)
