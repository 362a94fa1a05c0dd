"""Names of HELM's runs, and statistics that are NaN."""

import math
from pathlib import Path

import pytest

import bayescontam
from bayescontam.errors import DataError
from tests.support.write_logs import ART, dump, helm, instance, rows, stat


@pytest.mark.parametrize(
    ("name", "benchmark"),
    [
        ("dyck_language_np=3:model={}", "dyck_language_np=3"),
        ("dyck_language_np=3-model={}", "dyck_language_np=3"),
        ("quiz:eval-split=test,model={}", "quiz:eval-split=test"),
        ("quiz:lang=a,b,model={}", "quiz:lang=a,b"),
        ("my-quiz-subject=art,model={}", "my-quiz:subject=art"),
        ("quiz:model={}:0", "quiz"),
    ],
)
def test_runs_of_two_models_are_of_one_benchmark(tmp_path: Path, name: str, benchmark: str) -> None:
    for model, right in (("a", 1.0), ("b", 0.0)):
        own = name.format(f"org_{model}-1")
        folder = tmp_path / model
        dump(folder / "run_spec.json", {"name": own, "adapter_spec": {"model": f"org/{model}"}})
        dump(folder / "per_instance_stats.json", [instance("id1", 0, right)])
    assert rows(bayescontam.import_helm(tmp_path)) == [
        ["org/a", benchmark, "id1", 1, 1],
        ["org/b", benchmark, "id1", 0, 1],
    ]


def test_nan_is_missing_and_counted(tmp_path: Path) -> None:
    nan = instance("id0", 0, math.nan)
    helm(tmp_path, [nan, nan, instance("id1", 0, 1.0), instance("id2", 0, 0.0)])
    found = bayescontam.import_helm(tmp_path)
    assert rows(found) == [["org/m", ART, "id1", 1, 1], ["org/m", ART, "id2", 0, 1]]
    assert found.left_out.to_numpy().tolist() == [[ART, "no value of exact_match", 1]]


def test_rows_that_contradict_leave_the_first_value(tmp_path: Path) -> None:
    odd = instance("id1", 0, math.nan, stats=[stat("exact_match", math.nan)])
    helm(tmp_path, [instance("id1", 0, 1.0), odd])
    with pytest.raises(DataError, match="entry 2: has another value of 'exact_match' than before"):
        bayescontam.import_helm(tmp_path)
    assert rows(bayescontam.import_helm(tmp_path, skip_broken=True))[0][3:] == [1, 1]


def test_a_list_that_breaks_off_leaves_its_whole_entries(tmp_path: Path) -> None:
    helm(tmp_path, [instance("id1", 0, 1.0), instance("id2", 0, 0.0)])
    file = next(tmp_path.rglob("per_instance_stats.json"))
    file.write_text(file.read_text().rstrip()[:-20])
    with pytest.raises(
        DataError, match=r"stats\.json: as a whole: is no JSON list: .* in line \d+"
    ):
        bayescontam.import_helm(tmp_path)
    found = bayescontam.import_helm(tmp_path, skip_broken=True)
    assert rows(found) == [["org/m", ART, "id1", 1, 1]]
    assert found.left_out["reason"].tolist() == ["broken rows"]
