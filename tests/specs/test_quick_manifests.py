"""Quick manifests: TOML that means the same anywhere, and refusals that name the key."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayescontam.errors import SpecError
from bayescontam.scan.sources import list_inputs
from bayescontam.specs.corpus import Manifest
from bayescontam.specs.registry import quick_manifest
from tests.support.real_data import names

# Whatever a path may hold: no NUL, and here nothing that is no Unicode.
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
ODD = ['it\'s "quoted"', "back\\slash", "C:\\new\\u0041", "a b", "😀/é", "\x7f", "#", "a\nb"]
PATHS = st.text(LETTERS, min_size=1, max_size=20) | st.sampled_from(ODD)


def refused(*, benchmark: str = "items.jsonl", corpus: Any = ("web",), **options: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        quick_manifest(benchmark, corpus, options)
    return [str(fault) for fault in caught.value.faults]


@given(benchmark=PATHS, corpus=st.lists(PATHS, min_size=1, max_size=3), text=names())
@example(benchmark="/", corpus=["~"], text="\x7f\x1b\ud7ff\U0010ffff")
@example(benchmark="😀" * 300, corpus=["nan"], text='"""')
def test_the_text_gives_the_same_manifest(benchmark: str, corpus: list[str], text: str) -> None:
    text = text[:4096]
    if not Path(benchmark).name:
        assert refused(benchmark=benchmark) == [
            "manifest.toml: benchmarks.0.name: got ''; it must not be empty"
        ]
        return
    options = {"text": text, "stratum": text, "embedder": text, "share": 0.1, "seed": 2**62}
    manifest = quick_manifest(benchmark, tuple(corpus), options)
    assert Manifest.parse(manifest.text, "manifest.toml") == manifest
    assert manifest.text.encode().decode() == manifest.text
    (source,) = manifest.sources
    assert (source.text, source.stratum, manifest.embedding.model) == (text, text, text)
    assert (source.share, manifest.seed) == (0.1, 2**62)


@given(path=PATHS.filter(lambda path: not path.startswith(("~", "/")) and "://" not in path))
def test_relative_paths_become_absolute(path: str) -> None:
    manifest = quick_manifest("items.jsonl", (path,), {})
    (found,) = manifest.sources[0].paths or ()
    assert Path(found) == Path.cwd() / path
    assert manifest.benchmarks[0].path == str(Path.cwd() / "items.jsonl")


def test_absolute_paths_and_addresses_stay() -> None:
    paths = ("/data/web", "s3://bucket/a/*.jsonl", "hf://datasets/a/b", "file:///data/x")
    manifest = quick_manifest("gs://bucket/items.jsonl.gz", paths, {})
    assert manifest.sources[0].paths == paths
    assert manifest.benchmarks[0].path == "gs://bucket/items.jsonl.gz"
    assert manifest.benchmarks[0].name == "items"


def test_home_is_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    manifest = quick_manifest("~/items.csv", ("~/corpus/*.jsonl", "~nobody-of-this-name/x"), {})
    assert manifest.benchmarks[0].path == "/home/me/items.csv"
    here = str(Path.cwd() / "~nobody-of-this-name/x")
    assert manifest.sources[0].paths == ("/home/me/corpus/*.jsonl", here)


FILES = ["a.jsonl", "b.jsonl", "deep/c.jsonl", "[x].jsonl", "x.jsonl"]


