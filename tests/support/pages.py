"""Pages as a browser sees them, and pictures as an eye does."""

import io
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bayescontam.report import check_figures, plots
from bayescontam.report.plots import Picture


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages whose pictures are empty: most of the time goes into drawing."""
    monkeypatch.setattr(plots, "_image", lambda figure, raster: b"")
    monkeypatch.setattr(check_figures, "_arviz", _described)


def _described(*given: Any, **_: Any) -> Picture:
    """Return what describes one of ArviZ's pictures, without the picture."""
    name, title, alt, caption, width = given[2:7]
    return Picture(name, title, alt, caption, b"", "png", round(96 * width))


class Parsed(HTMLParser):
    """Tags with their attributes, and all text, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def overflow(browser: Any) -> int:
    """Return by how many pixels the page is wider than the window."""
    script = "const d = document.documentElement; return d.scrollWidth - d.clientWidth"
    return int(browser.execute_script(script))


def is_drawn(picture: Picture) -> bool:
    """Return whether a picture has its size and more than a few strokes."""
    if picture.kind == "png":
        pixels = np.asarray(Image.open(io.BytesIO(picture.image)).convert("L"))
        return pixels.shape[1] == pytest.approx(picture.width * 1.5, abs=2) and pixels.std() > 5
    return picture.image.startswith(b"<?xml") and picture.image.count(b"<path") > 20
