"""The verb 'report' for the folder of a scan, and for curves."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.cli.prevalence import item_column
from bayescontam.evidence.curve import FORMAT, Curve
from tests.cli.conftest import NAMES, Done, Made
from tests.support.made_curve import make_curve
from tests.support.made_scan import make_scan

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
    assert done == Done(0, "" if quiet else f"Wrote {out}.\n", done.err)
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


@pytest.mark.parametrize("option", ["title", "note"])
def test_only_fits_have_a_title_and_a_note(
    run: Run, scanned: Path, tmp_path: Path, option: str
) -> None:
    out = tmp_path / "scan.html"
    done = run("report", scanned, f"--{option}", "any text", "--out", out)
    refused(done, rf"^error: --{option}: .* is a scan, .* leave it out", out)


def test_scans_are_not_compared(run: Run, scanned: Path, tmp_path: Path) -> None:
    out = tmp_path / "scan.html"
    done = run("report", scanned, "--compare", "fit.nc", "--out", out)
    message = r"^error: --compare: .*two\\nlines\\x1b\[31m is a scan, .* leave it out"
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


@pytest.fixture(scope="module")
def curve(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scan = make_scan()
    sources = tuple(dict.fromkeys(row["source"] for row in scan.record["strata"]))
    path = tmp_path_factory.mktemp("curve") / "curve.nc"
    make_curve(tuple(scan.items["benchmark"].unique()), sources, 0.7).to_netcdf(path)
    return path


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("items") / "items.csv"
    table = make_scan().items[["benchmark", "item"]]
    table = table.assign(elo=range(len(table)), level=["hard", "easy"] * (len(table) // 2))
    table.to_csv(path, index=False)
    return path


def test_the_file_of_a_curve_gives_its_page(run: Run, curve: Path, tmp_path: Path) -> None:
    out = tmp_path / "curve.html"
    done = run("report", curve, "--out", out)
    assert (done.status, done.out) == (0, f"Wrote {out}.\n")
    assert '<p class="kind">bayescontam curve</p>' in out.read_text(encoding="utf-8")


def test_a_curve_in_another_format_is_named_as_such(
    run: Run, curve: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Curve, "_LAYOUT", ("curve_format", FORMAT + 1))
    done = run("report", curve, "--out", tmp_path / "curve.html")
    assert done.status == 2
    assert f"has format {FORMAT}, this version of bayescontam reads format" in done.err
    assert "is not a fit" not in done.err


@pytest.mark.parametrize(("by", "groups"), [("elo", 10), ("level", 2)])
@pytest.mark.usefixtures("undrawn")
def test_a_scan_with_a_curve_gives_prevalence(
    run: Run, scanned: Path, curve: Path, items: Path, tmp_path: Path, by: str, groups: int
) -> None:
    out = tmp_path / "scan.html"
    done = run("report", scanned, "--curve", curve, "--items", items, "--by", by, "-o", out)
    assert done.status == 0, done.err
    page = out.read_text(encoding="utf-8")
    assert f"Prevalence by {by}, {groups} groups" in page
    assert "Items with at least one duplicate in the corpus (95 % interval)" in page


def test_a_benchmark_need_not_be_named_where_there_is_one(tmp_path: Path) -> None:
    table = pd.DataFrame({"item": ["1", "2"], "elo": ["7", ""]})
    table.to_csv(tmp_path / "items.csv", index=False)
    scanned = pd.DataFrame({"benchmark": ["quiz", "quiz"]})
    read = item_column(tmp_path / "items.csv", "elo", scanned)
    assert read["benchmark"].tolist() == ["quiz", "quiz"]
    assert read["elo"].tolist() == pytest.approx([7.0, float("nan")], nan_ok=True)


@pytest.mark.usefixtures("undrawn")
def test_a_fit_with_a_scan_gives_matched_texts(
    run: Run, made: Made, scanned: Path, curve: Path, tmp_path: Path
) -> None:
    out = tmp_path / "fit.html"
    done = run("report", made.path, "--scan", scanned, "--curve", curve, "--out", out)
    assert done.status == 0, done.err
    assert 'id="contaminated"' in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("which", "options", "message"),
    [
        ("scan", ["--scan"], r"--scan: .* is a scan, and its report does not take that"),
        ("scan", ["--tables"], r"--tables: .* is a scan, and its report does not take that"),
        ("curve", ["--tables"], r"--tables: .* is a curve, and its report does not take that"),
        ("scan", ["--items", "--by"], r"--items, --by: give both, and --curve"),
        ("scan", ["--curve", "--by"], r"--items, --by: give both, and --curve"),
        ("curve", ["--curve", "--compare"], r"--compare, --curve: .* is a curve, and its report"),
        ("fit", ["--by"], r"--by: .* is a fit, and its report does not take that"),
        ("fit", ["--curve"], r"--scan, --curve: .* give both or none of them"),
        ("fit", ["--scan"], r"--scan, --curve: .* give both or none of them"),
        ("fit", ["--predictions"], r"predictions, solver: give the tasks .*--tasks"),
        ("fit", ["--tasks", "--solver"], r"solver: names solvers of predictions; give these"),
        ("fit", ["--tasks"], r"elo: no such file or folder, and no set of tasks"),
        ("scan", ["--tasks"], r"--tasks: .* is a scan, and its report does not take that"),
    ],
)
def test_options_that_do_not_go_together(
    run: Run,
    made: Made,
    scanned: Path,
    curve: Path,
    items: Path,
    tmp_path: Path,
    which: str,
    options: list[str],
    message: str,
) -> None:
    paths = {"scan": scanned, "curve": curve, "fit": made.path}
    values = {"--scan": scanned, "--curve": curve, "--compare": made.path, "--items": items}
    given = [part for name in options for part in (name, values.get(name, "elo"))]
    out = tmp_path / "page.html"
    refused(run("report", paths[which], *given, "--out", out), rf"^error: {message}", out)


@pytest.mark.usefixtures("undrawn")
def test_tables_of_a_fit_are_written_beside_its_page(run: Run, made: Made, tmp_path: Path) -> None:
    out, tables = tmp_path / "fit.html", tmp_path / "tables"
    done = run("report", made.path, "--out", out, "--tables", tables)
    assert done.status == 0, done.err
    assert done.out == f"Wrote {out}.\nWrote its tables to {tables}.\n"
    assert "drawing  100 %" in done.err
    assert len(pd.read_csv(tables / "headline.csv")) == len(NAMES)


def test_a_folder_for_tables_that_cannot_be_made(run: Run, made: Made, tmp_path: Path) -> None:
    out = tmp_path / "fit.html"
    done = run("report", made.path, "--out", out, "--tables", made.path)
    refused(done, r"^error: .*no folder can be made there", out)


def test_a_file_that_is_neither_fit_nor_curve(run: Run, items: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    refused(run("report", items, "--out", out), r"^error: .*is not a fit of bayescontam", out)


def test_a_fit_is_no_curve(run: Run, scanned: Path, made: Made, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = run("report", scanned, "--curve", made.path, "--out", out)
    refused(done, r"^error: .*is not a curve", out)
