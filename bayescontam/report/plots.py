"""Matplotlib figures as images of a page, drawn alike and labelled safely."""

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bayescontam._text import short_labels

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
INK, GREY, PALE, _DARKER = "#1a1a1a", "#767676", "#d9d9d9", "#a6a6a6"
_CYCLE = [BLUE, ORANGE, GREEN, PINK, INK, "#E69F00", "#56B4E9", GREY]
RAW: dict[str, Any] = {
    "marker": "D", "mfc": "white", "mec": ORANGE, "ls": "none", "ms": 5.5, "mew": 1.4,
}  # fmt: skip
"""The mark of what was observed."""
SERIES: list[dict[str, Any]] = [
    {"color": color, "marker": marker} for color, marker in zip(_CYCLE, "osD^vP*X", strict=True)
]
"""How each of several series is drawn; the shape identifies it without colour."""
WIDTH = 9.2
"""Width of a picture on the page, in inches."""
NARROW = 3.7
"""The same on the screen of a phone."""
_FALLBACKS = (
    "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Noto Emoji",
    "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Arial Unicode MS",
)  # fmt: skip
_STYLE: dict[str, Any] = {
    "text.parse_math": False,  # names may hold "$": they are shown, not parsed
    "text.usetex": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "bayescontam",
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "axes.grid": False,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
}


@dataclass(frozen=True)
class Picture:
    """An image with all that a page needs to show it."""

    name: str  # identifier, unique on the page, of letters and hyphens
    title: str  # heading
    alt: str  # what is seen, in words and numbers
    caption: str  # how to read it, and what is left out
    image: bytes
    kind: str  # `"svg+xml"` or `"png"`
    width: int  # natural width on the page, in CSS pixels
    # another image of the same, of the same kind, for narrow screens; empty where there is none, so
    # that the wide one is scrolled
    narrow: bytes = b""

    @property
    def uri(self) -> str:
        """The image as a data URI."""
        return self._uri(self.image)

    @property
    def narrow_uri(self) -> str:
        """The image for narrow screens as a data URI."""
        return self._uri(self.narrow)

    def _uri(self, image: bytes) -> str:
        return f"data:image/{self.kind};base64,{base64.b64encode(image).decode('ascii')}"


@contextmanager
def style() -> Iterator[None]:
    """Draw everything inside the block in the style of the report."""
    with mpl.rc_context():
        mpl.rcdefaults()
        params: Any = mpl.rcParams
        params.update(
            {**_STYLE, "font.family": list(_families()), "axes.prop_cycle": cycler(color=_CYCLE)}
        )
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return a figure without a window or global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def finish(
    figure: Figure,
    name: str,
    title: str,
    alt: str,
    caption: str,
    raster: bool = False,
    narrow: Figure | None = None,
) -> Picture:
    """Return a drawn figure as a picture: vectors, or pixels for crowded ones."""
    width = round(figure.get_figwidth() * 96)
    kind = "png" if raster else "svg+xml"
    small = b"" if narrow is None else _image(narrow, raster)
    return Picture(name, title, alt, caption, _image(figure, raster), kind, width, small)


