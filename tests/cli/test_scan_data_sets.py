"""Mistakes about data sets and templates in manifests, on the terminal."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done

datasets = pytest.importorskip("datasets")

Run = Callable[..., Done]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('dataset = "items"\nsplit = "dev"', "benchmark 'b0': data set items: no split"),
        ('dataset = "."', "benchmark 'b0': data set .: the folder is none that save_to_disk wrote"),
        ('dataset = "items"\ninput = "{task} {frm}"\nitem = "name"',
         "items/test: frm: no row has this field; fields there: 'name', 'task', 'form', 'level'"),
        ('dataset = "items"\ninput = "{task"', "benchmarks.0.input: got '{task'; '{' stands alone"),
        ('dataset = "items"\npath = "a.jsonl"', "benchmarks.0: give either 'path' or 'dataset'"),
    ],
)  # fmt: skip
def test_mistakes_of_a_benchmark_are_reported_in_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, lines: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"name": "q1", "task": "Why?", "form": "w1", "level": 1}]
    made = datasets.DatasetDict({"test": datasets.Dataset.from_list(rows)})
    made.save_to_disk(tmp_path / "items")
    (tmp_path / "pages.jsonl").write_text('{"text": "a page"}\n', encoding="utf-8")
    source = "[[sources]]\nname = 's0'\npaths = ['pages.jsonl']\n"
    text = f"summary = 'x'\n[[benchmarks]]\nname = 'b0'\n{lines}\n{source}"
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    done = run("scan", "mine.toml", "--out", "scan", "--quiet")
    assert done.status == 2
    assert message in done.err
    assert "Traceback" not in done.err
