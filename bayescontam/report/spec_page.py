"""A model spec as Markdown for the documentation."""

import os
import re
import shlex
from pathlib import Path

from bayescontam._files import write_text
from bayescontam._text import printable
from bayescontam.model.describe import mathematics, prior_meanings
from bayescontam.report.fit_text import spec_assumptions
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_spec, shipped_models

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$~])")
_CODE = re.compile(r"(`[^`\n]+`)")


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
    pages = {home / f"{name}.md": spec_page(load_spec(name)) for name in shipped_models()}
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
