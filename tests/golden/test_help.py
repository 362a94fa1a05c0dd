"""What ``--help`` says, of every command, word by word."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bayescontam.cli.app import app
from tests.golden.expected import check_text, masked
from tests.support.commands import COMMANDS

HELP = Path(__file__).parent / "help"


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
