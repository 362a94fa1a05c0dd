"""Fixtures of tests that call the misbehaving endpoint: import both where they are used."""

from collections.abc import Iterator

import pytest

from bayescontam import endpoint
from tests.support.llm_server import Server, running


@pytest.fixture
def server() -> Iterator[Server]:
    """Run the endpoint."""
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only briefly before a call is made again."""
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.02)
