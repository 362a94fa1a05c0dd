"""Sheets of a scan exported and imported, and agreement, from the command line."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from bayescontam.data.judgements import KINDS, read_judgements
from bayescontam.evidence.choice import choose_pairs, top_pairs
from bayescontam.scan.results import Scan
from tests.cli.conftest import Done
from tests.support.made_scan import BENCHMARKS, ITEMS, make_scan

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a scan with hostile names and texts."""
    return make_scan().write(tmp_path_factory.mktemp("judged") / "a scan")


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="", encoding="utf-8-sig") as stream:
        return list(csv.DictReader(stream))


def _fill(path: str, verdicts: list[str], kinds: list[str] | None = None) -> None:
    """Write verdicts into the first rows of a sheet."""
    rows = _rows(path)
    for row, verdict in zip(rows, verdicts, strict=False):
        row["is_duplicate"] = verdict
    for row, kind in zip(rows, kinds or [], strict=False):
        row["kind"] = kind
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def test_from_scan_to_agreement(run: Run, scan: Path) -> None:
    done = run("judge", "export", scan, "--out", "ada.csv", "--pairs", 20, "--seed", 5)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "20 pairs written to ada.csv. Fill in is_duplicate; then:"
    assert lines[1] == (
        f"bayescontam judge import '{scan}' ada.csv --judge NAME --out judgements.csv"
    )
    assert lines[2:] == [
        "What to fill in is defined in ada.definitions.txt: give it to the judge, too."
    ]
    definitions = Path("ada.definitions.txt").read_text(encoding="utf-8")
    assert all(f"\n{kind} " in definitions for kind in KINDS)
    assert definitions.startswith("What to do    Read both texts of each row.")
    assert len(_rows("ada.csv")) == 20
    Path("bo.csv").write_bytes(Path("ada.csv").read_bytes())
    _fill("ada.csv", ["1", "1", "0", "0", "yes", "no", "0", "1"], ["exact", "", "unrelated"])
    done = run("judge", "import", scan, "ada.csv", "--judge", "Ada", "--out", "judged.csv")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "Read 8 verdicts; 12 rows are not judged yet.",
        "Wrote judged.csv (8 judgements).",
    ]
    _fill("bo.csv", ["1", "0", "0", "0", "1", "0", "0", "1", "1"])
    done = run("judge", "import", scan, "bo.csv", "--judge", "Bo", "--out", "bo.parquet")
    assert done.out.endswith("Wrote bo.parquet (9 judgements).\n")
    done = run("judge", "agreement", "judged.csv", "bo.parquet")
    assert (done.status, done.err) == (0, "")
    assert "0.875" in done.out  # 7 of 8 verdicts are the same
    assert "0.750" in done.out  # kappa: chance is (4 · 3 + 4 · 5) / 64 = 0.5
    done = run("judge", "agreement", "judged.csv", "bo.parquet", "--json")
    (row,) = json.loads(done.out)["two"]
    assert (row["judge_a"], row["judge_b"], row["pairs"]) == ("Ada", "Bo", 8)
    assert row["kappa"] == pytest.approx(0.75)


def test_pairs_are_those_of_the_options(run: Run, scan: Path) -> None:
    loaded = Scan.load(scan)
    assert run("judge", "export", scan, "--out", "a.csv").status == 0
    assert len(_rows("a.csv")) == 200
    run("judge", "export", scan, "-o", "b.csv", "--per-item", 2, "--benchmark", BENCHMARKS[0])
    assert len(_rows("b.csv")) == ITEMS
    assert {row["benchmark"] for row in _rows("b.csv")} == {BENCHMARKS[0]}
    assert len(top_pairs(loaded, 2, benchmarks=[BENCHMARKS[0]])) == ITEMS
    run("judge", "export", scan, "-o", "c.csv", "--pairs", 9, "--seed", 2)
    done = run("judge", "export", scan, "-o", "d.csv", "--pairs", 10**6)
    count = len(_rows("d.csv"))
    assert done.out.splitlines()[:2] == [
        "The scan has no more pairs whose texts it holds.",
        f"{count:,} pairs written to d.csv. Fill in is_duplicate; then:",
    ]
    texts = {row["chunk_text"] for row in _rows("c.csv")}
    assert texts & set(choose_pairs(loaded, 9, 2)["chunk_text"])


