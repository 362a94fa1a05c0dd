"""Hugging Face data sets: saved to disk, and by name through a stand-in for the hub."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bayescontam.errors import DataError, MissingExtraError, UsageError
from bayescontam.scan.documents import Document, read_documents
from bayescontam.scan.fields import Fields
from bayescontam.scan.formats import Tally, dataset_records
from bayescontam.scan.items import Item, read_items
from bayescontam.scan.sources import Input, list_inputs
from bayescontam.specs.corpus import Benchmark, Source

datasets = pytest.importorskip("datasets")
hub = pytest.importorskip("huggingface_hub")

ROWS = [
    {"id": i, "meta": {"from": f"s{i % 2}"}, "messages": [{"role": "user", "content": f"text {i}"}],
     "waste": "w"}
    for i in range(10)
]  # fmt: skip
DOCUMENTS = [Document(str(i), f"s{i % 2}", f"text {i}") for i in range(10)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def source(dataset: str, **options: Any) -> Source:
    fields = {"text": "messages", "stratum": "meta.from"}
    return Source(name="s", dataset=dataset, **{**fields, **options})


def read(source: Source, base: Path, tally: Tally | None = None) -> list[Document]:
    items = list_inputs(source, base)
    return [d for item in items for d in read_documents(item, source, tally or Tally(), 1000)]


def saved(path: Path, **options: Any) -> None:
    datasets.Dataset.from_list(ROWS).save_to_disk(path, **options)


def test_a_saved_data_set(tmp_path: Path) -> None:
    saved(tmp_path / "data")
    (item,) = list_inputs(source("data"), tmp_path)
    fingerprint = json.loads((tmp_path / "data" / "state.json").read_text())["_fingerprint"]
    assert item == Input("s", "data", str(tmp_path / "data"), "dataset", stamp=fingerprint)
    tally = Tally()
    assert read(source("data"), tmp_path, tally) == DOCUMENTS
    assert (tally.documents, tally.unreadable) == (10, {})
    assert read(source(str(tmp_path / "data")), Path("/")) == DOCUMENTS


@pytest.mark.parametrize("shards", [3, 10])
def test_each_file_of_a_saved_data_set_is_a_shard(tmp_path: Path, shards: int) -> None:
    saved(tmp_path / "data", num_shards=shards)
    items = list_inputs(source("data"), tmp_path)
    assert [item.path for item in items] == [f"data[{i}/{shards}]" for i in range(1, shards + 1)]
    assert [(item.part, item.parts) for item in items] == [(i, shards) for i in range(shards)]
    assert read(source("data"), tmp_path) == DOCUMENTS


def test_the_split_of_a_saved_data_set(tmp_path: Path) -> None:
    whole = datasets.Dataset.from_list(ROWS)
    parts = {"train": whole.select(range(3)), "test": whole.select(range(3, 10))}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "data")
    assert read(source("data"), tmp_path) == DOCUMENTS[:3]
    assert read(source("data", split="test"), tmp_path) == DOCUMENTS[3:]
    for split in ("train", "test"):
        assert read(source("data/test", split=split), tmp_path) == DOCUMENTS[3:]
    with pytest.raises(UsageError, match=r"data: no split 'dev'; there are 'train', 'test'$"):
        list_inputs(source("data", split="dev"), tmp_path)


def test_rows_without_a_name_are_called_after_shard_and_row(tmp_path: Path) -> None:
    datasets.Dataset.from_list([{"text": "a"}, {"text": ""}, {"text": "c"}]).save_to_disk(
        tmp_path / "data", num_shards=2
    )
    assert [d.document for d in read(source("data", text="text"), tmp_path)] == [
        "data[1/2]#1",
        "data[2/2]#1",
    ]


def test_the_fields_of_a_data_set_are_named_where_the_text_is_missing(tmp_path: Path) -> None:
    saved(tmp_path / "data")
    message = r"10 × no field 'text'\)\nfields there: 'id', 'meta', 'messages', 'waste'; set text"
    with pytest.raises(DataError, match=message):
        read(source("data", text="text"), tmp_path)


def test_a_damaged_data_set_is_an_error(tmp_path: Path) -> None:
    saved(tmp_path / "data")
    (item,) = list_inputs(source("data"), tmp_path)
    file = next((tmp_path / "data").glob("*.arrow"))
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DataError, match=r"(?s)^data: cannot be read .*--skip-unreadable"):
        list(read_documents(item, source("data"), Tally(), 1000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "folder"}, r"folder: the folder is none that save_to_disk wrote; for a fol"),
        ({"dataset": "./nothing"}, r"there is no folder .*/nothing$"),
        ({"dataset": "a/b/c"}, r"there is no folder .*/a/b/c$"),
        ({"dataset": "/no/thing"}, r"there is no folder /no/thing$"),
        ({"dataset": "x\x1b[2J"}, r"x\\x1b\[2J: there is no folder"),
        ({"dataset": "broken"}, r"state\.json cannot be read \("),
    ],
)
def test_folders_that_hold_no_data_set(tmp_path: Path, options: Any, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "state.json").write_text("{")
    saved(tmp_path / "data")
    with pytest.raises(UsageError, match=rf"^source 's': data set .*{message}"):
        list_inputs(source(**options), tmp_path)


def test_without_the_package_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bayescontam\[scan\]'"):
        list_inputs(source("owner/name"), tmp_path)


class Hub:
    """Stands in for the hub: one data set, of which every load is noted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loads: list[tuple[Any, ...]] = []
        self.infos: list[tuple[Any, ...]] = []
        self.files = []
        for part in range(3):
            self.files.append(str(folder / f"{part}.jsonl"))
            rows = ROWS[part * 4 : part * 4 + 4]
            Path(self.files[-1]).write_text("".join(json.dumps(row) + "\n" for row in rows))
        self._load = datasets.load_dataset
        monkeypatch.setattr("datasets.load_dataset", self.load)
        monkeypatch.setattr(
            "huggingface_hub.HfApi", lambda: SimpleNamespace(dataset_info=self.info)
        )

    def load(self, name: str, config: str | None, **options: Any) -> Any:
        self.loads.append((name, config, options["split"], options["revision"]))
        assert options["streaming"] is True
        return self._load("json", data_files=self.files, split="train", streaming=True)

    def info(self, name: str, revision: str | None) -> Any:
        self.infos.append((name, revision))
        return SimpleNamespace(sha="c0ffee")


