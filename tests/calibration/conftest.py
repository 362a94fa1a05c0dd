"""Tables that engines draw from."""

import pytest

from bayescontam.calibration.simulators import simulator_of
from bayescontam.data.responses import Responses
from tests.support.small_studies import planned


@pytest.fixture(scope="package")
def tables() -> list[Responses]:
    """Simulate tables whose contaminations differ."""
    plan, cell = planned("published", items=25)
    return [simulator_of(plan, cell)(r).responses for r in range(3)]
