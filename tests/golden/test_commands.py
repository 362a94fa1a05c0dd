"""What every command prints that ends in seconds, on stored files and small tables.

A command line that ends in ``> FILE`` has that file appended to what it prints.
"""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import bayescontam
from tests.cli.conftest import Done
from tests.golden.corpus import corpus_in_memory
from tests.golden.expected import check_output, masked
from tests.golden.stored import FITS, OPTIONS, sampled_before
from tests.golden.tables import TABLES, table_of
from tests.support.given_fits import counts_table, rough_fit

Run = Callable[..., Done]
COMMANDS = Path(__file__).parent / "commands"
CASES = {
    "summary": "summary compact.nc",
    "summary of concepts": "summary concepts.nc",
    "summary of latent duplicates": "summary latent_duplicate.nc --level 0.8",
    "summary of several fits": "summary compact.nc spillover.nc ability.nc",
    "summary as csv": "summary spillover.nc --format csv",
    "summary as json": "summary ability.nc --format json",
    "rank": "rank compact.nc",
    "rank on one benchmark": "rank anchored.nc --benchmark quiz --by accuracy --level 0.9",
    "rank by pairs": "rank compact.nc --pairs --weights item",
    "rank against a model": "rank ability.nc --against bo --margin 0.3",
    "rank against a model as json": (
        "rank compact.nc --against ada --margin 0.3 --two-sided --by accuracy --format json"
    ),
    "rank as csv": "rank marginalised.nc --format csv",
    "rank as markdown": "rank compact.nc --format markdown",
    "rank as latex": "rank ability.nc --format latex",
    "summary as latex": "summary compact.nc --format latex",
    "badge": "badge compact.nc --model di --benchmark quiz",
    "rank as json": "rank noisy_covariate.nc --format json",
    "mastery": "mastery concepts.nc",
    "mastery of the same items": "mastery concepts.nc --on same --at-least 2 --above 0.5",
    "mastery by pairs": "mastery concepts.nc --pairs --against bo --level 0.8",
    "mastery as csv": "mastery concepts.nc --number 10 --at-least 8 --format csv",
    "mastery as json": "mastery concepts.nc --format json",
    "mastery without concepts": "mastery ability.nc",
    "items": "items two_parameter.nc",
    "items as csv": "items hierarchical.nc --format csv",
    "items as json": "items repeated.nc --format json",
    "compare": "compare hierarchical.nc two_parameter.nc single.nc",
    "compare as csv": "compare hierarchical.nc confounding.nc --format csv",
    "update": "update rough.nc counts.csv --seed 3",
    "update as csv": "update rough.nc counts.csv --seed 3 --format csv",
    "update as json": "update rough.nc counts.csv --seed 3 --format json",
    "update that needs a fit": "update ability.nc new.csv --seed 3 --refit never",
    "plan": "plan --model single --data-sets 20 --seed 1 --items 50,100 --width 0.2",
    "plan as csv": "plan --model single --data-sets 20 --seed 1 --items 60 --models 1,2 -f csv",
    "plan of the number of items": (
        "plan --model single --data-sets 20 --seed 1 --solve items --width 0.3 --spread sigma_eps=0"
    ),
    "plan of twins": "plan --items 250 --twins 1,3 --controls 0,4",
    "advise": "advise tables/varied.csv",
    "advise as json": "advise tables/single.csv --clean ada --format json",
    "models list": "models list",
    "models show": "models show hierarchical",
    "models show of a file": "models show study/mine.toml --toml",
    "models show as a page": "models show latent_duplicate --format markdown",
    "models prior": "models prior single --models 2 --benchmarks 1 --items 20 --draws 50 --seed 1",
    "corpora list": "corpora list",
    "corpora show": "corpora show offline-demo",
    "scan": "scan scan/manifest.toml --out new --jobs 1 --device cpu",
    "report of a curve": "report curve.nc --out page.html",
    "judge export": "judge export scan/finished --out sheet.csv --pairs 5 --seed 7 > sheet.csv",
    "judge export of judged pairs": (
        "judge export scan/finished --of scan/judgements.csv --said duplicate --strata kind"
        " --pairs 4 --out again.csv > again.csv"
    ),
    "judge import": "judge import scan/finished filled.csv --judge Ada --out j.csv > j.csv",
    "judge agreement": "judge agreement scan/judgements.csv",
    "judge verbatim": "judge verbatim scan/finished --out v.csv --per-item 1 > v.csv",
    "judge train": "judge train scan/finished scan/judgements.csv --name x --out j",
    "judge agreement as json": "judge agreement scan/judgements.csv --json",
    "curve without judgements": "curve scan/finished --out prior.nc --seed 5",
    "covariates": "covariates scan/finished --curve curve.nc --out c.csv --draws 40 > c.csv",
    "prevalence": "prevalence scan/finished --curve curve.nc",
    "evidence without controls": "evidence scores.csv --out c.csv --lower-is-seen",
    "duplicates new": "duplicates new --items 2 --houses 3 --categories 3 --out n.jsonl > n.jsonl",
    "duplicates make": "duplicates make grids.jsonl --out d.jsonl --seed 3 > d.jsonl",
    "duplicates check": "duplicates check made.jsonl --benchmark grids.jsonl --quiet",
    "duplicates show": "duplicates show made.jsonl --benchmark grids.jsonl",
    "duplicates recipes": "duplicates recipes",
    "duplicates of a model": "duplicates make grids.jsonl --chain paraphrase --out d.jsonl",
    "duplicates plant": (
        "duplicates plant grids-corpus.jsonl --duplicates made.jsonl --out p > p/truth.csv"
    ),
    "recall": "recall scan/finished --truth grids-truth.csv",
    "lab list": "lab list",
    "lab show": "lab show smoke",
    "lab keys": "lab keys",
    "lab mix": "lab mix smoke --out lab --quiet > lab/covariates.csv",
    "study list": "study list",
    "study show": "study show sbc-single",
    "study show of a published one": "study show arc-decomposition",
    "study show of a file": "study show study/bootstrap.toml",
    "study keys": "study keys",
    "study keys as a page": "study keys --format markdown",
    "study run": "study run study/bootstrap.toml --out boot --jobs 1",
    "study report": "study report study/bootstrap/stopped",
    "study report of a published one": "study report study/published",
    "study compare": "study compare study/published",
    "version": "--version",
    "no such file": "summary none.nc",
    "no such spec": "fit tables/single.csv --model hierarchicl --out x.nc",
    "a table with faults": "fit faulty.csv --out x.nc",
    "a base without a margin": "rank compact.nc --against ada",
    "an option with a fault": "rank compact.nc --benchmark quizz",
    "a curve where a fit is wanted": "summary curve.nc",
}


