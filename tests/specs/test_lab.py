"""Labs: those that ship are whole, and faults are named."""

import hashlib
import json
from itertools import chain

import pytest

from bayescontam.errors import SpecError
from bayescontam.specs.base import keys_of
from bayescontam.specs.lab import LabSpec
from bayescontam.specs.registry import load_lab, load_recipe, shipped_labs

TOP = 'summary = "s"\ntexts = 100\n'
MADE = "[arithmetic]\nitems = 10\ncontrols = 5\n"
FILES = '[files]\nbackground = "texts.jsonl"\nbenchmark = "quiz.jsonl"\n'
HEAD = TOP + MADE
CLEAN = '[[mixes]]\nname = "clean"\nkind = "clean"\n'
EXACT = '[[mixes]]\nname = "exact-2"\nkind = "exact"\ncopies = 2\n'
SEMANTIC = EXACT.replace("exact", "semantic")


def test_the_shipped_labs_are_whole() -> None:
    assert {"arithmetic", "smoke"} <= {*shipped_labs()}
    for name in shipped_labs():
        lab = load_lab(name)
        assert lab.name == name
        assert lab.description or name == "smoke"
    kinds = {mix.kind for mix in load_lab("arithmetic").mixes}
    assert kinds == {"clean", "near", "exact", "semantic"}
    assert load_lab("smoke").texts <= 500


def test_folders_of_before_checkpoints_stay_valid() -> None:
    """Without them the hash is that of a spec which does not know the key."""
    lab = LabSpec.parse(HEAD + CLEAN, "mine.toml")
    content = lab.model_dump()
    assert content["training"].pop("checkpoints") is False
    before = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    off, on = (
        LabSpec.parse(f"{HEAD}{CLEAN}[training]\ncheckpoints = {value}\n", "mine.toml")
        for value in ("false", "true")
    )
    assert (lab.hash, off.hash) == (before, before)
    assert on.hash != before


@pytest.mark.parametrize("key", keys_of(LabSpec), ids=lambda key: key.block + key.name)
def test_every_key_has_limits_and_a_meaning(key) -> None:
    assert key.allowed not in ("", "value")
    assert key.meaning.endswith(".")


