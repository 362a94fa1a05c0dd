"""Nearest chunks of stored vectors against all products."""

from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.scan import stored_vectors
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.find import find_nearest
from bayescontam.scan.stored_vectors import ABOUT
from bayescontam.specs.corpus import Embedding
from tests.support.corpora import manifest
from tests.support.small_corpus import ATOL, Small, Truth, scan


@pytest.fixture(scope="module")
def vectors(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kept") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_vectors, "_PART", 60)
        scan(small.manifest, out, base=small.folder, keep_vectors="fp32")
    return out / "vectors"


@pytest.mark.parametrize("k", [1, 9, 10_000])
def test_the_nearest_are_found_and_where_they_are(vectors: Path, truth: Truth, k: int) -> None:
    wanted = truth.texts["text"].iloc[17]
    found = find_nearest(vectors, wanted, k, device="cpu")
    embedder = load_embedder(Embedding(model="hashing"))
    query = embedder.embed([wanted], "query").astype(float)
    cosines = (query @ embedder.embed(truth.texts["text"].tolist(), "passage").T)[0]
    np.testing.assert_allclose(found["cosine"], np.sort(cosines)[::-1][:k], atol=ATOL)
    assert found["text"].iloc[0] == wanted
    place = ["source", "stratum", "document", "chunk", "copies"]
    known = truth.texts.set_index("text").loc[found["text"], place].reset_index(drop=True)
    assert known.astype(str).equals(found[place].astype(str))


@pytest.mark.parametrize(
    ("text", "k", "message"),
    [
        (" \n", 5, "text: is empty"),
        ("w1", 0, "k: got 0; allowed: 1 to 10,000"),
        ("w1", 10_001, "k: got 10,001"),
        ("w1 " * 3000, 5, r"has 3,000 tokens, the embedder sees [\d,]+; give a part of it"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(
    vectors: Path, text: str, k: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        find_nearest(vectors, text, k, device="cpu")


def test_another_embedder_than_was_there_is_refused(vectors: Path, tmp_path: Path) -> None:
    record = (vectors / ABOUT).read_text("utf-8")
    parts = tmp_path / "vectors"
    parts.mkdir()
    for path in vectors.iterdir():
        (parts / path.name).write_bytes(path.read_bytes())
    (parts / ABOUT).write_text(record.replace('"dims": 256', '"dims": 128'), "utf-8")
    with pytest.raises(UsageError, match="made by another embedder"):
        find_nearest(parts, "w1", 5, device="cpu")


def test_vectors_that_are_not_finite_are_named(vectors: Path, small: Small, tmp_path: Path) -> None:
    damaged = copytree(vectors, tmp_path / "vectors")
    rows = pd.read_parquet(damaged / "000001.parquet")["vector"].to_numpy()
    # Those of the table are others.
    row = int(rows[np.flatnonzero(rows != np.arange(len(rows)))[0]])
    stored = np.load(damaged / "000001.npy")
    stored[row, 3] = np.nan
    np.save(damaged / "000001.npy", stored)
    message = rf"000001\.npy: row {row + 1}: the vector is not finite"
    with pytest.raises(DataError, match=message):
        find_nearest(damaged, "w1", 5, device="cpu")
    with pytest.raises(DataError, match=message):
        scan(manifest(top=f"stored = ['{damaged}']"), tmp_path / "out", base=small.folder)