@pytest.fixture
def the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    return Hub(tmp_path, monkeypatch)


def test_a_data_set_by_name_is_streamed_at_one_commit(tmp_path: Path, the_hub: Hub) -> None:
    chosen = source("owner/name", config="en", split="test", revision="v1")
    items = list_inputs(chosen, tmp_path)
    assert items == [
        Input("s", f"owner/name/en/test[{i + 1}/3]", "owner/name", "dataset", i, 3, "c0ffee")
        for i in range(3)
    ]
    assert read(chosen, tmp_path) == DOCUMENTS
    assert set(the_hub.infos) == {("owner/name", "v1")}
    assert set(the_hub.loads) == {("owner/name", "en", "test", "c0ffee")}


def test_offline_the_cache_is_used(
    tmp_path: Path, the_hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert read(source("name", revision="v1"), tmp_path) == DOCUMENTS
    assert the_hub.infos == []
    assert set(the_hub.loads) == {("name", None, "train", "v1")}


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("info", ConnectionError("Name or service not known")),
        ("info", RuntimeError("401 Unauthorized: gated")),
        ("load", ValueError("Bad split: test. Available splits: ['train']")),
    ],
)
def test_a_data_set_that_cannot_be_reached_says_what_to_do(
    tmp_path: Path, the_hub: Hub, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(the_hub, where, fail)
    monkeypatch.setattr("datasets.load_dataset", the_hub.load)
    with pytest.raises(UsageError) as raised:
        list_inputs(source("owner/name"), tmp_path)
    message = str(raised.value)
    start = f"source 's': data set owner/name: {type(error).__name__}: {error}; check name, config"
    assert message.startswith(start)
    for remedy in ("hf auth login", "save_to_disk", "hf download owner/name", "HF_HUB_OFFLINE=1"):
        assert remedy in message


def test_a_data_set_that_fails_while_it_is_read_is_damaged(
    tmp_path: Path, the_hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = source("owner/name")
    items = list_inputs(chosen, tmp_path)
    Path(the_hub.files[1]).write_text('{"id": ')
    tally = Tally()
    with pytest.raises(DataError, match=r"owner/name/train\[2/3\]: cannot be read \("):
        list(read_documents(items[1], chosen, Tally(), 1000))
    assert list(read_documents(items[1], chosen, tally, 1000, skip_damage=True)) == []
    assert str(tally.damage).startswith("cannot be read (")


def benchmark(dataset: str, **options: Any) -> Benchmark:
    return Benchmark(name="quiz", dataset=dataset, **{"input": "text", **options})


def quiz(count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"q{i}", "text": f"Question {i}", "meta": {"level": i % 2}, "answer": i}
        for i in range(count)
    ]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_benchmark_is_a_saved_data_set(tmp_path: Path, shards: int) -> None:
    datasets.Dataset.from_list(quiz(9)).save_to_disk(tmp_path / "data", num_shards=shards)
    expected = [Item("quiz", f"q{i}", f"Question {i}") for i in range(9)]
    assert read_items(benchmark("data"), tmp_path) == (expected, 0)
    assert read_items(benchmark(str(tmp_path / "data")), Path("/")).items == expected
    template, mode = {"input": "{text} ({meta.level})", "output": "{answer}"}, "input_output"
    chosen = benchmark("data", item="#", where={"meta.level": 1}, text_mode=mode, **template)
    assert read_items(chosen, tmp_path) == (
        [Item("quiz", str(i), f"Question {i} (1)\n{i}") for i in (1, 3, 5, 7)], 5,
    )  # fmt: skip


def test_the_split_of_a_benchmark_is_test_by_default(tmp_path: Path) -> None:
    parts = {"train": quiz(3), "test": quiz(2)}
    made = {name: datasets.Dataset.from_list(rows) for name, rows in parts.items()}
    datasets.DatasetDict(made).save_to_disk(tmp_path / "data")
    assert len(read_items(benchmark("data"), tmp_path).items) == 2
    assert len(read_items(benchmark("data", split="train"), tmp_path).items) == 3
    message = r"^benchmark 'quiz': data set data: no split 'dev'; there are 'train', 'test'$"
    with pytest.raises(UsageError, match=message):
        read_items(benchmark("data", split="dev"), tmp_path)


def test_faults_of_a_benchmark_name_the_data_set_and_count_rows_through_shards(
    tmp_path: Path,
) -> None:
    rows = [*quiz(5), {"id": "q1", "text": "", "meta": None, "answer": None}]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "data", num_shards=2)
    with pytest.raises(DataError) as caught:
        read_items(benchmark("data"), tmp_path)
    assert [str(fault) for fault in caught.value.faults] == [
        "data: row 6: text: got ''; a text that is not blank is needed",
        "data: row 6: id: 'q1' is the name of row 2 as well; names must differ",
    ]
    there = "no row has this field; fields there: 'id', 'text', 'meta', 'answer'"
    with pytest.raises(DataError, match=rf"^data: where: {there}"):
        read_items(benchmark("data", where={"where": 1}), tmp_path)
    with pytest.raises(DataError, match=r'item = "#" calls items after the numbers of their rows'):
        read_items(benchmark("data", item="name"), tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", r'the folder is none that save_to_disk wrote; .* give path = "…/FILE"$'),
        ("./nothing", r"there is no folder .*/nothing$"),
        ("broken", r"state\.json cannot be read \("),
        ("other", r"state\.json cannot be read \(it has no '_data_files', '_fingerprint', so save"),
    ],
)
def test_folders_that_hold_no_benchmark(tmp_path: Path, name: str, message: str) -> None:
    for folder, content in (("folder", ""), ("broken", "{"), ("other", "[1]")):
        (tmp_path / folder).mkdir()
        if content:
            (tmp_path / folder / "state.json").write_text(content)
    with pytest.raises(UsageError, match=rf"^benchmark 'quiz': data set .*{message}"):
        read_items(benchmark(name), tmp_path)


