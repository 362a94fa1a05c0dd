"""Vectors that a scan stores, and scans of these for the same and for other items."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.covariates import scanned_shares
from bayescontam.scan import stored_vectors
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.find import find_nearest
from bayescontam.scan.run import Scan
from bayescontam.scan.stored_vectors import StoredVectors
from bayescontam.specs.corpus import Embedding, Manifest
from tests.support.corpora import leftovers, manifest, shard_lines, tables_of, write_items
from tests.support.small_corpus import LONGEST, SEARCH, SEED, Small, interrupted, scan

BENCHMARKS = ("path = 'items.jsonl'", "path = 'more.csv'\ntext_mode = 'input_output'")


def of_stored(*folders: Path, benchmarks: tuple[str, ...] = BENCHMARKS, **tables: str) -> Manifest:
    """Return a manifest that looks for items in stored vectors, as `small_manifest` does."""
    listed = json.dumps([str(folder) for folder in folders])
    given = {"chunking": f"min_tokens = 3\nmax_tokens = {LONGEST}", "search": SEARCH} | tables
    return manifest(benchmarks=benchmarks, top=f"seed = {SEED}\nstored = {listed}", **given)


def assert_same_tables(one: Scan, other: Scan) -> None:
    """Assert that files are equal; that of texts has a row group a shard, and equal rows."""
    found, wanted = tables_of(one.folder), tables_of(other.folder)
    found.pop("texts")
    wanted.pop("texts")
    assert found == wanted
    pd.testing.assert_frame_equal(one.texts, other.texts)


@pytest.fixture(scope="module")
def whole(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """Scan with vectors of 32 bits, in several parts."""
    out = tmp_path_factory.mktemp("whole") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_vectors, "_PART", 60)
        return scan(small.manifest, out, base=small.folder, keep_vectors="fp32")


@pytest.fixture
def vectors(whole: Scan, tmp_path: Path) -> Path:
    """Return a copy of the stored vectors, which a test may spoil."""
    return Path(shutil.copytree(whole.folder / "vectors", tmp_path / "vectors"))


def test_storing_changes_no_table(whole: Scan, scanned: Scan) -> None:
    assert tables_of(whole.folder) == tables_of(scanned.folder)
    assert leftovers(whole.folder) == []


def test_a_scan_of_stored_vectors_is_that_of_the_texts(
    whole: Scan, scanned: Scan, small: Small, tmp_path: Path
) -> None:
    found = scan(of_stored(whole.folder / "vectors"), tmp_path / "out", base=small.folder)
    assert_same_tables(found, scanned)
    for name in ("documents", "short", "strata", "benchmarks"):
        assert found.record[name] == scanned.record[name]
    assert found.record["chunks"]["min_tokens"] == scanned.record["chunks"]["min_tokens"]
    parts = StoredVectors.load(whole.folder / "vectors").shards()
    assert found.record["search"]["shards"] == len(parts) > 1


def test_other_items_are_found_as_in_the_texts(whole: Scan, small: Small, tmp_path: Path) -> None:
    write_items(small.folder / "others.jsonl", 7, seed=99)
    others = ("path = 'others.jsonl'",)
    texts = Manifest.parse(
        small.manifest.text.split("[[benchmarks]]")[0]
        + "[[benchmarks]]\nname = 'b0'\npath = 'others.jsonl'\n[[sources]]"
        + small.manifest.text.split("[[sources]]", 1)[1],
        "made.toml",
    )
    slow = scan(texts, tmp_path / "slow", base=small.folder)
    fast = scan(
        of_stored(whole.folder / "vectors", benchmarks=others), tmp_path / "fast",
        base=small.folder,
    )  # fmt: skip
    assert_same_tables(fast, slow)


def test_half_precision_changes_cosines_a_little_and_the_scan_says_so(
    small: Small, scanned: Scan, tmp_path: Path
) -> None:
    kept = scan(small.manifest, tmp_path / "a", base=small.folder, keep_vectors="fp16")
    assert tables_of(kept.folder) == tables_of(scanned.folder)
    found = scan(of_stored(kept.folder / "vectors"), tmp_path / "b", base=small.folder)
    best = [t.groupby(["benchmark", "item"])["cosine"].max() for t in (found.matches, kept.matches)]
    difference = (best[0] - best[1]).abs().max()
    assert 0 < difference < 5e-4
    assert any("stored in 16 bits" in note for note in found.record["notes"])
    assert not any("stored in 16 bits" in note for note in kept.record["notes"])
    parts = StoredVectors.load(kept.folder / "vectors").about["parts"]
    texts = sum(part["vectors"] for part in parts)
    size = sum(path.stat().st_size for path in (kept.folder / "vectors").glob("*.npy"))
    assert size == pytest.approx(texts * 256 * 2, abs=200 * len(parts))


def test_vectors_are_those_of_their_texts(whole: Scan) -> None:
    embedder = load_embedder(Embedding(model="hashing"))
    about = json.loads((whole.folder / "vectors" / "vectors.json").read_text("utf-8"))
    assert about["embedder"] == embedder.describe()
    chunks = 0
    for part in about["parts"]:
        table = pq.read_table(whole.folder / "vectors" / f"{part['name']}.parquet").to_pandas()
        rows = np.load(whole.folder / "vectors" / f"{part['name']}.npy")
        assert rows.shape == (part["vectors"], 256)
        expected = embedder.embed(table["text"].tolist(), "passage")
        np.testing.assert_array_equal(rows[table["vector"]], expected)
        chunks += len(table)
    assert chunks == whole.record["search"]["chunks"]


def test_shares_of_a_sample_come_with_the_vectors(small: Small, tmp_path: Path) -> None:
    part = Manifest.parse(
        small.manifest.text.replace("stratum = 'kind'", "stratum = 'kind'\nshare = 0.5", 1),
        "made.toml",
    )
    texts = scan(part, tmp_path / "a", base=small.folder, keep_vectors="fp32")
    found = scan(of_stored(texts.folder / "vectors"), tmp_path / "b", base=small.folder)
    names = ("s0", "s1", "s2")
    shares = scanned_shares(found, names)
    assert shares[0] < 0.7
    np.testing.assert_array_equal(shares, scanned_shares(texts, names))
    assert any("were sampled" in note for note in found.record["notes"])


def test_stored_vectors_are_searched_beside_texts(
    small: Small, whole: Scan, scanned: Scan, tmp_path: Path
) -> None:
    made = of_stored(whole.folder / "vectors")
    # Copies, as the same files would count twice.
    notes = shutil.copytree(small.folder / "notes", tmp_path / "notes")
    source = f"[[sources]]\nname = 'more'\npaths = ['{notes}']\n"
    both = Manifest.parse(made.text.replace("[chunking]", source + "[chunking]"), "made.toml")
    found = scan(both, tmp_path / "out", base=small.folder)
    count = {r["source"]: r["chunks"] for r in found.record["strata"] if r["source"] != "s0"}
    assert count["more"] == count["s2"]
    extra = found.record["search"]["chunks"] - scanned.record["search"]["chunks"]
    assert extra == count["s2"]


def test_an_interrupted_scan_stores_what_an_uninterrupted_one_does(
    small: Small, whole: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(stored_vectors, "_PART", 60)
    for after in (3, 7):
        interrupted(small.manifest, out, after, base=small.folder, keep_vectors="fp32")
        assert not (out / "vectors").exists()
    scan(small.manifest, out, base=small.folder, keep_vectors="fp32")
    assert len(shard_lines(out)) == whole.record["search"]["shards"]
    for path in (whole.folder / "vectors").iterdir():
        if path.suffix != ".json":
            assert (out / "vectors" / path.name).read_bytes() == path.read_bytes()
    assert leftovers(out) == []


def test_vectors_are_added_to_a_finished_scan_and_go_with_a_replaced_one(
    small: Small, scanned: Scan, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(scanned.folder, out)
    scan(small.manifest, out, base=small.folder, keep_vectors="fp16", keep_work=True)
    assert tables_of(out) == tables_of(scanned.folder)
    before = (out / "vectors" / "vectors.json").stat().st_mtime_ns
    scan(small.manifest, out, base=small.folder, keep_vectors="fp16", keep_work=True)
    assert (out / "vectors" / "vectors.json").stat().st_mtime_ns == before  # returned as it is
    shutil.rmtree(out / "vectors")
    scan(small.manifest, out, base=small.folder, keep_vectors="fp16")  # joined again
    assert StoredVectors.load(out / "vectors").sources == ["s0", "s1", "s2"]
    unlink(out / "vectors")
    scan(small.manifest, out, base=small.folder, keep_vectors="fp16")  # made again
    scan(small.manifest, out, base=small.folder, keep_vectors="fp32")
    assert StoredVectors.load(out / "vectors").about["precision"] == "fp32"
    (out / "texts.parquet").unlink()
    scan(small.manifest, out, base=small.folder)  # tables are made again, vectors are these
    assert StoredVectors.load(out / "vectors").about["precision"] == "fp32"
    other = Manifest.parse(small.manifest.text.replace("top_k = 7", "top_k = 6"), "made.toml")
    scan(other, out, base=small.folder, replace=True)
    assert not (out / "vectors").exists()


def change_record(vectors: Path, **values: Any) -> None:
    path = vectors / "vectors.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


def unlink(vectors: Path) -> str:
    (vectors / "000000.npy").unlink()
    return r"000000\.npy: is missing"


def cut(vectors: Path) -> str:
    path = vectors / "000000.npy"
    path.write_bytes(path.read_bytes()[:-100])
    return r"000000\.npy: has [\d,]+ bytes, [\d,]+ were written: cut short or changed"


def without_record(vectors: Path) -> str:
    (vectors / "vectors.json").unlink()
    return r"holds no stored vectors: lacks vectors\.json\nGive the folder 'vectors' of a scan"


def damaged_record(vectors: Path) -> str:
    (vectors / "vectors.json").write_text("{")
    return r"vectors\.json: is not JSON"


def record_of_another_kind(vectors: Path) -> str:
    (vectors / "vectors.json").write_text("[]")
    return r"vectors\.json: lacks 'format': it was changed"


def record_without_strata(vectors: Path) -> str:
    change_record(vectors, strata=None)
    return r"vectors\.json: lacks 'strata'"


def record_without_parts(vectors: Path) -> str:
    change_record(vectors, parts=[])
    return r"vectors\.json: lacks 'parts'"


def damaged_table(vectors: Path) -> str:
    (vectors / "000000.parquet").write_bytes(b"PAR1 nothing PAR1")
    return r"000000\.parquet: cannot be read"


def table_without_column(vectors: Path) -> str:
    path = vectors / "000000.parquet"
    pq.write_table(pq.read_table(path).drop_columns("hash"), path)
    return r"000000\.parquet: cannot be read"


def later_format(vectors: Path) -> str:
    (vectors / "vectors.json").write_text('{"format": 2}')
    return "has format 2; 1 is known"


def no_folder(vectors: Path) -> str:
    shutil.rmtree(vectors)
    return "holds no stored vectors: is no folder"


def shorter_table(vectors: Path) -> str:
    path = vectors / "000000.parquet"
    pq.write_table(pq.read_table(path).slice(0, 5), path)
    return r"000000\.npy: holds 5 chunks with \d+ vectors; \d+ were written"


@pytest.mark.parametrize(
    "spoil",
    [
        unlink,
        cut,
        without_record,
        damaged_record,
        record_of_another_kind,
        record_without_strata,
        record_without_parts,
        later_format,
        no_folder,
        shorter_table,
        damaged_table,
        table_without_column,
    ],
)
def test_damage_is_named(
    spoil: Callable[[Path], str], vectors: Path, small: Small, tmp_path: Path
) -> None:
    message = spoil(vectors)
    with pytest.raises(DataError, match=message):
        scan(of_stored(vectors), tmp_path / "out", base=small.folder)


def test_another_embedder_is_refused(vectors: Path, small: Small, tmp_path: Path) -> None:
    made = of_stored(vectors, embedding="dims = 128")
    with pytest.raises(UsageError, match=r"another embedder .*\(dims: vectors 256, here 128\)"):
        scan(made, tmp_path / "out", base=small.folder)


def test_hashes_of_weights_are_compared_and_devices_are_not(vectors: Path) -> None:
    stored = StoredVectors.load(vectors)
    own = stored.about["embedder"]
    stored.check_embedder(own | {"device": "cuda", "versions": {"torch": "9"}, "precision": "fp16"})
    with pytest.raises(UsageError, match="weights_sha256: vectors none, here abc"):
        stored.check_embedder(own | {"weights_sha256": "abc"})


def test_one_name_for_two_sources_is_refused(vectors: Path, small: Small, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the same vectors stand twice"):
        scan(of_stored(vectors, vectors), tmp_path / "out", base=small.folder)
    beside = manifest("paths = ['notes']", benchmarks=BENCHMARKS, top=f"stored = ['{vectors}']")
    with pytest.raises(UsageError, match=r"source 's0': stands twice .*vectors add --rename"):
        scan(beside, tmp_path / "out", base=small.folder)


def test_a_scan_does_not_replace_the_vectors_that_it_searches(
    whole: Scan, small: Small, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(whole.folder, tmp_path / "out"))
    with pytest.raises(UsageError, match="lies in the folder of the scan itself"):
        scan(of_stored(out / "vectors"), out, base=small.folder, replace=True)
    assert StoredVectors.load(out / "vectors").key


def test_ready_vectors_are_no_part_of_those_that_are_stored(small: Small, tmp_path: Path) -> None:
    np.save(small.folder / "ready.npy", np.ones((4, 256), np.float32))
    source = "[[sources]]\nname = 'ready'\npaths = ['ready.npy']\nformat = 'vectors'\n"
    both = small.manifest.text.replace("[chunking]", source + "[chunking]")
    kept = scan(
        Manifest.parse(both, "made.toml"), tmp_path / "a", base=small.folder, keep_vectors="fp32"
    )
    stored = StoredVectors.load(kept.folder / "vectors")
    assert stored.sources == ["s0", "s1", "s2"]
    again = of_stored(stored.folder).text.replace("[chunking]", source + "[chunking]")
    found = scan(Manifest.parse(again, "made.toml"), tmp_path / "b", base=small.folder)
    assert_same_tables(found, kept)


def test_items_with_vectors_of_their_own_are_compared_by_dimensions(
    vectors: Path, small: Small, tmp_path: Path
) -> None:
    for dims in (256, 64):
        np.save(small.folder / f"items-{dims}.npy", np.eye(12, dims, dtype=np.float32))
    given = [f"path = 'items.jsonl'\nvectors = 'items-{dims}.npy'" for dims in (256, 64)]
    found = scan(of_stored(vectors, benchmarks=(given[0],)), tmp_path / "a", base=small.folder)
    assert len(found.items) == 12
    with pytest.raises(DataError, match="has 256 dimensions, the items have 64"):
        scan(of_stored(vectors, benchmarks=(given[1],)), tmp_path / "b", base=small.folder)


def test_a_folder_cannot_turn_on_code_of_a_model(vectors: Path) -> None:
    change_record(vectors, embedding={"model": "x/y", "trust_remote_code": True})
    with pytest.raises(UsageError, match="the model 'x/y' of the vectors runs code"):
        find_nearest(vectors, "a text", device="cpu")
    change_record(vectors, embedding={"modle": "x/y"})
    with pytest.raises(DataError, match="its 'embedding' is none that this version knows"):
        find_nearest(vectors, "a text", device="cpu")


def test_vectors_of_vectors_are_not_stored(vectors: Path, small: Small, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--keep-vectors: no text is embedded"):
        scan(of_stored(vectors), tmp_path / "out", base=small.folder, keep_vectors="fp16")


def test_a_precision_that_is_not_known_is_refused(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="keep_vectors: got True; allowed: 'fp16', 'fp32', None"):
        scan(small.manifest, tmp_path / "out", base=small.folder, keep_vectors=True)


def test_texts_that_were_too_short_to_be_stored_are_noted(
    vectors: Path, small: Small, tmp_path: Path
) -> None:
    made = of_stored(vectors, chunking="min_tokens = 1")
    notes = scan(made, tmp_path / "out", base=small.folder).record["notes"]
    assert any("texts below 3 tokens were left out when" in note for note in notes)
    longer = scan(of_stored(vectors, chunking="min_tokens = 9"), tmp_path / "9", base=small.folder)
    assert longer.record["chunks"]["min_tokens"] == 3
    assert any("texts from 3 tokens are among" in note for note in longer.record["notes"])
    assert any("have fewer than 3 tokens" in note for note in longer.record["notes"])


def test_a_disk_without_room_is_refused_before_anything_is_embedded(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SimpleNamespace(free=1000)
    monkeypatch.setattr(stored_vectors.shutil, "disk_usage", lambda path: free)
    with pytest.raises(UsageError, match=r"vectors and texts take up to 0\.1 MB.*0\.0 MB are free"):
        scan(small.manifest, tmp_path / "out", base=small.folder, keep_vectors="fp16")
    assert shard_lines(tmp_path / "out") == []


def test_numbers_beyond_half_precision_are_refused(tmp_path: Path) -> None:
    store = stored_vectors.VectorStore(tmp_path / "v", "fp16")
    table: Any = pd.DataFrame()
    with pytest.raises(DataError, match=r"fp16 cannot hold\nUse --vector-precision fp32"):
        store.write(0, table, np.array([[1e6]], np.float32))