@pytest.mark.parametrize("folder", ["plain", "odd [ab] * ?", "[a]"])
@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("[ab].jsonl", ["a.jsonl", "b.jsonl"]),
        ("**/?.jsonl", ["a.jsonl", "b.jsonl", "deep/c.jsonl", "x.jsonl"]),
        ("./deep/*", ["deep/c.jsonl"]),
        ("[x].jsonl", ["[x].jsonl"]),
        ("deep/../a.jsonl", ["a.jsonl"]),
        (".", FILES),
    ],
)
def test_globs_keep_working_wherever_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, path: str, found: list[str]
) -> None:
    for name in FILES:
        (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text("{}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / folder)
    (source,) = quick_manifest("a.jsonl", (path,), {}).sources
    monkeypatch.chdir(tmp_path)
    inputs = list_inputs(source, tmp_path / folder)
    assert sorted(item.path for item in inputs) == sorted(found)


def test_options_land_in_their_tables() -> None:
    options = {
        "text": "body", "stratum": "meta.source", "text_mode": "input_output", "share": 0.25,
        "embedder": "m", "min_tokens": 0, "top_k": 7, "seed": 3, "endpoint": "http://x/v1",
        "max_tokens": 512, "tokenizer": "owner/m", "api_key_env": "KEY",
    }  # fmt: skip
    written = tomllib.loads(quick_manifest("/d/quiz.csv", ("/d/web", "/d/books"), options).text)
    assert written == {
        "summary": "Quick scan for quiz.csv",
        "seed": 3,
        "benchmarks": [{"name": "quiz", "path": "/d/quiz.csv", "text_mode": "input_output"}],
        "sources": [
            {
                "name": "corpus",
                "paths": ["/d/web", "/d/books"],
                "text": "body",
                "stratum": "meta.source",
                "share": 0.25,
            }
        ],
        "chunking": {"min_tokens": 0},
        "embedding": {
            "model": "m",
            "endpoint": "http://x/v1",
            "max_tokens": 512,
            "tokenizer": "owner/m",
            "api_key_env": "KEY",
        },
        "search": {"top_k": 7},
    }


def test_the_benchmark_may_be_named() -> None:
    manifest = quick_manifest("/d/items.jsonl", ("/d/web",), {"benchmark_name": "GSM8K, test"})
    assert [benchmark.name for benchmark in manifest.benchmarks] == ["GSM8K, test"]
    assert tomllib.loads(manifest.text)["benchmarks"][0]["name"] == "GSM8K, test"


def test_what_is_not_given_is_left_to_the_defaults() -> None:
    manifest = quick_manifest("/d/quiz.csv", ("/d/web",), {})
    least = 'summary = "x"\n[[benchmarks]]\nname = "quiz"\npath = "/d/quiz.csv"\n'
    other = Manifest.parse(least + '[[sources]]\nname = "corpus"\npaths = ["/d/web"]\n', "a.toml")
    assert manifest.model_dump(exclude={"summary"}) == other.model_dump(exclude={"summary"})
    assert manifest.name == "manifest"


def test_several_fields_of_text() -> None:
    manifest = quick_manifest("items.jsonl", ("web",), {"text": ["title", "body\x7f"]})
    assert manifest.sources[0].text == ("title", "body\x7f")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("items.jsonl.gz", "items"),
        ("items.jsonl", "items"),
        ("deep/items.csv.ZST", "items"),
        ("items.parquet", "items"),
        ("items.bz2", "items"),
        ("mmlu.v1.2.jsonl.zstd", "mmlu.v1.2"),
        ("items", "items"),
        (".items.jsonl", ".items"),
        (".gz", ".gz"),
        ("two\nlines.jsonl", "two\nlines"),
    ],
)
def test_benchmarks_are_named_after_their_files(path: str, name: str) -> None:
    manifest = quick_manifest(path, ("web",), {})
    assert manifest.benchmarks[0].name == name
    assert "\n" not in manifest.summary


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"share": 2.0}, "sources.0.share: got 2.0; allowed is 1 or less"),
        ({"share": 0.0}, "sources.0.share: got 0.0; allowed is more than 0"),
        ({"share": float("nan")}, "sources.0.share: got nan; a finite number is needed"),
        ({"share": float("inf")}, "sources.0.share: got inf; a finite number is needed"),
        ({"share": 1e-300 * 1e-300}, "sources.0.share: got 0.0; allowed is more than 0"),
        ({"top_k": 0}, "search.top_k: got 0; allowed is 1 or more"),
        ({"min_tokens": -1}, "chunking.min_tokens: got -1; allowed is 0 or more"),
        ({"seed": -1}, "seed: got -1; allowed is 0 or more"),
        ({"seed": 2**63}, f"seed: got {2**63}; allowed is less than {2**63:,}"),
        ({"embedder": ""}, "embedding.model: got ''; it must not be empty"),
        ({"text": ""}, "sources.0.text: got ''; it must not be empty"),
        ({"text_mode": "inptu"}, "benchmarks.0.text_mode: got 'inptu'; did you mean 'input'?"),
    ],
)
def test_bad_values_are_refused_with_their_key(options: dict[str, Any], fault: str) -> None:
    assert refused(**options)[0] == f"manifest.toml: {fault}"


def test_nothing_is_no_corpus() -> None:
    # Not the current folder, as an empty path would be.
    empty = "manifest.toml: sources.0.paths.0: got ''; it must not be empty"
    assert refused(corpus=("",)) == [empty]
    assert refused(corpus=())[0].startswith("manifest.toml: sources.0.paths: got []; ")


def test_stored_vectors_stand_for_a_corpus_with_their_embedding() -> None:
    made = quick_manifest("items.jsonl", (), {"top_k": 3}, ("scan/vectors",), {"model": "hashing"})
    assert made.stored == (str(Path.cwd() / "scan" / "vectors"),)
    assert (made.sources, made.embedding.model, made.search.top_k) == ((), "hashing", 3)


def test_all_bad_values_are_reported_at_once() -> None:
    assert len(refused(share=2.0, top_k=0, seed=-1)) == 3


def test_paths_that_are_not_unicode_are_refused() -> None:
    path = os.fsdecode(b"/data/\xff.jsonl")
    assert refused(benchmark=path) == [
        r'manifest.toml: name: got "\udcff", which is not Unicode; rename it'
    ]
    assert refused(corpus=(path,)) == [
        r'manifest.toml: paths: got ["/data/\udcff.jsonl"], which is not Unicode; rename it'
    ]


def test_unknown_options_are_no_option() -> None:
    with pytest.raises(KeyError, match="textmode"):
        quick_manifest("items.jsonl", ("web",), {"textmode": "input"})
