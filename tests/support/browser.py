"""A headless Chromium as a fixture; skipped where there is none."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


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

    class PatientChrome(webdriver.Chrome):
        """Chrome whose pages are whole when `get` returns."""

        def get(self, url: str) -> None:
            """Open a page; chromedriver's own returns before its end once in some 40 at load."""
            super().get(url)
            state = "return document.readyState == 'complete' && location.href"
            WebDriverWait(self, 120, 0.05).until(lambda page: page.execute_script(state) == url)

    chrome = PatientChrome(options, webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()