def test_defaults() -> None:
    lab = LabSpec.parse(HEAD + CLEAN, "mine.toml")
    assert (lab.name, lab.seed, lab.exposed, lab.twin) == ("mine", 0, 0.5, "clean")
    assert lab.arithmetic is not None
    assert (lab.arithmetic.own_share, lab.arithmetic.question_share) == (0.02, 0.0)
    assert (lab.files, lab.pretraining, lab.training.lora) == (None, None, None)
    assert (lab.training.warmup, lab.training.bases, lab.answers.k) == (100, 4, 8)
    assert lab.hash == LabSpec.parse("seed = 0 # as ever\n" + HEAD + CLEAN, "other.toml").hash
    assert lab.hash != LabSpec.parse("seed = 1\n" + HEAD + CLEAN, "mine.toml").hash
    text = HEAD + CLEAN + "[training.lora]\n[pretraining]\ntexts = 10\n"
    lora = LabSpec.parse(text, "mine.toml").training.lora
    assert lora is not None
    assert (lora.rank, lora.alpha, lora.dropout) == (16, 32, 0.05)  # soft_contamination_v1, table 7


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TOP + CLEAN, r"texts come from \[arithmetic\] or from \[files\]; give one of them"),
        (HEAD + FILES + CLEAN, r"texts come from \[arithmetic\] or from \[files\]; give one"),
        (HEAD + EXACT, "mixes: none has kind = 'clean'; at least one is needed, the twin"),
        (HEAD + CLEAN + EXACT + EXACT, "mixes: two have the name 'exact-2'; give each its own"),
        (HEAD + CLEAN + EXACT.replace("exact-2", "CLEAN"), "two have the name 'clean'"),
        (HEAD + CLEAN + EXACT.replace("exact-2", "Base"),
         "mixes: 'base' is the name of what precedes them; choose another"),
        (HEAD + CLEAN + EXACT.replace("copies = 2", "copies = 21"),
         r"mixes: 'exact-2' has 105 duplicates \(5 items × 21 copies\) in 100 texts; allowed are"
         " 20 copies at most"),
        (HEAD + CLEAN + EXACT.replace("copies = 2", ""), "kind = 'exact' needs copies = 1 or more"),
        (HEAD + CLEAN + "copies = 3", "kind = 'clean' has no duplicates; got copies = 3, not 0"),
        (HEAD + CLEAN + EXACT.replace("copies = 2", "copies = -1"), "copies: got -1; allowed is 0"),
        (HEAD + CLEAN + EXACT.replace('"exact"', '"exakt"'), "kind: got 'exakt'; did you mean"),
        (HEAD + CLEAN.replace('"clean"', '"../up"', 1), "name: got '../up'; a name of letters"),
        ("mixes = []\n" + HEAD, "mixes: got .*; it must not be empty"),
        ("exposed = 0.01\n" + HEAD + CLEAN,
         "exposed = 0.01 of 10 items is 0; at least one item has to be exposed, and one not"),
        ("exposed = 1.0\n" + HEAD + CLEAN, "exposed: got 1.0; allowed is less than 1"),
        (HEAD.replace("controls = 5", "controls = 1001") + CLEAN, "allowed is 1,000 or less"),
        (HEAD + "own_share = 0.6\nquestion_share = 0.5\n" + CLEAN,
         "arithmetic: own_share = 0.6 and question_share = 0.5 add up to more than 1"),
        (HEAD + CLEAN + SEMANTIC + 'levels = ["a"]\n',
         r"mixes: 'semantic-2' has levels, which are for \[files\]"),
        (TOP + FILES + CLEAN + EXACT + 'levels = ["a"]\n',
         "kind = 'exact' has no levels; leave them out"),
        (TOP + FILES + CLEAN + SEMANTIC, "'semantic-2' is semantic; give files.duplicates"),
        (HEAD + CLEAN + '[answers]\ngrade = "tests"\n',
         r"answers.grade = 'tests' is for \[files\] with programs"),
        (HEAD + CLEAN + '[answers]\ngrade = "regex"\n', "grade = 'regex' needs a pattern"),
        (HEAD + CLEAN + '[answers]\npattern = "(a)"\n', "grade = 'exact' has no pattern"),
        (HEAD + CLEAN + '[answers]\ngrade = "regex"\npattern = "a"\n',
         "pattern: has no group; put what is the answer in brackets"),
        (HEAD + CLEAN + '[answers]\ngrade = "regex"\npattern = "(a"\n',
         "pattern: no regular expression: missing"),
        (HEAD + CLEAN + "[model]\nwidth = 90\n",
         "width = 90 is no multiple of twice heads = 4; choose one"),
        (HEAD + CLEAN + '[model]\nname = "a/b"\nlayers = 2\n',
         "name = 'a/b' has its own layers; leave one out"),
        (HEAD + CLEAN + '[model]\nrevision = "main"\n',
         "revision goes with name; a new model has none"),
        (HEAD + CLEAN + "[training.lora]\nrank = 4\n",
         r"training\.lora needs a model to start from; give \[pretraining\] or model\.name"),
        (TOP + FILES + 'answer = "So"\n' + CLEAN, r"answer: allowed is \$answer; a dollar sign is"),
        (TOP + FILES + 'instruction = "In $ten"\n' + CLEAN,
         r"instruction: allowed is \$function and \$tests; a dollar sign is"),
        (HEAD + CLEAN + "[training]\nepoch = 3\n", "training.epoch: unknown key .*'epochs'"),
    ],
)  # fmt: skip
def test_faults_are_named(text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        LabSpec.parse(text, "mine.toml")


def test_a_mix_that_just_fits_is_allowed() -> None:
    lab = LabSpec.parse(HEAD + CLEAN + EXACT.replace("copies = 2", "copies = 20"), "mine.toml")
    assert lab.count_exposed(10) * lab.mixes[1].copies == lab.texts


def test_a_second_clean_mix_is_not_the_twin() -> None:
    lab = LabSpec.parse(HEAD + EXACT + CLEAN + CLEAN.replace('"clean"', '"again"', 1), "mine.toml")
    assert lab.twin == "clean"


PUBLISHED = {
    # model, texts, seen of items, epochs, rate, KL: soft_contamination_v1, table 7 (A.3.2), and
    # sections 3.4 and 4.3; n = 125, 500 and 210 of seen items: soft_contamination_v2, section 4.3.
    # Texts: two duplicates of an item at each level (MuSR, A.3.1), one by each chain (ZebraLogic).
    "finetuning-musr": ("allenai/Olmo-3-7B-Instruct", 250, (125, 250), 6, 2e-4, 0.0, 16, 32),
    "finetuning-zebralogic": (
        "allenai/Olmo-3-7B-Instruct",
        500,
        (500, 1000),
        10,
        2e-4,
        0.0,
        16,
        32,
    ),
    "finetuning-mbpp": ("allenai/Olmo-3-7B-Instruct", 1050, (210, 421), 10, 1.5e-4, 0.02, 16, 32),
    # soft_contamination_v1, section 4.4 and B.2.1; soft_contamination_v2, section 4.4 (base model).
    # Not printed: rate and alpha.
    "ecological-musr": ("allenai/Olmo-3-1025-7B", 10_000, (125, 250), 5, 2e-4, 0.0, 64, 128),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_labs_have_the_published_numbers(name: str) -> None:
    model, texts, (seen, items), epochs, rate, kl, rank, alpha = PUBLISHED[name]
    lab = load_lab(name)
    assert (lab.model.name, lab.texts, lab.count_exposed(items)) == (model, texts, seen)
    assert lab.halves == "first"  # "the first 125 MuSR samples", B.2.1; "the first 500", A.3.1
    training = lab.training
    assert (training.epochs, training.rate, training.kl, training.bases) == (epochs, rate, kl, 1)
    assert training.lora is not None
    assert (training.lora.rank, training.lora.alpha) == (rank, alpha)
    assert training.lora.dropout == 0.05  # table 7, B.2.1
    assert lab.pretraining is None
    replies = 20 if name == "ecological-musr" else 8  # v2, section 4.4; v1, section 3.4
    assert (lab.answers.k, lab.answers.temperature) == (replies, 0.7)
    duplicates = {mix.name: mix.copies * seen for mix in lab.mixes if mix.kind != "clean"}
    wanted = 500 if name == "ecological-musr" else texts  # 5 % of 10,000; else duplicates alone
    assert {*duplicates.values()} == {wanted}
    assert {mix.kind for mix in lab.mixes} >= {"clean", "exact", "semantic"}


def test_the_published_mixes_have_the_published_levels() -> None:
    found = {
        name: [mix.levels for mix in load_lab(name).mixes if mix.kind == "semantic"]
        for name in PUBLISHED
    }
    story = [(f"level-{level}+story",) for level in range(3)]
    chains = ("paraphrase", "shuffle+substitute", "shuffle+paraphrase",
              "shuffle+substitute+paraphrase")  # fmt: skip
    assert found == {
        "finetuning-musr": story,  # tables 2 and 8
        "finetuning-zebralogic": [(chain,) for chain in chains],  # table 3
        "finetuning-mbpp": [("solution",)],  # table 4, "Semantic Dups (Py)"
        "ecological-musr": [(*story[1], *story[2])],  # section 4.4: two of level 2, two of level 3
    }
    for name, levels in found.items():
        files = load_lab(name).files
        assert files is not None
        assert {*chain(*levels)} <= {*load_recipe(files.recipe).chains}
