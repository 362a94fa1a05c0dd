"""What importing the package costs, and what the repository may not hold."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {
    "pymc",
    "pytensor",
    "nutpie",
    "arviz",
    "arviz_base",
    "arviz_plots",
    "arviz_stats",
    "matplotlib",
    "jax",
    "torch",
    "ray",
}
HELP = """
sys.argv = ["bayescontam", "--help"]
from bayescontam.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""

LEAST_PROGRAM = "import typer; a = typer.Typer(); a.command()(lambda: None); a(['--help'])"


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a new interpreter holds after `code`."""
    report = "\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}{report}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("code", ["import bayescontam", HELP], ids=["import", "help"])
def test_nothing_heavy_is_loaded(code: str) -> None:
    loaded = loaded_by(code)
    assert "bayescontam" in loaded
    assert loaded & HEAVY == set()


def test_specs_are_read_without_tables_and_special_functions() -> None:
    """So that lists of specs are there at once."""
    loaded = loaded_by("import bayescontam.specs.registry")
    assert loaded & {"pandas", "scipy", *HEAVY} == set()


def test_fits_load_nothing_that_draws_pictures() -> None:
    """ArviZ is itself for those who import it later, although nutpie was given a part of it."""
    drawing = {"matplotlib", "arviz", "arviz_plots"}
    code = f"""
import bayescontam; bayescontam.fit; import nutpie
assert {{"pymc", "nutpie", "arviz_base", "arviz_stats"}} <= {{*sys.modules}}
assert {drawing!r}.isdisjoint(sys.modules), {drawing!r} & {{*sys.modules}}
import arviz; arviz.plot_trace"""
    assert drawing <= loaded_by(code)


def test_fits_do_not_load_jax() -> None:
    """SciPy looks for arrays of JAX where a JAX to be imported at first use is loaded by that."""
    pytest.importorskip("jax", reason="needs the extra 'jax'")
    asks = "import bayescontam; bayescontam.fit; import scipy.special as s; s.logsumexp([1.0])"
    later = "import arviz_base.io_numpyro as it; it.jax.random.PRNGKey"
    assert "jax" in loaded_by(f"{asks}; assert 'jax' not in sys.modules; {later}")
    assert "jax" in loaded_by(f"import jax; {asks}; import jax.numpy")


def test_the_check_sees_what_is_loaded() -> None:
    assert "matplotlib" in loaded_by("import matplotlib") & HEAVY


def processor_time(*command: str) -> float:
    start = os.times()
    arguments = [sys.executable, *command]
    subprocess.run(arguments, cwd=ROOT, capture_output=True, timeout=60, check=True)
    end = os.times()
    spent = end.children_user - start.children_user
    return spent + end.children_system - start.children_system


def test_help_is_quick() -> None:
    """Half a second where Typer's own smallest program takes a quarter; machines differ."""
    ours, least = [], []
    for _ in range(6):  # the first run warms the caches and does not count
        ours.append(processor_time("-m", "bayescontam", "--help"))
        least.append(processor_time("-c", LEAST_PROGRAM))
    assert min(ours[1:]) < 2 * min(least[1:]), (ours, least)


def test_no_tracked_file_holds_a_machine_path() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=60, check=True
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    assert names
    # Put together here, so that this file does not hold them.
    machine_paths = [f"/{folder}/".encode() for folder in ("work", "root")]
    found = [
        name
        for name in names
        if (ROOT / name).is_file()
        and any(path in (ROOT / name).read_bytes() for path in machine_paths)
    ]
    assert found == []
