"""What ``--help`` says, of every command, word by word."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bayescontam.cli.app import app
from tests.golden.expected import check_text, masked

HELP = Path(__file__).parent / "help"


def commands(command: Any, name: str = "") -> Iterator[str]:
    """Give the names of a command and of all below it."""
    yield name
    for verb, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {verb}".strip())


COMMANDS = sorted(commands(get_command(app)))


def file_of(command: str) -> str:
    return f"{command.replace(' ', '-') or 'bayescontam'}.txt"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_it_said(command: str) -> None:
    environment = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "xterm"}
    done = CliRunner(env=environment).invoke(app, [*command.split(), "--help"])
    assert done.exit_code == 0
    check_text(HELP / file_of(command), masked(done.stdout))


def test_there_is_a_text_for_each_command_and_no_other() -> None:
    assert {path.name for path in HELP.glob("*")} == set(map(file_of, COMMANDS))
