"""Skips tests that run programs in the sandbox where there is none."""

import pytest

from bayescontam.duplicates.sandbox import check_sandbox
from bayescontam.errors import MissingExtraError


@pytest.fixture(scope="session")
def sandbox() -> None:
    """Skip where bubblewrap is missing, or may make no namespaces."""
    try:
        check_sandbox()
    except MissingExtraError as error:
        pytest.skip(f"no sandbox: {error}")
