"""Sheets: blind, harmless in a spreadsheet, and taken back row by row."""

import csv
import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.data.judgements import KINDS, PAIR, read_judgements
from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.choice import choose_pairs
from bayescontam.evidence.sheets import LONGEST, export_sheet, import_sheet
from bayescontam.scan.results import Scan
from tests.support.made_scan import make_scan

openpyxl = pytest.importorskip("openpyxl")

COLUMNS = ["pair", "benchmark", "item_text", "chunk_text"]
COLUMNS += ["is_duplicate", "kind", "confidence", "comment"]
DANGEROUS = ["=1+1", "+cmd|x!A0", "-2+3", "@SUM(A1)", "\t=1", "'=1", "＝1"]
both = pytest.mark.parametrize("suffix", [".csv", ".xlsx"])


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    made = make_scan()
    items, texts = made.items.copy(), made.texts.copy()
    items.loc[20:26, "text"] = [f"{text} and more" for text in DANGEROUS]
    texts.loc[texts.index[:7], "text"] = [f"{text} and a chunk" for text in DANGEROUS]
    made = replace(made, items=items, texts=texts)
    return Scan.load(made.write(tmp_path_factory.mktemp("made") / "scan"))


@pytest.fixture(scope="module")
def pairs(scan: Scan) -> pd.DataFrame:
    return choose_pairs(scan, 10_000, seed=3)


@pytest.fixture
def sheet(pairs: pd.DataFrame, tmp_path: Path) -> Callable[..., Path]:
    """Give a function that fills in the first rows of a sheet of 30 pairs."""

    def fill(suffix: str = ".csv", **columns: list[Any]) -> Path:
        path = tmp_path / f"sheet{suffix}"
        path.unlink(missing_ok=True)
        export_sheet(pairs[:30], path, seed=1)
        table = _read(path).astype(object)
        for name, cells in columns.items():
            if name not in table.columns:
                table[name] = ""
            table.loc[: len(cells) - 1, name] = pd.Series(cells, dtype=object)
        _write(table, path)
        return path

    return fill


def _read(path: Path) -> pd.DataFrame:
    if path.suffix == ".xlsx":
        return pd.read_excel(path, dtype=str, keep_default_na=False)
    with path.open(newline="", encoding="utf-8-sig") as stream:
        header, *rows = csv.reader(stream)
    return pd.DataFrame(rows, columns=header)


