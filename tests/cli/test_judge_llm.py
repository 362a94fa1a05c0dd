"""Pairs of a scan judged by a language model, from the command line."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bayescontam.data.judgements import PAIR, read_judgements
from bayescontam.evidence.choice import choose_pairs
from bayescontam.scan.results import Scan
from tests.cli.conftest import Done, environment
from tests.support.llm_server import Reply, Request, Server, fault, verdict
from tests.support.made_curve import make_curve as made_curve
from tests.support.made_scan import BENCHMARKS, make_scan

pytest.importorskip("openai")

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a scan with hostile names and texts."""
    return make_scan().write(tmp_path_factory.mktemp("judged") / "scan")


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def options(scan: Path, server: Server, *more: object) -> list[object]:
    """Return the arguments of a run; what is given last counts."""
    given = ["--base-url", server.base_url, "--model", "small", "--out", "judged.csv"]
    return ["judge", "llm", scan, *given, *more]


def test_another_prompt_on_what_is_judged_is_noted_though_quiet(
    run: Run, scan: Path, server: Server
) -> None:
    run(*options(scan, server, "--pairs", 4))
    done = run(*options(scan, server, "--pairs", 4, "--prompt", "puzzle", "--quiet"))
    assert (done.status, done.out, len(server.requests)) == (0, "", 4)
    assert "note: 4 of 4 pairs are judged in judged.csv already by 'llm:small'" in done.err
    assert "whatever its prompt and temperature were" in done.err


def by_text(request: Request) -> Reply:
    """Judge by what the texts say, so that each pair has its own answer."""
    item, chunk = request.texts
    same = sorted(item.split()) == sorted(chunk.split())
    return verdict(kind="equivalent" if same else "unrelated", is_duplicate=same)


def test_chosen_pairs_are_judged(run: Run, scan: Path, server: Server) -> None:
    server.behave = by_text
    done = run(*options(scan, server, "--pairs", 40, "--seed", 3))
    assert done.status == 0
    assert done.err.startswith("judge    100 %")
    pairs = choose_pairs(Scan.load(scan), 40, 3)
    same = [
        sorted(item.split()) == sorted(chunk.split())
        for item, chunk in zip(pairs["text"], pairs["chunk_text"], strict=True)
    ]
    assert 2 <= sum(same) <= 30
    frame = read_judgements("judged.csv").frame
    assert frame[list(PAIR)].to_dict("list") == pairs[list(PAIR)].to_dict("list")
    assert frame["is_duplicate"].tolist() == [int(known) for known in same]
    assert done.out.endswith(f"40 pairs were judged, {sum(same)} of them duplicates: judged.csv\n")
    assert Path("judge-cache").is_dir()
    assert server.requests[0].headers["authorization"] == "Bearer none"


def test_a_seed_without_a_draw_is_refused(run: Run, scan: Path, server: Server) -> None:
    done = run(*options(scan, server, "--per-item", 2, "--seed", 3))
    assert done.status == 2
    assert "--seed: is of pairs that are drawn, and --per-item and --curve draw none" in done.err
    assert not server.requests


def test_the_best_pairs_of_each_item_of_a_benchmark(run: Run, scan: Path, server: Server) -> None:
    more = ("--per-item", 2, "--benchmark", BENCHMARKS[0], "--out", "judged.parquet", "--quiet")
    assert run(*options(scan, server, *more)) == Done(0, "", "")
    frame = read_judgements("judged.parquet").frame
    assert set(frame["benchmark"]) == {BENCHMARKS[0]}
    assert frame.groupby("item").size().tolist() == [2] * 30


def test_options_reach_the_endpoint(
    run: Run, scan: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    Path("mine.md").write_text("My own words.")
    more = ("--api-key-env", "MY_KEY", "--temperature", "default", "--prompt", "mine.md",
            "--cache", "kept", "--run", 2, "--pairs", 3,
            "--extra-body", '{"top_p": 0.5}', "--effort", "high",
            "--max-output-tokens", 8192)  # fmt: skip
    assert run(*options(scan, server, *more)).status == 0
    request = server.requests[0]
    fields = ("top_p", "reasoning_effort", "max_tokens")
    assert [request.body[field] for field in fields] == [0.5, "high", 8192]
    assert request.headers["authorization"] == "Bearer secret"
    assert "temperature" not in request.body
    assert request.body["messages"][0]["content"].startswith("My own words.\n")
    assert len(list(Path("kept").rglob("*.json"))) == 3
    assert set(read_judgements("judged.csv").frame["judge"]) == {"llm:small#2"}


def test_the_budget_ends_a_run_and_the_same_command_goes_on(
    run: Run, scan: Path, server: Server
) -> None:
    command = options(scan, server, "--pairs", 10, "--max-calls", 6, "--concurrency", 2)
    done = run(*command)
    assert done.status == 0
    assert "the budget is reached and 4 pairs are left: run the same again to go on" in done.out
    assert len(server.requests) == 6
    done = run(*command)
    assert "6 of 10 pairs are judged in judged.csv already" in done.err
    assert len(server.requests) == 10
    assert len(read_judgements("judged.csv").frame) == 10


def test_what_failed_is_reported_and_tried_again(run: Run, scan: Path, server: Server) -> None:
    server.behave = lambda _: verdict() if len(server.requests) <= 3 else fault(500)
    command = options(scan, server, "--pairs", 6, "--retries", 0)
    done = run(*command)
    assert done.status == 0
    assert "3 of 6 pairs are unjudged: 3 status 500" in done.out
    assert read_judgements("judged.csv").frame["is_duplicate"].isna().sum() == 3
    server.behave = lambda _: verdict()
    assert "3 pairs were judged" in run(*command).out
    assert read_judgements("judged.csv").frame["is_duplicate"].tolist() == [1] * 6


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (("--pairs", 3, "--per-item", 2), "--pairs and --per-item"),
        (("--benchmark", "none"), "no benchmark 'none'"),
        (("--temperature", "warm"), "'warm' is neither a number nor"),
        (("--temperature", "9"), "temperature 9: allowed is 0 to 2"),
        (("--prompt", "none.md"), "prompt 'none.md': cannot be read"),
        (("--base-url", "here"), "begins with neither http"),
        (("--out", "judged.xlsx"), "allowed for judgements is .csv or .parquet"),
        (("--api-key-env", "NO_SUCH_KEY"), "no environment variable 'NO_SUCH_KEY'; set it"),
        (("--max-calls", 0), "max_calls 0: allowed is 1 or more"),
    ],
)
def test_wrong_usage_costs_no_call(
    run: Run, scan: Path, server: Server, more: tuple[object, ...], match: str
) -> None:
    done = run(*options(scan, server, *more))
    assert done.status == 2
    assert match in " ".join(done.err.split())
    assert server.requests == []
    assert "Traceback" not in done.err
    assert not Path("judged.csv").exists()