@pytest.fixture
def place(there: Path) -> Path:
    """Work where all stored files are, and tables that commands read."""
    (there / "tables").mkdir()
    for path in TABLES.glob("*.csv"):
        (there / "tables" / path.name).write_bytes(path.read_bytes())
    table = table_of("single")
    rows = table[table["model"] == "bo"].drop(columns=["guess", "concept", "clean"])
    rows.assign(model="eve").to_csv("new.csv", index=False)
    table.assign(n_correct=table["n_correct"] * 3).head(4).to_csv("faulty.csv", index=False)
    scores = table[["model", "benchmark", "item"]].drop_duplicates()
    scores = scores.assign(score=range(len(scores)), control=(scores["model"] == "bo").astype(int))
    scores.to_csv("scores.csv", index=False)
    return there


@pytest.fixture
def counts(place: Path) -> None:
    """Write a fit of many draws, and new models for it."""
    rough_fit().to_netcdf("rough.nc")
    counts_table([(33, 40), (5, 40)], "NM").to_csv("counts.csv", index=False)


@pytest.fixture
def sheet(place: Path, run: Run) -> None:
    """Write a sheet that a judge has filled in."""
    assert run("judge", "export", "scan/finished", "-o", "blank.csv", "--pairs", 6).status == 0
    rows = pd.read_csv("blank.csv", dtype=str, keep_default_na=False)
    rows["is_duplicate"] = ["1", "0", "yes", "no", "", "0"]
    rows.to_csv("filled.csv", index=False)


