"""The misbehaving endpoint, and a client that waits only briefly."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest

from bayescontam import endpoint as module
from bayescontam.endpoint import Endpoint
from tests.support.llm_server import Server, running

pytest.importorskip("openai")


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.02)


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
