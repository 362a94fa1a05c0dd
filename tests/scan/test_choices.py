"""What a manifest chooses of its benchmarks and sources, from files to the record of the scan."""

import json
from pathlib import Path
from typing import Any

import pytest

from bayescontam.errors import DataError
from bayescontam.scan.run import Scan
from tests.support.corpora import manifest, write_records
from tests.support.small_corpus import scan

datasets = pytest.importorskip("datasets")

ITEMS = [
    {"name": f"q{i}", "task": f"task number {i}", "form": f"w{i} w{i + 1}", "level": i % 3}
    for i in range(9)
]
BENCHMARK = """dataset = "items"
item = "name"
input = "{task}\\n\\nInput: {form}"
where = { level = [0, 2] }"""
CHATS = """paths = ["chats.jsonl"]
text = "chat"
chat = "{role}: {content}"
roles = { user = "Prompt", assistant = "Response" }
where = { lang = "en" }"""


def write_corpus(folder: Path) -> None:
    datasets.Dataset.from_list(ITEMS).save_to_disk(folder / "items")
    chats = [
        {"id": f"c{i}", "lang": ["en", "de"][i % 4 == 3], "chat": [
            {"role": "system", "content": "Answer."},
            {"role": "user", "content": f"task number {i}"},
            {"role": "assistant", "content": f"w{i} w{i + 1}"},
        ]}
        for i in range(8)
    ]  # fmt: skip
    write_records(folder / "chats.jsonl", chats)
    write_records(folder / "pages.jsonl", [{"text": f"page {i}"} for i in range(4)])


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    folder = tmp_path_factory.mktemp("chosen")
    write_corpus(folder)
    made = manifest(CHATS, "paths = ['pages.jsonl']", benchmarks=[BENCHMARK])
    return scan(made, folder / "scan", keep_vectors="fp32")


def test_items_and_documents_are_those_that_were_chosen(chosen: Scan) -> None:
    assert dict(zip(chosen.items["item"], chosen.items["text"], strict=True)) == {
        f"q{i}": f"task number {i}\n\nInput: w{i} w{i + 1}" for i in range(9) if i % 3 != 1
    }
    expected = [f"Prompt: task number {i}\n\nResponse: w{i} w{i + 1}" for i in (0, 1, 2, 4, 5, 6)]
    assert sorted(chosen.texts["text"]) == sorted([*expected, *(f"page {i}" for i in range(4))])


def test_what_is_left_out_is_counted(chosen: Scan) -> None:
    documents = chosen.record["documents"]
    assert (documents["read"], documents["unreadable"]) == (10, {})
    assert documents["left_out"] == {"s0": 2}
    assert documents["left_out_messages"] == {"s0": {"system": 6}}
    (row,) = chosen.record["benchmarks"]
    assert (row["items"], row["left_out"]) == (6, 3)
    assert chosen.record["notes"][:3] == [
        "benchmark 'b0': 'where' leaves out 3 rows",
        "source 's0': 'where' leaves out 2 records",
        "source 's0': 'roles' leaves out messages: 6 of system",
    ]


def test_counts_come_with_stored_vectors(chosen: Scan) -> None:
    folder = chosen.folder.parent
    made = manifest(top="stored = ['scan/vectors']", benchmarks=[BENCHMARK])
    again = scan(made, folder / "again")
    for key in ("left_out", "left_out_messages"):
        assert again.record["documents"][key] == chosen.record["documents"][key]


def refused(folder: Path, source: str, **options: Any) -> str:
    write_corpus(folder)
    with pytest.raises(DataError) as caught:
        scan(manifest(source, benchmarks=[BENCHMARK]), folder / "scan", **options)
    assert not (folder / "scan" / "scan.json").exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "column"),
    [(("lang =", "langg ="), "langg"), (('text = "chat"', 'text = "{chat}{note?}"'), "note")],
)
@pytest.mark.parametrize("skip_unreadable", [False, True])
def test_a_field_that_no_record_has_is_refused(
    tmp_path: Path, change: tuple[str, str], column: str, skip_unreadable: bool
) -> None:
    message = refused(tmp_path, CHATS.replace(*change), skip_unreadable=skip_unreadable)
    assert message == (
        f"source 's0': {column}: no record has this field; fields there: 'id', 'lang', 'chat'\n"
        "Correct the name in 'where', or in the template of 'text'."
    )


def test_a_field_that_only_some_files_have_is_no_fault(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    both = 'paths = ["chats.jsonl", "pages.jsonl"]\ntext = "{chat?}{text?}"'
    found = scan(manifest(both, benchmarks=[BENCHMARK]), tmp_path / "scan")
    assert found.record["documents"]["read"] == 12
    some = 'paths = ["chats.jsonl", "pages.jsonl"]\ntext = "chat"\nwhere = { lang = "de" }'
    found = scan(manifest(some, benchmarks=[BENCHMARK]), tmp_path / "some")
    assert found.record["documents"]["read"] == 2
    assert found.record["documents"]["left_out"] == {"s0": 10}


def test_conditions_that_no_record_meets_are_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, CHATS.replace('"en"', '"EN"'))
    assert message.startswith(
        "source 's0': no document in 1 inputs (8 × left out by 'where'); values there: lang: 'en',"
        " 'de'\n"
    )


def test_roles_that_no_message_has_are_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, CHATS.replace("user =", "human =").replace("assistant =", "gpt ="))
    assert message.startswith(
        "source 's0': no document in 1 inputs (6 × no message of the roles that are scanned, 2 ×"
        " left out by 'where'); other roles there: 'system', 'user', 'assistant'\n"
    )
    (tmp_path / "all").mkdir()
    source = CHATS.replace("where =", "# where =").replace("user =", "human =")
    message = refused(tmp_path / "all", source.replace("assistant =", "gpt ="))
    assert message.startswith(
        "source 's0': no document in 1 inputs (8 × no message of the roles that are scanned);"
        " other roles there: 'system', 'user', 'assistant'\n"
    )


def test_a_changed_condition_reads_the_source_again(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    out = tmp_path / "scan"
    for lang, read in (("en", 6), ("de", 2)):
        made = manifest(CHATS.replace('"en"', f'"{lang}"'), benchmarks=[BENCHMARK])
        found = scan(made, out, replace=True, keep_work=True)
        assert found.record["documents"]["read"] == read
    assert len(list((out / "work").glob("read-*"))) == 2


def test_a_few_unreadable_records_among_those_left_out_do_not_stop_a_scan(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"lang": "fr", "chat": []}) + "\nno JSON\n")
    source = CHATS.replace('"chats.jsonl"', '"chats.jsonl", "more.jsonl"')
    found = scan(manifest(source, benchmarks=[BENCHMARK]), tmp_path / "scan")
    assert found.record["documents"]["left_out"] == {"s0": 3}
    assert found.record["documents"]["unreadable"] == {"not JSON": 1}
