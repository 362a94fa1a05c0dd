"""Install requirements into the environment of this Python, with a line every 15 seconds.

``python tools/set_up.py REQUIREMENT…``, in the folder of constraints.txt. uv installs in seconds
what takes pip minutes; pip does it where uv cannot be had, fails, or would not use the index that
pip is configured for. Neither compiles what may never be imported: Python does at first import.
"""

import subprocess
import sys
import time

EVERY = 15
PIP = [sys.executable, "-m", "pip"]
# -qq hides pip's warnings and keeps its errors.
PIP_INSTALL = [*PIP, "install", "-qq", "--no-input", "--disable-pip-version-check", "--no-compile"]
UV_INSTALL = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
PINNED = ["-c", "constraints.txt"]


def run(title: str, command: list[str]) -> bool:
    """Run a command, print how long it takes, and return whether it succeeded."""
    start = time.monotonic()
    print(f"  {title} ...", flush=True)
    with subprocess.Popen(command) as process:
        while True:
            try:
                status = process.wait(EVERY)
                break
            except subprocess.TimeoutExpired:
                print(f"  {title}: {time.monotonic() - start:.0f} s so far", flush=True)
    ended = "failed after" if status else "done in"
    print(f"  {title}: {ended} {time.monotonic() - start:.0f} s", flush=True)
    return status == 0


def pip_has_an_index_of_its_own() -> bool:
    """Return whether pip is configured for another index than PyPI; uv does not read that."""
    command = [*PIP, "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    keys = {line.split("=")[0].rsplit(".", 1)[-1] for line in listed.splitlines()}
    return bool(keys & {"index-url", "no-index"})


def install(requirements: list[str]) -> bool:
    """Install requirements in the versions of constraints.txt."""
    wanted = [part for each in requirements for part in ("-e", each)]
    if not pip_has_an_index_of_its_own() and run("uv, by pip", [*PIP_INSTALL, *PINNED, "uv"]):
        if run("packages, by uv", [*UV_INSTALL, *PINNED, *wanted]):
            return True
        print("  uv failed, see above; pip is tried instead", flush=True)
    return run("packages, by pip", [*PIP_INSTALL, *PINNED, *wanted])


if __name__ == "__main__":
    try:
        sys.exit(not install(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
