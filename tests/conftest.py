"""Settings that every test shares, and the rule for skipped tests.

A test may skip where an extra, a browser, a GPU or shared data is absent. With
``BAYESCONTAM_REQUIRE_ALL=1`` only the last two may: any other skip is a failure.
"""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import matplotlib
import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED_SKIPS = ("no shared data", "needs a GPU")

matplotlib.use("Agg")  # no window opens, on a desktop either

# PyTensor notes for each operation where it was made; nobody reads that of a test.
_FLAGS = os.environ.get("PYTENSOR_FLAGS")
os.environ["PYTENSOR_FLAGS"] = f"{_FLAGS + ',' if _FLAGS else ''}traceback__limit=0"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell has its background jobs ignore Ctrl-C, and programs that tests start inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are the same in every run, so that no test fails by chance; HYPOTHESIS_PROFILE=explore
# draws new ones.
hypothesis.settings.register_profile("fixed", deadline=None, max_examples=50, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=50)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


class SkipsAreFailures:
    """Turns skips of tests and of whole test files into failures."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        return refuse_skip((yield))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Iterator[None]:
        return refuse_skip((yield))


def refuse_skip(report: Any) -> Any:
    """Make a failure of `report` if it is a skip for a reason that is not allowed."""
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if not reason.startswith(ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped under BAYESCONTAM_REQUIRE_ALL=1: {reason}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Files with slow tests come first, so that no core waits at the end for another's long file.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    # Ray starts its processes by fork, and JAX, which other tests leave behind in this
    # process, warns of that; the new processes do not use it.
    calm = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
    for item in items:
        if item.get_closest_marker("ray"):
            item.add_marker(calm)


def pytest_collection_finish() -> None:
    # All libraries are there by now, and a search of their million objects for garbage takes a
    # second: with Python's own thresholds a fifth of the time of tests went into these.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_configure(config: pytest.Config) -> None:
    # Registered as a plugin: hooks of a conftest.py do not see the doctests of the package.
    if os.environ.get("BAYESCONTAM_REQUIRE_ALL") == "1":
        config.pluginmanager.register(SkipsAreFailures(), "skips-are-failures")
