"""How programs end: at once, and without a word of the libraries that they used."""

import gc
import subprocess
import sys
from collections.abc import Callable

import pytest

from bayescontam.__main__ import GARBAGE
from tests.cli.conftest import Done

END = """
import sys
import {module}
from bayescontam.__main__ import main
sys.argv = ["bayescontam", "--version"]
main()
"""


@pytest.mark.parametrize("module", ["triton", "pymc", "bayescontam"])
def test_nothing_is_printed_at_the_end(module: str) -> None:
    """Triton, which embedders load, prints each object that is not collected."""
    if module == "triton":
        pytest.importorskip("triton", reason="comes with torch on Linux")
    code = END.format(module=module)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.startswith("bayescontam ")
    assert done.stderr == ""


def test_workers_do_not_leave_their_garbage() -> None:
    """The main module is imported in them, and they end as Python ends."""
    code = "import atexit, bayescontam.__main__\nprint(atexit._ncallbacks())"
    counts = [
        int(subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=True
        ).stdout)
        for text in (code, code.replace("__main__", "cli.app"))
    ]  # fmt: skip
    assert counts[0] == counts[1]


def test_commands_seldom_look_for_garbage(run: Callable[..., Done]) -> None:
    before = gc.get_threshold()[0]
    assert run("--version").status == 0
    assert gc.get_threshold()[0] == GARBAGE != before
