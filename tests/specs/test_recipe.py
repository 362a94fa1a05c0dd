"""Recipes: those that ship are whole and run, and faults are named."""

import pytest

from bayescontam.duplicates.kinds import KINDS, kind_of
from bayescontam.errors import SpecError
from bayescontam.specs.recipe import Recipe
from bayescontam.specs.registry import load_recipe, shipped_recipes

SHIPPED = (
    "arc", "code", "codeforces", "humaneval", "logic-grid", "mbpp", "musr", "paraphrase", "story",
    "zebralogic",
)  # fmt: skip
BARE = 'summary = "s"\nkind = "{kind}"\nchains = ["{chain}"]\n'


def test_the_shipped_recipes_are_those_known() -> None:
    assert shipped_recipes() == SHIPPED
    assert {load_recipe(name).kind for name in SHIPPED} == {*KINDS}


@pytest.mark.parametrize("name", SHIPPED)
def test_chains_of_shipped_recipes_are_steps_of_their_kind(name: str) -> None:
    recipe = load_recipe(name)
    kind = kind_of(recipe)
    assert all(kind.chain(chain) for chain in recipe.chains)
    assert len({*recipe.chains}) == len(recipe.chains)
    assert 10 < len(recipe.summary) <= 100


@pytest.mark.parametrize("name", SHIPPED)
def test_a_models_steps_come_last(name: str) -> None:
    """Plain steps change what the text was read into; a model changes the text alone."""
    kind = kind_of(load_recipe(name))
    written = [step in kind.written for step in kind.steps]
    assert written == sorted(written)


def test_published_settings() -> None:
    """Appendix A.3 of "Soft Contamination Means Benchmarks Test Shallow Generalization"."""
    mbpp, musr, zebra = map(load_recipe, ("mbpp", "musr", "zebralogic"))
    assert (mbpp.copies, mbpp.items, mbpp.writing.together) == (5, 427, 5)
    assert (mbpp.writing.max_tokens, mbpp.writing.temperature) == (1024, 1.0)
    assert mbpp.writing.most_similar == 0.85
    assert (musr.copies, musr.items, len(musr.chains)) == (2, 250, 3)  # 1,500 a task
    assert (musr.writing.max_tokens, musr.writing.temperature) == (2400, 1.0)
    assert zebra.first == 500
    assert {*zebra.chains} == {
        "paraphrase", "shuffle+substitute", "shuffle+paraphrase", "shuffle+substitute+paraphrase"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BARE.format(kind="grid", chain="shuffle"), "kind"),
        (BARE.format(kind="code", chain="rename"), "needs fields.tests"),
        (BARE.format(kind="arc", chain="turn") + "copies = 0\n", "copies"),
        (BARE.format(kind="arc", chain="turn") + "[fields]\nname = 'x'\n", "fields.name"),
        (BARE.format(kind="arc", chain="turn") + "[writing]\nmost_similar = 2\n", "most_similar"),
        ('summary = "s"\nkind = "arc"\nchains = []\n', "chains"),
    ],
)
def test_faults_are_named(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        Recipe.parse(text, "mine.toml")
