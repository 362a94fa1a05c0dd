"""Input that cannot be used: one message, exit status 2, nothing left behind."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

import bayescontam.inference.pipeline
from bayescontam.cli.options import check_outside
from bayescontam.errors import UsageError
from tests.cli.conftest import Done

Run = Callable[..., Done]

HEAD = "model,benchmark,item,correct,contamination\n"
GOOD = HEAD + "".join(f"m,b,i{i},{i % 2},{i % 4 / 4}\n" for i in range(8))
CLEAN = "model,benchmark,item,correct\n" + "".join(f"m,b,i{i},{i % 2}\n" for i in range(8))
COUNTS = "model,benchmark,item,n_correct,n_trials,contamination\n"
COVARIATES = "benchmark,item,contamination\n"
OTHER = COVARIATES + "b,zz,0.5\n"
SAME = COVARIATES + "".join(f"b,i{i},0.5\n" for i in range(8))
KEY = 'summary = "x"\n[priors]\nmu = { family = "normal", sigm = 1.0 }\n'
TYPE = 'summary = "x"\n[likelihood]\nmodel_by_item = "yes"\n'
GUESS = 'summary = "x"\n[likelihood]\nguess = { c = 0.25 }\n'
PNG = b"\x89PNG\r\n\x1a\n\0\0"

TABLES: dict[str, tuple[str, str | bytes, str]] = {
    "missing column": (
        "a.csv",
        GOOD.replace("item", "itm", 1),
        r"a\.csv: item: no such column; did you mean 'itm'\? Rename it to 'item', or give --column"
        r" item=itm \(columns\)\nthe col",
    ),
    "too many correct": ("a.csv", COUNTS + "m,b,i,3,2,0\n", r"row 1: n_correct: got '3', more"),
    "no trials": ("a.csv", COUNTS + "m,b,i,0,0,0\n", r"row 1: n_trials: got '0', allowed is"),
    "contamination above 1": (
        "a.csv",
        GOOD + "m,b,x,1,1.2\n",
        r"a\.csv: row 9: contamination: got '1\.2', allowed is a number from 0 to 1\ncont",
    ),
    "contamination NaN": ("a.csv", GOOD + "m,b,x,1,NaN\n", r"row 9: contamination: missing value"),
    "duplicate": ("a.csv", GOOD + "m,b,i0,1,0\n", r"row 9: item: same .* as row 1; keep one, or"),
    "empty file": ("a.csv", "", r"a\.csv: the file is empty; a table needs a header and a row"),
    "header only": ("a.csv", HEAD, r"a\.csv: no rows, only column names; a table needs a row"),
    "picture named csv": ("a.csv", PNG, r"a\.csv: the content is a PNG picture; allowed is \.csv"),
    "picture": ("a.png", PNG, r"a\.png: .*the content is a PNG picture; allowed is \.csv"),
    "PDF": ("a.pdf", b"%PDF-1.7\n", r"a\.pdf: .*the content is a PDF; allowed is \.csv"),
    "fit": ("a.nc", b"\x89HDF\r\n\x1a\n", r"a\.nc: .*a netCDF or HDF5 file; allowed is \.csv"),
    "both scores": (
        "a.csv",
        "model,benchmark,item,correct,n_correct,n_trials\nm,b,i,1,1,1\n",
        r"a\.csv: correct: stands beside 'n_correct'; keep one kind of score",
    ),
    "no score": ("a.csv", "model,benchmark,item\nm,b,i\n", r"correct: no such column; give 'corr"),
    "score 2": ("a.csv", HEAD + "m,b,i,2,0\n", r"row 1: correct: got '2', allowed is 0, 1, true"),
    "negative": ("a.csv", COUNTS + "m,b,i,-1,2,0\n", r"row 1: n_correct: got '-1', allowed is a"),
    "missing score": ("a.csv", HEAD + "m,b,i,,0\n", r"row 1: correct: missing score; .*--drop-mis"),
    "names but for blanks": (
        "a.csv",
        HEAD + "m,b,i,1,0\n m,b,j,1,0\n",
        r"row 2: model: got ' m', and elsewhere the same without blanks at its ends; write both",
    ),
    "contamination misnamed": (
        "a.csv",
        GOOD.replace("contamination", "contaminated"),
        r"a\.csv: no column 'contamination', but 'contaminated'\nrename it to 'contamination', or",
    ),
    "blank name": ("a.csv", HEAD + " ,b,i,1,0\n", r"row 1: model: blank name ' '; every row needs"),
    "many faults": (
        "a.csv",
        HEAD + "".join(f"m,b,i{i},7,9\n" for i in range(100)),
        r"(?s)rows 1, 2, 3, 4, 5 and 95 more: correct: got '7'.*95 more: contam.*: got '9',",
    ),
}


@pytest.fixture(autouse=True)
def no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(*_: Any) -> NoReturn:
        pytest.fail("the sampler was started")

    monkeypatch.setattr(bayescontam.inference.pipeline, "sample", sampled)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with the files that the cases name."""
    files = {
        "good.csv": GOOD, "clean.csv": CLEAN, "other.csv": OTHER, "same.csv": SAME,
        "key.toml": KEY, "type.toml": TYPE, "guess.toml": GUESS, "not.toml": "a = = 1\n",
        "text.nc": "no fit\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(run: Run, folder: Path, message: str, *arguments: str) -> None:
    before = sorted(folder.rglob("*"))
    done = run(*arguments)
    assert done.status == 2, done.err
    err = "\n".join(line for line in done.err.splitlines() if not line.startswith("note: "))
    assert re.search(message, err.strip()), done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 24
    assert done.out == ""
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("lost", "arguments"),
    [
        ("good.csv", ["fit", "good.csv", "-o", "./good.csv"]),
        ("same.csv", ["fit", "clean.csv", "--covariates", "same.csv", "-o", "same.csv"]),
        ("key.toml", ["fit", "good.csv", "--model", "key.toml", "-o", "key.toml"]),
        ("text.nc", ["report", "text.nc", "-o", "text.nc"]),
        ("text.nc", ["summary", "text.nc", "--format", "csv", "-o", "text.nc"]),
        ("text.nc", ["rank", "text.nc", "--format", "json", "-o", "text.nc"]),
        ("good.csv", ["update", "text.nc", "good.csv", "--format", "csv", "-o", "good.csv"]),
        ("good.csv", ["import", "matrix", "good.csv", "--benchmark", "b", "-o", "good.csv"]),
    ],
)
def test_what_is_read_is_not_written_over(
    run: Run, folder: Path, lost: str, arguments: list[str]
) -> None:
    before = (folder / lost).read_bytes()
    refused(run, folder, f"{lost}: is what the command reads, and would be lost", *arguments)
    assert (folder / lost).read_bytes() == before


