"""Logs of lm-evaluation-harness of other kinds: names, compression, lists, groups, NaN."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bayescontam
from bayescontam.data.importers.lm_eval import import_lm_eval
from bayescontam.data.tables import write_table
from bayescontam.errors import DataError, UsageError
from tests.support.write_logs import MODEL, lm_eval, sample, trials


def lmms(folder: Path) -> Path:
    """Write a run as lmms-eval does."""
    folder.mkdir(parents=True)
    rows = [
        {
            "doc_id": k, "doc": {"id": f"val_{k}"}, "target": "A", "resps": ["A"],
            "filtered_resps": "A", "doc_hash": f"hash {k}", "input": "x",
            "exact_match": float(k % 2), "mmmu_acc": {"id": f"val_{k}", "parsed_pred": "A"},
        }
        for k in range(4)
    ]  # fmt: skip
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "20260219_101500_samples_mmmu_val.jsonl").write_text(text)
    results = {"config": {"model": "qwen_vl", "model_args": "pretrained=org/vlm"}}
    (folder / "20260219_101500_results.json").write_text(json.dumps(results))
    return folder


def test_logs_of_lmms_eval_are_read(tmp_path: Path) -> None:
    found = import_lm_eval(lmms(tmp_path / "org__vlm"))
    assert found.read[["benchmark", "chosen"]].to_numpy().tolist() == [
        ["mmmu_val", "exact_match, filter none"]
    ]
    assert set(found.frame["model"]) == {"org/vlm"}
    assert (found.frame["n_correct"].sum(), len(found.frame)) == (2, 4)
    with pytest.raises(DataError, match=r"mmmu_acc is .*no number\n.*single numbers are in 'exact"):
        import_lm_eval(tmp_path, metric="mmmu_acc")


def _zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", _zstd)],
)
def test_files_are_unpacked_by_their_content(
    tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    logs = lm_eval(tmp_path / "m", sample(0), sample(1))
    for file in list(logs.iterdir()):
        file.with_name(file.name + ending).write_bytes(pack(file.read_bytes()))
        file.unlink()
    assert trials(import_lm_eval(logs)) == [["org/a", "hash 0", 0, 1], ["org/a", "hash 1", 1, 1]]


def test_samples_without_a_date_are_read(tmp_path: Path) -> None:
    file = next(lm_eval(tmp_path, sample(0)).glob("samples_*"))
    file.rename(tmp_path / "samples_my_quiz.jsonl")
    (tmp_path / "results.json").write_text(json.dumps({"config": MODEL}))
    assert import_lm_eval(tmp_path).frame["benchmark"].tolist() == ["my_quiz"]


IFEVAL = [[False, True, False], [True, True], [False]]


def test_lists_of_true_and_false_are_so_many_of_so_many(tmp_path: Path) -> None:
    rows = [
        sample(k, metrics=["prompt", "inst"], prompt=all(flags), inst=flags)
        for k, flags in enumerate(IFEVAL)
    ]
    logs = lm_eval(tmp_path, *rows)
    whole = import_lm_eval(logs, metric="prompt").frame
    assert whole[["n_correct", "n_trials"]].to_numpy().tolist() == [[0, 1], [1, 1], [0, 1]]
    for threshold in (None, 0.5):
        parts = import_lm_eval(logs, metric="inst", threshold=threshold).frame
        assert parts[["n_correct", "n_trials"]].to_numpy().tolist() == [[1, 3], [2, 2], [0, 1]]


def subtasks(folder: Path, hashes: bool = True) -> Path:
    """Write a run of three subtasks whose documents have the same numbers and hashes."""
    groups = {"mmlu": ["mmlu_stem"], "mmlu_stem": ["mmlu_law", "mmlu_art", "mmlu_sea"]}
    rows = [sample(k) for k in range(3)]
    for row in rows if not hashes else []:
        row.pop("doc_hash")
    for name in groups["mmlu_stem"]:
        lm_eval(folder, *rows, group_subtasks=groups)
        (folder / "samples_quiz_2026-01-31T12-00-00.000000.jsonl").rename(
            folder / f"samples_{name}_2026-01-31T12-00-00.000000.jsonl"
        )
    return folder


@pytest.mark.parametrize("hashes", [True, False])
@pytest.mark.parametrize("group", ["mmlu", "mmlu=mmlu_*"])
def test_subtasks_become_one_benchmark_with_a_column(
    tmp_path: Path, group: str, hashes: bool
) -> None:
    logs = subtasks(tmp_path, hashes)
    assert import_lm_eval(logs).frame["benchmark"].nunique() == 3
    frame = import_lm_eval(logs, group=group).frame
    assert set(frame["benchmark"]) == {"mmlu"}
    assert frame.groupby("subtask").size().to_dict() == dict.fromkeys(
        ["mmlu_art", "mmlu_law", "mmlu_sea"], 3
    )
    assert set(frame["n_trials"]) == {1}
    assert frame["item"].str.startswith("mmlu_").all()
    assert frame["item"].nunique() == 9


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("gpqa", "state no subtasks of it; the logs state the groups 'mmlu', 'mmlu_stem'"),
        ("x=gpqa_*", "no benchmark fits 'gpqa_\\*'; there are 'mmlu_art'"),
        (["mmlu", "x=mmlu_a*"], "'mmlu_art' would be in 'mmlu' and in 'x'"),
        (["mmlu", "mmlu=a"], "is given twice"),
        ("=a", "is no group"),
    ],
)
def test_groups_that_mean_nothing_are_refused(tmp_path: Path, group: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        import_lm_eval(subtasks(tmp_path), group=group)


def broken_and_sound(folder: Path) -> Path:
    """Write logs of a checkpoint with NaN throughout, and of a sound one."""
    for second, (name, mc1, mc2) in enumerate([("broken", 1, None), ("sound", 0, 0.3)]):
        config = {"model": "hf", "model_args": f"pretrained=org/{name}"}
        rows = [
            sample(
                k, metrics=["mc1", "mc2"], mc1=float(mc1 or k % 3 == 0),
                mc2=float("nan") if mc2 is None else mc2 + k / 100,
            )
            for k in range(30)
        ]  # fmt: skip
        lm_eval(folder / name, *rows, second=second, config=config)
    return folder


def test_nan_is_missing_and_a_model_with_nan_is_named(tmp_path: Path) -> None:
    logs = broken_and_sound(tmp_path)
    with pytest.raises(DataError, match=r"mc2 is not 0 or 1 in 30 rows(?s:.*)30 rows without a v"):
        import_lm_eval(logs, metric="mc2")
    found = import_lm_eval(logs, metric="mc2", threshold=0.45)
    assert set(found.frame["model"]) == {"org/sound"}
    assert found.left_out.to_numpy().tolist() == [["quiz", "no value of mc2", 30]]
    found = import_lm_eval(logs, metric="mc1")
    assert found.frame.groupby("model")["n_correct"].sum().to_dict() == {
        "org/broken": 30, "org/sound": 10,
    }  # fmt: skip
    assert "org/broken on quiz: 'mc2' is NaN throughout" in found.notes[0]
    assert "org/broken on quiz: all 30 items are right" in found.notes[1]


def test_a_cause_has_one_message_a_file(tmp_path: Path) -> None:
    rows = [sample(k, filter="x") for k in (0, 1, 2, 0, 1, 2)]
    with pytest.raises(DataError) as caught:
        import_lm_eval(lm_eval(tmp_path, *rows))
    assert len(caught.value.faults) == 1
    assert "line 4: document 0 again, with filter 'x'" in str(caught.value)
    assert "(and 2 more like it, up to line 6)" in str(caught.value)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_with_gaps_come_back_as_they_were(tmp_path: Path, ending: str) -> None:
    docs = [
        {"hard": True, "big": 2**60, "share": 0.5},
        {"hard": None, "big": None, "share": None},
        {"hard": False, "big": 2**60 + 1, "share": 2},
    ]
    rows = [
        {"doc_id": i, "doc_hash": f"h{i}", "filter": "none", "metrics": ["acc"], "acc": 1.0,
         "resps": [["0"]], "filtered_resps": ["0"], "doc": doc}
        for i, doc in enumerate(docs)
    ]  # fmt: skip
    folder = tmp_path / "m"
    folder.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "samples_quiz_2026-01-31T12-00-00.jsonl").write_text(lines)
    keep = ["doc.hard", "doc.big", "doc.share"]
    found = bayescontam.import_lm_eval(tmp_path, model="x", keep=keep)
    out = tmp_path / f"out.{ending}"
    write_table(out, found.frame)
    for table in (found.frame, bayescontam.read_responses(out).frame):
        there = table[table["item"] != table["item"].iloc[1]]
        assert [int(value) for value in there["big"]] == [2**60, 2**60 + 1]
        assert [str(value) for value in there["hard"]] == ["True", "False"]
        assert there["share"].astype(float).tolist() == [0.5, 2.0]
        gaps = table[["hard", "big", "share"]].iloc[1]
        assert (gaps.isna() | (gaps == "")).all()  # unknown columns of CSV files are texts
    bayescontam.Responses.from_frame(found.frame)
