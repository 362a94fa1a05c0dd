"""What the documentation names exists: commands, options, modules, public names, files."""

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bayescontam.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
PAGES.remove(ROOT / "CHANGELOG.md")  # names what earlier versions had
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DOTTED = re.compile(r"(?<![\w/.-])bayescontam(?:\.[A-Za-z_]\w*)+")
_PATH = re.compile(
    r"`((?:bayescontam|tests|benchmarks|studies|models|curves|tools)/[\w./-]+\.\w+)`"
)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_of_a_page_import_what_exists(page: Path) -> None:
    for module, name in [
        found for kind, code in blocks(page) if kind == "python" for found in imports(code)
    ]:
        assert not name or hasattr(importlib.import_module(module), name), f"{module}: {name}"
        importlib.import_module(module)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_have_their_options(page: Path) -> None:
    for words in commands(page):
        command: Any = typer.main.get_command(app)
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


def test_the_pages_show_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 50
