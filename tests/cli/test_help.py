"""Help, version, model specs on the terminal, and readers that leave early."""

import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from bayescontam.cli.app import app, app_for
from bayescontam.specs.registry import load_model, shipped_models
from tests.cli.conftest import Done, command, environment

Run = Callable[..., Done]
VERBS = [
    "", "advise", "fit", "summary", "rank", "mastery", "items", "report", "compare", "demo",
    "models", "models list", "models show", "models prior", "plan", "update",
    "import", "import lm-eval", "import inspect", "import every-eval-ever", "import matrix",
    "import helm", "import opencompass", "import lighteval", "import py-irt", "import swe-bench",
    "import evalplus", "import livecodebench", "import arc-predictions",
    "answer", "answer arc", "answer arc-baseline", "concepts", "exposures", "badge",
    "import arc-people",
    "corpora", "corpora list", "corpora show", "scan", "index", "find",
    "vectors", "vectors add", "vectors show",
    "judge", "judge export", "judge import", "judge llm", "judge agreement",
    "judge verbatim", "judge train", "judge apply", "curve", "covariates", "prevalence", "evidence",
    "duplicates", "duplicates new", "duplicates make", "duplicates check",
    "duplicates plant", "duplicates show", "duplicates recipes", "recall",
    "lab", "lab list", "lab show", "lab keys", "lab mix", "lab train", "lab answer", "lab truth",
    "lab report", "lab task", "lab traces", "lab near",
    "study", "study list", "study show", "study keys", "study run", "study report",
    "study compare",
]  # fmt: skip


def test_no_verb_is_forgotten() -> None:
    root: Any = get_command(app)
    groups = {name: getattr(verb, "commands", {}) for name, verb in root.commands.items()}
    inner = {f"{name} {verb}" for name, verbs in groups.items() for verb in verbs}
    assert {*groups, *inner, ""} == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb: str) -> None:
    """By its short name; what ``--help`` says of each is stored in ``tests/golden/help``."""
    words = [*verb.split(), "-h"]
    done = CliRunner(env={"COLUMNS": "100"}).invoke(app_for(words), words)
    assert done.exit_code == 0
    assert f"bayescontam {verb}".strip() in done.stdout.split("Usage:")[1].partition("\n")[2]
    assert ("Example" in done.stdout) is (verb != "")


CHOICES = [
    ("fit", "engine", "inference.sampling", "Engine"),
    ("curve", "engine", "inference.sampling", "Engine"),
    ("fit", "difficulties", "model.marginal", "Difficulties"),
    ("fit", "items", "inference.estimands", "Items"),
    ("evidence", "without_controls", "evidence.model_evidence", "WithoutControls"),
    ("fit", "missing_contamination", "data.covariates", "Missing"),
    ("fit", "contamination_scale", "data.measures", "Scale"),
    ("update", "refit", "updating.update", "Refit"),
    ("compare", "leave_out", "inference.crossval", "By"),
    ("rank", "by", "inference.ranking", "By"),
    ("rank", "weights", "inference.ranking", "Weighting"),
    ("plan", "quantity", "power.power", "Quantity"),
    ("plan", "solve", "power.power", "Unknown"),
    ("import inspect", "partial", "data.importers.inspect_ai", "Partial"),
    ("import inspect", "no_answer", "data.importers.inspect_ai", "NoAnswer"),
    ("import inspect", "errors", "data.importers.base", "Errors"),
    ("import inspect", "differing", "data.importers.runs", "Differing"),
    ("import inspect", "copies", "data.importers.runs", "Copies"),
    ("import matrix", "items", "data.importers.matrix", "Items"),
    ("lab truth", "accuracy", "lab.truth", "Measure"),
]


@pytest.mark.parametrize(("verb", "option", "module", "name"), CHOICES)
def test_a_command_offers_what_its_function_takes(
    verb: str, option: str, module: str, name: str
) -> None:
    done = CliRunner(env={"COLUMNS": "300"}).invoke(app, [*verb.split(), "--help"])
    offered = re.search(rf"--{option.replace('_', '-')}\b +<([\w|-]+)>", done.stdout)
    assert offered is not None
    kind = getattr(importlib.import_module(f"bayescontam.{module}"), name)
    assert set(offered[1].split("|")) == set(get_args(getattr(kind, "__value__", kind)))


