"""WordLlama, the second embedder whose weights come in a package."""

import numpy as np
import pytest

from bayescontam.errors import MissingExtraError, UsageError
from bayescontam.scan import embedders
from bayescontam.scan.embedders import load_counter, load_embedder
from bayescontam.specs.corpus import Embedding

pytest.importorskip("torch")
inference = pytest.importorskip("wordllama.inference")

TEXTS = [
    "Which number comes next?",
    "Tom has twice as many apples as Anna. " * 40,
    "def add(a, b):\n    return a + b",
    "Wie viele Äpfel hat Anna?",
    "x",
]


@pytest.fixture(scope="module")
def embedder():
    return load_embedder(Embedding(model="wordllama"), "cpu")


@pytest.fixture(scope="module")
def reference():
    """Return the package's own computation."""
    from safetensors.numpy import load_file

    folder = embedders._packaged("wordllama")
    [weights] = folder.rglob("*.safetensors")
    vectors = load_file(weights)["embedding.weight"]
    return inference.WordLlamaInference(vectors, embedders._word_tokenizer(folder))


def test_vectors_equal_those_of_the_package(embedder, reference):
    ours = embedder.embed([*TEXTS, "", TEXTS[0]], "query")
    assert ours.shape == (7, 256)
    np.testing.assert_allclose(ours[:5], reference.embed(TEXTS, norm=True), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(ours[:5], axis=1), 1.0, atol=1e-6)
    assert not ours[5].any()
    np.testing.assert_array_equal(ours[6], ours[0])
    lengths = [len(encoded.ids) for encoded in reference.tokenizer.encode_batch(TEXTS[:1])]
    assert load_counter("wordllama")(TEXTS[:1]) == embedder.count(TEXTS[:1])
    assert embedder.count(TEXTS[:1])[0] in {lengths[0], lengths[0] - 1}  # but for the first token


def test_paraphrases_are_nearer_than_other_texts(embedder):
    vectors = embedder.embed(
        [
            "Tom buys 3 apples and 4 pears. How many fruits does he have?",
            "How much fruit has Tom after he purchases four pears and three apples?",
            "Write a program that reverses a linked list.",
        ],
        "query",
    )
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > 0.6 > 0.4 > cosines[0, 2]


def test_the_first_dimensions_do_alone(embedder):
    short = load_embedder(Embedding(model="wordllama", dims=64), "cpu").embed(TEXTS, "query")
    whole = embedder.embed(TEXTS, "query")[:, :64]
    np.testing.assert_allclose(
        short, whole / np.linalg.norm(whole, axis=1, keepdims=True), atol=1e-6
    )


def test_it_is_described_and_checked(embedder, monkeypatch):
    about = embedder.describe()
    assert about["model"] == "wordllama"
    assert about["weights_sha256"] == embedders._SHA256["wordllama"]
    assert (about["dims"], about["max_tokens"], about["precision"]) == (256, 2048, "fp32")
    with pytest.raises(UsageError, match="'wordllama' comes with this package's dependencies"):
        load_embedder(Embedding(model="wordllama", revision="main"))
    monkeypatch.setitem(embedders._SHA256, "wordllama", "0")
    with pytest.raises(UsageError, match=r"not those published of 'wordllama' .* wordllama$"):
        load_embedder(Embedding(model="wordllama"))


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'bayescontam\[wordllama\]'"):
        load_embedder(Embedding(model="wordllama"))
