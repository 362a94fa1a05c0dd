import hashlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.errors import UsageError
from bayescontam.scan.embedders import load_embedder
from bayescontam.specs.corpus import Embedding


def hashing(**options):
    return load_embedder(Embedding(model="hashing", **options))


def test_hashing_cosines_follow_from_shared_words_and_pairs():
    # In so many dimensions no two of these features meet.
    embedder = hashing(dims=2**20)
    vectors = embedder.embed(["red fox", "Red  dog!", "red red", "red", "blue"], "passage")
    expected = vectors @ vectors.T
    assert expected[0, 1] == pytest.approx(1 / 3)  # red of red, fox, red fox
    assert expected[2, 3] == pytest.approx(math.sqrt(2) / math.sqrt(3))  # √2 red, 1 red red
    assert expected[0, 4] == 0
    assert np.diag(expected) == pytest.approx(1)


def test_hashing_places_features_by_blake2b():
    [vector] = hashing(dims=7).embed(["Fox"], "query")
    code = int.from_bytes(hashlib.blake2b(b"fox", digest_size=8).digest(), "little")
    assert np.flatnonzero(vector).tolist() == [code % 7]
    assert vector[code % 7] == (1 if code >= 2**63 else -1)


def test_hashing_counts_words_and_cuts_after_the_last_it_sees():
    embedder = hashing(max_tokens=3)
    assert embedder.count(["a b_c, d2 é", "", "?!"]) == [4, 0, 0]
    long, cut, other = embedder.embed(["a b c d", "a b c", "a b d"], "query")
    assert np.array_equal(long, cut)
    assert not np.array_equal(long, other)


def test_hashing_defaults_and_prompts():
    embedder = hashing(query_prompt="find this:")
    assert (embedder.dims, embedder.max_tokens) == (256, 2048)
    query, passage = (embedder.embed(["a text"], kind) for kind in ("query", "passage"))
    assert not np.array_equal(query, passage)
    assert np.array_equal(query, embedder.embed(["find this a text"], "passage"))
    assert not embedder.embed(["", "…"], "query").any()
    assert json.loads(json.dumps(embedder.describe()))["model"] == "hashing"


@given(texts=st.lists(st.text(max_size=40), max_size=6))
def test_hashing_vectors_have_unit_length_or_none(texts):
    embedder = hashing(dims=2**16)
    vectors = embedder.embed(texts, "query")
    assert vectors.shape == (len(texts), 2**16)
    assert vectors.dtype == np.float32
    expected = [count > 0 for count in embedder.count(texts)]
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.array(expected, float), abs=1e-6)


def test_hashing_refuses_what_it_cannot_do():
    with pytest.raises(UsageError, match=r"embedding\.precision: got 'fp16'.*'hashing'.*fp32"):
        hashing(precision="fp16")
    with pytest.raises(UsageError, match=r"embedding\.revision: 'hashing' .* leave it out"):
        hashing(revision="main")


# all-MiniLM-L6-v2
