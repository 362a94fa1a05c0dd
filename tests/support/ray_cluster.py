"""A Ray cluster of two cores that the tests of a file share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Start Ray once: otherwise every call that uses it does."""
    ray = pytest.importorskip("ray")
    ray.init(
        "local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    yield
    assert ray.is_initialized()  # what callers did not start they leave alone
    ray.shutdown()