@pytest.fixture
def grids(place: Path, run: Run) -> None:
    """Write two logic grids, and a duplicate of each, of which one lacks a clue."""
    sizes = "--items 2 --houses 3 --categories 3 --seed 4 --out grids.jsonl"
    assert run("duplicates", "new", *sizes.split()).status == 0
    made = "make grids.jsonl --chain shuffle --out made.jsonl"
    assert run("duplicates", *made.split()).status == 0
    rows = [json.loads(line) for line in Path("made.jsonl").read_text().splitlines()]
    rows[1]["text"] = rows[1]["text"].rpartition("\n")[0]
    Path("made.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = (f'{{"id": "d{k}", "text": "One line.\\nAnother one."}}\n' for k in range(4))
    Path("grids-corpus.jsonl").write_text("".join(texts))
    first = bayescontam.Scan.load("scan/finished").matches.groupby("item").head(1)
    truth = first[["benchmark", "item", "document", "start", "end"]].assign(
        duplicate="x", kind="semantic", level="exact", copy=1, place="alone"
    )
    truth.loc[truth.index[1::2], ["document", "place"]] = ["", "absent"]
    truth.to_csv("grids-truth.csv", index=False)


def printed(run: Run, line: str, folder: Path) -> str:
    """Return how a command ended, what it printed, and the file that it wrote if that is asked."""
    command, _, file = line.partition(" > ")
    done = run(*shlex.split(command))
    # Of a command that ends well, the other lines are progress, of which a slow one has more.
    said = [
        part
        for part in done.err.splitlines()
        if done.status or part.startswith(("note: ", "caution: "))
    ]
    parts = [f"$ bayescontam {command}", f"status {done.status}", *said, "", done.out]
    if file:
        parts += [f"--- {file}", Path(file).read_text(encoding="utf-8-sig")]
    return masked("\n".join(parts), folder)


@pytest.mark.parametrize("name", CASES)
def test_a_command_prints_what_it_printed(
    place: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    name: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    for file, fixture in (("filled.csv", "sheet"), ("rough.nc", "counts"), ("grids", "grids")):
        if file in CASES[name]:
            request.getfixturevalue(fixture)
    with corpus_in_memory():
        text = printed(run, CASES[name], place)
    check_output(COMMANDS / f"{name}.txt", text)


FITTED = ("hierarchical", "latent_duplicate", "anchored", "ability")


@pytest.mark.parametrize("name", FITTED)
def test_fit_prints_what_it_printed(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stored = FITS[name]
    options = " ".join(f"--{key} {value}" for key, value in OPTIONS.items())
    line = f"fit tables/{stored.table}.csv -m {stored.base} -o fit.nc --store-all {options}"
    with sampled_before(bayescontam.Fit.from_netcdf(f"{name}.nc")):
        text = printed(run, line, place)
    check_output(COMMANDS / f"fit of {name}.txt", text)


IMPORTS = {
    "lm-eval": "",
    "every-eval-ever": "",
    "helm": "--metric exact_match",
    "opencompass": "--model m",
    "lighteval": "--model m",
    "py-irt": "--benchmark swe",
    "swe-bench": "--model m",
    "evalplus": "--model m",
    "livecodebench": "",
    "arc-predictions": "--tasks tasks",
    "arc-people": "--exclude-explanations 1 --rules rules.csv",
    "matrix": "--benchmark quiz",
    "inspect": "",
}


@pytest.mark.parametrize("tool", IMPORTS)
def test_import_prints_what_it_printed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    file = log_of(tool, tmp_path).relative_to(tmp_path)
    line = f"import {tool} {shlex.quote(str(file))} --out r.csv {IMPORTS[tool]} > r.csv"
    check_output(COMMANDS / f"import {tool}.txt", printed(run, line, tmp_path))


ARC = {
    "answer arc-baseline": "answer arc-baseline tasks --out a.json --jobs 1 > a.json",
    "concepts": "concepts tasks --out c.csv > c.csv",
}


@pytest.mark.parametrize("name", ARC)
def test_commands_on_arc_print_what_they_printed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    log_of("arc-predictions", tmp_path)
    check_output(COMMANDS / f"{name}.txt", printed(run, ARC[name], tmp_path))


def log_of(tool: str, folder: Path) -> Path:
    """Write a small file as a tool writes it."""
    if tool == "inspect":
        pytest.importorskip("inspect_ai")
        from tests.support.inspect_logs import log, sample

        return log(folder, [sample(k, "CI"[k % 2]) for k in range(4)])
    if tool == "matrix":
        (folder / "m.csv").write_text("model,q1,q2\nA,1,0\nB,,1\n", encoding="utf-8")
        return folder / "m.csv"
    if tool == "arc-predictions":
        pair = {"input": [[1, 2]], "output": [[2, 1]]}
        (folder / "tasks").mkdir()
        task = json.dumps({"train": [pair], "test": [pair, pair, pair]})
        (folder / "tasks" / "turn.json").write_text(task, encoding="utf-8")
        attempts = [{"attempt_1": grid} for grid in ([[2, 1]], [[1, 2]], "2 1\n1")]
        (folder / "s.json").write_text(json.dumps({"turn": attempts}), encoding="utf-8")
        return folder / "s.json"
    if tool == "arc-people":
        rows = ["participant,item,attempt,correct,minimal,training,explanation,concept"]
        rows += ["ann,t,1,0,0,1,,C", "ann,m,1,1,1,0,copy it,C", "ann,a,1,1,0,0,all of it,C"]
        rows += ["ann,b,1,0,0,0,,D", "ann,b,2,1,0,0,the other,D", "bob,m,1,0,1,0,,C"]
        rows += ["bob,a,1,0,0,0,,C", "bob,b,1,0,0,0,,D", "cay,a,1,1,0,0,,C", "cay,b,1,0,0,0,,D"]
        rows += ["dan,m,1,1,1,0,as shown,C", "dan,a,1,0,0,0,,C", "dan,b,1,1,0,0,turn it,D"]
        (folder / "attempts.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return folder / "attempts.csv"
    from tests.support.write_logs import each_tool

    return each_tool(folder)[tool]


def test_each_command_has_a_case() -> None:
    from tests.support.commands import COMMANDS as VERBS

    lines = [
        *CASES.values(),
        "fit ",
        "demo ",
        "judge llm ",
        "exposures ",  # of a corpus: tests/cli/test_imputations.py holds what it prints
        "answer arc ",  # of a served model: tests/cli/test_answer_arc.py holds what it prints
        "judge apply ",  # of a trained judge: tests/cli/test_judge_offline.py holds what it prints
        "index ",  # of a scan's vectors: tests/cli/test_scan.py holds what it prints
        "find ",  # of a scan's vectors: tests/cli/test_scan.py holds what it prints
        *(f"vectors {verb} " for verb in ("add", "show")),  # the same
        *(f"import {tool} " for tool in IMPORTS),
        *ARC.values(),
        # Of models that are trained: tests/cli/test_lab.py holds what these print.
        *(f"lab {verb} " for verb in ("train", "answer", "truth", "report", "task")),
        *(f"lab {verb} " for verb in ("traces", "near")),
    ]
    groups = {"", "import", "judge", "models", "corpora", "duplicates", "study", "lab", "vectors"}
    lacking = [
        verb
        for verb in VERBS
        if verb not in groups and not any(f"{line} ".startswith(f"{verb} ") for line in lines)
    ]
    assert lacking == []


def test_there_is_a_text_of_each_case_and_no_other() -> None:
    names = [
        *CASES,
        *(f"fit of {name}" for name in FITTED),
        *(f"import {tool}" for tool in IMPORTS),
        *ARC,
    ]
    assert {path.stem for path in COMMANDS.glob("*")} == set(names)


def test_answers_of_language_models_are_not_requested_again(place: Path, run: Run) -> None:
    pytest.importorskip("openai")
    from tests.support.llm_server import running

    with running() as server:
        options = ["--base-url", server.base_url, "--model", "small", "--cache", "answers"]
        command = ["judge", "llm", "scan/finished", "--pairs", 4, "--out", "judged.csv"]
        assert run(*command, *options).status == 0
        assert server.requests == []
    judged = pd.read_csv("judged.csv")
    assert judged["is_duplicate"].tolist() == [1] * 4
    answers = [json.loads(path.read_text()) for path in Path("answers").rglob("*.json")]
    assert {answer["kind"] for answer in answers} == {"equivalent"}