def _write(table: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".xlsx":
        table.to_excel(path, index=False)
    else:
        table.to_csv(path, index=False, encoding="utf-8-sig")


def _pair(pairs: pd.DataFrame, table: pd.DataFrame, row: int) -> tuple[Any, ...]:
    """Return which pair a row of a sheet is about, by its texts."""

    def plain(text: str) -> str:
        return re.sub(r"\W", "", text)[:200]

    wanted = plain(table["item_text"][row]), plain(table["chunk_text"][row])
    found = [
        tuple(other[name] for name in PAIR)
        for other in pairs.to_dict("records")
        if (plain(other["text"]), plain(other["chunk_text"])) == wanted
    ]
    assert len(found) == 1
    return found[0]


@both
def test_a_sheet_is_blind(pairs: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"sheet{suffix}"
    export_sheet(pairs, path, seed=1)
    table = _read(path)
    assert list(table) == COLUMNS
    assert len(table) == len(pairs) == table["pair"].nunique()
    assert (table[["is_duplicate", "kind", "confidence", "comment"]] == "").all(axis=None)
    text = table.to_csv()
    documents = {name for name in pairs["document"] if name.startswith("doc-")}
    assert len(documents) > 100
    assert not documents & set(re.findall(r"[\w-]+", text))
    assert re.search(r"\d\.\d{4}", text) is None


def test_the_order_reports_nothing_of_cosines(pairs: pd.DataFrame, tmp_path: Path) -> None:
    orders = []
    for seed in (1, 2):
        export_sheet(pairs, path := tmp_path / f"{seed}.csv", seed=seed)
        # The texts show which pair it was; of 600 random orders the correlation has sd 0.04.
        cosine = dict(zip(zip(pairs["benchmark"], pairs["chunk_text"], strict=True),
                          pairs["cosine"], strict=True))  # fmt: skip
        table = _read(path)
        found = [
            (at, cosine[key])
            for at, key in enumerate(zip(table["benchmark"], table["chunk_text"], strict=True))
            if key in cosine
        ]
        assert len(found) > 500
        assert abs(np.corrcoef(np.transpose(found))[0, 1]) < 0.15
        orders.append(table["pair"].tolist())
    assert set(orders[0]) == set(orders[1])
    assert orders[0] != orders[1]


@both
def test_verdicts_come_back_to_their_pairs(
    scan: Scan, pairs: pd.DataFrame, sheet: Callable[..., Path], tmp_path: Path, suffix: str
) -> None:
    cells = [1, "yes", "TRUE", True, "", 0, "No", "false", False, "1", "0"]
    wanted = [1, 1, 1, 1, None, 0, 0, 0, 0, 1, 0]
    path = sheet(
        suffix, is_duplicate=cells, kind=["Exact", "subset "], confidence=[0.75], comment=["ü\n=1"]
    )
    # As it was exported: pandas writes a text such as "=1+1" as a formula, which has no value.
    export_sheet(pairs[:30], blank := tmp_path / f"blank{suffix}", seed=1)
    table = _read(blank)
    done = import_sheet(scan, path, "Ada", out := tmp_path / "judged.csv")
    assert (done.blank, done.total) == (20, 10)
    frame = read_judgements(out).frame
    verdicts = {
        tuple(row[name] for name in PAIR): row["is_duplicate"] for row in frame.to_dict("records")
    }
    assert verdicts == {
        _pair(pairs, table, row): verdict
        for row, verdict in enumerate(wanted)
        if verdict is not None
    }
    assert frame["kind"].tolist()[:3] == ["exact", "subset", ""]
    assert frame["confidence"].tolist()[0] == 0.75
    assert frame["comment"].tolist()[0] == "ü\n=1"
    assert set(frame["judge"]) == {"Ada"}


@both
def test_a_sheet_of_a_german_spreadsheet_is_read(
    scan: Scan, sheet: Callable[..., Path], tmp_path: Path, suffix: str
) -> None:
    path = sheet(suffix, is_duplicate=[1, 0, 1], confidence=["0,8", "", "1"])
    if suffix == ".csv":
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        table.to_csv(path, sep=";", index=False, encoding="utf-8-sig")
    done = import_sheet(scan, path, "Ada", tmp_path / "judged.csv")
    assert done.judgements.frame["confidence"].dropna().tolist() == [0.8, 1]
    assert done.judgements.notes == (
        f"{path}: decimal commas in 'confidence': 0,8 was read as 0.8",
    )


@both
def test_kinds_of_an_older_sheet_are_exchanged(
    scan: Scan, sheet: Callable[..., Path], tmp_path: Path, suffix: str
) -> None:
    path = sheet(suffix, is_duplicate=[1, 0, 1], kind=["subset", "superset", "exact"])
    table = _read(path)
    assert table["pair"].str.fullmatch("p2-[0-9a-f]{14}").all()
    # Before kinds were seen from the item, names of pairs held no version.
    table.loc[[0, 2], "pair"] = table.loc[[0, 2], "pair"].str.replace("p2-", "p")
    _write(table, path)
    done = import_sheet(scan, path, "Ada", out := tmp_path / "judged.csv")
    assert read_judgements(out).frame["kind"].tolist() == ["superset", "superset", "exact"]
    assert done.judgements.notes == (
        "exchanged 'subset' and 'superset' in 1 rows: they were written when each had the"
        " meaning of the other",
    )


@both
def test_a_sheet_straight_from_the_export_is_accepted(
    scan: Scan, pairs: pd.DataFrame, tmp_path: Path, suffix: str
) -> None:
    path, out = tmp_path / f"sheet{suffix}", tmp_path / "judged.csv"
    export_sheet(pairs, path, seed=1)
    with pytest.raises(DataError, match="is_duplicate: no row has a verdict yet"):
        import_sheet(scan, path, "Ada", out)
    assert not out.exists()


@both
def test_texts_do_not_become_formulas(pairs: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"sheet{suffix}"
    export_sheet(pairs, path, seed=1)
    table = _read(path)
    texts = [*table["item_text"], *table["chunk_text"]]
    for dangerous in DANGEROUS:
        guard = "'" if suffix == ".csv" else ""
        assert any(text.startswith(guard + dangerous) for text in texts)
    if suffix == ".csv":
        assert not any(text[:1] in tuple("=+-@\t＝") for text in texts)
        assert path.read_bytes().startswith(b"\xef\xbb\xbf")
        return
    with zipfile.ZipFile(path) as parts:
        assert b"<f>" not in b"".join(parts.read(name) for name in parts.namelist())
    book = openpyxl.load_workbook(path)
    assert {cell.data_type for row in book["pairs"].iter_rows() for cell in row} <= {"s", "n"}


@both
def test_long_texts_are_cut_with_a_mark(pairs: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    texts = ["a" * (LONGEST - 1), "a" * LONGEST, "😀" * 20_000, "=" + "a" * 40_000]
    export_sheet(
        pairs[:4].assign(text=texts, chunk_text="x"), path := tmp_path / f"a{suffix}", seed=1
    )
    cells = sorted(_read(path)["item_text"], key=lambda text: (text[1], len(text)))
    assert all(len(cell.encode("utf-16-le")) // 2 <= LONGEST for cell in cells)
    whole = [cell for cell in cells if "cut here" not in cell]
    assert whole == [texts[0]]
    for cell in (cell for cell in cells if "cut here" in cell):
        head, mark = cell.split("\n")
        text = next(text for text in texts[1:] if text.startswith(head.removeprefix("'")))
        left = len(text) - len(head.removeprefix("'"))
        assert mark == f"[… cut here: {left:,} more characters]"


@both
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_any_text_comes_back(
    pairs: pd.DataFrame,
    tmp_path_factory: pytest.TempPathFactory,
    suffix: str,
    texts: list[str],
) -> None:
    path = tmp_path_factory.mktemp("any") / f"a{suffix}"
    export_sheet(pairs[: len(texts)].assign(text=texts, chunk_text="x"), path, seed=1)
    if suffix == ".csv":
        rows = csv.DictReader(io.StringIO(path.read_text("utf-8-sig", newline="")))
        cells = [row["item_text"] for row in rows]
        cells = [cell[1:] if re.match(r"'+[=+\-@＝＋－＠\t\n]", cell) else cell for cell in cells]
    else:
        sheet = openpyxl.load_workbook(path)["pairs"]
        cells = [row[2] or "" for row in sheet.iter_rows(min_row=2, values_only=True)]
    hidden = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
    wanted = [re.sub(hidden, "\ufffd", re.sub("\r\n?", "\n", text)) for text in texts]
    assert sorted(cells) == sorted(wanted)


def test_a_workbook_helps_to_fill_it_in(pairs: pd.DataFrame, tmp_path: Path) -> None:
    export_sheet(pairs[:9], tmp_path / "a.xlsx", seed=1)
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    assert book.sheetnames == ["pairs", "instructions"]
    sheet = book["pairs"]
    rules = {str(rule.sqref): rule for rule in sheet.data_validations.dataValidation}
    assert set(rules) == {"E2:E10", "F2:F10", "G2:G10"}
    assert rules["E2:E10"].formula1 == '"1,0"'
    assert rules["F2:F10"].formula1 == '"' + ",".join(KINDS) + '"'
    assert all(rule.showErrorMessage and rule.allowBlank for rule in rules.values())
    assert sheet.freeze_panes == "A2"
    assert sheet["C2"].alignment.wrap_text
    words = " ".join(str(cell) for row in book["instructions"].values for cell in row)
    assert all(kind in words and meaning in words for kind, meaning in KINDS.items())


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"pair": ["p00"], "is_duplicate": [1]}, "row 1: pair: got 'p00', which is no pair of"),
        ({"is_duplicate": [1, 0, "perhaps"]}, "row 3: is_duplicate: got 'perhaps', allowed is 1"),
        ({"is_duplicate": [1], "kind": ["same"]}, "row 1: kind: got 'same', allowed is exact"),
        ({"is_duplicate": [1, 0], "kind": ["", "exact"]}, "row 2: kind: got 'exact', but is_dup"),
        ({"is_duplicate": [1], "confidence": ["90 %"]}, "row 1: confidence: got '90 %'"),
        (
            {"is_duplicate": [1], "kind": ["", "exact"]},
            "row 2: kind: got 'exact', but is_duplicate",
        ),
        (
            {"is_duplicate": [1], "confidence": ["", 0.5]},
            "row 2: confidence: got '?0.5'?, but is_d",
        ),
    ],
)
@both
def test_bad_cells_are_refused(
    scan: Scan,
    sheet: Callable[..., Path],
    tmp_path: Path,
    cells: dict[str, list[Any]],
    message: str,
    suffix: str,
) -> None:
    with pytest.raises(DataError, match=message):
        import_sheet(scan, sheet(suffix, **cells), "Ada", tmp_path / "judged.csv")
    assert not (tmp_path / "judged.csv").exists()


def test_repeated_rows_are_refused(scan: Scan, sheet: Callable[..., Path], tmp_path: Path) -> None:
    path = sheet(is_duplicate=[1] * 30)
    table = _read(path)
    _write(pd.concat([table, table[4:5]]), path)
    with pytest.raises(DataError, match=r"row 31: judge: same .* as row 5; keep one"):
        import_sheet(scan, path, "Ada", tmp_path / "judged.csv")


@pytest.mark.parametrize("column", ["item_text", "chunk_text"])
def test_cells_moved_apart_from_their_rows_are_noticed(
    scan: Scan, sheet: Callable[..., Path], tmp_path: Path, column: str
) -> None:
    path = sheet(is_duplicate=[1] * 30)
    table = _read(path)
    table[column] = sorted(table[column])
    _write(table, path)
    with pytest.raises(DataError, match=f"rows .*: {column}: is not the text of this pair; were"):
        import_sheet(scan, path, "Ada", tmp_path / "judged.csv")


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """Give a scan whose items share all words but one, and whose chunks are short."""
    made = make_scan()
    items, texts = made.items.copy(), made.texts.copy()
    start = "Choose the one correct answer to this question about the number "
    items["text"] = [start + str(at) for at in range(len(items))]
    texts["text"] = [f"{at},000" for at in range(len(texts))]
    made = replace(made, items=items, texts=texts)
    return Scan.load(made.write(tmp_path_factory.mktemp("alike") / "scan"))


@both
@pytest.mark.parametrize("column", ["item_text", "chunk_text"])
def test_moved_cells_are_noticed_by_any_word(
    alike: Scan, tmp_path: Path, column: str, suffix: str
) -> None:
    path = tmp_path / f"sheet{suffix}"
    export_sheet(choose_pairs(alike, 20, seed=1), path, seed=1)
    table = _read(path).astype(object).assign(is_duplicate=1)
    table[column] = sorted(table[column])
    _write(table, path)
    with pytest.raises(DataError, match=f"rows .*: {column}: is not the text of this pair; were"):
        import_sheet(alike, path, "Ada", tmp_path / "judged.csv")


@both
def test_a_spreadsheet_may_change_numbers(alike: Scan, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"sheet{suffix}"
    export_sheet(choose_pairs(alike, 20, seed=1), path, seed=1)
    table = _read(path).astype(object).assign(is_duplicate=1)
    table["chunk_text"] = table["chunk_text"].str.replace(",000", "000.0")
    _write(table, path)
    assert import_sheet(alike, path, "Ada", tmp_path / "judged.csv").total == 20


def sheet_with(tmp_path: Path, suffix: str, shown: dict[str, str]) -> tuple[Scan, Path]:
    """Return a scan with these texts, and its sheet with other cells for them."""
    made = make_scan()
    table, texts = made.texts.copy(), [*shown]
    table["text"] = [texts[at % 2] for at in range(len(table))]
    scan = Scan.load(replace(made, texts=table).write(tmp_path / "scan"))
    path = tmp_path / f"sheet{suffix}"
    export_sheet(choose_pairs(scan, 20, seed=1), path, seed=1)
    sheet = _read(path).astype(object).assign(is_duplicate=1)
    sheet["chunk_text"] = sheet["chunk_text"].map(lambda text: shown[str(text)])
    _write(sheet, path)
    return scan, path


@both
@pytest.mark.parametrize(
    ("texts", "cells"),
    [
        (["1.0", "1"], ["1", "1"]),
        (["007", "7"], ["7", "7"]),
        (["TRUE", "true"], ["true", "true"]),
        (["50%", "0.5"], ["0.5", "0.5"]),
        (["1,2,3,4,5,6,7,8,9", "1"], ["123456789", "1"]),
        (["2-3", "1"], ["2026-03-02 00:00:00", "1"]),
    ],
)
def test_texts_that_a_spreadsheet_takes_for_others_are_not_moved(
    tmp_path: Path, suffix: str, texts: list[str], cells: list[str]
) -> None:
    scan, path = sheet_with(tmp_path, suffix, dict(zip(texts, cells, strict=True)))
    assert import_sheet(scan, path, "Ada", tmp_path / "judged.csv").total == 20


@both
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.5", "15"), ("1/2", "12"), ("2-3", "23"), ("f(1,2)", "f(12)"), ("no one", "noone"),
        ("a. b", "ab"),
    ],
)  # fmt: skip
def test_moved_cells_are_noticed_where_only_separators_differ(
    tmp_path: Path, suffix: str, one: str, other: str
) -> None:
    scan, path = sheet_with(tmp_path, suffix, {one: other, other: one})
    with pytest.raises(DataError, match=r"rows .*: chunk_text: is not the text of this pair"):
        import_sheet(scan, path, "Ada", tmp_path / "judged.csv")


