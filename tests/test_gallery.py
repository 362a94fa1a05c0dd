"""The gallery: every script has the house form, and the quickest runs whole."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bayescontam

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "gallery"
SCRIPTS = sorted(FOLDER.glob("*.py"))
QUICKEST = FOLDER / "planning.py"
CLOSING = "What this does not show"
LIBRARIES = {"arviz", "bayescontam", "matplotlib", "numpy", "pandas", "pymc"}
_CELL = re.compile(r"^# %%\n((?:#.*\n)+)", re.MULTILINE)
_CLOSING = re.compile(rf"{CLOSING}\n-{{{len(CLOSING)}}}\n\n(.+)", re.DOTALL)


def in_order() -> tuple[str, ...]:
    """Return the names of the scripts in the order of the gallery's page."""
    spec = importlib.util.spec_from_file_location("gallery_style", ROOT / "docs/gallery_style.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    order: tuple[str, ...] = module.ORDER
    return order


def prose(script: Path) -> list[str]:
    """Return the texts between the blocks of code, without the signs of comments."""
    cells = _CELL.findall(script.read_text(encoding="utf-8"))
    return [re.sub(r"^# ?", "", cell, flags=re.MULTILINE).strip() for cell in cells]


def title_of(script: Path) -> list[str]:
    """Return the lines of the text at the head of a script."""
    text = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
    assert text is not None
    return text.splitlines()


def test_the_gallery_has_eight_scripts_in_the_order_of_its_page() -> None:
    assert len(SCRIPTS) == 8
    assert sorted(in_order()) == [script.name for script in SCRIPTS]


def test_the_index_leads_to_the_gallery() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    assert "](generated/gallery/index.rst)" in index
    assert re.search(r"```{toctree}.*^generated/gallery/index$", index, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_begins_with_its_title_and_question(script: Path) -> None:
    title, line, blank, *rest = title_of(script)
    assert line == "=" * len(title)
    assert blank == ""
    assert "?" in " ".join(rest)


def test_titles_differ() -> None:
    assert len({title_of(script)[0] for script in SCRIPTS}) == len(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_ends_with_one_paragraph_of_what_it_does_not_show(script: Path) -> None:
    last = prose(script)[-1]
    assert script.read_text(encoding="utf-8").rstrip().endswith(last.splitlines()[-1])
    found = _CLOSING.search(last)
    assert found, f"{script.name} does not end with '{CLOSING}'"
    assert "\n\n" not in found[1].strip()
    assert len(found[1].split()) >= 60


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_uses_public_names_and_installed_libraries(script: Path) -> None:
    code = ast.parse(script.read_text(encoding="utf-8"))
    modules, public = set(), set()
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            public |= {node.attr} if node.value.id == "bc" else set()
    assert "bayescontam" in modules
    assert public
    assert public <= set(bayescontam.__all__)
    inside = [name for name in modules if name.startswith("bayescontam.")]
    assert inside == [], "a script of the gallery imports public names only"
    others = {name.split(".")[0] for name in modules} - LIBRARIES
    assert others <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_has_a_seed_a_picture_and_no_hidden_warning(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    code = ast.parse(text)
    assert "plt.show()" in text
    assert not re.search(r"\bwarnings\b|simplefilter|filterwarnings|catch_warnings", text)
    for node in ast.walk(code):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            given = {word.arg for word in node.keywords}
            if node.func.attr in {"fit", "update", "fit_curve", "power_analysis"}:
                assert "seed" in given, f"{node.func.attr} has no seed"
            if node.func.attr == "sample" and ast.unparse(node.func.value) == "pm":
                assert "random_seed" in given
            if node.func.attr == "default_rng":
                assert node.args, "a generator of random numbers has no seed"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_fit_has_its_checks_on_the_page(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    if "fit(" in text or "fit_curve(" in text:
        assert re.search(r'checks passed|"outcome"\]\.value_counts\(\)', text), "none are counted"
    fitted = re.findall(r"^(\w+) = bc\.(?:fit|fit_curve)\(", text, re.MULTILINE)
    for name in fitted:
        shown = rf"{name}\.checks\(\)|report_checks\({name}\)"
        assert re.search(shown, text), f"the checks of {name} are not printed"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_links_between_pages_lead_to_scripts(script: Path) -> None:
    names = re.findall(r"sphx_glr_generated_gallery_(\w+\.py)", script.read_text(encoding="utf-8"))
    assert [name for name in names if not (FOLDER / name).is_file()] == []


_RUN = """
import runpy, sys
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.show = lambda: plt.gcf().canvas.draw()
runpy.run_path(sys.argv[1])
"""


@pytest.mark.slow
def test_the_quickest_script_runs_without_a_warning() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", _RUN, str(QUICKEST)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert "items give a width of 0.1" in run.stdout
