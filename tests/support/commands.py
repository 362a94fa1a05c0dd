"""Every command of the command line, by its words."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from bayescontam.cli.app import app


def commands(command: Any, name: str = "") -> Iterator[str]:
    """Give the names of a command and of all below it."""
    yield name
    for verb, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {verb}".strip())


COMMANDS = sorted(commands(get_command(app)))
