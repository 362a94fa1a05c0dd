"""Which logs are of one model, one test and one answer, where names and settings differ."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import bayescontam
from bayescontam.errors import DataError, UsageError
from tests.support.write_logs import (
    details,
    dump,
    helm,
    instance,
    lighteval,
    lm_eval,
    rows,
    solved,
)

CHOICES: dict[str, Any] = {"scorer": "graded", "partial": "leave-out"}


@pytest.mark.parametrize("name", ["samples_eval_results.json", "mine_eval_results.json"])
def test_files_of_one_name_in_several_folders_name_no_model(tmp_path: Path, name: str) -> None:
    for folder, right in (("a", "pass"), ("b", "fail")):
        tasks = {"HumanEval/0": [solved(right, right) | {"solution": folder}]}
        dump(tmp_path / folder / name, {"eval": tasks})
    with pytest.raises(UsageError, match=r"--model: needed, .*--model 'a=a' --model 'b=b'"):
        bayescontam.import_evalplus(tmp_path, metric="base")
    found = bayescontam.import_evalplus(tmp_path, metric="base", model=["a=x", "b=y"])
    assert rows(found) == [
        ["x", "humaneval", "HumanEval/0", 1, 1], ["y", "humaneval", "HumanEval/0", 0, 1],
    ]  # fmt: skip
    if name.startswith("mine"):
        alone = bayescontam.import_evalplus(tmp_path / "a", metric="base")
        assert set(alone.frame["model"]) == {"mine"}


def test_raw_samples_of_evalplus_are_of_the_same_model(tmp_path: Path) -> None:
    for kind in ("", ".raw"):
        tasks = {"HumanEval/0": [solved("pass", "pass")]}
        dump(tmp_path / f"org--m_hf_temp_0.0{kind}_eval_results.json", {"eval": tasks})
    with pytest.raises(DataError, match=r"org/m on humaneval: raw=\.raw"):
        bayescontam.import_evalplus(tmp_path, metric="base")


def _retried(folder: Path, logs: Path, *, again: bool) -> Path:
    """Copy a log of which sample 1 failed and 2 was cancelled, and that of its retry."""
    from inspect_ai.log import EvalError, read_eval_log, write_eval_log

    log = sorted(logs.glob("*_letters_*.eval"))[0]
    folder.mkdir()
    for name in ("first", "second")[: 1 + again]:
        shutil.copyfile(log, folder / f"{name}.eval")
        content = read_eval_log(str(folder / f"{name}.eval"))
        assert content.samples is not None
        kept = [sample for sample in content.samples if sample.epoch == 1][:4]
        for number, sample in enumerate(kept):
            sample.error, right = None, number % 2
            assert sample.scores
            sample.scores["graded"].value = "C" if right else "I"
            if number < 2 and name == "first":
                text = ("RuntimeError('down')", "CancelledError('Cancelled via cancel scope')")
                sample.error = EvalError(message=text[number], traceback="", traceback_ansi="")
                sample.scores = {}
            elif number < 2:
                sample.uuid = f"again {number}"
        content.samples = kept
        content.eval.eval_id = f"{content.eval.eval_id} {name}"
        content.eval.created = f"2026-01-0{1 + (name == 'second')}T00:00:00+00:00"
        write_eval_log(content, str(folder / f"{name}.eval"))
    return folder


@pytest.mark.parametrize("errors", ["leave-out", "incorrect"])
def test_what_a_retry_answered_is_no_error(tmp_path: Path, inspect_logs: Path, errors: Any) -> None:
    once = bayescontam.import_inspect(
        [_retried(tmp_path / "once", inspect_logs, again=False)], **CHOICES, errors=errors
    )
    left = {reason: count for _, reason, count in once.left_out.itertuples(index=False)}
    assert left["sample was cancelled"] == 1
    assert left.get("error in the sample", 0) == (errors == "leave-out")
    assert len(once.frame) == 2 + (errors == "incorrect")
    twice = bayescontam.import_inspect(
        [_retried(tmp_path / "twice", inspect_logs, again=True)], **CHOICES, errors=errors
    )
    assert twice.frame["n_trials"].tolist() == [1] * 4
    assert sorted(twice.frame["n_correct"]) == [0, 0, 1, 1]
    left = {reason: count for _, reason, count in twice.left_out.itertuples(index=False)}
    assert left["error in a sample that was run again"] == 2
    assert "sample was cancelled" not in left


def test_long_inputs_that_begin_alike_are_distinguished(tmp_path: Path, inspect_logs: Path) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    for number in range(2):
        log = sorted(inspect_logs.glob("*_letters_*.eval"))[0]
        content = read_eval_log(str(log))
        assert content.samples is not None
        content.samples = [sample for sample in content.samples if sample.scores][:1]
        content.samples[0].input = "long " * 2000 + f"question {number}"
        content.samples[0].target = f"answer {number}"
        content.eval.model, content.eval.eval_id = f"m{number}", f"id {number}"
        write_eval_log(content, str(tmp_path / f"{number}.eval"))
    with pytest.raises(DataError, match="has another text than in"):
        bayescontam.import_inspect([tmp_path], **CHOICES)


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ({"revision": "step1000"}, {"revision": "main"}, "revision=main"),
        (
            {"generation_parameters": {"temperature": 0.0}},
            {"generation_parameters": {"temperature": 0.7}}, "generation_parameters=",
        ),
        ({"dtype": "float16"}, {"dtype": "bfloat16"}, "dtype=bfloat16"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nested", [True, False])
def test_settings_of_a_model_in_lighteval_are_no_repeats(
    tmp_path: Path, first: Any, second: Any, named: str, nested: bool
) -> None:
    for day, settings in (("03", first), ("04", second)):
        date = f"2026-02-{day}T10-11-12.000001"
        file = lighteval(tmp_path / "details" / "org" / "m" / date, ["q0"], [{"em": 1.0}])
        file.rename(file.with_name(file.name.replace("2026-02-03T10-11-12.000001", date)))
        general = {"model_config": settings} if nested else settings
        dump(
            tmp_path / "results" / "org" / "m" / f"results_{date}.json",
            {"config_general": {"model_name": "org/m", **general}},
        )
    with pytest.raises(DataError, match=named):
        bayescontam.import_lighteval(tmp_path)


def test_models_with_other_examples_did_not_do_the_same_test(tmp_path: Path) -> None:
    for name, shots in (("a", 0), ("b", 8), ("c", 8)):
        row = {"doc_id": 0, "exact_match": 1.0, "doc": {"q": 1}, "target": "1"}
        config = {"model": "hf", "model_args": f"pretrained=org/{name}"}
        lm_eval(tmp_path / name, row, **{"config": config, "n-shot": {"quiz": shots}})
    notes = bayescontam.import_lm_eval(tmp_path).notes
    (found,) = [note for note in notes if note.startswith("caution: quiz: models differ in")]
    assert "(0: 'org/a'; 8: 'org/b', 'org/c'), so they did not take the same test" in found
    same = bayescontam.import_lm_eval([tmp_path / "b", tmp_path / "c"]).notes
    assert not any("models differ" in note for note in same)


def test_what_helm_adds_for_single_models_is_no_other_benchmark(tmp_path: Path) -> None:
    names = {
        "openai/gpt2": "boolq:model=openai_gpt2,data_augmentation=canonical",
        "together/glm": "boolq:model=together_glm,stop=hash",
        "together/ul2": "boolq:model=together_ul2,stop=hash,global_prefix=nlg",
    }
    for model, name in names.items():
        file = helm(tmp_path / model, [instance("id1", 0, 1.0)], model)
        spec = json.loads((file.parent / "run_spec.json").read_text()) | {"name": name}
        dump(file.parent / "run_spec.json", spec)
    found = bayescontam.import_helm(tmp_path, metric="exact_match")
    assert rows(found) == [[model, "boolq", "id1", 1, 1] for model in names]


def test_runs_of_helm_without_a_spec_take_one_name_for_all(tmp_path: Path) -> None:
    for subject in ("art", "law"):
        folder = tmp_path / f"mmlu:subject={subject},model=org_m"
        dump(folder / "per_instance_stats.json", [instance("id1", 0, 1.0)])
    with pytest.raises(UsageError, match=r"it would be: --model 'org_m=org_m'; or one --model"):
        bayescontam.import_helm(tmp_path, metric="exact_match")
    for name in ("org/m", "org_m=org/m"):
        found = bayescontam.import_helm(tmp_path, metric="exact_match", model=name)
        assert [row[:2] for row in rows(found)] == [
            ["org/m", "mmlu:subject=art"], ["org/m", "mmlu:subject=law"],
        ]  # fmt: skip


def test_several_answers_of_opencompass_are_trials(tmp_path: Path) -> None:
    def answer(right: bool) -> dict[str, Any]:
        return {"pred": str(right), "answer": "18", "correct": right, "truncated": False}

    listed = [
        {"predictions": [answer(True), answer(False)], "example_abbr": "gsm8k_0"},
        {"predictions": [answer(False), answer(False)], "example_abbr": "gsm8k_1"},
    ]
    dump(tmp_path / "results" / "m" / "gsm8k.json", {"accuracy": 25.0, "details": listed})
    assert rows(bayescontam.import_opencompass(tmp_path)) == [
        ["m", "gsm8k", "gsm8k_0", 1, 2], ["m", "gsm8k", "gsm8k_1", 0, 2],
    ]  # fmt: skip


def test_flags_beside_a_verdict_count_only_if_they_are_named(tmp_path: Path) -> None:
    file = dump(tmp_path / "results" / "m" / "quiz.json", details(True, truncated=False))
    assert rows(bayescontam.import_opencompass(file)) == [["m", "quiz", "0", 1, 1]]
    named = bayescontam.import_opencompass(file, metric="truncated")
    assert rows(named) == [["m", "quiz", "0", 0, 1]]


def test_an_empty_file_beside_others_is_named(tmp_path: Path) -> None:
    row = {"doc_id": 0, "exact_match": 1.0, "doc": {"q": 1}, "target": "1"}
    folder = lm_eval(tmp_path, row)
    empty = folder / "samples_other_2026-01-31T12-00-00.000000.jsonl"
    empty.write_text("")
    with pytest.raises(DataError, match=r"samples_other.*: other: holds no row that can be read"):
        bayescontam.import_lm_eval(tmp_path)
    found = bayescontam.import_lm_eval(tmp_path, skip_broken=True)
    assert [row[1:4] for row in rows(found)] == [["quiz", "0", 1]]
    assert found.left_out["reason"].tolist() == ["broken rows"]
