"""Programs run on their own, with the memory that they took."""

import subprocess
import sys
from pathlib import Path

import pytest

_STATUS = Path("/proc/self/status")
_REPORT = """
import pathlib
from bayescontam.errors import BayescontamError
message = ""
try:
    exec(sys.argv.pop())
except BayescontamError as error:
    message = str(error).splitlines()[0]
peak = next(line for line in pathlib.Path("/proc/self/status").open() if "VmHWM" in line)
print(message, peak.split()[1], sep="\\n")
"""


def run_and_weigh(code: str, *arguments: object) -> tuple[str, float]:
    """Return the first line of the error that a program ended with, and its bytes at the most."""
    if not _STATUS.exists():
        pytest.skip("the system does not say how much memory a process took")
    # Not what the system reports of a child: that counts the memory of the process that began it.
    command = [sys.executable, "-c", "import sys" + _REPORT, *map(str, arguments), code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    message, peak = done.stdout.splitlines()[-2:]
    return message, 1024.0 * int(peak)


def peak_memory() -> float:
    """Return the most bytes that this process held at once."""
    # Not what the system reports of a process: that starts with what its parent held.
    peak = next(line for line in _STATUS.open() if "VmHWM" in line)
    return 1024.0 * int(peak.split()[1])