def _image(figure: Figure, raster: bool) -> bytes:
    buffer = io.BytesIO()
    if raster:
        options: Any = {"metadata": {"Software": None}, "pil_kwargs": {"optimize": True}}
        figure.savefig(buffer, format="png", dpi=144, **options)
    else:
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def grid(
    count: int,
    columns: int,
    height: float,
    sharey: bool = False,
    sharex: bool = False,
    width: float = WIDTH,
) -> tuple[Figure, list[Any]]:
    """Return a figure of `count` panels of equal size, row by row."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = new_figure(width, rows * height + 0.5)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey, sharex=sharex)
    flat = list(axes.ravel())
    for spare in flat[count:]:
        spare.remove()
    return figure, flat[:count]


def panels(
    titles: Sequence[str],
    columns: int,
    height: float,
    *,
    xlabel: str = "",
    ylabel: str = "",
    alone: float = 1.0,
    sharey: bool = False,
    sharex: bool = False,
) -> tuple[Figure, list[Any]]:
    """Return a figure with a labelled panel for each title; one alone has a part of the width."""
    width = WIDTH * (alone if len(titles) == 1 else 1)
    figure, axes = grid(len(titles), columns, height, sharey, sharex, width)
    for i, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        axis.set_title(title)
        axis.set_xlabel(xlabel)
        axis.tick_params(labelbottom=True)
        if not sharey or i % columns == 0:
            axis.set_ylabel(ylabel)
    return figure, axes


def name_rows(axes: Sequence[Any], names: Sequence[object], letters: int = 26) -> None:
    """Write the names of rows at the left; the first one is on top."""
    for axis in axes:
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(names)), plain_labels(names, letters))
    axes[0].set_ylim(len(names) - 0.4, -0.6)


def mark(label: str, **look: Any) -> Line2D:
    """Return an entry of a legend; one with a marker has a line only where `ls` is given."""
    return Line2D([], [], label=label, **({"ls": "none"} if "marker" in look else {}) | look)


def legend(figure: Figure, marks: Sequence[Any], columns: int = 3) -> None:
    """Explain the marks of a figure above its panels."""
    figure.legend(handles=list(marks), loc="outside upper left", ncols=min(columns, len(marks)))


def band(axis: Any, x: Any, low: Any, high: Any, color: str = BLUE) -> None:
    """Draw the band of an interval along a line."""
    axis.fill_between(x, low, high, color=color, alpha=0.18, lw=0)


def replicated(axis: Any, at: Any, rows: Any, observed: Any, across: bool = False) -> None:
    """Draw observed values over bars of replicated ones: `low_99, low_95, high_95, high_99`."""
    bars = axis.hlines if across else axis.vlines
    bars(at, rows["low_99"], rows["high_99"], color=PALE, lw=6)
    bars(at, rows["low_95"], rows["high_95"], color=_DARKER, lw=6)
    axis.plot(*((observed, at) if across else (at, observed)), **RAW)


def replicated_legend(figure: Figure, observed: str, what: str) -> None:
    """Explain the bars of `replicated`."""
    bars = [mark(f"95 % of {what}", color=_DARKER, lw=6), mark("99 %", color=PALE, lw=6)]
    legend(figure, [mark(observed, **RAW), *bars])


def first_of(
    names: Iterable[Any], most: int, what: str, which: str = "the first"
) -> tuple[list[Any], str]:
    """Return the distinct names that are drawn, and a note on the rest."""
    known = list(dict.fromkeys(names))
    return known[:most], note_of(len(known[:most]), len(known), what, which)


def note_of(shown: int, of: int, what: str, which: str) -> str:
    """Return the end of a caption where only a part is drawn."""
    return f" Only {shown:,} of {of:,} {what} are drawn ({which})." if shown < of else ""


def plural(count: int, what: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "model"), plural(2000, "model")
    ('1 model', '2,000 models')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def plain_labels(names: Iterable[object], width: int = 26) -> list[str]:
    """Return short, distinct labels that the fonts can draw, for names that hold anything.

    >>> plain_labels(["two\\nlines", "a" * 40], width=10)
    ['two\\\\nlines', 'aaaaa…aaaa']
    """
    return [drawable(label) for label in short_labels([str(name) for name in names], width)]


def drawable(text: str) -> str:
    """Return `text` with every character that no font has written as its escape."""
    known = _charset()
    return "".join(c if ord(c) in known else c.encode("unicode_escape").decode() for c in text)


@cache
def _families() -> tuple[str, ...]:
    installed = set(font_manager.get_font_names())
    return ("DejaVu Sans", *(name for name in _FALLBACKS if name in installed))


@cache
def _charset() -> frozenset[int]:
    """Return the characters that regular and bold fonts of the style have."""
    regular, bold = (
        set().union(*(_characters(family, weight) for family in _families()))
        for weight in ("normal", "bold")
    )
    return frozenset(regular & bold)


def _characters(family: str, weight: str) -> set[int]:
    properties = font_manager.FontProperties(family=[family], weight=weight)
    path = font_manager.findfont(properties, fallback_to_default=True)
    return set(font_manager.get_font(path).get_charmap())


def numbers(values: Any, digits: int = 2) -> str:
    """Return the range of values in words, for alternative texts."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    if not known.size:
        return "no value"
    # Adding zero keeps "-0.00" away.
    low, high = (f"{end.round(digits) + 0.0:.{digits}f}" for end in (known.min(), known.max()))
    return low if low == high else f"{low} to {high}"