@pytest.mark.parametrize("case", TABLES)
def test_tables(run: Run, folder: Path, case: str) -> None:
    name, content, message = TABLES[case]
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(
        run, folder, "^error: .*" * ("(?s)" not in message) + message, "fit", name, "-o", "o.nc"
    )


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (r"^error: folder: is a folder; give a file: \.csv", "folder"),
        (r"^error: god\.csv: no such file; did you mean 'good\.csv'\?", "god.csv"),
        (r"^error: where 'item==': .*; the columns are 'model', 'ben", "good.csv --where item=="),
        (r"where 'itm>1': .*'itm'.*; the columns are", "good.csv --where itm>1"),
        (r"good\.csv: none of 8 rows is left where item>'z'\nchange", "good.csv --where item>'z'"),
        (r"^error: reference: got 1\.5; allowed are 'min_obs", "good.csv --reference 1.5"),
        (r"^error: reference: got 'abc'; allowed are 'min_obs", "good.csv --reference abc"),
        (r"^error: reference: got nan; allowed are 'min_obs", "good.csv --reference nan"),
        (r"^error: level: got 2\.0; allowed is 0\.5 up to but not 1$", "good.csv --level 2"),
        (r"^error: level: got nan; allowed is 0\.5 up to but not 1$", "good.csv --level nan"),
        (r"^error: draws: got 0; at least 4 is needed$", "good.csv --draws 0"),
        (r"^error: draws: got 7 of each of 4 chains, 28 in all; at least 30 are needed to know how"
         r" far PSIS-LOO can be trusted$", "good.csv --draws 7"),
        (r"^error: tune: got 0; at least 1 is needed$", "good.csv --tune 0"),
        (r"^error: chains: got 1; at least 2 is needed$", "good.csv --chains 1"),
        (r"^error: cores: got -1; at least 1 is needed$", "good.csv --cores -1"),
        (r"^error: target_accept: got 1\.0; allowed is", "good.csv --target-accept 1"),
        (r"^error: seed: got -1; allowed is 0 or more$", "good.csv --seed -1"),
        (r"'hierarchcal': no such model spec \(did you mean 'hierarchical'\?\)\nName a shipped",
         "good.csv -m hierarchcal"),
        (r"key\.toml: priors\.mu\.sigm: unknown key \(did you mean 'sigma'\?\)",
         "good.csv -m key.toml"),
        (r"^error: type\.toml: likelihood\.model_by_item: got 'yes'; allowed is true or false$",
         "good.csv -m type.toml"),
        (r"^error: not\.toml: is not TOML: .*line 1", "good.csv -m not.toml"),
        (r"^error: no\.toml: cannot be read \(No such file or directory\)\nGive the path of",
         "good.csv -m no.toml"),
        (r"^error: folder: cannot be read \(Is a directory\)\nGive", "good.csv -m ./folder"),
        (r"clean\.csv: no contamination for 8 of 8 items of 'b': 'i0'(?s:.*)match no row of "
         r"other\.csv; add rows for them$",
         "clean.csv --covariates other.csv"),
        (r"match no row of other\.csv; add rows for them$",
         "clean.csv --covariates other.csv --missing-contamination drop"),
        (r"match no row of other\.csv; add rows for them$",
         "clean.csv --covariates other.csv --missing-contamination impute"),
        (r"^error: good\.csv: has a column 'contamination' already, and covariates come from "
         r"same\.csv; use one", "good.csv --covariates same.csv"),
        (r"^error: clean\.csv: .*'concept', which is not there", "clean.csv -m concepts"),
        (r"^error: clean\.csv: .*needs a column 'contamination', .*\nAdd the column",
         "clean.csv -m single"),
        (r"likelihood\.guess: no such benchmark: 'c'; the responses have 'b'",
         "good.csv -m guess.toml"),
        (r"No such option: --modle .*--model", "good.csv --modle single"),
        (r"--draws: got 'many'; allowed: a whole number, or auto", "good.csv --draws many"),
        (r"Invalid value for '--engine'.*'stan'", "good.csv --engine stan"),
    ],
    ids=lambda value: value if "csv" in value and "\\" not in value else "",
)  # fmt: skip
def test_options(run: Run, folder: Path, message: str, arguments: str) -> None:
    refused(run, folder, message, "fit", *arguments.split(" "), "-o", "o.nc")


