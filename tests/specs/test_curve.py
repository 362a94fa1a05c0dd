"""Curve specs: the shipped one, what a file may change, and what is refused."""

from pathlib import Path

import pytest

from bayescontam.errors import SpecError
from bayescontam.specs.curve import CurveSpec
from bayescontam.specs.registry import load_curve

HEAD = 'summary = "mine"\n'


def test_the_shipped_spec_is_the_default() -> None:
    """What the file says is what a spec that says nothing means."""
    shipped = load_curve("monotone")
    bare = CurveSpec(summary=shipped.summary, description=shipped.description)
    assert shipped.model_dump() == bare.model_dump()
    assert shipped.hash == bare.hash
    assert shipped.name == "monotone"
    assert "Every judge errs" in shipped.text


def test_a_file_changes_one_thing(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    shipped = load_curve("monotone")
    path.write_text(shipped.text.replace('form = "monotone"', 'form = "logistic"'))
    mine = load_curve(path)
    assert mine.name == "mine"
    assert mine.shape.form == "logistic"
    assert mine.priors == shipped.priors
    assert mine.hash != shipped.hash


def test_layout_does_not_count() -> None:
    one = CurveSpec.parse(HEAD + "[shape]\nknots = [0.2, 0.5]\n", "a.toml")
    other = CurveSpec.parse('# mine\nshape.knots = [0.20, 0.50]\nsummary = "mine"\n', "b.toml")
    assert one.hash == other.hash
    assert one.shape.knots == (0.2, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[shape]\nknots = [0.5, 0.4]", "must rise"),
        ("[shape]\nknots = [0.5, 0.5]", "must rise"),
        ("[shape]\nknots = []", r"shape\.knots"),
        ("[shape]\nknots = [0.5, 1.0]", r"shape\.knots\.1"),
        ("[shape]\nform = 'steps'", r"shape\.form"),
        ("[shape]\nforms = 'logistic'", "did you mean 'form'"),
        (
            "[priors]\nsigma_items = {family = 'half_normal', sigma = 1}",
            "did you mean 'sigma_item'",
        ),
        ("[priors]\nsigma_item = {family = 'normal', sigma = 1}", r"priors\.sigma_item"),
        ("[priors.matches]\nsteepness = {family = 'normal', sigma = 1}", "steepness"),
        ("[judges.people]\nsensitivity = {family = 'beta', alpha = 1, beta = 1}", "specificity"),
        ("[judges.people]\nsensitivity = {family = 'beta', alpha = 0, beta = 1}", "alpha"),
    ],
)
def test_faults_are_named(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        CurveSpec.parse(HEAD + text, "mine.toml")
    assert "mine.toml" in str(caught.value)


def test_an_unknown_name_has_a_suggestion() -> None:
    with pytest.raises(SpecError, match=r"no such curve spec \(did you mean 'monotone'\?\)"):
        load_curve("monoton")
