"""Listing: files by path, folder, glob and address, each once and in order."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from bayescontam.errors import UsageError
from bayescontam.scan.sources import Input, list_inputs
from bayescontam.specs.corpus import Source

FILES = [
    "b.jsonl",
    "a.jsonl.gz",
    "deep/er/c.JSON.ZST",
    "deep/d.parquet",
    "deep/e.txt.bz2",
    "notes.md",
    "code.py",
    "picture.png",
    "table.csv",
    "other.csv",
    "vectors.npy",
    "no_suffix",
    ".hidden.jsonl",
    ".git/f.jsonl",
    "packed.parquet.gz",
]
USABLE = {
    "a.jsonl.gz": "jsonl",
    "b.jsonl": "jsonl",
    "code.py": "text",
    "deep/d.parquet": "parquet",
    "deep/e.txt.bz2": "text",
    "deep/er/c.JSON.ZST": "jsonl",
    "notes.md": "text",
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / "corpus" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "corpus" / name).write_bytes(b"x")
    return tmp_path / "corpus"


def source(*paths: str, **options: Any) -> Source:
    return Source(name="s", paths=paths, **options)


def listed(base: Path, *paths: str, **options: Any) -> dict[str, str]:
    inputs = list_inputs(source(*paths, **options), base)
    assert inputs == sorted(inputs, key=lambda item: item.path)
    return {item.path: item.kind for item in inputs}


def test_a_folder_gives_what_its_names_say(corpus: Path) -> None:
    notes: list[str] = []
    inputs = list_inputs(source("."), corpus, notes)
    assert {item.path: item.kind for item in inputs} == USABLE
    assert [item.path for item in inputs] == sorted(USABLE)
    (note,) = notes
    assert note.startswith("source 's': 6 files were passed over because of their names (2 × .csv,")
    assert "1 × no suffix" in note
    assert note.endswith("known are .jsonl, .ndjson, .json, .txt, .md, .py "
                         "(each also .gz, .zst or .bz2) and .parquet, .pq")  # fmt: skip


@pytest.mark.parametrize(
    ("paths", "options", "expected"),
    [
        (["b.jsonl"], {}, {"b.jsonl": "jsonl"}),
        (["b.jsonl", "./b.jsonl", "deep/../b.jsonl", "."], {}, USABLE),
        (["*.jsonl"], {}, {"b.jsonl": "jsonl"}),
        (["*.jsonl*", "b.jsonl"], {}, {"a.jsonl.gz": "jsonl", "b.jsonl": "jsonl"}),
        (["*"], {}, USABLE),
        (["**/[cd].*"], {}, {"deep/er/c.JSON.ZST": "jsonl", "deep/d.parquet": "parquet"}),
        ([".hidden.jsonl"], {}, {".hidden.jsonl": "jsonl"}),
        ([".git/*"], {}, {".git/f.jsonl": "jsonl"}),
        (["no_suffix", "deep"], {"format": "jsonl"},
         {"no_suffix": "jsonl", "deep/er/c.JSON.ZST": "jsonl"}),
        (["*.csv"], {"format": "text"}, {"other.csv": "text", "table.csv": "text"}),
        (["deep"], {"format": "text"},
         {"deep/er/c.JSON.ZST": "text", "deep/d.parquet": "text", "deep/e.txt.bz2": "text"}),
        (["."], {"format": "vectors"}, {"deep/d.parquet": "vectors", "vectors.npy": "vectors"}),
    ],
)  # fmt: skip
def test_what_paths_lead_to(
    corpus: Path, paths: list[str], options: Any, expected: dict[str, str]
) -> None:
    assert listed(corpus, *paths, **options) == expected


def test_files_outside_the_base_have_their_whole_path(corpus: Path, tmp_path: Path) -> None:
    base = tmp_path / "manifests"
    base.mkdir()
    path = str(corpus / "b.jsonl")
    for given in (path, "../corpus/b.jsonl", "../corpus/b*"):
        (item,) = list_inputs(source(given), base)
        assert item == Input("s", path, path, "jsonl", stamp=item.stamp)


def test_a_relative_base_is_as_good(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(corpus)
    (item,) = list_inputs(source("e.txt.bz2"), "deep")
    assert (item.path, item.location) == ("e.txt.bz2", str(corpus / "deep" / "e.txt.bz2"))


def test_the_home_folder_is_known(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(corpus))
    assert list(listed(corpus / "deep", "~/b.jsonl", "~/*.py")) == [
        str(corpus / "b.jsonl"),
        str(corpus / "code.py"),
    ]


def test_what_exists_by_the_name_of_a_glob_is_that_file(tmp_path: Path) -> None:
    for name in ("a[1].jsonl", "a1.jsonl"):
        (tmp_path / name).write_text("x")
    assert listed(tmp_path, "a[1].jsonl") == {"a[1].jsonl": "jsonl"}


def test_a_base_with_the_signs_of_globs_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a[1]").mkdir()
    (tmp_path / "a[1]" / "b.jsonl").write_text("x")
    assert listed(tmp_path / "a[1]", "*.jsonl") == {"b.jsonl": "jsonl"}


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.jsonl").write_text("x")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "again").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "corpus" / "b.jsonl").symlink_to(tmp_path / "real" / "a.jsonl")
    (tmp_path / "corpus" / "broken.jsonl").symlink_to(tmp_path / "nothing")
    (tmp_path / "more.jsonl").write_text("x")
    (tmp_path / "corpus" / "more.jsonl").symlink_to(tmp_path / "more.jsonl")
    assert list(listed(tmp_path, "corpus")) == [
        "corpus/broken.jsonl",
        "corpus/linked/a.jsonl",  # corpus/b.jsonl is the same file
        "corpus/more.jsonl",
    ]


def linked_corpus(folder: Path) -> None:
    (folder / "c" / "2024").mkdir(parents=True)
    for name in ("2024/a.jsonl", "2024/b.jsonl", "d.jsonl"):
        (folder / "c" / name).write_text("x")
    (folder / "c" / "0.jsonl").symlink_to("2024/a.jsonl")
    (folder / "c" / "e.jsonl").hardlink_to(folder / "c" / "d.jsonl")


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize(
    "paths", [["c"], ["c/*", "c/2024"], ["c/0.jsonl", "c/e.jsonl", "c/2024", "c/d.jsonl"]]
)
def test_a_file_under_two_names_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: list[str], numbered: bool
) -> None:
    linked_corpus(tmp_path)
    stat = Path.stat

    def without_numbers(self: Path, **options: Any) -> os.stat_result:
        values = list(stat(self, **options))
        values[1] = 0  # st_ino
        return os.stat_result(values, {"st_mtime_ns": 0})

    if not numbered:
        monkeypatch.setattr(Path, "stat", without_numbers)
    notes: list[str] = []
    found = [item.path for item in list_inputs(source(*paths), tmp_path, notes)]
    hard = [] if numbered else ["c/e.jsonl"]  # only their numbers show that they are one
    assert found == ["c/2024/a.jsonl", "c/2024/b.jsonl", "c/d.jsonl", *hard]
    pairs = ["'c/0.jsonl is c/2024/a.jsonl'", "'c/e.jsonl is c/d.jsonl'"][: 2 - len(hard)]
    [note] = notes
    assert note.startswith(f"source 's': {len(pairs)} files were passed over because they are lin")
    assert all(pair in note for pair in pairs)


def test_names_need_not_be_utf8(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl")).write_text("x")
    assert listed(tmp_path, ".") == {"\\xff.jsonl": "jsonl"}


def test_the_stamp_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    stamps = set()
    for content, time in (("x", 1), ("x", 2), ("xy", 2)):
        path.write_text(content)
        os.utime(path, (time, time))
        stamps |= {list_inputs(source("a.jsonl"), tmp_path)[0].stamp for _ in range(2)}
    assert len(stamps) == 3


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("nothing", {}, r"source 's': nothing \(looked for from .*corpus\): no such file or fol"),
        ("b.jsonI", {}, r"no such file or folder; did you mean 'b\.jsonl'\?"),
        ("no/thing", {}, r"no such file or folder$"),
        ("*.tsv", {}, r"\*\.tsv \(looked for from .*\): no file matches$"),
        ("empty", {}, r"the folder holds no file$"),
        ("*.csv", {}, r"no file here can be read by its name \(2 × \.csv\); known are \.jsonl, "),
        ("picture.png", {}, r"\(1 × \.png\).*rename the files, or set format and give them by"),
        ("deep/er", {"format": "parquet"}, r"\(1 × \.zst\); known are \.parquet, \.pq;"),
        ("pipe.jsonl", {}, r"pipe\.jsonl: cannot be looked through \(a device or a pipe; give"),
        ("x\x1b[2J\0", {}, r"x\\x1b\[2J\\x00"),
        ("nowhere://a", {}, r"nowhere://a: cannot be looked through \(.*nowhere"),
    ],
)
def test_nothing_to_read_is_an_error(corpus: Path, path: str, options: Any, message: str) -> None:
    (corpus / "empty").mkdir()
    os.mkfifo(corpus / "pipe.jsonl")
    with pytest.raises(UsageError, match=message):
        list_inputs(source(path, **options), corpus)


def test_pipes_in_folders_are_left_alone(corpus: Path) -> None:
    os.mkfifo(corpus / "pipe.jsonl")
    assert listed(corpus, ".") == USABLE


def test_a_folder_that_may_not_be_looked_into_is_an_error(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("os.scandir", denied)  # root may look everywhere
    with pytest.raises(UsageError, match=r"cannot be looked through \(Permission denied\)"):
        list_inputs(source("."), corpus)


@pytest.fixture
def memory() -> Iterator[str]:
    system = fsspec.filesystem("memory")
    for name in ("a.jsonl", "deep/b.parquet", "deep/.c.jsonl", "d.png", "q?x=1.jsonl"):
        system.pipe(f"/bucket/{name}", b"x")
    yield "memory://bucket"
    system.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a.jsonl", ["a.jsonl"]),
        ("", ["a.jsonl", "deep/b.parquet", "q?x=1.jsonl"]),
        ("/*.jsonl", ["a.jsonl", "q?x=1.jsonl"]),
        ("/**", ["a.jsonl", "deep/b.parquet", "q?x=1.jsonl"]),
        ("/q?x=1.jsonl", ["q?x=1.jsonl"]),
    ],
)
def test_addresses(memory: str, tmp_path: Path, path: str, expected: list[str]) -> None:
    inputs = list_inputs(source(memory + path), tmp_path)
    assert [item.path for item in inputs] == [f"memory:///bucket/{name}" for name in expected]
    assert all(item.location == item.path and item.stamp.startswith("1-") for item in inputs)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nothing", r"source 's': memory://bucket/nothing: no file there$"),
        ("/*.png", r"memory://bucket/\*\.png: no file here can be read by its name \(1 × \.png\)"),
    ],
)
def test_addresses_that_lead_to_nothing(
    memory: str, tmp_path: Path, path: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        list_inputs(source(memory + path), tmp_path)
