"""Names that could break a terminal, a table or a page, from the file to every output."""

import csv
import io
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pandas as pd
import pytest

from tests.cli.conftest import NAMES, Done, Made, command

Run = Callable[..., Done]
COLUMNS = [
    "model", "benchmark", "quantity", "mean", "sd", "ci_low", "ci_high", "ess_bulk", "ess_tail",
    "r_hat", "p_positive", "verdict", "mcse_mean",
]  # fmt: skip


def controls(text: str) -> set[str]:
    """Return the characters that could steer a terminal, line feeds aside."""
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf")} - {"\n"}


def test_the_fit_was_made_without_warnings(made: Made) -> None:
    err = made.done.stderr.decode()
    assert made.path.exists(), err
    assert "Traceback" not in err
    assert "Warning" not in err


def test_nothing_that_fit_prints_can_steer_the_terminal(made: Made) -> None:
    assert controls(made.done.stdout.decode()) == set()


def test_the_file_keeps_names_exactly(made: Made) -> None:
    fit = made.fit
    assert fit.data["estimands"]["model"].values.tolist() == NAMES
    assert fit.estimands()["model"].drop_duplicates().tolist() == NAMES


@pytest.mark.parametrize("width", ["80", "200"])
def test_table_is_safe_and_its_numbers_whole(
    made: Made, run: Run, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    done = run("summary", made.path)
    assert (done.status, done.err) == (0, "")
    text = done.out
    assert controls(text) == set()
    # Sentences and the key of names follow the table; the terminal folds them.
    lines = text.splitlines()
    rule = next(at for at, line in enumerate(lines) if "──" in line)
    table = lines[rule - 2 : lines.index("", rule)]
    assert len(table) > 3
    assert max(map(len, table)) <= int(width)
    for row in made.fit.estimands().query("quantity == 'genuine_ability_direct'").itertuples():
        assert f"{row.mean:.3f}" in text
        assert f"[{row.ci_low:.3f}, {row.ci_high:.3f}]" in text
    if width == "200":
        assert "[bold]markup[/bold] $x_1^2$" in text


def test_level_sets_the_intervals(made: Made, run: Run) -> None:
    done = run("summary", made.path, "--format", "csv", "--level", "0.5")
    half = pd.read_csv(io.StringIO(done.out), keep_default_na=False, na_values=[""])
    whole = made.fit.estimands()
    slopes = half["quantity"] == "slope"
    assert (half["ci_low"] > whole["ci_low"])[slopes].all()
    assert (half["ci_high"] < whole["ci_high"])[slopes].all()


def test_csv_gives_names_and_numbers_back(made: Made) -> None:
    done = command("summary", made.path.name, "--format", "csv", cwd=made.path.parent)
    assert done.returncode == 0
    text = done.stdout.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert list(rows[0]) == COLUMNS
    assert list(dict.fromkeys(row["model"] for row in rows)) == NAMES
    wanted = made.fit.estimands()
    assert [float(row["mean"]) for row in rows] == wanted["mean"].tolist()
    frame = pd.read_csv(io.BytesIO(done.stdout), lineterminator="\n")
    assert frame["model"].drop_duplicates().tolist() == NAMES


def test_csv_in_a_file_is_what_is_printed(made: Made, run: Run, tmp_path: Path) -> None:
    printed = run("summary", made.path, "--format", "csv")
    written = run("summary", made.path, "--format", "csv", "--out", tmp_path / "a.csv")
    assert written == Done(0, "", "")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8", newline="") == printed.out


def test_json_gives_names_back(made: Made, run: Run) -> None:
    def refuse(constant: str) -> NoReturn:
        pytest.fail(f"{constant} is no JSON")

    done = run("summary", made.path, "--format", "json")
    content = json.loads(done.out, parse_constant=refuse)
    groups = ["note", "record", "level", "checks", "estimands", "identification", "p_better"]
    assert list(content) == groups
    assert [row["model"] for row in content["identification"]] == NAMES
    assert list(dict.fromkeys(row["model"] for row in content["estimands"])) == NAMES
    assert {row["other"] for row in content["p_better"]} == set(NAMES)
    assert len(content["p_better"]) == len(NAMES) * (len(NAMES) - 1)
    assert controls(done.out) <= {"\x9b"}  # JSON leaves this one to UTF-8


def test_a_table_is_not_written_to_a_file(made: Made, run: Run, tmp_path: Path) -> None:
    done = run("summary", made.path, "--out", tmp_path / "a.txt")
    assert done == Done(
        2, "", "error: --out: a table is for the terminal; add --format csv or json\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_output_is_utf8_whatever_the_locale(made: Made) -> None:
    done = command("summary", made.path.name, cwd=made.path.parent, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "─" * 15 in done.stdout.decode()


@pytest.mark.slow
def test_the_report_escapes_names(made: Made, run: Run, tmp_path: Path) -> None:
    texts = "--title", "<b>Two</b>\x1b[31m", "--note", "A <script>alert(2)</script>"
    done = run("report", made.path, "--out", tmp_path / "page.html", *texts, "--quiet")
    assert done.status == 0
    assert done.out == ""
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<h1>&lt;b&gt;Two&lt;/b&gt;\\x1b[31m</h1>" in page
    assert "A &lt;script&gt;alert(2)&lt;/script&gt;</p>" in page
    assert "[bold]markup[/bold]" in page
    assert controls(page) == set()


def test_one_fit_is_not_compared(made: Made, run: Run) -> None:
    assert run("compare", made.path) == Done(2, "", "error: compare: give at least two fits\n")