def test_a_damaged_benchmark_is_an_error(tmp_path: Path) -> None:
    datasets.Dataset.from_list(quiz(5)).save_to_disk(tmp_path / "data")
    file = next((tmp_path / "data").glob("*.arrow"))
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DataError, match=r"^data: cannot be read \("):
        read_items(benchmark("data"), tmp_path)


def test_a_benchmark_by_name_is_streamed_at_one_commit(tmp_path: Path, the_hub: Hub) -> None:
    chosen = benchmark("owner/name", config="en", revision="v1", input="messages.content")
    with pytest.raises(DataError, match=r"^owner/name/en/test: row 1: messages\.content: got \['"):
        read_items(chosen, tmp_path)
    items = read_items(chosen.model_copy(update={"input": "{messages}"}), tmp_path).items
    assert items == [Item("quiz", str(i), f"text {i}") for i in range(10)]
    assert set(the_hub.infos) == {("owner/name", "v1")}
    assert set(the_hub.loads) == {("owner/name", "en", "test", "c0ffee")}


def test_a_benchmark_that_cannot_be_reached_says_what_to_do(
    tmp_path: Path, the_hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(the_hub, "info", fail)
    start = r"^benchmark 'quiz': data set owner/name: ConnectionError: Name or service not known; "
    advice = r'--local-dir FOLDER and path = "FOLDER/FILE"; what is in the cache'
    with pytest.raises(UsageError, match=rf"{start}check name, config.*{advice}"):
        read_items(benchmark("owner/name"), tmp_path)


def test_running_out_of_memory_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "data")
    (item,) = list_inputs(source("data"), tmp_path)

    def full(tables: Iterator[Any], _: Tally) -> Iterator[Any]:
        yield next(tables).num_rows, MemoryError
        raise MemoryError

    monkeypatch.setattr("bayescontam.scan.formats.arrow_records", full)
    with pytest.raises(MemoryError):
        list(dataset_records(item, source("data"), Fields.of("data", source("data")), Tally()))


def test_progress_bars_are_left_as_they_were(tmp_path: Path) -> None:
    saved(tmp_path / "data")
    for switch, disabled in (
        (datasets.enable_progress_bars, False),
        (datasets.disable_progress_bars, True),
    ):
        switch()
        read(source("data"), tmp_path)
        assert datasets.utils.are_progress_bars_disabled() is disabled
