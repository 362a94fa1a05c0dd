"""Documents of one name and different texts, and files that are one array."""

import json
from pathlib import Path
from typing import Any

import pytest

from bayescontam.errors import DataError
from bayescontam.evidence.choice import all_pairs
from bayescontam.evidence.verbatim import verbatim_judgements
from bayescontam.scan import document_names
from bayescontam.scan.results import Scan
from bayescontam.scan.run import run_scan
from bayescontam.specs.corpus import Manifest

ITEMS = [" ".join(f"w{20 * q + k}" for k in range(20)) for q in range(5)]


def scan_of(folder: Path, out: str = "out", **source: Any) -> Scan:
    """Scan the files in the folder ``c`` for `ITEMS`."""
    rows = [{"id": f"q{q}", "input": text} for q, text in enumerate(ITEMS)]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = Manifest.model_validate(
        {
            "summary": "Names.",
            "benchmarks": [{"name": "b", "path": "items.jsonl"}],
            "sources": [{"name": "s", "paths": ["c"], **source}],
            "embedding": {"model": "hashing"},
            "chunking": {"min_tokens": 1},
        }
    )
    return run_scan(manifest, folder / out, base=folder, jobs=1, device="cpu")


def write(folder: Path, names: list[list[Any]]) -> Path:
    """Write two files: near copies of the items, then copies, with these names of documents."""
    (folder / "c").mkdir(parents=True)
    near = [f"{text.rsplit(' ', 11)[0]} other {text.split(' ', 10)[-1]}" for text in ITEMS]
    for k, texts in enumerate((near, [f"{text} and more words" for text in ITEMS])):
        lines = [
            json.dumps({"id": name, "text": text}) + "\n"
            for name, text in zip(names[k], texts, strict=True)
        ]
        (folder / "c" / f"{k}.jsonl").write_text("".join(lines))
    return folder


def copies(scan: Scan) -> int:
    return int((verbatim_judgements(all_pairs(scan)).frame["is_duplicate"] == 1).sum())


def test_names_that_repeat_between_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [[*range(5)], [*range(5)]])
    message = (
        r"documents with different texts have the same name, such as '\d' \(100\.00% of the doc"
    )
    with pytest.raises(DataError, match=message) as caught:
        scan_of(tmp_path)
    assert 'document = "#"' in str(caught.value)
    numbered = scan_of(tmp_path, "numbered", document="#")
    assert copies(numbered) == 5
    assert set(numbered.matches["document"].str.partition("#")[2]) <= {str(k) for k in range(1, 6)}
    assert numbered.record["documents"]["without"] == {}


def test_a_few_names_that_repeat_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [[f"a{k}" for k in range(5)], ["a0", *(f"b{k}" for k in range(4))]])
    monkeypatch.setattr(document_names, "REFUSED", 0.5)
    (found,) = [note for note in scan_of(tmp_path).record["notes"] if "the same name" in note]
    assert found.startswith(
        "caution: source 's': documents with different texts have the same name, such"
    )
    assert "'a0' (20.00% of the documents)" in found


def test_copies_of_a_document_may_share_its_name(tmp_path: Path) -> None:
    write(tmp_path, [[f"a{k}" for k in range(5)], [f"b{k}" for k in range(5)]])
    (tmp_path / "c" / "2.jsonl").write_bytes((tmp_path / "c" / "1.jsonl").read_bytes())
    scan = scan_of(tmp_path)
    assert copies(scan) == 5
    assert not any("the same name" in note for note in scan.record["notes"])


@pytest.mark.parametrize(
    "text", ['[\n{"text": "a b"},\n{"text": "c d"}\n]\n', '\n [{"text": "a"},\n{"text": "b"}]']
)
def test_an_array_with_a_record_on_each_line_is_refused(tmp_path: Path, text: str) -> None:
    """Its last line alone is a record, so that a scan of one document would look sound."""
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "part.json").write_text(text)
    with pytest.raises(
        DataError, match=r"c/part\.json: cannot be read \(it is one JSON array, and"
    ):
        scan_of(tmp_path, format="jsonl")