@pytest.mark.parametrize(
    ("message", "out"),
    [
        (r"^error: no/o\.nc: cannot be written \(No such file or directory\); choose", "no/o.nc"),
        (r"^error: folder: is a folder; give the name of a file$", "folder"),
        (r"^error: /dev/null: is a device or a pipe; give the name of a file$", "/dev/null"),
        (r"^error: n{78,80}…n+: cannot be written \(File name too long\); choose", "n" * 300),
    ],
    ids=["no folder", "folder", "device", "long"],
)
def test_out(run: Run, folder: Path, message: str, out: str) -> None:
    refused(run, folder, message, "fit", "good.csv", "-o", out)


def test_out_is_needed(run: Run, folder: Path) -> None:
    refused(run, folder, "Missing option '--out'", "fit", "good.csv")


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (r"^error: text\.nc: is not a fit of bayescontam; give a file that", "summary text.nc"),
        (r"^error: good\.csv: is not a fit of bayescontam; give a file", "summary good.csv"),
        (r"^error: no\.nc: no such file; make a fit with: bayescontam fit$", "summary no.nc"),
        (r"^error: folder: no such file; make a fit", "summary folder"),
        (r"^error: --level: got 1\.0; allowed is 0\.5 up to but not 1$", "summary a.nc --level 1"),
        (r"^error: text\.nc: is not a fit of bayescontam", "report text.nc -o page.html"),
        (r"^error: no/page\.html: cannot be written", "report text.nc -o no/page.html"),
        (r"^error: text\.nc: is not a fit of bayescontam", "compare text.nc good.csv"),
        (r"^error: one file is named twice", "compare text.nc text.nc"),
        (r"^error: one file is named twice", "compare text.nc ./text.nc"),
        (r"^error: --format latex: is made of one fit; got 2", "summary a.nc b.nc -f latex"),
        (r"'hierachical': no such model spec \(did you mean 'hie", "models show hierachical"),
        (r"No such command 'modles'", "modles"),
        (
            r"^error: good\.csv/demo: cannot be made .*; choose another folder",
            "demo --out good.csv/demo",
        ),
    ],
)
def test_other_verbs(run: Run, folder: Path, message: str, arguments: str) -> None:
    refused(run, folder, message, *arguments.split())


def test_two_results_do_not_go_to_one_file(run: Run) -> None:
    options = ("--format", "csv", "--out", "same.csv", "--samples", "same.csv")
    done = run("items", "fit.nc", *options)
    assert done.status == 2
    assert "--out, --samples: are one file; give two" in done.err


@pytest.mark.parametrize(
    ("out", "read", "refused"),
    [
        ("e.csv", ".", False), ("e.parquet", ".", True), ("sub/e.parquet", ".", True),
        ("data/x.parquet", "data/*.parquet", True), ("data/sub/x.parquet", "data/*.parquet", False),
        ("data/sub/x.parquet", "data/**/*.parquet", True), ("e.parquet", "data", False),
        ("data/sub/e.parquet", "data/*", True), ("data/sub/e.csv", "data/*", False),
        ("data/y.parquet", "data/**/*.parquet", True), ("data/y.csv", "data/**", True),
        ("data/sub/y.parquet", "data/**", True), ("data/x.parquet", "link/*.parquet", True),
        ("data/x.parquet", "sub/../data/*.parquet", True), ("data/sub/e.csv", "d*/s*/*.csv", True),
        ("sub/x.parquet", "data/*/x.parquet", False), ("e.parquet", "*.parquet", True),
    ],
)  # fmt: skip
def test_outputs_do_not_go_where_they_would_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, read: str, refused: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("data/sub", "sub"):
        Path(folder).mkdir(parents=True)
    Path("link").symlink_to("data")
    if refused:
        with pytest.raises(UsageError, match="lies within what the command reads"):
            check_outside(Path(out), [read], [".parquet"])
    else:
        check_outside(Path(out), [read], [".parquet"])
