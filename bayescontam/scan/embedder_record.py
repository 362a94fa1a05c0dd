"""What embedders are recognised by: their files here, and how they describe themselves."""

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from bayescontam._text import printable
from bayescontam.errors import UsageError
from bayescontam.scan.embedders import (
    PACKAGES,
    Embedder,
    TransformerEmbedder,
    cached_commit,
    file_stamp,
    model_folder,
    weights_sha256,
)
from bayescontam.scan.served import ServedEmbedder
from bayescontam.specs.corpus import Embedding

_LOCAL = ("device", "versions", "precision", "endpoint")
"""What an embedder says of itself that changes its vectors by rounding alone, if at all."""


def weights_mark(spec: Embedding) -> str:
    """Return what changes with the files of a model, none of which is read.

    Of a folder, sizes and times; of a model of the hub, the commit in the cache. "" where neither
    is there, and for what has no other weights: a package's are compared when they are loaded.
    """
    if spec.endpoint is not None or spec.model in ("hashing", *PACKAGES):
        return ""
    folder = model_folder(spec)
    if not folder.is_dir():
        return cached_commit(spec)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    listed = [f"{path.relative_to(folder).as_posix()} {file_stamp(path)}" for path in files]
    return hashlib.sha256(os.fsencode("\n".join(listed))).hexdigest()


def same_weights(spec: Embedding, about: Mapping[str, Any]) -> bool:
    """Return whether the weights that are here are those of an embedder that described itself.

    They count as the same where nothing is known of its own.
    """
    if _unknown(about):
        return True
    folder = model_folder(spec)
    if folder.is_dir():
        return weights_sha256(folder) == about.get("weights_sha256")
    return cached_commit(spec) == about.get("revision")


def _unknown(about: Mapping[str, Any]) -> bool:
    """Return whether an embedder knew nothing of its weights: earlier versions found no commit."""
    return about.get("revision") is None and about.get("weights_sha256") is None


def embedder_differences(before: dict[str, Any], here: dict[str, Any], what: str) -> str:
    """Return how the embedder of `what` differs from that in use, "" if in nothing that counts."""
    unknown = {"revision"} if _unknown(before) or _unknown(here) else set[str]()
    pairs = {
        # No prompt is "" in some embedders and absent in others.
        name: [str(known.get(name) or "none") for known in (before, here)]
        for name in {**before, **here}
        if name not in {*_LOCAL, *unknown}
    }
    return "; ".join(
        f"{name}: {what} {printable(one, 80)}, here {printable(other, 80)}"
        for name, (one, other) in pairs.items()
        if one != other
    )


def check_loaded(embedder: Embedder, spec: Embedding, items: dict[str, Any], mark: str) -> None:
    """Refuse a loaded embedder that is not that of the items, as that described itself.

    `mark` is that of the weights when items were embedded: weights with the same are not read.
    """
    # One that is served learns its dimensions by a request, and of its weights nothing is known.
    if isinstance(embedder, ServedEmbedder):
        return
    if mark and isinstance(embedder, TransformerEmbedder) and weights_mark(spec) == mark:
        here = embedder.describe(items.get("weights_sha256"))
    else:
        here = embedder.describe()
    check_unchanged(items, here)


def check_unchanged(items: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse another embedder than that of the items; both as they describe themselves."""
    if listing := embedder_differences(items, here, "items"):
        raise UsageError(
            f"embedder '{printable(str(here.get('model')), 80)}': is no longer the one that"
            f" embedded the items ({listing}): its files were changed since, or differ between"
            " machines; run the same command again when they are the same everywhere"
        )
