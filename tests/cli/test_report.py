"""The verb 'report' for the folder of a scan."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done
from tests.report.made_scan import make_scan

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_scan().write(tmp_path_factory.mktemp("scan") / "two\nlines\x1b[31m")


@pytest.mark.parametrize("quiet", [False, True])
def test_the_folder_of_a_scan_gives_its_page(
    run: Run, scanned: Path, tmp_path: Path, quiet: bool
) -> None:
    out = tmp_path / "scan.html"
    done = run("report", scanned, "--out", out, *(["--quiet"] if quiet else []))
    assert done == Done(0, "" if quiet else f"The report lies in {out}\n", done.err)
    assert "Traceback" not in done.err
    page = out.read_text(encoding="utf-8")
    assert '<p class="kind">bayescontam scan</p>' in page
    assert "21 of 30 of &#39;quiz&#39;" in page
    assert "two\\nlines\\x1b[31m" in page


def refused(done: Done, message: str, out: Path) -> None:
    assert (done.status, done.out) == (2, "")
    assert re.search(message, done.err), done.err
    assert "Traceback" not in done.err
    assert "\x1b" not in done.err
    assert not out.exists()


def test_scans_are_not_compared(run: Run, scanned: Path, tmp_path: Path) -> None:
    out = tmp_path / "scan.html"
    done = run("report", scanned, "--compare", "fit.nc", "--out", out)
    message = r"^error: --compare: .*two\\nlines\\x1b\[31m is a folder, .* leave the option out"
    refused(done, message, out)


@pytest.mark.parametrize(
    ("removed", "named"),
    [
        (["scan.json"], r"lacks scan\.json$"),
        (["matches.parquet", "texts.parquet"], r"lacks matches\.parquet, texts\.parquet$"),
        (None, r"lacks scan\.json, matches\.parquet, .*"),
    ],
)
def test_an_unfinished_scan_says_what_is_missing(
    run: Run, tmp_path: Path, removed: list[str] | None, named: str
) -> None:
    folder = make_scan().write(tmp_path / "scan")
    for path in folder.iterdir():
        if removed is None or path.name in removed:
            path.unlink()
    done = run("report", folder, "--out", tmp_path / "scan.html")
    message = rf"(?m)^error: .*scan: holds no finished scan: {named}\n.*Give the folder of a finish"
    refused(done, message, tmp_path / "scan.html")


def test_a_damaged_table_is_named(run: Run, tmp_path: Path) -> None:
    folder = make_scan().write(tmp_path / "scan")
    (folder / "matches.parquet").write_bytes(b"no table")
    done = run("report", folder, "--out", tmp_path / "scan.html")
    refused(done, r"^error: .*matches\.parquet: cannot be read", tmp_path / "scan.html")


def test_no_page_where_it_cannot_be_written(run: Run, scanned: Path, tmp_path: Path) -> None:
    out = tmp_path / "no" / "scan.html"
    refused(run("report", scanned, "--out", out), r"^error: .*cannot be written", out)