def test_workbooks_are_read_and_written(run: Run, scan: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    assert run("judge", "export", scan, "--out", "a.xlsx", "--pairs", 6).status == 0
    book = openpyxl.load_workbook("a.xlsx")
    book["pairs"]["E2"], book["pairs"]["E4"] = 1, 0
    book.save("a.xlsx")
    done = run("judge", "import", scan, "a.xlsx", "--judge", "Ada", "--out", "judged.csv")
    assert done.out.startswith("Read 2 verdicts; 4 rows are not judged yet.")
    assert read_judgements("judged.csv").frame["is_duplicate"].tolist() == [1, 0]


def test_a_sheet_is_not_written_over(run: Run, scan: Path) -> None:
    run("judge", "export", scan, "--out", "a.csv", "--pairs", 3)
    _fill("a.csv", ["1", "0", "1"])
    before = Path("a.csv").read_bytes()
    done = run("judge", "export", scan, "--out", "a.csv", "--pairs", 3)
    assert done.status == 2
    assert done.err == (
        "error: a.csv: exists, and may hold verdicts; give another name, or remove it\n"
    )
    assert Path("a.csv").read_bytes() == before


def test_another_verdict_needs_replace(run: Run, scan: Path) -> None:
    run("judge", "export", scan, "--out", "a.csv", "--pairs", 3)
    _fill("a.csv", ["1", "0", "1"])
    words = ("judge", "import", scan, "a.csv", "--judge", "Ada", "--out", "judged.csv")
    run(*words)
    _fill("a.csv", ["1", "1", "1"])
    done = run(*words)
    assert done.status == 2
    assert done.err.startswith("error: a.csv: row 2: 'Ada' judged item ")
    assert "judgements differ" in done.err
    assert "'bayescontam judge import --replace' takes the new ones" in done.err
    assert read_judgements("judged.csv").frame["is_duplicate"].tolist() == [1, 0, 1]
    assert run(*words, "--replace").status == 0
    assert read_judgements("judged.csv").frame["is_duplicate"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("export", "nowhere", "--out", "a.csv"), "nowhere: holds no finished scan: is no folder"),
        (("export", "SCAN", "--out", "a.txt"), "a.txt: the file name ends in '.txt'; allowed for"),
        (("export", "SCAN", "--out", "no/a.csv"), "no/a.csv: cannot be written"),
        (("export", "SCAN", "--out", "a.csv", "--pairs", 0), "got 0 pairs to choose; allowed is"),
        (
            ("export", "SCAN", "--out", "a.csv", "--pairs", 1, "--per-item", 1),
            "--pairs and --per-item: give one",
        ),
        (("export", "SCAN", "--out", "a.csv", "--benchmark", "x"), "no benchmark 'x' in this scan"),
        (("export", "SCAN", "-o", "a.csv", "--said", "disagree"), "--said: needs --of"),
        (("export", "SCAN", "-o", "a.csv", "--strata", "kind"), "--strata: needs --of"),
        (("export", "SCAN", "-o", "a.csv", "--of-judge", "Ada"), "--of-judge: needs --of"),
        (("export", "SCAN", "-o", "a.csv", "--item", "1"), "--item: needs --curve"),
        (("export", "SCAN", "-o", "a.csv", "--of", "j.csv"), "j.csv: no such file"),
        (
            ("export", "SCAN", "-o", "a.csv", "--of", "j.csv", "--strata", "kind"),
            "--strata: needs --pairs",
        ),
        (
            ("export", "SCAN", "-o", "a.csv", "--of", "j.csv", "--curve", "c.nc"),
            "--curve: chooses by itself; leave out --of and --per-item",
        ),
        (("export", "SCAN", "-o", "a.csv", "--curve", "c.nc"), "c.nc: no such file"),
        (("import", "SCAN", "a.csv", "--out", "j.csv"), "a.csv: no such file"),
        (("agreement", "j.csv"), "j.csv: no such file"),
    ],
)
def test_what_cannot_be_is_said(
    run: Run, scan: Path, tmp_path: Path, words: tuple[object, ...], message: str
) -> None:
    done = run("judge", *(scan if word == "SCAN" else word for word in words))
    assert done.status == 2
    assert done.err.startswith("error: ")
    assert message in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_one_judge_agrees_with_nobody(run: Run, scan: Path) -> None:
    run("judge", "export", scan, "--out", "a.csv", "--pairs", 3)
    _fill("a.csv", ["1", "0", "1"])
    run("judge", "import", scan, "a.csv", "--judge", "Ada", "--out", "judged.csv")
    done = run("judge", "agreement", "judged.csv")
    assert done.status == 0
    assert done.out.endswith("No two judges judged the same pair.\n")


