"""What the documentation names exists: commands, options, names, files, pages, headings."""

import ast
import importlib
import importlib.util
import os
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bayescontam.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WRITTEN = sorted(
    page
    for page in DOCS.rglob("*.md")
    if page.relative_to(DOCS).parts[0] not in ("_build", "gallery", "generated")
)
"""Pages of the documentation that are written by hand."""
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *WRITTEN]  # no page of what there was
LONGEST = 250
"""Lines of a page: a longer one has a second concept."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DOTTED = re.compile(r"(?<![\w/.-])bayescontam(?:\.[A-Za-z_]\w*)+")
_LINK = re.compile(r"(?<!!)\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_FIGURE = re.compile(r"^```{figure} \S*generated/figures/([\w-]+)\.svg\n:alt: (.+)$", re.MULTILINE)
_TOCTREE = re.compile(r"^```{toctree}\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PATH = re.compile(
    r"`((?:bayescontam|tests|benchmarks|studies|models|curves|tools)/[\w./-]+\.\w+)`"
)


def path_of(page: Path) -> str:
    """Return where a page is, from the root of the project."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the code blocks of a page, each with its language."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[list[str]]:
    """Return the commands that a page shows, as their words."""
    lines = [line for _, code in blocks(page) for line in code.replace("\\\n", " ").splitlines()]
    lines = [line.removeprefix("$ ").removeprefix(".venv/bin/") for line in lines]
    lines += re.findall(r"(?<!`)`(bayescontam [^`…]+)`", page.read_text(encoding="utf-8"))
    found = [line for line in lines if line.startswith("bayescontam ")]
    return [shlex.split(re.split(r"\s[|>;&]", line)[0], comments=True)[1:] for line in found]


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings to the third level, as MyST and GitHub make them."""
    titles = re.findall(r"^#{1,3} (.+)$", prose(page), re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", title.strip().lower().replace(" ", "-")) for title in titles]
    return {
        name if not names[:k].count(name) else f"{name}-{names[:k].count(name)}"
        for k, name in enumerate(names)
    }


def entries(page: Path) -> list[str]:
    """Return the pages that the toctrees of a page name, as paths from the documentation."""
    lines = [
        line
        for block in _TOCTREE.findall(page.read_text(encoding="utf-8"))
        for line in re.sub(r"^.*<(.+)>$", r"\1", block, flags=re.MULTILINE).splitlines()
        if line and not line.startswith(":")
    ]
    folder = page.parent
    return [os.path.normpath((folder / line).relative_to(DOCS, walk_up=True)) for line in lines]


def imports(code: str) -> list[tuple[str, str]]:
    """Return what a program imports of the package: a module, and a name of it or nothing."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "bayescontam"]


def resolve(dotted: str) -> Any:
    """Return the module or object of a dotted name."""
    value, parts = importlib.import_module("bayescontam"), dotted.split(".")[1:]
    for place, part in enumerate(parts, start=1):
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(".".join(["bayescontam", *parts[:place]]))
    return value


@pytest.mark.parametrize("page", PAGES, ids=path_of)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = []
    for dotted in sorted(set(_DOTTED.findall(text))):
        try:
            resolve(dotted)
        except ImportError:
            wrong.append(dotted)
    wrong += [path for path in set(_PATH.findall(text)) if not (ROOT / path).exists()]
    assert wrong == []


def test_files_of_the_architecture_exist() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    folders = "|".join(path.name for path in (ROOT / "bayescontam").iterdir() if path.is_dir())
    named = re.findall(rf"`((?:{folders})/[\w./]*)`", text)
    assert len(named) > 40
    package = ROOT / "bayescontam"
    places = {name: (package / name, package / f"{name}.py") for name in named}
    assert [name for name, both in places.items() if not any(p.exists() for p in both)] == []


@pytest.mark.parametrize("page", PAGES, ids=path_of)
def test_programs_of_a_page_import_what_exists(page: Path) -> None:
    for module, name in [
        found for kind, code in blocks(page) if kind == "python" for found in imports(code)
    ]:
        assert not name or hasattr(importlib.import_module(module), name), f"{module}: {name}"
        importlib.import_module(module)


@cache
def whole_command() -> Any:
    """Return the command line with all commands, which takes long to build."""
    return typer.main.get_command(app)


@pytest.mark.parametrize("page", PAGES, ids=path_of)
def test_commands_of_a_page_have_their_options(page: Path) -> None:
    for words in commands(page):
        command: Any = whole_command()
        rest = list(words)
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            name = rest.pop(0)
            if name.isupper():  # stands for any command
                rest = []
                break
            assert name in command.commands, f"{page.name}: {shlex.join(words)}: no command {name}"
            command = command.commands[name]
        options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        options |= {"--help", "-h"}
        given = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert given <= options, f"{page.name}: {shlex.join(words)}: no {given - options}"


@pytest.mark.parametrize("page", WRITTEN, ids=path_of)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) < LONGEST


@pytest.mark.parametrize("page", PAGES, ids=path_of)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in _LINK.findall(prose(page)):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if ":" in link or target.is_relative_to(DOCS / "generated"):  # pages of the build
            continue
        found = target.exists() and (not anchor or anchor in anchors(target))
        wrong += [] if found else [link]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=path_of)
def test_pictures_of_a_page_exist_and_have_words(page: Path) -> None:
    for words, file in _PICTURE.findall(prose(page)):
        target = (page.parent / file).resolve()
        assert words, file
        assert target.is_relative_to(DOCS / "generated") or target.exists(), file


def test_figures_are_drawn_and_have_words(tmp_path: Path) -> None:
    shown = [found for page in WRITTEN for found in _FIGURE.findall(page.read_text("utf-8"))]
    assert all(len(words) > 80 for _, words in shown)
    spec = importlib.util.spec_from_file_location("figures", DOCS / "figures.py")
    figures: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(figures)  # type: ignore[union-attr]
    files = figures.write_figures(tmp_path)
    assert sorted(name for name, _ in shown) == sorted(path.stem for path in files)
    first = [path.stat().st_mtime_ns for path in files]
    again = figures.write_figures(tmp_path)
    assert [path.stat().st_mtime_ns for path in again] == first  # drawn alike: pages stay built


def test_every_page_is_in_a_toctree() -> None:
    listed = [name for page in WRITTEN for name in entries(page)]
    assert [name for name in listed if listed.count(name) > 1] == []
    names = {str(page.relative_to(DOCS).with_suffix("")) for page in WRITTEN}
    assert names - set(listed) == {"index"}


def test_the_pages_show_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 50
