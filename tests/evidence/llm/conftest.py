"""The misbehaving endpoint, and a client that waits only briefly."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from bayescontam.endpoint import Endpoint
from tests.support.endpoints import server, short_waits
from tests.support.llm_server import Server

__all__ = ["endpoint", "made_pairs", "server", "short_waits"]

pytest.importorskip("openai")


@pytest.fixture
def endpoint(server: Server) -> Callable[..., Endpoint]:
    """Give a function that makes settings for the server."""

    def make(**settings: Any) -> Endpoint:
        return Endpoint(server.base_url, "small", **{"timeout": 5.0, "retries": 2, **settings})

    return make


def made_pairs(count: int) -> pd.DataFrame:
    """Return pairs of different texts."""
    return pd.DataFrame(
        {
            "benchmark": "quiz",
            "item": [f"q{i}" for i in range(count)],
            "source": "web",
            "document": [f"d{i}" for i in range(count)],
            "chunk": range(count),
            "cosine": 0.5,
            "text": [f"item text {i}" for i in range(count)],
            "chunk_text": [f"chunk text {i}" for i in range(count)],
        }
    )