def test_no_arguments_show_the_help(tmp_path: Path) -> None:
    done = command(cwd=tmp_path)
    assert b"Usage:" in done.stdout
    assert b"fit" in done.stdout
    assert done.stderr == b""


def test_version(tmp_path: Path) -> None:
    done = command("--version", cwd=tmp_path)
    wanted = f"bayescontam {version('bayescontam')}\n".encode()
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, b"")


def test_list_has_every_shipped_spec(run: Run) -> None:
    done = run("models", "list")
    assert done.status == 0
    printed = " ".join(done.out.split())  # long lines are wrapped
    for name in shipped_models():
        assert f"{name} {load_model(name).summary}" in printed


@pytest.mark.parametrize("name", shipped_models())
def test_a_copied_spec_means_the_same(run: Run, tmp_path: Path, name: str) -> None:
    done = run("models", "show", name, "--toml")
    assert done.status == 0
    copy = tmp_path / "mine.toml"
    copy.write_text(done.out, encoding="utf-8")
    assert load_model(copy).hash == load_model(name).hash
    assert load_model(copy).model_dump() == load_model(name).model_dump()
    assert load_model(copy).name == "mine"


@pytest.mark.parametrize("name", shipped_models())
def test_show_explains_the_spec(run: Run, name: str) -> None:
    out = run("models", "show", name).out
    assert out.startswith(f"# {name} ({load_model(name).hash[:12]})\n")
    assert load_model(name).text in out
    mathematics, meanings = out.split("# Mathematics\n")[1].split("# What the priors mean")
    assert "~" in mathematics
    assert "~" in meanings


@pytest.mark.parametrize("arguments", ["models show hierarchical", "models list", "--help", ""])
def test_a_reader_that_leaves_causes_no_traceback(tmp_path: Path, arguments: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "bayescontam", *arguments.split()],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == 0


DROPPED = """
import signal, time
import bayescontam.__main__ as entry

class Callback:
    def __del__(self):
        signal.raise_signal(signal.{name})
        time.sleep(0)

def app():
    {before}
    Callback()
    time.sleep(60)

entry.app_for = lambda _: app
entry.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize(
    ("name", "before"),
    [("SIGINT", ""), ("SIGTERM", ""), ("SIGTERM", "signal.signal(signal.SIGINT, signal.SIG_IGN)")],
)
def test_an_interrupt_that_python_drops_comes_again(name: str, before: str) -> None:
    """Python drops what is raised in a destructor, as in a callback of compiled code."""
    script = DROPPED.format(name=name, before=before)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env=environment(), check=False, timeout=50)  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interrupted; no file was left half written\n"


HALF_MADE = """
import io
import signal
import bayescontam.__main__ as entry

class File:
    def __init__(self):
        signal.raise_signal(signal.{name})
        self.inner = io.StringIO()
    def __del__(self):
        self.inner.close()

def app():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        print("ignored")
    {before}
    File()

entry.app_for = lambda _: app
entry.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_what_an_interrupt_leaves_half_made_is_no_traceback(name: str) -> None:
    script = HALF_MADE.format(name=name, before="")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env=environment(), check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interrupted; no file was left half written\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_what_fails_without_an_interrupt_is_still_reported() -> None:
    script = HALF_MADE.format(name="SIGTERM", before="object.__new__(File)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env=environment(), check=False)  # fmt: skip
    assert done.returncode == 130
    assert done.stderr.count("AttributeError: 'File' object has no attribute 'inner'") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_program_that_is_to_ignore_ctrl_c_does() -> None:
    script = HALF_MADE.format(name="SIGINT", before="")
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", ignoring + script], capture_output=True,
                          text=True, env=environment(), check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "ignored\n", "")


def test_an_interrupted_verb_exits_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bayescontam.specs.registry.shipped_models", interrupted)
    assert run("models", "list") == Done(130, "", "interrupted; no file was left half written\n")


def test_an_application_has_no_more_than_its_arguments_need() -> None:
    """And all of it where they name no command, so that the message lists what there is."""
    for arguments in (["fit", "r.csv"], ["--version", "judge"], ["import", "matrix", "--help"]):
        part = get_command(app_for(arguments))
        assert list(part.commands) == [
            each for each in arguments if each in get_command(app).commands
        ]
    whole = set(get_command(app).commands)
    for arguments in ([], ["--help"], ["ftt"]):
        assert set(get_command(app_for(arguments)).commands) == whole
