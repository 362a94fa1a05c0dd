"""Pages of a model spec: what it assumes, what its prior implies, and all of it in Markdown."""

import os
import re
import shlex
import textwrap
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from bayescontam._files import atomic_path, write_text
from bayescontam._format import number, probability
from bayescontam._text import join_list, printable
from bayescontam.errors import UsageError
from bayescontam.inference.prior_predictive import QUANTILES, Implied, Quantity
from bayescontam.model.describe import mathematics, prior_meanings
from bayescontam.model.effect_names import ABILITIES, DIRECT, EFFECTS, TOTAL, EffectNames
from bayescontam.report.format import provenance_rows
from bayescontam.report.html import fill, sentences
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    Picture,
    drawable,
    finish,
    panels,
    style,
)
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Beta
from bayescontam.specs.registry import load_model, shipped_models

ENDINGS = (".png", ".svg", ".html", ".csv")
"""Files that a prior can be written to."""
BINS = 50
_RANGES = {
    "accuracy": (0.0, 1.0),
    **dict.fromkeys(ABILITIES, (0.0, 1.0)),
    "unit_accuracy": (0.0, 1.0),
    "item_accuracy": (0.0, 1.0),
    **dict.fromkeys(EFFECTS, (-1.0, 1.0)),
    **dict.fromkeys((TOTAL.fraction, DIRECT.fraction), (-2.0, 1.0)),
    "novelty_gap": (-1.0, 1.0),
    "model_difference": (-1.0, 1.0),
    "benchmark_difference": (-1.0, 1.0),
    "item_spread": (0.0, 0.5),
}
"""What the panel of each quantity shows; the slope's follows its quantiles."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$~])")
_CODE = re.compile(r"(`[^`\n]+`)")


def assumptions(spec: ModelSpec, entered: Collection[str], clean: str) -> list[str]:
    """Return what a fit assumes into which these terms entered; `clean` are declared clean."""
    guess = spec.likelihood.guess
    known = guess.values() if isinstance(guess, dict) else [guess]
    estimated = any(isinstance(each, Beta) for each in known)
    return sentences(
        "fit_assumptions",
        spec=spec,
        entered=entered,
        clean=clean,
        guess_is_estimated=estimated,
        effect=EffectNames.of("spillover" in entered),
    )


def spec_assumptions(spec: ModelSpec) -> list[str]:
    """Return what a fit of the model spec assumes, if its data carry every term."""
    block = spec.contamination
    terms = {"delta": spec.difficulty.form != "none", "spillover": block.spillover}
    marked = f"the models that the column '{printable(block.clean_column, 60)}' marks"
    clean = join_list(block.clean) if block.clean else marked
    return assumptions(spec, [name for name, enters in terms.items() if enters], clean)


def spec_page(spec: ModelSpec, given: str | None = None) -> str:
    """Return a page that shows all of a model spec."""
    parts = [
        f"# {_plain(printable(spec.name))}",
        _plain(printable(spec.summary, 400)),
        _prose(spec.description),
        _fenced(_commands(spec.name if given is None else given), "text"),
        "## Mathematics",
        "m is a model, b a benchmark, i an item and d its contamination.",
        _fenced("\n".join(mathematics(spec)), "text"),
        "## Priors",
        "What each says before any data:",
        _priors(spec),
        "## Assumptions",
        "A term enters a fit only where the data can carry it. Of one that has them all:",
        "\n".join(f"- {_plain(line)}" for line in spec_assumptions(spec)),
        "## File",
        "Copy and change it for a model spec of your own.",
        _fenced(spec.text.strip("\n"), "toml"),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_spec_pages(folder: str | os.PathLike[str]) -> list[Path]:
    """Write a page of each shipped model spec, and remove those of others."""
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    pages = {home / f"{name}.md": spec_page(load_model(name)) for name in shipped_models()}
    for path in set(home.glob("*.md")) - pages.keys():
        path.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_text(path, text)
    return list(pages)


def _commands(given: str) -> str:
    name = shlex.quote(printable(given, 400))
    return (
        f"bayescontam models show {name}\n"
        f"bayescontam models prior {name}  # what the priors imply for accuracies\n"
        f"bayescontam models show {name} --toml > mine.toml\n"
        f"bayescontam fit responses.csv --model {name} --out fit.nc"
    )


def _plain(text: str) -> str:
    """Take from characters what Markdown would make of them."""
    return _SPECIAL.sub(r"\\\1", text)


def _prose(text: str) -> str:
    """Return paragraphs, in which only what stands between backquotes is marked up."""
    lines = (printable(line, 10_000) for line in text.strip("\n").splitlines())
    return "\n".join(
        "".join(part if k % 2 else _plain(part) for k, part in enumerate(_CODE.split(line)))
        for line in lines
    )


def _priors(spec: ModelSpec) -> str:
    rows = [
        f"| {_code(name)} | {_code(prior)} | {_plain(meaning)} |"
        for name, prior, meaning in prior_meanings(spec)
    ]
    return "\n".join(["| parameter | prior | what it says |", "|---|---|---|", *rows])


def _code(text: str) -> str:
    """Mark a cell up as code; a bar ends a cell even there."""
    mark, space = _mark(text, 1), " " if "`" in text else ""
    return f"{mark}{space}{text}{space}{mark}".replace("|", r"\|")


def _fenced(text: str, language: str) -> str:
    mark = _mark(text, 3)
    return f"{mark}{language}\n{text}\n{mark}"


def _mark(text: str, least: int) -> str:
    """Return backquotes that no run of them in the text is as long as."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def check_ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file that a prior can be written to."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(
            f"{printable(os.fspath(path))}: got the ending '{printable(ending, 20)}'; allowed are"
            " .png and .svg (picture), .html (page) and .csv (table)"
        )
    return ending


