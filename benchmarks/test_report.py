"""The report of 100 models and 30 benchmarks: its bytes, and the time to make and open it.

Run by ``make bench``. The draws of the fit are those of the prior, so that nothing is
sampled; a page costs the same whatever they say.
"""

import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayescontam.report.fit_page import write_report
from tests.support.browser import browser as browser
from tests.support.made_fit import made_fit

MODELS, BENCHMARKS, ITEMS = 100, 30, 10
FEW, DEFAULT = 400, 6000
"""Draws of a fit, in two chains; the second are as many as a fit has by default."""
LARGEST, SLOWEST = 10e6, 3.0
"""Bytes of the page, and seconds until it is loaded."""


def write(path: Path, draws: int) -> Path:
    models = [f"model-{i}" for i in range(MODELS)]
    fit = made_fit(models, [f"bench-{i}" for i in range(BENCHMARKS)], ITEMS, draws // 2)
    start = time.process_time()
    write_report(fit, path)
    taken = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\n{MODELS} models x {BENCHMARKS} benchmarks, {draws:,} draws:", end=" ")
    print(f"{path.stat().st_size / 1e6:.1f} MB, {taken:.0f} s of processor time;", end=" ")
    print(f"peak of memory, the fit included, {peak:.1f} GB")
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("report") / "report.html", FEW)


def test_the_page_is_small(path: Path) -> None:
    assert path.stat().st_size < LARGEST


def test_the_page_opens_at_once(path: Path, browser: Any) -> None:
    asked = "const t = performance.timing; return (t.loadEventEnd - t.navigationStart) / 1000"
    seconds = []
    for _ in range(5):
        browser.get(path.as_uri())
        seconds.append(float(browser.execute_script(asked)))
    print(f"\nload event after {np.median(seconds):.2f} s (median; {min(seconds):.2f} to", end=" ")
    print(f"{max(seconds):.2f})")
    for what, script in {
        "sorted": "document.querySelector('#results button[aria-label*=Overfitting]').click()",
        "filtered": "const i = document.querySelector('#results input'); i.value = 'model-7';"
        " i.dispatchEvent(new Event('input'))",
    }.items():
        timed = f"const s = performance.now(); {script}; document.body.offsetHeight;"
        taken = browser.execute_script(f"{timed} return performance.now() - s")
        print(f"{what} in {taken / 1000:.2f} s")
    reported = browser.find_element("css selector", "#results output").text
    assert reported == f"{11 * BENCHMARKS:,} of {MODELS * BENCHMARKS:,} rows"  # 7, and 70 to 79
    assert np.median(seconds) < SLOWEST


@pytest.mark.timeout(1800)
def test_a_page_of_as_many_draws_as_by_default(tmp_path: Path) -> None:
    assert write(tmp_path / "report.html", DEFAULT).stat().st_size < LARGEST
