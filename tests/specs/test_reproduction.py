"""Reproduction specs: strict, distinct from simulation studies, shipped with their sources."""

from pathlib import Path
from typing import get_args

import pytest

from bayescontam.data.published_tables import read_published
from bayescontam.errors import SpecError, UsageError
from bayescontam.published.study import analysis_of
from bayescontam.specs.registry import load_study, shipped_folder, shipped_studies
from bayescontam.specs.study import Analysis, ReproductionSpec
from tests.support.made_findings import TEXT

TITLES = (
    "Quantifying Knowledge-Dependent Overfitting on ARC-AGI, (?:Table|Section) |"
    "The ConceptARC Benchmark|Soft Contamination Means Benchmarks Test Shallow Generalization|"
    r"et al\. \(\d{4}\), arXiv:\d{4}\.\d{5}"  # of a benchmark, how many items it has
)
SHIPPED = [name for name in shipped_studies() if isinstance(load_study(name), ReproductionSpec)]


def test_full_replaces_settings_and_leaves_the_others() -> None:
    spec = ReproductionSpec.parse(TEXT.replace("tables = 3", "tables = 3\na = [1, 2]"), "x.toml")
    assert spec.at_size(False) == {"tables": 3, "a": [1, 2]}
    assert spec.at_size(True) == {"tables": 7, "a": [1, 2]}
    assert (spec.seed, spec.name) == (1, "x")
    with pytest.raises(UsageError, match="smoke: 'x' has no such size; leave it out"):
        spec.at_size(smoke=True)


def test_smoke_is_the_smallest_size() -> None:
    spec = ReproductionSpec.parse(f"{TEXT}\n[smoke]\ntables = 1\n", "x.toml")
    assert spec.at_size(smoke=True) == {"tables": 1}
    with pytest.raises(UsageError, match="full and smoke: give one of the two"):
        spec.at_size(full=True, smoke=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[full]\ntables", "[full]\ntable", r"full.table: no such setting to replace \(did you"),
        ("[full]\ntables", "[smoke]\ntable", r"smoke.table: no such setting to replace \(did you"),
        ('"decomposition"', '"decompositon"', r"analysis: got .*; did you mean 'decomposition'\?"),
        ("question =", "questions =", r"questions: unknown key \(did you mean 'question'\?\)"),
        ('data = "Made up."', "", "data: is missing and has no default"),
        ('published = "arc', 'seed = -1\npublished = "arc', "seed: got -1; allowed is 0 or more"),
    ],
)
def test_what_cannot_be_used_is_reported(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(SpecError, match=message):
        ReproductionSpec.parse(TEXT.replace(old, new), "x.toml")


def test_the_kind_decides_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    path = shipped_folder("studies") / "arc-decomposition.toml"
    text = path.read_text(encoding="utf-8").replace('"reproduction"', '"reproducton"')
    file = tmp_path / "x.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=r"kind: got 'reproducton'; did you mean 'reproduction'\?"):
        load_study(file)


def test_every_script_can_be_named_as_an_analysis() -> None:
    scripts = shipped_folder("studies").glob("[!_]*.py")
    analyses = {path.stem for path in scripts if "\ndef analyse(" in path.read_text("utf-8")}
    assert analyses == set(get_args(Analysis))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_reproductions_have_an_analysis_and_sources(name: str) -> None:
    spec = load_study(name)
    assert isinstance(spec, ReproductionSpec)
    assert callable(analysis_of(spec.analysis))
    table = read_published(spec.published)
    assert table["source"].str.contains(TITLES).all()
    assert not table.duplicated(["quantity", "where"]).any()
    readme = (shipped_folder("studies") / "data" / "README.md").read_text(encoding="utf-8")
    assert not spec.published or f"`{spec.published}.csv`" in readme
