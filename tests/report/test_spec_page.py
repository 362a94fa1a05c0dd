"""Pages of model specs: everything is there, nothing is stale, nothing is marked up by chance."""

import re
from pathlib import Path

import pytest

from bayescontam.model.describe import mathematics, prior_meanings
from bayescontam.report.fit_page import fit_assumptions
from bayescontam.report.model_page import spec_assumptions, spec_page, write_spec_pages
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model, shipped_folder, shipped_models
from tests.support.given_fits import rough_fit


def unescaped(page: str) -> str:
    """Return what a reader sees: without the backslashes that keep Markdown away."""
    return re.sub(r"\\([^a-zA-Z0-9\s])", r"\1", page)


def fenced(page: str, heading: str) -> str:
    """Return the block below a heading, between its fences."""
    below = page.split(f"\n## {heading}\n")[1]
    mark, rest = re.findall(r"^(`{3,})\w+\n(.*)", below, re.MULTILINE | re.DOTALL)[0]
    return str(rest.split(f"\n{mark}\n")[0])


def assert_whole(page: str, spec: ModelSpec) -> None:
    """Assert that a page holds all that there is to report of a model spec."""
    assert fenced(page, "Mathematics").splitlines() == "\n".join(mathematics(spec)).splitlines()
    assert fenced(page, "File") == spec.text.strip("\n")
    seen = unescaped(page)
    assert spec.summary in seen
    assert all(line in seen for line in spec.description.splitlines())
    for name, prior, meaning in prior_meanings(spec):
        assert f"| `{name}` | `{prior}` | {meaning} |" in seen
    for line in spec_assumptions(spec):
        assert f"\n- {line}\n" in seen


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_spec_has_a_whole_page(name: str, tmp_path: Path) -> None:
    [path] = [path for path in write_spec_pages(tmp_path) if path.stem == name]
    page = path.read_text(encoding="utf-8")
    assert page.startswith(f"# {name.replace('_', chr(92) + '_')}\n")
    assert_whole(page, load_model(name))
    assert f"bayescontam models prior {name} " in page
    assert f"--model {name} --out fit.nc" in page


def test_pages_follow_the_specs(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "models"
    pages = write_spec_pages(folder)
    assert [path.stem for path in pages] == list(shipped_models())
    assert sorted(folder.iterdir()) == sorted(pages)
    (folder / "gone.md").write_text("# gone\n", encoding="utf-8")
    stale = folder / "single.md"
    text = stale.read_text(encoding="utf-8")
    stale.write_text(text.replace("Normal(0, 2)", "Normal(0, 3)"), encoding="utf-8")
    before = {path: path.stat().st_mtime_ns for path in pages}
    write_spec_pages(folder)
    assert sorted(folder.iterdir()) == sorted(pages)
    assert stale.read_text(encoding="utf-8") == text
    # What has not changed is not written anew, so that only changed pages are built anew.
    changed = [path for path in pages if path.stat().st_mtime_ns != before[path]]
    assert changed == [stale]


def test_a_spec_of_ones_own_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "my spec.toml"
    text = (shipped_folder("models") / "anchored.toml").read_text(encoding="utf-8")
    path.write_text(text.replace('clean_column = "clean" ', 'clean = ["a|b", "*c*"] '), "utf-8")
    spec = load_model(path)
    page = spec_page(spec, str(path))
    assert_whole(page, spec)
    assert f"bayescontam models prior '{path}' " in page
    assert "'a|b', '*c*' are assumed to be clean" in unescaped(page)
    # Neither makes a cell or a word in italics.
    assert r"'a\|b', '\*c\*' are assumed" in page


def test_what_looks_like_markdown_is_text() -> None:
    text = (
        'summary = "<b>*x*</b> | `y` [z](u) $w$"\n'
        'description = """\nCode stays: `a_b*c`.\nA lone ` and _this_ do not.\n"""\n'
        "# a fence: ````\n"
    )
    page = spec_page(ModelSpec.parse(text, "hostile.toml"))
    assert r"\<b\>\*x\*\</b\> \| \`y\` \[z\](u) \$w\$" in page
    assert "Code stays: `a_b*c`.\nA lone \\` and \\_this\\_ do not." in page
    assert page.endswith(f"`````toml\n{text.strip()}\n`````\n")


def test_a_fit_that_lacks_a_term_does_not_assume_it() -> None:
    fit = rough_fit()
    assert "delta" not in fit.record["entered"]
    assert fit_assumptions(fit) == spec_assumptions(fit.spec)
    hierarchical = spec_assumptions(load_model("hierarchical"))
    assert any(line.startswith("The difficulty of an item") for line in hierarchical)
    assert not any(line.startswith("The difficulty of an item") for line in fit_assumptions(fit))