def test_what_a_judge_may_change(scan: Scan, sheet: Callable[..., Path], tmp_path: Path) -> None:
    path = sheet(is_duplicate=[1, 0, 1], seen=["monday"])
    table = _read(path)
    kept = table.drop(columns=["benchmark", "item_text", "kind", "comment"])
    _write(kept.iloc[::-1], path)
    done = import_sheet(scan, path, "Ada", tmp_path / "judged.csv")
    assert done.judgements.frame["is_duplicate"].tolist() == [1, 0, 1]
    assert done.judgements.frame.index.tolist() == [27, 28, 29]


def test_nothing_is_overwritten_unless_asked(
    scan: Scan, sheet: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "judged.csv"
    assert import_sheet(scan, sheet(is_duplicate=[1, 0]), "Ada", out).total == 2
    assert import_sheet(scan, sheet(is_duplicate=[1, 0, 1]), "Ada", out).total == 3
    assert import_sheet(scan, sheet(is_duplicate=["", "", "", 1]), "Ada", out).total == 4
    assert import_sheet(scan, sheet(is_duplicate=[0, 0, 0]), "Bo", out).total == 7
    before = out.read_bytes()
    other = sheet(is_duplicate=[1, 1, 0, 1])
    with pytest.raises(
        DataError, match=r"2 judgements differ .* import --replace' takes the new"
    ) as caught:
        import_sheet(scan, other, "Ada", out)
    assert [fault.row for fault in caught.value.faults] == [2, 3]
    assert out.read_bytes() == before
    assert import_sheet(scan, other, "Ada", out, replace=True).total == 7
    frame = read_judgements(out).frame
    assert frame.loc[frame["judge"] == "Ada", "is_duplicate"].tolist() == [1, 1, 0, 1]
    assert frame.loc[frame["judge"] == "Bo", "is_duplicate"].tolist() == [0, 0, 0]


def test_one_sheet_of_several_judges(
    scan: Scan, sheet: Callable[..., Path], tmp_path: Path
) -> None:
    path = sheet(is_duplicate=[1, 0, 1], judge=["Ada", "Bo", "Ada", *["Bo"] * 27])
    done = import_sheet(scan, path, None, tmp_path / "judged.parquet")
    assert done.judgements.frame["judge"].tolist() == ["Ada", "Bo", "Ada"]
    with pytest.raises(UsageError, match="both the option --judge and a column 'judge'"):
        import_sheet(scan, path, "Ada", tmp_path / "judged.parquet")
    with pytest.raises(UsageError, match="no judge; give --judge NAME"):
        import_sheet(scan, sheet(is_duplicate=[1]), None, tmp_path / "judged.parquet")
    with pytest.raises(UsageError, match="the judge's name is blank; give --judge NAME"):
        import_sheet(scan, sheet(is_duplicate=[1]), " ", tmp_path / "judged.parquet")
    with pytest.raises(UsageError, match="names that start with 'llm:' are for models"):
        import_sheet(scan, sheet(is_duplicate=[1]), "llm:me", tmp_path / "judged.parquet")


def test_files_that_are_no_sheets(scan: Scan, pairs: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "judged.csv"
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(DataError, match=r"a\.xlsx: is no Excel workbook that can be read"):
        import_sheet(scan, tmp_path / "a.xlsx", "Ada", out)
    with pytest.raises(UsageError, match=r"b\.xlsx: cannot be read \(No such file"):
        import_sheet(scan, tmp_path / "b.xlsx", "Ada", out)
    with pytest.raises(UsageError, match=r"ends in '\.ods'; allowed for a sheet is \.csv or \.xl"):
        import_sheet(scan, tmp_path / "a.ods", "Ada", out)
    with pytest.raises(UsageError, match=r"ends in '\.txt'; allowed for judgements is"):
        import_sheet(scan, tmp_path / "a.xlsx", "Ada", tmp_path / "judged.txt")
    with pytest.raises(UsageError, match=r"allowed for a sheet is"):
        export_sheet(pairs, tmp_path / "a.html", seed=1)
    with pytest.raises(UsageError, match=r"a\.xlsx: exists, and may hold verdicts"):
        export_sheet(pairs, tmp_path / "a.xlsx", seed=1)
    openpyxl.Workbook().save(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match="no rows; a sheet needs a header and a row"):
        import_sheet(scan, tmp_path / "a.xlsx", "Ada", out)
    (tmp_path / "a.csv").write_text("item,is_duplicate\n1,1\n")
    with pytest.raises(DataError, match="pair: no such column; keep the column"):
        import_sheet(scan, tmp_path / "a.csv", "Ada", out)
