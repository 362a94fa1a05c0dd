"""Shipped specs are found by name, others by path."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bayescontam.errors import SpecError
from bayescontam.specs.registry import load_manifest, load_model, shipped_folder, shipped_manifests

MANIFEST = 'summary = "mine"\n[generated]\n'


@pytest.mark.parametrize(
    ("load", "given", "message"),
    [
        (load_manifest, "olmo", r"^corpus manifest 'olmo': no such corpus manifest \(did you mean"
         r" 'olmo3'\?\)\nName a shipped corpus manifest \(bayescontam corpora list\) or give a path"
         r" to a \.toml\.$"),
        (load_manifest, "zzz", r"no such corpus manifest \(allowed: offline-demo, olmo3\)"),
        (load_manifest, "", r"^corpus manifest '': no such corpus manifest"),
        (load_manifest, "hierarchical", r"no such corpus manifest"),
        (load_model, "olmo3", r"^model spec 'olmo3': no such model spec \(allowed: ability.*\n"
         r"Name a shipped model spec \(bayescontam models list\)"),
        (load_manifest, "no.toml", r"^no\.toml: cannot be read .*\nGive the path of a TOML file"),
        (load_manifest, "./olmo3", r"olmo3: cannot be read"),
        (load_manifest, "two\nlines", r"^corpus manifest 'two\\nlines': no such"),
    ],
)  # fmt: skip
def test_what_is_not_there(load: Callable[[str], object], given: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load(given)


def test_names_and_paths_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "olmo3.toml").write_text(MANIFEST, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load_manifest("olmo3.toml").summary == "mine"
    assert load_manifest(Path("olmo3.toml")).summary == "mine"
    assert load_manifest("olmo3").summary != "mine"


def test_a_manifest_is_no_model_spec() -> None:
    path = shipped_folder("corpus") / "olmo3.toml"
    with pytest.raises(SpecError, match=r"benchmarks: unknown key \(allowed: ability, contam"):
        load_model(path)


def test_the_hash_does_not_depend_on_the_name(tmp_path: Path) -> None:
    path = tmp_path / "deep.name.toml"
    path.write_text(load_manifest("olmo3").text, encoding="utf-8")
    copy = load_manifest(path)
    assert (copy.name, copy.hash) == ("deep.name", load_manifest("olmo3").hash)


def test_an_installed_package_has_its_specs_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "_shipped" / "corpus"
    inside.mkdir(parents=True)
    (inside / "other.toml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "specs").mkdir()
    monkeypatch.setattr("bayescontam.specs.registry.__file__", str(tmp_path / "specs" / "c.py"))
    assert shipped_manifests() == ("other",)
    assert load_manifest("other").name == "other"
