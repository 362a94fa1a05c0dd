"""An endpoint that embeds as the embedder 'hashing' does, and what it was sent."""

import json
from collections.abc import Sequence
from typing import Any

from bayescontam.scan.embedders import load_embedder
from bayescontam.specs.corpus import Embedding
from tests.support.llm_server import Reply, Request, Server

HASHING = load_embedder(Embedding(model="hashing"))


def vectors_of(texts: Sequence[str]) -> list[list[float]]:
    return HASHING.embed(texts, "query").tolist()


def embeddings(vectors: Sequence[Any], tokens: int | None = None) -> Reply:
    """Return a reply that holds vectors, the last one first."""
    data = [
        {"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)
    ]
    body: dict[str, Any] = {"object": "list", "model": "m", "data": data[::-1]}
    if tokens is not None:
        body["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Reply(json.dumps(body).encode())


def hashed(request: Request) -> Reply:
    """Return the reply to a request for embeddings."""
    assert request.path == "/v1/embeddings"
    return embeddings(vectors_of(request.body["input"]))


def texts_sent(server: Server) -> list[str]:
    """Return the texts of all requests, in order."""
    return [text for request in server.requests for text in request.body["input"]]


def served(server: Server, **settings: Any) -> Embedding:
    """Return settings of the embedder 'hashing' at the server, which retry soon."""
    given = {"max_tokens": 2048, "tokenizer": "hashing", "timeout": 10.0, "retries": 2}
    return Embedding(model="hashing", endpoint=server.base_url, **given | settings)


def lines_of(spec: Embedding) -> str:
    """Return settings as lines of a manifest, the model left out."""
    given = spec.model_dump(exclude_defaults=True, exclude={"model"})
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in given.items())
