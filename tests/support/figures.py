"""Pages without figures, for tests of what else is on them."""

import pytest

from bayescontam.report import plots

NOTHING = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare figures and leave them empty: to draw those of a page takes seconds."""
    monkeypatch.setattr(plots, "_image", lambda *_: NOTHING)