def write_prior(known: Implied, path: str | os.PathLike[str]) -> None:
    """Write what a prior implies, in the form that the file's ending requests."""
    ending = check_ending(path)
    if ending == ".csv":
        write_text(path, known.table().to_csv(index=False))
    elif ending == ".html":
        write_text(path, render_prior(known))
    else:
        image = prior_picture(known, raster=ending == ".png").image
        with atomic_path(path) as temporary:
            temporary.write_bytes(image)


def render_prior(known: Implied) -> str:
    """Return what a prior implies as an HTML page."""
    spec = known.spec
    content = {
        "spec_name": printable(spec.name),
        "spec_text": spec.text,
        "summary": printable(spec.summary, 400),
        "rows": known.readable().to_dict("records"),
        "quantiles": list(QUANTILES),
        "notes": known.notes(),
        "picture": prior_picture(known),
        "priors": prior_meanings(spec),
        "mathematics": "\n".join(mathematics(spec)),
        "provenance": provenance_rows(
            {
                "Model spec": f"{printable(spec.name)} (SHA-256 {spec.hash})",
                "Table": known.data,
                "Draws": f"{known.draws:,}",
                "Seed": known.seed,
            }
        ),
    }
    return fill("prior.html", content)


@style()
def prior_picture(known: Implied, raster: bool = False) -> Picture:
    """Draw the distribution of every quantity, extremes marked."""
    drawn = [
        each
        for each in known.quantities
        if known.is_reported(each.name) and not each.name.endswith("_size")
    ]
    if not drawn:
        raise UsageError(
            f"model spec '{printable(known.spec.name)}': its prior is so wide that all draws are "
            "too large for a computer's numbers, and nothing can be drawn; choose narrower priors"
        )
    table = known.table().set_index("quantity")
    labels = [known.label(each.name) for each in drawn]
    figure, axes = panels([drawable(label) for label in labels], 3, 1.75)
    for axis, each in zip(axes, drawn, strict=True):
        _panel(axis, each, known, table.loc[each.name])
    title = f"Prior of {drawable(printable(known.spec.name, 60))}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    layout = f"Layout: {printable(known.data, 300)}; {known.draws:,} draws, seed {known.seed}."
    lines = "\n".join(textwrap.wrap(drawable(layout), 135))  # as long as the picture is wide
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=8, color=GREY)
    ranges = table.loc[[each.name for each in drawn], ["median", "q2.5", "q97.5"]].to_numpy()
    parts = [
        f"{label} {number(middle, 2)} ({number(low, 2)} to {number(high, 2)})"
        for label, (middle, low, high) in zip(labels, ranges, strict=True)
    ]
    alt = f"Histograms of the prior; medians with 95 % ranges: {'; '.join(parts)}."
    caption = (
        "What the prior says before any data. Bars: share of draws; orange: extremes, with"
        " their probabilities. Dot, thick and thin line: median, half and 95 % of the prior."
        " Differences are between accuracies, without the chance of finite samples."
    )
    return finish(figure, "prior", title, alt, caption, raster)


def _panel(axis: Any, each: Quantity, known: Implied, row: Any) -> None:
    """Draw a histogram over a line that holds 95 % of the prior."""
    values = known.values[each.name]
    low, high = _RANGES.get(each.name) or _around(values)
    edges = _edges(low, high, each)
    share = np.histogram(values, edges)[0] / values.size / np.diff(edges)
    extreme = (edges[1:] <= each.below + 1e-12) | (edges[:-1] >= each.above - 1e-12)
    colors, full = np.where(extreme, ORANGE, BLUE), share > 0
    looks = {"color": colors[full], "edgecolor": colors[full], "lw": 0.3}
    axis.bar(edges[:-1][full], share[full], np.diff(edges)[full], align="edge", **looks)
    top = share.max()
    ends = np.clip([row[name] for name in QUANTILES], low, high)
    axis.hlines(-0.1 * top, ends[0], ends[4], color=INK, lw=1.1)
    axis.hlines(-0.1 * top, ends[1], ends[3], color=INK, lw=3)
    axis.plot(ends[2], -0.1 * top, "o", ms=5, color=INK, mfc="white", mew=1.3)
    axis.set_ylim(-0.2 * top, 1.1 * top)
    axis.set_xlim(low, high)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_xlabel(_below_axis(each, values, row, low, high), fontsize=8, color=GREY)


def _below_axis(each: Quantity, values: Any, row: Any, low: float, high: float) -> str:
    text = (
        f"P(< {each.below:g}) {probability(row['p_below'])}    "
        f"P(> {each.above:g}) {probability(row['p_above'])}"
    ).replace("-", "−")
    hidden = float(((values < low) | (values > high)).mean())
    return f"{text}\nnot drawn: {number(100 * hidden, 1)} %" if hidden >= 0.0005 else text


def _around(values: Any) -> tuple[float, float]:
    """Return a range that holds nearly all values, and zero."""
    low, high = np.quantile(values, [0.005, 0.995]) * 1.05
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    return (low, high) if low < high else (-1.0, 1.0)


def _edges(low: float, high: float, each: Quantity) -> Any:
    """Return edges of bins, the bounds of extremes among them."""
    bounds = [bound for bound in (each.below, each.above) if low < bound < high]
    edges = np.union1d(np.linspace(low, high, BINS + 1), bounds)
    # A sliver beside a bound would show nothing but noise.
    width = (high - low) / BINS
    keep = np.ones(len(edges), dtype=bool)
    for bound in bounds:
        keep &= (np.abs(edges - bound) > 0.45 * width) | np.isin(edges, [bound, low, high])
    return edges[keep]