def test_a_wrong_key_is_reported(run: Run, scan: Path, server: Server) -> None:
    server.script(fault(401, "Invalid key\x1b[31m"))
    done = run(*options(scan, server, "--quiet"))
    assert (done.status, done.out) == (2, "")
    assert "Invalid key\\x1b[31m" in done.err
    assert "check --base-url, --model and the key in the variable" in done.err
    assert len(server.requests) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
def test_ctrl_c_keeps_answers(scan: Path, server: Server, tmp_path: Path) -> None:
    server.script(Reply(verdict().body, delay=0.1))
    command = options(scan, server, "--pairs", 60, "--quiet")
    process = subprocess.Popen(
        [sys.executable, "-m", "bayescontam", *map(str, command)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while len(server.requests) < 30 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().startswith("answers are stored: run the same command again to resume\n")
    kept = [json.loads(path.read_text()) for path in (tmp_path / "judge-cache").rglob("*.json")]
    assert len(kept) >= 30 - 8
    assert all(answer["is_duplicate"] for answer in kept)
    assert not (tmp_path / "judged.csv").exists()


@pytest.mark.parametrize("given", ["low", "[1]", '{"a":'])
def test_further_fields_are_an_object(run: Run, scan: Path, server: Server, given: str) -> None:
    done = run(*options(scan, server, "--extra-body", given))
    assert done.status == 2
    assert "--extra-body: " in done.err
    assert not server.requests


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--effort", "low", "--extra-body", '{"reasoning_effort": "high"}'),
         "--effort and 'reasoning_effort' in --extra-body: give one"),
        (("--max-output-tokens", 9, "--extra-body", '{"max_tokens": 8}'),
         "--max-output-tokens and 'max_tokens' in --extra-body: give one"),
        (("--effort", " "), "--effort: is blank"),
        (("--max-output-tokens", 0), "--max-output-tokens 0: allowed is 1 or more"),
        (("--judge", "a#1"), "judge 'a#1': give a name without '#'"),
        (("--said", "duplicate"), "--said: needs --of"),
        (("--of", "none.csv", "--said", "duplicate"), "none.csv: no such file"),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other(
    run: Run, scan: Path, server: Server, more: tuple[object, ...], message: str
) -> None:
    done = run(*options(scan, server, *more))
    assert done.status == 2
    assert message in done.err
    assert not server.requests


def test_a_second_pass_judges_what_the_first_flagged(run: Run, scan: Path, server: Server) -> None:
    server.behave = by_text
    assert run(*options(scan, server, "--per-item", 2)).status == 0
    first = read_judgements("judged.csv").frame
    flagged = first[first["is_duplicate"] == 1]
    assert 10 < len(flagged) < len(first)
    server.requests.clear()
    server.script(verdict(kind="related", is_duplicate=False))
    again = ("--of", "judged.csv", "--said", "duplicate", "--prompt", "verification",
             "--model", "large")  # fmt: skip
    done = run(*options(scan, server, *again))
    assert done.status == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert ["benchmark", "verdict", "kind", "chosen", "of"] in lines
    assert any(
        line[-5:-2] == ["quiz", "duplicate", "equivalent"] and line[-1] == line[-2]
        for line in lines
    )
    second = read_judgements("judged.csv").frame
    second = second[second["judge"] == "llm:large"]
    keys = list(PAIR)
    assert sorted(second[keys].to_numpy().tolist()) == sorted(flagged[keys].to_numpy().tolist())
    # The same again has nothing to do; disagreement is there now, for a third judge.
    count = len(server.requests)
    done = run(*options(scan, server, *again))
    assert f"{len(flagged)} of {len(flagged)} pairs are judged in judged.csv already" in done.err
    assert "to judge them by others, name another judge: --judge" in done.err
    assert len(server.requests) == count
    third = ("--of", "judged.csv", "--said", "disagree", "--pairs", 7, "--judge", "third")
    assert run(*options(scan, server, *third)).status == 0
    frame = read_judgements("judged.csv").frame
    assert (frame["judge"] == "llm:third").sum() == 7


def test_pairs_that_inform_most_are_judged(run: Run, scan: Path, server: Server) -> None:
    made = make_scan()
    sources = tuple(dict.fromkeys(row["source"] for row in made.record["strata"]))
    curve = made_curve(BENCHMARKS, sources, threshold=0.75, steepness=15.0)
    curve.to_netcdf("curve.nc")
    server.behave = by_text
    done = run(*options(scan, server, "--curve", "curve.nc", "--pairs", 5))
    assert done.status == 0
    assert re.search(r"mean +sd +expected\n", done.out)
    assert len(read_judgements("judged.csv").frame) == 5
