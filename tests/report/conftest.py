"""What all tests of the report share: two made-up fits, and a browser."""

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.inference.pipeline import Options, fit_responses
from bayescontam.inference.result import Fit
from bayescontam.inference.sampling import Sampling
from bayescontam.specs.registry import load_model
from tests.support.made_fit import drawn_from_prior

MODELS = ("<script>document.title=0</script>", "m" * 10_000, "$a_1^2$ \\frac{ 中\x07")
BENCHMARKS = ("Quiz", "quiz\n<b>")
UNANSWERED = MODELS[1], BENCHMARKS[1]
SAMPLING = Sampling(draws=200, chains=2)


@pytest.fixture(scope="session")
def hostile() -> Fit:
    """Three models and two benchmarks with hostile names; the last model is clean."""
    rng = np.random.default_rng(5)
    rows = []
    for model, ability in zip(MODELS, (1.0, 0.0, -0.5), strict=True):
        for b, benchmark in enumerate(BENCHMARKS):
            if (model, benchmark) == UNANSWERED:
                continue
            dose = np.linspace(0, 1, 40) * (model != MODELS[2])
            p = 1 / (1 + np.exp(-(ability + 2.5 * dose - 0.5 * b)))
            for i in range(40):
                rows.append((model, benchmark, f"i{b}-{i}", int(rng.random() < p[i]), dose[i]))
    columns = ["model", "benchmark", "item", "correct", "contamination"]
    return _fit(pd.DataFrame(rows, columns=columns), "hierarchical")


@pytest.fixture(scope="session")
def by_concept() -> Fit:
    """Three models, five concepts of one benchmark, no contamination."""
    rng = np.random.default_rng(6)
    names = ["above", "<i>below</i>", "left", "right", "c" * 300]
    rows = [
        (f"model-{m}", "puzzles", f"{concept[:9]}-{i}", int(rng.random() < 0.3 + 0.2 * m), concept)
        for m in range(3)
        for concept in names
        for i in range(8)
    ]
    return _fit(
        pd.DataFrame(rows, columns=["model", "benchmark", "item", "correct", "concept"]), "concepts"
    )


def _fit(table: pd.DataFrame, spec: str) -> Fit:
    responses = Responses.from_frame(table, source="made <up>.csv")
    with drawn_from_prior():
        return fit_responses(responses, load_model(spec), Options(seed=1, sampling=SAMPLING))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or chromium is None:
        pytest.skip("no chromium with chromedriver; install them: apt-get install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "headless=new", "no-sandbox", "disable-gpu", "no-first-run", "disable-sync",
        "disable-background-networking", "disable-component-update", "disable-dev-shm-usage",
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    from selenium.webdriver.support.wait import WebDriverWait

    class Loading(webdriver.Chrome):
        """Chrome whose pages are whole when `get` returns."""

        def get(self, url: str) -> None:
            """Open a page; chromedriver's own returns before its end once in some 40 at load."""
            super().get(url)
            state = "return document.readyState == 'complete' && location.href"
            WebDriverWait(self, 120, 0.05).until(lambda page: page.execute_script(state) == url)

    chrome = Loading(options, webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()
