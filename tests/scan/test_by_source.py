"""Scans of each source by itself: the same as one scan a source, byte for byte."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from bayescontam.errors import DataError, SpecError, UsageError
from bayescontam.evidence.choice import choose_pairs
from bayescontam.evidence.cleaning import write_clean
from bayescontam.evidence.sheets import export_sheet, read_sheet
from bayescontam.report.scan_page import render_scan
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.find import find_nearest
from bayescontam.scan.index_build import build_index
from bayescontam.scan.results import ITEM_TEXTS, Scan, by_benchmark, lexical_scores, over_all
from bayescontam.scan.run import run_scan
from bayescontam.scan.sketch import SketchMerger
from bayescontam.specs.corpus import Embedding, Lexical, Manifest
from tests.support.corpora import leftovers, tables_of, text, write_records
from tests.support.small_corpus import Stop, scan

TABLES = ("matches", "tail", "histogram")
TOP_K = 6
HEAD = "summary = 'made for a test'\nseed = 3\n"
QUIZ = "[[benchmarks]]\nname = 'quiz'\npath = 'items.jsonl'\n"
CODE = "[[benchmarks]]\nname = 'code'\npath = 'more.jsonl'\ntext_mode = 'output'\n"
SEARCH = f"top_k = {TOP_K}\ntail_size = 9\ntail_share = 0.05\nshard_chunks = 16\n"
TAIL = "[embedding]\nmodel = 'hashing'\n[chunking]\nmax_tokens = 40\n"
PLAIN = {
    "web": "paths = ['web']\nstratum = 'kind'\nshare = 0.5\n",
    "chats": "paths = ['chats.jsonl']\ntext = 'messages'\nchat = '{role}: {content}'\n"
    "roles = ['user', 'assistant']\n",
    "books": "paths = ['books']\n",
    "ready": "paths = ['ready.npy']\nformat = 'vectors'\n",
}
OWN = {
    "web": "",
    "chats": "text_mode = 'input_output'\ninput_output = 'user: {input} assistant: {output}'\n",
    "books": "text_mode = 'output'\n",
    "ready": "text_mode = 'input_output'\n",
}


@dataclass(frozen=True)
class Made:
    """A corpus on disk, and the scan of all of its sources, one by one."""

    folder: Path
    own: dict[str, str]  # what each source has of its own
    found: Scan


def made_manifest(
    names: list[str], own: dict[str, str] | None = None, top: str = "", search: str = ""
) -> Manifest:
    """Return a manifest that searches some of the sources one by one."""
    parts = [f"[[sources]]\nname = '{n}'\n{PLAIN[n]}{(own or {}).get(n, '')}" for n in names]
    how = f"[search]\n{search or 'per = "source"'}\n{SEARCH}"
    return Manifest.parse("".join([HEAD, top, QUIZ, CODE, *parts, TAIL, how]), "made.toml")


def write_corpus(folder: Path) -> None:
    """Write sources that share texts, and items some of which stand in them."""
    rng = random.Random(7)
    items = [{"id": f"q{i}", "input": text(rng, 9 + i), "output": text(rng, 30)} for i in range(12)]
    more = [{"id": f"c{i}", "input": text(rng, 12), "output": text(rng, 14)} for i in range(5)]
    write_records(folder / "items.jsonl", items)
    write_records(folder / "more.jsonl", more)
    common = [text(rng) for _ in range(8)] + [item["input"] for item in items[:4]]
    common += [item["output"] for item in [*items[4:8], *more[:2]]]

    def fresh() -> str:
        return rng.choice(common) if rng.random() < 0.4 else text(rng, rng.choice([3, 8, 20]))

    for part in ("a", "b", "c"):
        rows = ({"id": f"{part}{i}", "kind": f"k{i % 3}", "text": fresh()} for i in range(40))
        write_records(folder / "web" / f"{part}.jsonl", rows)
    chats = []
    for i in range(40):
        item = items[i % 12]
        user, answer = (item["input"], item["output"]) if i < 6 else (fresh(), fresh())
        said = [("system", text(rng, 4)), ("user", user), ("assistant", answer)]
        chats.append({"id": i, "messages": [{"role": r, "content": c} for r, c in said]})
    write_records(folder / "chats.jsonl", chats)
    (folder / "books").mkdir()
    for i in range(7):
        pieces = (f"{text(rng, 30)}. {fresh()}" for _ in range(1 + i % 4))
        (folder / "books" / f"{i}.txt").write_text("\n\n".join(pieces))
    embedder = load_embedder(Embedding(model="hashing"))
    np.save(folder / "ready.npy", embedder.embed([fresh() for _ in range(50)], "passage"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("by-source")
    write_corpus(path)
    return path


@pytest.fixture(scope="module", params=["one text", "other texts"])
def made(folder: Path, request: pytest.FixtureRequest) -> Made:
    own = OWN if request.param == "other texts" else {}
    out = folder / request.param
    return Made(folder, own, scan(made_manifest([*PLAIN], own), out))


@pytest.fixture(scope="module")
def alone(made: Made) -> dict[str, Scan]:
    """Return one scan a source, of the whole corpus that it then is."""
    scans = {}
    for name in PLAIN:
        changed = made_manifest([name], {}, search="per = 'corpus'").text
        own = made.own.get(name, "")
        for benchmark in (QUIZ, CODE):
            mode = own if "text_mode" in own else ""
            changed = changed.replace(
                benchmark,
                benchmark.replace(
                    "text_mode = 'output'\n", "" if mode else "text_mode = 'output'\n"
                )
                + mode,
            )
        place = made.folder / f"{made.found.folder.name} {name}"
        scans[name] = scan(Manifest.parse(changed, "alone.toml"), place, base=made.folder)
    return scans


def of_source(made: Made, table: str, source: str) -> pd.DataFrame:
    rows: pd.DataFrame = getattr(made.found, table)
    return rows[rows["source"] == source].reset_index(drop=True)


@pytest.mark.parametrize("source", [*PLAIN])
@pytest.mark.parametrize("table", TABLES)
def test_a_source_has_what_a_scan_of_it_alone_has(
    made: Made, alone: dict[str, Scan], table: str, source: str
) -> None:
    wanted: pd.DataFrame = getattr(alone[source], table)
    assert len(wanted) >= 30
    # Beside ready vectors, the number of a chunk takes 64 bits in place of 32.
    wide = {"chunk": "int64"} if "chunk" in wanted else {}
    wanted = wanted.astype(wide)
    found = of_source(made, table, source)[wanted.columns]
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    for name in wanted:
        assert found[name].to_numpy().tobytes() == wanted[name].to_numpy().tobytes() or (
            wanted[name].dtype in (object, "str")
        )


def test_tables_are_those_of_the_sources_one_after_the_other(
    made: Made, alone: dict[str, Scan]
) -> None:
    for table in ("matches", "tail"):
        whole = pd.concat([getattr(alone[name], table) for name in PLAIN], ignore_index=True)
        whole = whole.astype({"chunk": "int64"})
        pd.testing.assert_frame_equal(getattr(made.found, table), whole, check_exact=True)
    strata = pd.concat([alone[name].strata for name in sorted(PLAIN)], ignore_index=True)
    pd.testing.assert_frame_equal(made.found.strata, strata, check_exact=True)
    texts = pd.concat([alone[name].texts for name in PLAIN]).drop_duplicates("chunk_id")
    assert set(map(tuple, made.found.texts.to_numpy())) == set(map(tuple, texts.to_numpy()))


def test_the_record_adds_the_sources_up(made: Made, alone: dict[str, Scan]) -> None:
    record = made.found.record
    assert record["search"]["per"] == "source"
    for key in ("chunks", "pairs", "shards"):
        assert record["search"][key] == sum(a.record["search"][key] for a in alone.values())
    assert record["short"] == {n: alone[n].record["short"][n] for n in record["short"]}
    assert record["documents"]["short"] > 0
    strata = [row for name in PLAIN for row in alone[name].record["strata"]]
    key = lambda row: (row["source"], row["stratum"])  # noqa: E731
    assert sorted(record["strata"], key=key) == sorted(strata, key=key)
    least = {name: alone[name].record["chunks"]["min_tokens"] for name in PLAIN if name != "ready"}
    assert record["chunks"]["min_tokens"] == max(least.values())
    by_source = record["chunks"].get("min_tokens_by_source")
    assert by_source == (least if made.own else None)
    assert leftovers(made.found.folder) == []


def test_items_have_the_texts_that_each_source_is_searched_for(
    made: Made, alone: dict[str, Scan]
) -> None:
    assert (made.found.folder / f"{ITEM_TEXTS}.parquet").exists() == bool(made.own)
    texts = made.found.item_texts
    for name, single in alone.items():
        own = texts[texts["source"] == name].drop(columns="source").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, single.items)
    assert len(made.found.items) == len(texts) / len(PLAIN)
    pd.testing.assert_frame_equal(made.found.items, alone["web"].items)


def test_workers_and_interruptions_change_nothing(made: Made, tmp_path: Path) -> None:
    spec, wanted = made_manifest([*PLAIN], made.own), tables_of(made.found.folder)
    if made.own:  # else workers do no more than they do in scans of a corpus
        run_scan(spec, tmp_path / "jobs", base=made.folder, device="cpu", jobs=2)
        assert tables_of(tmp_path / "jobs") == wanted
    take, count = SketchMerger.take, 0

    def counting(self: SketchMerger, key: str) -> None:
        nonlocal count
        take(self, key)
        count += 1
        if count == 9:
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SketchMerger, "take", counting)
        with pytest.raises(Stop):
            scan(spec, tmp_path / "cut", base=made.folder)
    found = scan(spec, tmp_path / "cut", base=made.folder)
    assert tables_of(tmp_path / "cut") == wanted
    assert found.record["search"]["shards"] > 9


def test_sources_in_another_order_do_not_resume_each_other(folder: Path, tmp_path: Path) -> None:
    names = ["web", "ready"]
    scan(made_manifest(names), tmp_path / "out", base=folder, keep_work=True)
    swapped = made_manifest(names[::-1])
    found = scan(swapped, tmp_path / "out", base=folder, replace=True)
    scan(swapped, tmp_path / "fresh", base=folder)
    assert tables_of(found.folder) == tables_of(tmp_path / "fresh")


def test_best_matches_alone_are_found_by_source(made: Made, tmp_path: Path) -> None:
    text = made_manifest([*PLAIN], made.own).text
    spec = Manifest.parse(text.replace("top_k = ", "backend = 'faiss'\ntop_k = "), "made.toml")
    found = scan(spec, tmp_path / "best", base=made.folder)
    keys = ["benchmark", "item", "source", "rank"]
    one, other = (s.matches.sort_values(keys, ignore_index=True) for s in (found, made.found))
    pd.testing.assert_frame_equal(one[[*keys, "cosine"]], other[[*keys, "cosine"]], atol=1e-6)
    # Of equal cosines the order is by rounding.
    pairs = [set(map(tuple, s[[*keys[:3], "chunk_id", "copies"]].to_numpy())) for s in (one, other)]
    assert len(pairs[0] & pairs[1]) > 0.97 * len(pairs[1])
    assert found.histogram.empty
    assert [*found.histogram] == [*made.found.histogram]
    found.report(tmp_path / "page.html")


def test_a_scan_that_lost_the_texts_of_its_sources_is_refused(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.found.folder, tmp_path / "copy")
    (tmp_path / "copy" / f"{ITEM_TEXTS}.parquet").unlink(missing_ok=True)
    if made.own:
        with pytest.raises(DataError, match=r"lacks item_texts\.parquet: the texts that each"):
            Scan.load(tmp_path / "copy")
    else:
        Scan.load(tmp_path / "copy")


def test_of_one_source_all_is_as_of_the_corpus(folder: Path, tmp_path: Path) -> None:
    apart, whole = (
        scan(made_manifest(["web"], search=f"per = '{per}'"), tmp_path / per, base=folder)
        for per in ("source", "corpus")
    )
    for name in ("matches", "tail", "strata", "items", "texts"):
        one, other = (pq.read_table(s.folder / f"{name}.parquet") for s in (apart, whole))
        assert one.equals(other)
    histogram = apart.histogram.drop(columns="source")
    pd.testing.assert_frame_equal(histogram, whole.histogram, check_exact=True)
    assert "source" not in whole.histogram
    assert "per" not in whole.record["search"]


def test_the_best_of_all_sources_are_those_of_the_corpus(folder: Path, tmp_path: Path) -> None:
    apart = scan(made_manifest([*PLAIN]), tmp_path / "apart", base=folder)
    whole = scan(made_manifest([*PLAIN], search="per = 'corpus'"), tmp_path / "whole", base=folder)
    columns = ["benchmark", "item", "rank", "cosine", "chunk_id", "copies"]
    pd.testing.assert_frame_equal(
        over_all(apart)[columns], over_all(whole)[columns], check_exact=True
    )
    assert (apart.matches["copies"].sum() != whole.matches["copies"].sum()) or len(PLAIN) == 1
    assert over_all(whole) is whole.matches
    pd.testing.assert_frame_equal(by_benchmark(apart), by_benchmark(whole))
    summed = apart.histogram.groupby(["benchmark", "item", "cosine"])["count"].sum()
    counted = whole.histogram.set_index(["benchmark", "item", "cosine"])["count"]
    pd.testing.assert_series_equal(summed.sort_index(), counted.sort_index())
    pd.testing.assert_frame_equal(apart.strata, whole.strata)


def test_lexical_scores_are_of_the_text_looked_for(made: Made) -> None:
    rows = made.found.matches[made.found.matches["source"] != "ready"]
    keys = ["benchmark", "item", "source"]
    items = made.found.item_texts.set_index(keys)["text"]
    texts = made.found.texts.set_index("chunk_id")["text"]
    pairs = [(items[r.benchmark, r.item, r.source], texts[r.chunk_id]) for r in rows.itertuples()]
    wanted = lexical_scores(pairs, Lexical()).set_index(rows.index)
    pd.testing.assert_frame_equal(rows[wanted.columns], wanted)


def test_judges_see_the_text_looked_for(made: Made) -> None:
    keys = ["benchmark", "item", "source"]
    items = made.found.item_texts.set_index(keys)["text"]
    chosen = choose_pairs(made.found, 60, seed=1)
    assert set(chosen["source"]) == {"web", "chats", "books"}
    assert chosen["text"].tolist() == [items[r.benchmark, r.item, r.source]
                                       for r in chosen.itertuples()]  # fmt: skip


def test_sheets_are_taken_back_with_the_text_looked_for(made: Made, tmp_path: Path) -> None:
    chosen, path = choose_pairs(made.found, 40, seed=1), tmp_path / "sheet.csv"
    export_sheet(chosen, path, seed=1)
    sheet = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert set(sheet["item_text"]) == set(chosen["text"])
    sheet.assign(is_duplicate="1").to_csv(path, index=False)
    judged, blank = read_sheet(made.found, path, "Ada")
    assert (len(judged.frame), blank) == (40, 0)
    if made.own:
        # That of another source is another text.
        texts = made.found.item_texts
        other = texts[texts["source"] == "books"].set_index("text").index[0]
        row = chosen.index[(chosen["source"] == "web").to_numpy()][0]
        mixed = sheet.assign(is_duplicate="1")
        mixed.loc[mixed["item_text"] == chosen.loc[row, "text"], "item_text"] = other
        mixed.to_csv(path, index=False)
        with pytest.raises(DataError, match="is not the text of this pair"):
            read_sheet(made.found, path, "Ada")


def test_the_page_says_that_sources_were_searched_one_by_one(made: Made) -> None:
    page = render_scan(made.found)
    assert f"the {TOP_K} best of each item in each source" in page
    assert "Sources were searched one by one" in page
    own = [
        "the question only ('quiz' outside 'chats', 'books',".replace("'", "&#39;"),
        "the answer only ('quiz' in 'books', 'code' outside 'chats',".replace("'", "&#39;"),
        ", searched for question and answer together",
        "with a limit of its own for each source (from ",
    ]
    assert [text in page for text in own] == [bool(made.own)] * len(own)


def stored_scan(folder: Path, out: Path) -> Path:
    """Scan two sources and store their vectors; return the folder of these."""
    spec = made_manifest(["web", "books"], search="per = 'corpus'")
    return scan(spec, out, base=folder, keep_vectors="fp32").folder / "vectors"


def test_sources_of_stored_vectors_are_searched_one_by_one(folder: Path, tmp_path: Path) -> None:
    stored = stored_scan(folder, tmp_path / "stored")
    spec = made_manifest([], top=f"stored = ['{stored}']\n")
    found = scan(spec, tmp_path / "found", base=folder)
    wanted = scan(made_manifest(["web", "books"]), tmp_path / "wanted", base=folder)
    for table in TABLES:
        one, other = (
            getattr(each, table).sort_values(["source", *keys], kind="stable", ignore_index=True)
            for each in (found, wanted)
            for keys in [["benchmark", "item"]]
        )
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert found.record["search"]["per"] == "source"
    assert find_nearest(stored, "w1 w2 w3", k=3)["cosine"].is_monotonic_decreasing


def test_vectors_of_a_scan_by_source_can_be_stored(folder: Path, tmp_path: Path) -> None:
    spec = made_manifest(["web", "books"], OWN)
    with pytest.raises(UsageError, match="--keep-vectors: the shortest text differs by source"):
        scan(spec, tmp_path / "refused", base=folder, keep_vectors="fp32")
    spec = Manifest.parse(
        spec.text.replace("[chunking]\n", "[chunking]\nmin_tokens = 4\n"), "m.toml"
    )
    made = scan(spec, tmp_path / "stored", base=folder, keep_vectors="fp32")
    plain = scan(spec, tmp_path / "plain", base=folder)
    assert tables_of(made.folder) == tables_of(plain.folder)
    top = f"stored = ['{made.folder / 'vectors'}']\n"
    found = scan(made_manifest([], top=top), tmp_path / "found", base=folder)
    assert set(found.matches["source"]) == {"web", "books"}


def clean(made: Scan, out: Path, base: Path) -> Any:
    return write_clean(made, out, above_cosine=0.8, base=base, jobs=1, device="cpu")


def test_a_clean_corpus_is_that_of_a_scan_of_the_corpus(folder: Path, tmp_path: Path) -> None:
    whole_web = {"web": PLAIN["web"].replace("share = 0.5\n", ""), "books": PLAIN["books"]}
    parts = [f"[[sources]]\nname = '{n}'\n{lines}" for n, lines in whole_web.items()]
    results = []
    for per in ("source", "corpus"):
        how = f"[search]\nper = '{per}'\n{SEARCH}"
        spec = Manifest.parse("".join([HEAD, QUIZ, CODE, *parts, TAIL, how]), "made.toml")
        found = scan(spec, tmp_path / per, base=folder)
        results.append(clean(found, tmp_path / f"clean {per}", folder))
    one, other = results
    assert len(one.dropped) > 10
    pd.testing.assert_frame_equal(one.dropped, other.dropped)
    assert one.record["counts"] == other.record["counts"]


def test_a_clean_corpus_of_other_texts_is_refused(folder: Path, tmp_path: Path) -> None:
    found = scan(made_manifest(["books"], OWN), tmp_path / "scan", base=folder)
    with pytest.raises(UsageError, match=r"source 'books': has a text_mode of its own.*by itself"):
        clean(found, tmp_path / "clean", folder)


def faults(*changes: tuple[str, str], own: dict[str, str] | None = None, top: str = "") -> str:
    """Return what is wrong with a manifest of all sources, or of what `top` names, if changed."""
    parts = made_manifest([] if top else [*PLAIN], top="stored = ['v']\n" if top else "").text
    parts = parts.replace("stored = ['v']\n", top)
    for name, lines in (own or {}).items():
        parts = parts.replace(PLAIN[name], PLAIN[name] + lines)
    for before, after in changes:
        assert before in parts
        parts = parts.replace(before, after)
    with pytest.raises(SpecError) as caught:
        Manifest.parse(parts, "mine.toml")
    return str(caught.value)


def test_texts_of_a_source_need_a_search_by_source() -> None:
    for own in ("text_mode = 'output'\n", "input_output = '{output}{input}'\n"):
        message = faults(('per = "source"', ""), own={"web": own})
        assert f"sources: 'web': '{own.split(' ')[0]}' is for a search by source" in message
        assert 'put per = "source" under [search], or leave it out' in message


def test_a_template_needs_texts_that_are_joined() -> None:
    template = "input_output = '{output}{input}'\n"
    assert "which neither it nor a benchmark has" in faults(own={"web": template})
    message = faults(own={"web": "text_mode = 'input'\n" + template})
    assert "'input_output' is only used with text_mode = 'input_output'" in message
    joined = ("path = 'more.jsonl'\ntext_mode = 'output'", "path = 'more.jsonl'\n"
              "text_mode = 'input_output'")  # fmt: skip
    source = made_manifest([*PLAIN]).text.replace(*joined)
    Manifest.parse(source.replace(PLAIN["web"], PLAIN["web"] + template), "mine.toml")


def test_given_vectors_are_of_one_text() -> None:
    given = ("path = 'items.jsonl'\n", "path = 'items.jsonl'\nvectors = 'items.npy'\n")
    message = faults(given, own={"books": "text_mode = 'output'\n"})
    assert (
        "sources: 'books': has 'text_mode', and the vectors of benchmark 'quiz' are of" in message
    )
    spec = made_manifest([*PLAIN]).text.replace(*given)
    same = spec.replace(PLAIN["books"], PLAIN["books"] + "text_mode = 'input'\n")
    same = same.replace("text_mode = 'output'\n", "")
    Manifest.parse(same, "mine.toml")


def test_an_index_is_of_all_sources() -> None:
    message = faults(top="index = 'index'\n")
    assert "search.per: got 'source', and an index is searched for the best of all" in message
    assert "--exact" in message
    exact = made_manifest([], top="stored = ['v']\n").text.replace("stored = ['v']", "index = 'i'")
    Manifest.parse(exact.replace("[search]\n", "[search]\nexact = true\n"), "mine.toml")


def test_searches_of_the_corpus_have_the_hash_that_they_had() -> None:
    said, unsaid = (made_manifest([*PLAIN], search=per) for per in ("per = 'corpus'", " "))
    assert said.hash == unsaid.hash
    assert made_manifest([*PLAIN]).hash != said.hash


def test_given_vectors_are_searched_for_in_each_source(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for name, rows in (("items", 4), ("one", 60), ("two", 40)):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(rows, 16)).astype(np.float32))
    write_records(tmp_path / "items.jsonl", ({"id": i, "input": f"item {i}"} for i in range(4)))

    def spec(*names: str, per: str = "source") -> Manifest:
        sources = (
            f"[[sources]]\nname = '{n}'\npaths = ['{n}.npy']\nformat = 'vectors'\n" for n in names
        )
        given = QUIZ + "vectors = 'items.npy'\n"
        how = f"[search]\nper = '{per}'\n{SEARCH}"
        return Manifest.parse("".join([HEAD, given, *sources, how]), "made.toml")

    both = scan(spec("one", "two"), tmp_path / "both", base=tmp_path)
    assert both.record["embedder"] == {"model": "given"}
    for name in ("one", "two"):
        alone = scan(spec(name, per="corpus"), tmp_path / f"alone {name}", base=tmp_path)
        for table in TABLES:
            rows: pd.DataFrame = getattr(both, table)
            wanted: pd.DataFrame = getattr(alone, table)
            found = rows[rows["source"] == name].reset_index(drop=True)[wanted.columns]
            pd.testing.assert_frame_equal(found, wanted, check_exact=True)


def test_a_model_embeds_a_source_as_if_it_were_alone(folder: Path, tmp_path: Path) -> None:
    """What a text is embedded beside changes its rounding: shards must be the same."""
    lines = (folder / "items.jsonl").read_text().splitlines()[:5]
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    (tmp_path / "more.jsonl").write_text("\n".join(lines))
    own = {"books": "text_mode = 'output'\n"}

    def found(names: list[str], own: dict[str, str], out: str) -> Scan:
        text = made_manifest(names, own).text.replace("model = 'hashing'", "model = 'minilm'")
        for name in ("books", "chats.jsonl"):
            text = text.replace(f"paths = ['{name}']", f"paths = ['{folder / name}']")
        return scan(Manifest.parse(text, "made.toml"), tmp_path / out, base=tmp_path)

    both = found(["chats", "books"], own, "both")
    for name in ("chats", "books"):
        alone = found([name], own, f"alone {name}")
        for table in TABLES:
            rows: pd.DataFrame = getattr(both, table)
            wanted: pd.DataFrame = getattr(alone, table)
            own_rows = rows[rows["source"] == name].reset_index(drop=True)
            pd.testing.assert_frame_equal(own_rows, wanted, check_exact=True)


def test_an_index_with_all_of_its_vectors_is_searched_by_source(
    folder: Path, tmp_path: Path
) -> None:
    stored = stored_scan(folder, tmp_path / "stored")
    build_index(stored, tmp_path / "index")
    wanted = scan(made_manifest([], top=f"stored = ['{stored}']\n"), tmp_path / "all", base=folder)
    search = "per = 'source'\nexact = true"
    spec = made_manifest([], top=f"index = '{tmp_path / 'index'}'\n", search=search)
    found = scan(spec, tmp_path / "found", base=folder)
    assert tables_of(found.folder) == tables_of(wanted.folder)


def test_only_other_texts_of_items_read_no_corpus_again(folder: Path, tmp_path: Path) -> None:
    for out, own in (("plain", {}), ("own", OWN)):
        scan(made_manifest(["web", "books"], own), tmp_path / out, base=folder, keep_work=True)
    plain, other = (
        {path.name for path in (tmp_path / out / "work").glob("read-*")} for out in ("plain", "own")
    )
    assert plain == other


def test_a_source_with_nothing_to_search_is_an_empty_list(folder: Path, tmp_path: Path) -> None:
    write_records(tmp_path / "web.jsonl", [{"id": "a", "text": "two words"}])
    for first in (True, False):
        text = made_manifest(["web", "books"] if first else ["books", "web"]).text
        text = text.replace(PLAIN["web"], f"paths = ['{tmp_path / 'web.jsonl'}']\n")
        found = scan(Manifest.parse(text, "made.toml"), tmp_path / f"{first}", base=folder)
        alone = scan(made_manifest(["books"]), tmp_path / f"alone {first}", base=folder)
        for name in TABLES:
            pd.testing.assert_frame_equal(getattr(found, name), getattr(alone, name))
        assert found.record["short"]["web"]["short"] == 1
        strata = {row["source"]: row["chunks"] for row in found.record["strata"]}
        assert strata["web"] == 0
        assert set(found.item_texts["source"]) == {"web", "books"}
        assert "in each source" in render_scan(found)
