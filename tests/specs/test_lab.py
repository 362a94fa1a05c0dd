"""Labs: those that ship are whole, and faults are named."""

import pytest

from bayescontam.errors import SpecError
from bayescontam.specs.base import keys_of
from bayescontam.specs.lab import LabSpec
from bayescontam.specs.registry import load_lab, shipped_labs

HEAD = 'summary = "s"\ntexts = 100\nitems = 10\ncontrols = 5\n'
CLEAN = '[[mixes]]\nname = "clean"\nkind = "clean"\n'
EXACT = '[[mixes]]\nname = "exact-2"\nkind = "exact"\ncopies = 2\n'


def test_the_shipped_labs_are_those_known() -> None:
    assert shipped_labs() == ("arithmetic", "smoke")
    lab = load_lab("arithmetic")
    assert (lab.texts, lab.items, lab.controls, lab.exposed_items) == (8000, 200, 100, 100)
    assert {mix.name: (mix.kind, mix.copies) for mix in lab.mixes} == {
        "clean": ("clean", 0), "exact-4": ("exact", 4), "exact-16": ("exact", 16),
        "semantic-4": ("semantic", 4), "semantic-16": ("semantic", 16),
    }  # fmt: skip
    assert (lab.training.epochs, lab.training.batch, lab.training.rate) == (10, 128, 2e-3)
    assert (lab.model.layers, lab.model.width, lab.model.heads) == (2, 96, 4)
    assert load_lab("smoke").texts <= 500


@pytest.mark.parametrize("key", keys_of(LabSpec), ids=lambda key: key.block + key.name)
def test_every_key_has_limits_and_a_meaning(key) -> None:
    assert key.allowed not in ("", "value")
    assert key.meaning.endswith(".")


def test_defaults() -> None:
    lab = LabSpec.parse(HEAD + CLEAN, "mine.toml")
    assert (lab.name, lab.seed, lab.exposed, lab.own_share) == ("mine", 0, 0.5, 0.02)
    assert (lab.training.warmup, lab.training.bases) == (100, 4)
    assert lab.hash == LabSpec.parse(HEAD + "seed = 0 # as ever\n" + CLEAN, "other.toml").hash
    assert lab.hash != LabSpec.parse(HEAD + "seed = 1\n" + CLEAN, "mine.toml").hash


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HEAD + EXACT, "mixes: 0 have kind = 'clean'; exactly one is needed"),
        (HEAD + CLEAN + CLEAN.replace('"clean"', '"twin"', 1),
         r"mixes: 2 have kind = 'clean' \(clean, twin\); exactly one is needed"),
        (HEAD + CLEAN + EXACT + EXACT, "mixes: two have the name 'exact-2'; give each its own"),
        (HEAD + CLEAN + EXACT.replace("exact-2", "CLEAN"), "two have the name 'clean'"),
        (HEAD + CLEAN + EXACT.replace("copies = 2", "copies = 21"),
         r"mixes: 'exact-2' has 105 duplicates \(5 items × 21 copies\) in 100 texts; at most 20"
         " copies fit"),
        (HEAD + CLEAN + EXACT.replace("copies = 2", ""), "kind = 'exact' needs copies = 1 or more"),
        (HEAD + CLEAN + "copies = 3", "kind = 'clean' has no duplicates; got copies = 3, not 0"),
        (HEAD + CLEAN + EXACT.replace("copies = 2", "copies = -1"), "copies: got -1; allowed is 0"),
        (HEAD + CLEAN + EXACT.replace('"exact"', '"exakt"'), "kind: got 'exakt'; did you mean"),
        (HEAD + CLEAN.replace('"clean"', '"../up"', 1), "name: got '../up'; a name of letters"),
        (HEAD + "mixes = []", "mixes: got .*; it must not be empty"),
        (HEAD + "exposed = 0.01\n" + CLEAN,
         "exposed = 0.01 of 10 items is 0; at least one item has to be exposed, and one not"),
        (HEAD + "exposed = 1.0\n" + CLEAN, "exposed: got 1.0; allowed is less than 1"),
        (HEAD.replace("controls = 5", "controls = 1001") + CLEAN, "allowed is 1,000 or less"),
        (HEAD + CLEAN + "[model]\nwidth = 90\n",
         "width = 90 is no multiple of heads = 4; choose one"),
        (HEAD + CLEAN + "[training]\nepoch = 3\n", "training.epoch: unknown key .*'epochs'"),
    ],
)  # fmt: skip
def test_faults_are_named(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        LabSpec.parse(text, "mine.toml")


def test_a_mix_that_just_fits_is_allowed() -> None:
    lab = LabSpec.parse(HEAD + CLEAN + EXACT.replace("copies = 2", "copies = 20"), "mine.toml")
    assert lab.exposed_items * lab.mixes[1].copies == lab.texts
