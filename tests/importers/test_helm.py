"""Names of HELM's runs."""

from pathlib import Path

import pytest

import bayescontam
from tests.importers.test_tools import dump, instance, rows


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
