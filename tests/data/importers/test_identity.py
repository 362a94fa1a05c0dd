"""Identity of runs, items and trials: what is one counts once, and is named."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayescontam.data.importers.lm_eval import import_lm_eval
from bayescontam.data.importers.logs import Imported, Importing
from bayescontam.errors import DataError, UsageError
from tests.support.real_data import shared
from tests.support.write_logs import lm_eval, sample


def table(*rows: tuple[str, str, str, int, Any]) -> pd.DataFrame:
    """Return trials of one model: run, item, trial, correct, answer."""
    frame = pd.DataFrame(rows, columns=["run", "item", "trial", "correct", "answer"])
    return frame.assign(model="m", benchmark="b", file=frame["run"] + ".json")


def read(frame: pd.DataFrame, *, texts: Any = None, **options: Any) -> Imported:
    return Importing("logs", options).table(frame, {}, texts=texts)  # type: ignore[arg-type]


def counts(found: Imported) -> dict[str, tuple[int, int]]:
    rows = found.frame[["item", "n_correct", "n_trials"]].itertuples(index=False, name=None)
    return {item: (right, trials) for item, right, trials in rows}


def test_what_two_runs_share_counts_once_whether_one_is_a_part_or_not() -> None:
    first = [("one", "a", "", 1, "x"), ("one", "b", "", 0, "y"), ("one", "c", "", 1, "z")]
    part = [("two", "a", "", 1, "x"), ("two", "b", "", 0, "y")]
    found = read(table(*first, *part))
    assert counts(found) == {"a": (1, 1), "b": (0, 1), "c": (1, 1)}
    assert found.left_out.to_numpy().tolist() == [
        ["b", "answers of a run that is there already", 2]
    ]
    assert "two.json is a copy in all 2 answers, which one.json has too" in found.notes[0]
    overlap = [("two", "c", "", 1, "z"), ("two", "d", "", 1, "w")]
    found = read(table(*first, *overlap))
    assert counts(found) == {"a": (1, 1), "b": (0, 1), "c": (1, 1), "d": (1, 1)}
    assert "two.json is a copy in 1 of its 2 answers" in found.notes[0]
    assert "2 runs are combined" in found.notes[1]
    runs = found.runs.set_index("run")[["trials", "count", "same_as"]]
    assert runs.loc["two"].tolist() == [2, 1, "one.json"]
    both = read(table(*first, *part), copies="count")
    assert counts(both)["a"] == (2, 2)
    assert "2 answers are the same in another run, and count as further trials" in both.notes[0]


def test_runs_that_differ_in_one_answer_are_trials_and_named() -> None:
    found = read(
        table(
            ("one", "a", "", 1, "x"), ("one", "b", "", 0, "y"),
            ("two", "a", "", 1, "x"), ("two", "b", "", 0, "other"),
        )
    )  # fmt: skip
    assert counts(found) == {"a": (2, 2), "b": (0, 2)}
    assert found.left_out.empty
    assert "m on b: 2 runs are combined" in found.notes[0]
    assert "one.json, two.json" in found.notes[0]


def test_equal_scores_without_answers_are_trials_with_a_doubt() -> None:
    found = read(table(("one", "a", "", 1, None), ("two", "a", "", 1, None)))
    assert counts(found) == {"a": (2, 2)}
    assert "same score as one.json on all 1 items" in found.notes[0]


def test_one_trial_in_two_files_of_a_run_counts_once_or_is_refused() -> None:
    frame = table(("one", "a", "1", 1, "x"), ("one", "a", "2", 0, "y"), ("one", "a", "1", 1, "x"))
    frame.loc[2, "file"] = "again.json"
    found = read(frame)
    assert counts(found) == {"a": (1, 2)}
    assert found.left_out["reason"].tolist() == ["answers that occur again in the same run"]
    assert "again.json is a copy in all 1 answers, which one.json has too" in found.notes[0]
    frame.loc[2, "correct"] = 0
    with pytest.raises(DataError, match=r"again\.json: item 'a' of b occurs again in the same run"):
        read(frame)


def test_a_name_stands_for_one_text() -> None:
    frame = table(("one", "a", "", 1, "x"), ("two", "a", "", 0, "y")).assign(content=["t", "u"])
    with pytest.raises(DataError, match=r"two\.json: item 'a' of b has another text than in one"):
        read(frame)
    assert "items with another text in some runs: 1;" in read(frame, texts="note").notes[0]


def test_models_with_all_items_right_or_wrong_are_named() -> None:
    frame = table(*(("one", str(item), "", 1, None) for item in range(10)))
    assert "m on b: all 10 items are right; make sure" in read(frame).notes[0]
    assert not read(frame[:9]).notes


def test_a_limited_run_beside_the_whole_one_is_a_copy(tmp_path: Path) -> None:
    lm_eval(tmp_path / "m", *map(sample, range(3)), second=1)
    lm_eval(tmp_path / "m", *map(sample, range(6)), second=2)
    found = import_lm_eval(tmp_path)
    assert set(found.frame["n_trials"]) == {1}
    assert len(found.frame) == 6
    assert "12-00-01.000000.jsonl is a copy in all 3 answers" in found.notes[0]


def models_in_folders(folder: Path) -> Path:
    """Write logs without results files, in folders named after two models."""
    for second, (name, first) in enumerate([("org__a", 0), ("org__b", 0)]):
        lm_eval(folder / name, *(sample(k + first) for k in range(4)), second=second)
        (folder / name / f"results_2026-01-31T12-00-{second:02d}.000000.json").unlink()
    return folder


def test_folders_offer_names_of_models_and_never_become_one_in_silence(tmp_path: Path) -> None:
    logs = models_in_folders(tmp_path)
    offered = "--model 'org__a=org/a' --model 'org__b=org/b'"
    with pytest.raises(UsageError, match=f"needed(?s:.*){offered}; or one --model NAME"):
        import_lm_eval(logs)
    with pytest.raises(DataError, match=r"folder=org__a\n(?s:.*)folder=org__b\n(?s:.*)FOLDER=NAME"):
        import_lm_eval(logs, model="org/a")
    found = import_lm_eval(logs, model=["org__a=org/a", "org__b=org/b"])
    assert found.frame.groupby("model").size().to_dict() == {"org/a": 4, "org/b": 4}
    assert found.left_out.empty
    pooled = import_lm_eval(logs, model="org/a", differing="pool")
    assert pooled.notes[0] == "2 runs of one model differ in 'folder' and were combined"
    assert "org__b/samples" in pooled.notes[1]
    with pytest.raises(UsageError, match=r"'org__c=x': there are no logs in such a folder"):
        import_lm_eval(logs, model=["org/a", "org__c=x"])


@pytest.mark.parametrize("name", ["org/a", "org/b"])
def test_one_name_over_two_results_files_is_noticed(tmp_path: Path, name: str) -> None:
    for second, model in enumerate(["org/a", "org/b"]):
        config = {"model": "hf", "model_args": f"pretrained={model}"}
        lm_eval(tmp_path / str(second), sample(0), sample(1), second=second, config=config)
    with pytest.raises(DataError, match=r"pretrained=org/a(?s:.*)pretrained=org/b"):
        import_lm_eval(tmp_path, model=name)


def test_two_quantisations_that_answer_alike_stay_two_models(tmp_path: Path) -> None:
    for second, bits in enumerate(["load_in_4bit", "load_in_8bit"]):
        config = {"model": "hf", "model_args": f"pretrained=org/m,{bits}=True"}
        lm_eval(tmp_path / str(second), *map(sample, range(4)), second=second, config=config)
    with pytest.raises(DataError, match="load_in_4bit=True, load_in_8bit=default"):
        import_lm_eval(tmp_path)
    found = import_lm_eval(tmp_path, differing="split")
    assert found.frame["model"].nunique() == 2
    assert len(found.frame) == 8
    assert set(found.frame["n_trials"]) == {1}
    assert found.left_out.empty


def unnamed(logs: Path) -> None:
    """Take the names of filters out of files of samples."""
    for file in logs.rglob("samples_*"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(r | {"filter": None}) + "\n" for r in rows))


FILTERS = {"quiz": {"filter_list": [{"name": "strict-match"}, {"name": "flexible-extract"}]}}


@pytest.mark.parametrize("skip_broken", [False, True])
def test_filters_without_names_are_those_of_the_configuration(
    tmp_path: Path, skip_broken: bool
) -> None:
    strict = [sample(k, acc=float(k == 0)) for k in range(4)]
    loose = [sample(k, acc=float(k < 3), filtered_resps=["y"]) for k in range(4)]
    logs = lm_eval(tmp_path / "m", *strict, *loose, configs=FILTERS)
    unnamed(logs)
    with pytest.raises(UsageError) as caught:
        import_lm_eval(logs, skip_broken=skip_broken)
    text = str(caught.value)
    assert "\n" not in text
    assert "'flexible-extract' (4 rows), 'strict-match' (4 rows)" in text
    assert "2 rows for each document that do not name their filters" in text
    for name, right in (("strict-match", 1), ("flexible-extract", 3)):
        found = import_lm_eval(logs, filter=name, skip_broken=skip_broken)
        assert found.frame["n_correct"].sum() == right
        assert set(found.frame["n_trials"]) == {1}


def test_real_logs_without_filter_names_are_never_taken_in_silence() -> None:
    logs = shared("real/logs_metabench")
    with pytest.raises(UsageError, match=r"--model: needed.*'EleutherAI__pythia-14m=EleutherAI/py"):
        import_lm_eval(logs)
    model = "EleutherAI/pythia-14m"
    for skip_broken in (False, True):
        with pytest.raises(UsageError, match=r"'unnamed-1' \(249 rows\), 'unnamed-2' \(249 rows\)"):
            import_lm_eval(logs, model=model, skip_broken=skip_broken)
    found = import_lm_eval(logs, model=model, filter="unnamed-2")
    sizes = found.read.set_index("benchmark")["items"].to_dict()
    assert sizes["metabench_gsm8k_secondary"] == 249