def test_a_key_replaces_nothing_that_is_read(run: Run, scan: Path) -> None:
    run("judge", "export", scan, "--out", "a.csv", "--pairs", 20)
    _fill("a.csv", ["1"] * 20)
    run("judge", "import", scan, "a.csv", "--judge", "Ada", "--out", "judged.csv")
    before = Path("judged.csv").read_bytes()
    options = ("judge", "export", scan, "--pairs", 5, "--of", "judged.csv", "--out", "b.csv")
    for key, message in (
        ("judged.csv", "judged.csv: is what the command reads, and would be lost"),
        (scan / "items.parquet", "items.parquet: is what the command reads"),
        ("b.csv", "b.csv: is the sheet, too; give the key another name"),
    ):
        done = run(*options, "--key", key)
        assert done.status == 2
        assert message in done.err
    assert not Path("b.csv").exists()
    assert Path("judged.csv").read_bytes() == before


def test_definitions_replace_no_other_file(run: Run, scan: Path) -> None:
    own = Path("b.definitions.txt")
    own.write_text("Mine.")
    done = run("judge", "export", scan, "--out", "b.csv", "--pairs", 5)
    assert done.status == 2
    assert "b.definitions.txt: exists and holds something else" in done.err
    assert own.read_text() == "Mine."
    assert not Path("b.csv").exists()
    own.unlink()
    for _ in range(2):  # those of an earlier sheet are replaced
        assert run("judge", "export", scan, "--out", "b.csv", "--pairs", 5).status == 0
        Path("b.csv").unlink()


def test_a_key_says_which_pair_a_row_is_about(run: Run, scan: Path) -> None:
    options = ("--pairs", 20, "--seed", 5, "--key", "key.csv")
    assert run("judge", "export", scan, "--out", "blind.csv", *options).status == 0
    key = pd.read_csv("key.csv", keep_default_na=False)
    sheet = pd.DataFrame(_rows("blind.csv"))
    assert list(key) == ["pair", "benchmark", "item", "source", "document", "chunk", "cosine"]
    assert sorted(key["pair"]) == sorted(sheet["pair"])
    # The sheet itself stays blind.
    assert not {"item", "document", "cosine"} & set(sheet)
    said = sheet.merge(key[["pair", "cosine"]], on="pair")
    said["is_duplicate"] = (said["cosine"] > 0.7).astype(int)
    said.drop(columns="cosine").to_csv("filled.csv", index=False)
    done = run("judge", "import", scan, "filled.csv", "--judge", "Ada", "--out", "ada.csv")
    assert done.status == 0
    table = pd.read_csv("ada.csv", keep_default_na=False)
    assert (table["is_duplicate"] == 1).sum() == (key["cosine"] > 0.7).sum()
    bad = run("judge", "export", scan, "--out", "other.csv", "--key", "key.txt")
    assert bad.status == 2
    assert not Path("other.csv").exists()


def test_a_stratified_sample_of_judged_pairs(run: Run, scan: Path) -> None:
    run("judge", "export", scan, "--out", "a.csv", "--pairs", 30, "--key", "key.csv")
    kinds = ["exact"] * 4 + ["superset"] * 10 + ["unrelated"] * 16
    _fill("a.csv", [str(int(kind == "exact")) for kind in kinds], kinds)
    run("judge", "import", scan, "a.csv", "--judge", "Ada", "--out", "judged.csv")
    words = ("--of", "judged.csv", "--strata", "verdict,kind", "--pairs", 12)
    done = run("judge", "export", scan, "--out", "b.csv", *words, "--key", "b-key.csv")
    assert (done.status, done.err) == (0, "")
    found = pd.read_csv("b-key.csv").merge(pd.read_csv("judged.csv"), on=["item", "document"])
    assert found["kind"].value_counts().to_dict() == {"exact": 4, "superset": 4, "unrelated": 4}
    assert "12 pairs written to b.csv" in done.out
    shown = [line.split()[-5:] for line in done.out.splitlines()]
    assert any(row[1:3] == ["duplicate", "exact"] for row in shown if len(row) == 5)
    rest = run("judge", "export", scan, "-o", "c.csv", "--of", "judged.csv", "--said", "kind=exact",
               "--pairs", 9)  # fmt: skip
    assert "The scan has no more such pairs whose texts it holds.\n4 pairs written" in rest.out
    none = run("judge", "export", scan, "-o", "d.csv", "--of", "judged.csv", "--said", "disagree")
    assert none.status == 2
    assert none.err == (
        "error: judged.csv: no pair was called disagree\n"
        "Its verdicts: 4 duplicate, 26 not-duplicate.\n"
    )
    assert not Path("d.csv").exists()
