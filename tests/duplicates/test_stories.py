"""Stories over trees of facts: made, narrated, changed, checked and read."""

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bayescontam.duplicates.items import DuplicateError
from bayescontam.duplicates.musr import (
    read_musr,
    read_story,
)
from bayescontam.duplicates.stories import (
    Fact,
    Story,
    branches,
    changed_branches,
    check_duplicate,
    check_written,
    known_material,
    mutate,
    narrate,
    new_murder,
    new_team,
)
from bayescontam.errors import UsageError

NEW: dict[str, Callable[[np.random.Generator], Story]] = {"murder": new_murder, "team": new_team}
SCORES = {"bad": 1, "okay": 2, "good": 3, "badly": 1, "well": 3}
TASKS = ("Beekeeper", "Tax Clerk")


def made(kind: str, seed: int) -> Story:
    return NEW[kind](np.random.default_rng(seed))


def nodes(fact: Fact) -> Iterator[Fact]:
    yield fact
    for child in fact.children:
        yield from nodes(child)


def stated(fact: Fact) -> list[str]:
    return [node.text for node in nodes(fact) if not node.children and node.kind == "stated"]


def right_choice(story: Story) -> int:
    """Return the answer by reading the sentences of the branches one by one."""
    heads = [branch.text for tree in story.trees for branch in tree.children]
    if story.kind == "murder":
        guilty = [
            at
            for at, name in enumerate(story.choices)
            if all(
                any(
                    head.startswith(f"{name} has ") and head.endswith(f" {word}.") for head in heads
                )
                for word in ("means", "motive", "opportunity")
            )
        ]
        assert len(guilty) == 1
        return guilty[0]
    totals = []
    for choice in story.choices:
        jobs = dict(part.split(": ") for part in re.split(r", (?=[^,]+: )", choice))
        (task, one), (other, pair) = jobs.items()
        wanted = [(one, task.lower()), *((name, other.lower()) for name in pair.split(" and "))]
        total = 0
        for head in heads:
            text = head.rstrip(".")
            skill, together = " at " in text, text.endswith(" together")
            if skill and (text.split(" is ")[0], text.split(" at ")[1]) in wanted:
                total += SCORES[text.split(" is ")[1].split(" at ")[0]]
            if together and {*text.split(" work ")[0].split(" and ")} == {*pair.split(" and ")}:
                total += SCORES[text.split()[-2]]
        totals.append(total)
    assert totals.count(max(totals)) == 1
    return int(np.argmax(totals))


@pytest.mark.parametrize("kind", ["murder", "team"])
def test_duplicates_of_new_stories_have_the_answer_of_their_item(kind: str) -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        story = NEW[kind](rng)
        assert story.answer == right_choice(story)
        for level in (0, 1, 2):
            child = mutate(story, level, rng)
            text = narrate(child, rng)
            check_duplicate(story, child, child.item_text(text), level)
            assert child.answer == right_choice(child) == story.answer
            assert child.choices == story.choices
            changed = {*changed_branches(story, child)}
            if level < 2:
                assert len(changed) == level
                ending = ": suspicious" if kind == "murder" else ": "
                assert all(ending in key for key in changed)
            else:
                assert changed == innocent(story)
            if kind == "murder":
                assert len(innocent(story)) == 3
                assert changed <= innocent(story)
                at = story.answer
                assert child.trees[at] == story.trees[at]
            # Stated facts stand in the text, all others do not; those replaced are gone.
            for tree in child.trees:
                for node in nodes(tree):
                    shown = node.text.rstrip(".").lower() in text.lower()
                    premise = kind == "team" and node is tree
                    assert shown == (node.kind == "stated" or premise)
            for key in changed:
                old, new = branches(story)[key], branches(child)[key]
                assert not {*stated(old)} & {*stated(new)}
                assert not any(fact.rstrip(".") in text for fact in stated(old))
                assert old.text == new.text  # the kind, and the level, are the same


@pytest.mark.parametrize("kind", ["murder", "team"])
def test_stories_have_their_form(kind: str) -> None:
    places, firsts, texts = Counter[int](), set[str](), set[str]()
    for seed in range(200):
        story = made(kind, seed)
        places[story.answer] += 1
        found = branches(story)
        facts = [fact for branch in found.values() for fact in stated(branch)]
        assert len({*facts}) == len(facts) == (24 if kind == "murder" else 18)
        text = narrate(story, np.random.default_rng(seed))
        firsts.add(text.split(". ")[0])
        texts.add(text)
        assert story.premise in text
        assert not re.search(r"[{}]|\.\.|  ", text)
        assert len(text.split("\n\n")) >= len(story.names) + 2
        item = story.item_text(text)
        assert item.startswith(f"{text}\n\n{story.question}\n\nA. {story.choices[0]}\nB. ")
        assert item.endswith(f". {story.choices[-1]}")
    # No place of the answer is more frequent than chance allows (five standard errors).
    choices = 2 if kind == "murder" else 3
    assert all(abs(places[at] - 200 / choices) < 5 * np.sqrt(50) for at in range(choices))
    assert len(texts) == 200
    assert len(firsts) >= 8


@pytest.mark.parametrize("kind", ["murder", "team"])
def test_narrations_of_a_tree_differ_and_depend_on_the_seed_alone(kind: str) -> None:
    assert made(kind, 3) == made(kind, 3)
    assert made(kind, 3) != made(kind, 4)
    story = made(kind, 3)
    texts = [narrate(story, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    child, again = (mutate(story, 2, np.random.default_rng(7)) for _ in range(2))
    assert child == again


@pytest.mark.parametrize("kind", ["murder", "team"])
def test_stories_are_stored(kind: str) -> None:
    story = made(kind, 1)
    value = json.loads(json.dumps(story.as_json()))
    assert Story.from_json(value) == story
    for answer in (story.answer, story.choices[story.answer]):
        assert read_story({"tree": value, "answer": answer}) == story
    with pytest.raises(DuplicateError, match="is not that of its trees"):
        read_story({"tree": value, "answer": "Nobody"})
    changes: list[dict[str, Any]] = [{"trees": [{}]}, {"slots": 3}, {"more": 1}, {"names": []}]
    for broken in (None, {}, *(value | change for change in changes)):
        with pytest.raises(DuplicateError):
            Story.from_json(broken)


@pytest.mark.parametrize("kind", ["murder", "team"])
@pytest.mark.parametrize(
    "change",
    [
        {"question": 5}, {"premise": None}, {"choices": [1, 2]}, {"choices": "AB"},
        {"kind": "duel"},
        {"trees": [{"text": 5, "children": [], "kind": "deduced"}]}, {"trees": 5}, {"trees": []},
        {"names": [None, 3]}, {"slots": {"first": 1}}, {"slots": {}}, {"names": ["A", "B", "C"]},
        {"trees": [{"text": "a", "children": 3, "kind": "deduced"}]},
    ],
)  # fmt: skip
def test_odd_trees_are_refused(kind: str, change: dict[str, Any]) -> None:
    story = made(kind, 1)
    value = json.loads(json.dumps(story.as_json())) | change
    with pytest.raises(DuplicateError):
        Story.from_json(value)
    with pytest.raises(DuplicateError):
        read_story({"tree": value, "answer": story.answer})


@pytest.mark.parametrize("tree", [None, 5, "text", [], {}])
def test_what_is_no_tree_is_refused(tree: Any) -> None:
    with pytest.raises(DuplicateError, match="it is no story with trees of facts"):
        read_story({"tree": tree, "answer": 0})


def test_another_level_is_refused() -> None:
    with pytest.raises(UsageError, match="allowed are 0, 1 and 2"):
        mutate(made("team", 1), 3, np.random.default_rng(1))


# Planted faults


def put(story: Story, key: str, branch: Fact) -> Story:
    """Return a story with another branch in the place of one."""
    old = branches(story)[key]
    trees = (
        replace(tree, children=tuple(branch if each is old else each for each in tree.children))
        for tree in story.trees
    )
    return replace(story, trees=tuple(trees))


def case(kind: str, level: int) -> tuple[Story, Story, str, np.random.Generator]:
    rng = np.random.default_rng(11)
    story = NEW[kind](rng)
    child = mutate(story, level, rng)
    return story, child, child.item_text(narrate(child, rng)), rng


def part(story: Story, text: str) -> str:
    """Return the story without its question and its choices."""
    return text.removesuffix(story.item_text(""))


def narrated_with(story: Story, text: str, more: str) -> str:
    """Return an item with more at the end of its story."""
    return story.item_text(part(story, text) + more)


def innocent(story: Story) -> set[str]:
    """Return the branches of all but the one that the answer names."""
    return {key for key in branches(story) if key.split(": ")[0] != story.choices[story.answer]}


def test_a_changed_branch_of_the_murderer_is_found() -> None:
    story, child, _, rng = case("murder", 1)
    key = f"{story.choices[story.answer]}: motive"
    donor = next(
        branches(mystery)[f"{mystery.names[at]}: motive"]
        for mystery in map(new_murder, [np.random.default_rng(seed) for seed in range(9)])
        for at in range(2)
        if f"{mystery.names[at]}: motive" in branches(mystery)
    )
    fault = put(child, key, replace(donor, text=branches(child)[key].text))
    with pytest.raises(DuplicateError, match=f"its level leaves as it is: '{key}'"):
        check_duplicate(story, fault, fault.item_text(narrate(fault, rng)), 1)


@pytest.mark.parametrize("kind", ["murder", "team"])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_fact_that_is_left_out_or_added_is_found(kind: str, level: int) -> None:
    story, child, text, _ = case(kind, level)
    fact = stated(child.trees[0])[0].rstrip(".")
    at = text.lower().index(fact.lower())
    missing = text[:at] + "nothing" + text[at + len(fact) :]
    with pytest.raises(DuplicateError, match="a stated fact is not in its text"):
        check_duplicate(story, child, missing, level)
    check_duplicate(story, child, missing, level, verbatim=False)
    tree = child.trees[0].children[0]
    hidden = [node.text for node in nodes(tree) if node.kind != "stated"]
    assert hidden
    for each in hidden:
        for words in (each, each.upper(), each.rstrip(".")):
            with pytest.raises(DuplicateError, match="or a rule of common sense is in its text"):
                check_duplicate(story, child, narrated_with(child, text, f" {words}"), level)
    for key in changed_branches(story, child):
        old = stated(branches(story)[key])[0]
        with pytest.raises(DuplicateError, match="is still in its text"):
            check_duplicate(story, child, narrated_with(child, text, f" {old}"), level)
    spoilt = child.item_text(part(child, text).replace(story.names[1], "X"))
    with pytest.raises(DuplicateError, match=f"a name is not in its text: '{story.names[1]}'"):
        check_duplicate(story, child, spoilt, level)


@pytest.mark.parametrize("kind", ["murder", "team"])
def test_an_answer_that_is_not_mapped_is_found(kind: str) -> None:
    story, child, text, _ = case(kind, 1)
    turned = child.choices[1:] + child.choices[:1]
    with pytest.raises(DuplicateError, match="another place among its choices"):
        check_duplicate(story, replace(child, choices=turned), text, 1)
    with pytest.raises(
        DuplicateError, match="beside its trees is not that of its item: 'question'"
    ):
        check_duplicate(story, replace(child, question="Who?"), text, 1)
    renamed = replace(child, names=(*child.names[:-1], "Somebody"))
    with pytest.raises(DuplicateError):
        check_duplicate(story, renamed, text, 1)


def test_another_murderer_is_found() -> None:
    story, _, text, _ = case("murder", 0)
    suspect = story.names[1 - story.answer]
    kinds = {key.split(": ")[1] for key in innocent(story)}
    [missing] = {"means", "motive", "opportunity"} - kinds
    key = f"{suspect}: suspicious"
    both = put(story, key, replace(branches(story)[key], text=f"{suspect} has a {missing}."))
    with pytest.raises(DuplicateError, match="not of the kinds of those of its item"):
        check_duplicate(story, both, text, 0)
    with pytest.raises(DuplicateError, match="not exactly one has means, motive and opportunity"):
        _ = both.answer
    swapped = replace(story, names=story.names[::-1])
    with pytest.raises(DuplicateError, match="not of the kinds of those of its item"):
        check_duplicate(story, swapped, text, 0)


def test_a_changed_level_of_skill_or_cooperation_is_found() -> None:
    story, child, text, _ = case("team", 1)
    for key, branch in branches(story).items():
        for old, new in (("good", "okay"), ("okay", "bad"), ("bad", "okay"), ("well", "badly")):
            if f" {old} " in branch.text:
                fault = put(child, key, replace(branch, text=branch.text.replace(old, new, 1)))
                with pytest.raises(DuplicateError, match="a level of skill or cooperation"):
                    check_duplicate(story, fault, text, 1)


@pytest.mark.parametrize("kind", ["murder", "team"])
def test_the_number_of_changed_branches_is_that_of_the_level(kind: str) -> None:
    story, child, text, rng = case(kind, 1)
    unchanged = story.item_text(narrate(story, rng))
    with pytest.raises(DuplicateError, match=r"not as many branches are changed.*0, not 1"):
        check_duplicate(story, story, unchanged, 1)
    with pytest.raises(DuplicateError, match=r"not as many branches are changed.*1, not 0"):
        check_duplicate(story, child, text, 0)
    with pytest.raises(DuplicateError, match="not as many branches are changed as its level"):
        check_duplicate(story, child, text, 2)
    changed = changed_branches(story, child)
    if kind == "team":  # two skills, and a pair
        skills = [key for key in branches(child) if ": " in key]
        whole = branches(mutate(story, 2, rng))
        second = next(key for key in skills if key not in changed)
        two = put(child, second, whole[second])
        with pytest.raises(DuplicateError, match=r"not as many branches are changed.*2, not 1"):
            check_duplicate(story, two, two.item_text(narrate(two, rng)), 1)
        pair = next(key for key in branches(child) if ": " not in key)
        one = put(story, pair, whole[pair])
        with pytest.raises(DuplicateError, match=f"leaves as it is: '{pair}'"):
            check_duplicate(story, one, one.item_text(narrate(one, rng)), 1)
    else:
        key = next(key for key in branches(story) if key in innocent(story) and key not in changed)
        two = put(child, key, branches(mutate(story, 2, rng))[key])
        with pytest.raises(DuplicateError, match=f"its level leaves as it is: '{key}'"):
            check_duplicate(story, two, two.item_text(narrate(two, rng)), 1)


def test_a_changed_branch_has_no_fact_of_the_old_one() -> None:
    story, child, _, rng = case("team", 1)
    [key] = changed_branches(story, child)
    old, new = branches(story)[key], branches(child)[key]
    mixed = put(child, key, replace(new, children=(old.children[0], *new.children[1:])))
    with pytest.raises(DuplicateError, match="has a stated fact of its item's"):
        check_duplicate(story, mixed, mixed.item_text(narrate(mixed, rng)), 1)


# Texts with other endings, sentences or hints

MODES = [pytest.param(True, id="narrator"), pytest.param(False, id="model")]


@pytest.mark.parametrize("kind", ["murder", "team"])
@pytest.mark.parametrize("verbatim", MODES)
def test_question_and_choices_are_those_of_the_item(kind: str, verbatim: bool) -> None:
    story, child, text, _ = case(kind, 1)
    check_duplicate(story, child, text, 1, verbatim=verbatim)
    tale = part(child, text)
    turned = replace(child, choices=child.choices[::-1])
    faults = [
        tale, f"{tale}\n\n{child.question}", text.replace(child.question, "Who sings best?"),
        turned.item_text(tale), f"{text}\nC. Nobody", f"{text}\n", text.replace("\nA. ", "\n1. "),
    ]  # fmt: skip
    for fault in faults:
        assert fault != text
        with pytest.raises(DuplicateError, match="does not end with the question and the lettered"):
            check_duplicate(story, child, fault, 1, verbatim=verbatim)
    for name in child.names:
        with pytest.raises(DuplicateError, match=f"a name is not in its text: '{name}'"):
            check_duplicate(
                story, child, child.item_text(tale.replace(name, "X")), 1, verbatim=verbatim
            )


@pytest.mark.parametrize("kind", ["murder", "team"])
def test_a_narrated_story_has_known_sentences_alone(kind: str) -> None:
    story, child, text, _ = case(kind, 1)
    tale, b = part(child, text), child.names[1]
    paragraphs = tale.split("\n\n")
    sentence = paragraphs[1].split(". ")[-1]
    faults = [
        f"{tale} The murderer is of course {b}.", f"{tale}\n\n{b} is guilty.",
        tale.replace("\n\n", f"\n\n{b} is guilty. ", 1), f"{b} is guilty. {tale}",
        "\n\n".join(paragraphs[:-1]), "\n\n".join(paragraphs[1:]),
        "\n\n".join([*paragraphs[:2], "A dog barked.", *paragraphs[2:]]),
        tale.replace(sentence, f"{sentence} It is not true."),
        tale.replace(sentence, f"{sentence} {sentence}"),
        "\n\n".join([*paragraphs[:-1], paragraphs[1], paragraphs[-1]]),
        tale.replace(sentence, f"Nobody believed that {sentence}"),
    ]  # fmt: skip
    for fault in faults:
        assert fault != tale
        with pytest.raises(DuplicateError, match="more, or less, than its facts in known sent"):
            check_duplicate(story, child, child.item_text(fault), 1)


def by_model(story: Story) -> str:
    """Return a story as a model may write it."""
    facts = (f"This is known. {fact}" for fact in story.facts)
    return f"It was late. {story.premise}\n\n" + " ".join(facts)


@pytest.mark.parametrize("kind", ["murder", "team"])
def test_a_story_by_a_model_is_one(kind: str) -> None:
    story, child, _, _ = case(kind, 0)
    tale = by_model(child)
    check_written(child, tale)
    check_duplicate(story, child, child.item_text(tale), 0, verbatim=False)
    words, names = tale.split(), " ".join(child.names)
    rule = child.trees[0].children[0].texts("commonsense", "deduced")[-1]
    faults = {
        "its story is empty": " \n",
        "a name is not in its text": tale.replace(child.names[0], "Somebody"),
        "fewer words than half of its facts": f"{names}. " + " ".join(words[: len(words) // 5]),
        "it has a heading": f"# The Tale\n\n{tale}",
        "has a heading": f"**The Tale**\n\n{tale}",
        "begins with words about the story": f"Here is your story:\n\n{tale}",
        "its last sentence has no end": tale + " And then",
        "its question is within its story": f"{tale}\n\n{child.question}",
        "a deduced fact or a rule of common sense": f"{tale} {rule}",
    }
    for reason, fault in faults.items():
        with pytest.raises(DuplicateError, match=reason):
            check_written(child, fault)
        with pytest.raises(DuplicateError, match=reason):
            check_duplicate(story, child, child.item_text(fault), 0, verbatim=False)


@pytest.mark.parametrize(
    "hint",
    [
        "The murderer is of course {b}.", "{b} is guilty.", "{b}, then, was the killer!",
        "So {b} had committed the murder.", "“I am guilty,” said {b}.", "The culprit? It is {b}.",
        "Not {a} but {b} was the MURDERER.",
    ],
)  # fmt: skip
def test_a_story_that_names_the_murderer_is_refused(hint: str) -> None:
    story, child, _, _ = case("murder", 0)
    words = hint.format(a=child.names[0], b=child.names[1]).replace("culprit? It", "culprit, it")
    for fault in (f"{by_model(child)} {words}", f"{words} {by_model(child)}"):
        with pytest.raises(DuplicateError, match="gives the answer away"):
            check_written(child, fault)
        with pytest.raises(DuplicateError, match="gives the answer away"):
            check_duplicate(story, child, child.item_text(fault), 0, verbatim=False)
    check_written(child, by_model(child) + " Somewhere, a murderer slept badly.")


def test_a_story_that_states_an_allocation_is_refused() -> None:
    _, child, _, _ = case("team", 0)
    task, name = child.slots["first"], child.names[0]
    for hint in (child.choices[0], f"{task.upper()}: {name}", f"{task} – {name}"):
        with pytest.raises(DuplicateError, match="gives the answer away"):
            check_written(child, f"{by_model(child)} {hint}.")


# Records of MuSR


def node(value: str, *children: dict[str, Any], rule: bool = False) -> dict[str, Any]:
    return {
        "value": value, "children": [*children], "operator": "or", "constraints": [],
        "fact_type": "commonsense" if rule else "explicit", "prunable": True,
    }  # fmt: skip


def group(name: str, at: int) -> dict[str, Any]:
    """Return a deduced fact with two stated ones and a rule."""
    return node(
        f"{name} comes under suspicion number {at}. ",
        node(f"{name} wrote the figure {at} on a wall. "),
        node(f"The figure {at} was seen on the coat of {name}. "),
        node(f"Whoever writes the figure {at} and wears it means it. ", rule=True),
    )


def suspect(name: str, *heads: str) -> dict[str, Any]:
    groups = (
        node(
            head, group(name, 10 * at + 1), group(name, 10 * at + 2), node("So it is. ", rule=True)
        )
        for at, head in enumerate(heads, 1)
    )
    return {"root_structure": [node(f"{name} is the murderer.", *groups)], "nodes": []}


def mystery(**changes: Any) -> dict[str, Any]:
    guilt = ("Ulla has a means.", "Ulla has an opportunity.", "Ulla has a motive.")
    red = (
        "Piet has an opportunity.",
        "Piet has a motive.",
        "Sings at night. And this is suspicious.",
    )
    question = {
        "question": "Who is the most likely murderer?", "answer": 1, "choices": ["Piet", "Ulla"],
        "intermediate_trees": [suspect("Ulla", *guilt), suspect("Piet", *red)],
        "intermediate_data": [{"victim_info": {
            "victim": "Karel", "crime_scene": "salt mine", "murder_weapon": "oar"}}],
    }  # fmt: skip
    return {"context": "Then Detective Brandt came.", "questions": [question | changes]}


def allocation(**changes: Any) -> dict[str, Any]:
    """Return a record where Ada as the first, and Bo and Cy as a pair, have the most."""
    skills = {"Ada": ("good", "bad"), "Bo": ("bad", "okay"), "Cy": ("okay", "good")}
    pairs = {("Ada", "Bo"): "badly", ("Cy", "Ada"): "okay", ("Bo", "Cy"): "well"}
    because = "  Because we find out in the story that, "
    heads = [
        f"{name} is {level} at {task.lower()}.{because}"
        for name, levels in skills.items()
        for level, task in zip(levels, TASKS, strict=True)
    ] + [f"{a} and {b} work {level} together.{because}" for (a, b), level in pairs.items()]
    leaves = (
        node(head, node(f"Fact {at} is seen. "), node(f"Fact {at} is heard. "),
             node(f"Fact {at} counts. ", rule=True))
        for at, head in enumerate(heads)
    )  # fmt: skip
    tree = {"nodes": [node("A village needs honey and taxes.", *leaves)]}
    first, second = TASKS
    question = {
        "question": "Who does what?", "answer": 2, "intermediate_trees": [tree],
        "choices": [f"{first}: Bo, {second}: Ada and Cy", f"{first}: Cy, {second}: Ada and Bo",
                    f"{first}: Ada, {second}: Bo and Cy"],
    }  # fmt: skip
    return {"context": "…", "questions": [question | changes]}


def test_a_mystery_of_musr_is_read() -> None:
    story = read_musr(mystery())
    assert (story.names, story.choices, story.answer) == (("Piet", "Ulla"), ("Piet", "Ulla"), 1)
    assert story.slots == {
        "victim": "Karel", "detective": "Detective Brandt", "weapon": "the oar",
        "place": "the salt mine",
    }  # fmt: skip
    assert [*branches(story)] == [
        "Piet: opportunity", "Piet: motive", "Piet: suspicious", "Ulla: means",
        "Ulla: opportunity", "Ulla: motive",
    ]  # fmt: skip
    assert stated(story.trees[1])[:2] == [
        "Ulla wrote the figure 11 on a wall.",
        "The figure 11 was seen on the coat of Ulla.",
    ]
    assert read_story(mystery()) == story
    assert read_musr(mystery()["questions"][0] | {"context": "Detective Brandt"}) == story


def test_an_allocation_of_musr_is_read() -> None:
    story = read_musr(allocation())
    assert story.answer == right_choice(story) == 2
    assert "A village needs honey and taxes. Of Bo, Ada and Cy, one was" in story.premise
    heads = {key: branch.text for key, branch in branches(story).items()}
    assert heads["Ada: Beekeeper"] == "Ada is good at beekeeper."
    assert heads["Bo: Tax Clerk"] == "Bo is okay at tax clerk."
    assert heads["Ada and Cy"] == "Cy and Ada work okay together."


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", ["murder", "team"])
def test_duplicates_of_musr_are_made(kind: str, known: bool) -> None:
    record = mystery() if kind == "murder" else allocation()
    if not known:
        record["questions"][0]["intermediate_data"] = []
    story = read_musr(record)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        for level in (0, 1, 2):
            child = mutate(story, level, rng)
            text = narrate(child, rng)
            check_duplicate(story, child, child.item_text(text), level)
            assert child.answer == right_choice(child) == story.answer
            assert not re.search(r"[{}]", text)
            # A duplicate of a duplicate is one as well.
            check_duplicate(
                child, (next_ := mutate(child, 2, rng)), next_.item_text(narrate(next_, rng)), 2
            )
        if kind == "murder" and not known:
            assert not re.search(r"\boar\b|salt mine|Karel", text)


HUGGING_FACE = {
    "narrative": "…", "question": "Who?", "choices": "['Piet', 'Ulla']", "answer_index": 1,
    "answer_choice": "Ulla",
}  # fmt: skip
BARE = {"root_structure": [node("Ulla is the murderer.", node("Ulla has a means."))]}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (HUGGING_FACE, "no trees of facts.*folder datasets in github.com/Zayne-sprague/MuSR"),
        (mystery(answer=0), "the answer that it states is not that of its trees: 0"),
        (allocation(answer=0), "the answer that it states is not that of its trees: 0"),
        (mystery(choices=["Piet", "Ursel"]), "its choices are not its suspects"),
        (mystery(choices=[]), "it has not one question with answer, choices and trees"),
        (mystery(answer=None), "it has not one question with answer, choices and trees"),
        (mystery(intermediate_trees=[{"nodes": [{"children": []}]}]), "it has not one question"),
        (mystery(intermediate_trees=[BARE], choices=["Ulla"]), "no facts that it follows from"),
        (
            mystery(intermediate_trees=[suspect("Ulla", "Ulla has a means.")], choices=["Ulla"]),
            "not exactly one has means, motive and opportunity",
        ),
        (
            mystery(
                intermediate_trees=[suspect("Ulla", "Ulla has a means.", "Ulla has a means.")],
                choices=["Ulla"],
            ),
            "it has two branches of one kind: Ulla: means",
        ),
        (
            {"questions": mystery()["questions"] * 2},
            "it has not one question with answer, choices and trees",
        ),
        (allocation(choices=["table", "shelf"]), "neither a murder mystery nor a team"),
        (
            allocation(choices=["Beekeeper: Ada, Tax Clerk: Bo and Di"]),
            "a skill or a pair is not in its tree",
        ),
        (
            allocation(
                choices=[
                    "Beekeeper: Ada, Tax Clerk: Bo and Cy",
                    "Beekeeper: Ada, Tax Clerk: Bo and Bo",
                ]
            ),
            "does not allocate its people",
        ),
        (
            allocation(choices=["Beekeeper: Ada, Tax Clerk: Bo and Cy"]),
            "not exactly one allocation has the highest score",
        ),
        (allocation(choices=["Singer: Ada, Clerk: Bo and Cy"]), "neither about a skill nor about"),
    ],
)
def test_records_that_are_no_stories_are_refused(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(DuplicateError, match=reason):
        read_musr(record)


@pytest.mark.parametrize(
    "record",
    [
        {"questions": "text"}, {"questions": {}}, {"questions": [5]}, {"questions": {"a": 1}},
        {"questions": 5}, {"questions": [None]}, mystery(question=5), mystery(question=None),
        mystery(choices=[5, {}]), mystery(choices="Piet"), mystery(intermediate_trees=5),
        mystery(intermediate_trees=[5]), mystery(intermediate_trees=[{}]), mystery(answer=[]),
        mystery(intermediate_trees=[{"nodes": [{"value": 5}]}]),
        mystery(intermediate_trees=[{"nodes": [{"value": "a", "children": 5}]}]),
        mystery(intermediate_trees=[{"nodes": 5}]), allocation(choices=[5]),
    ],
)  # fmt: skip
def test_odd_records_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(DuplicateError):
        read_story(record)


@pytest.mark.parametrize("data", [5, "text", [5], [{"victim_info": 5}], {"a": 1}, None])
def test_odd_data_beside_the_trees_are_left_aside(data: Any) -> None:
    assert "weapon" not in read_musr(mystery(intermediate_data=data)).slots


def test_allocations_of_the_same_score_are_refused() -> None:
    text = json.dumps(allocation())  # Cy as the first has 2 + 1 + 2 + 1, Ada 3 + 2 + 3 + 3
    for old, new in (("Cy is okay", "Cy is good"), ("Ada is bad", "Ada is good"),
                     ("Ada and Bo work badly", "Ada and Bo work well")):  # fmt: skip
        text = text.replace(old, new)
    with pytest.raises(DuplicateError, match="not exactly one allocation has the highest score"):
        read_musr(json.loads(text))


# Material


def templates() -> Iterator[tuple[str, list[str]]]:
    """Yield the texts of each group of stated facts with the rule, by kind."""
    known = known_material()
    for kind in ("means", "motive", "opportunity", "suspicious"):
        yield from ((kind, texts) for branch in known["murder"][kind] for texts in branch)
    team = known["team"]
    for level in team["together"]:
        yield from ((f"together {level}", texts) for texts in team["together"][level])
    for task, levels in [*team["skills"].items(), ("any", team["any"])]:
        for level in levels:
            yield from ((f"{task} {level}", texts) for texts in levels[level])


def slots(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}


def test_no_fact_occurs_twice_and_each_names_whom_it_is_about() -> None:
    every = [text for _, texts in templates() for text in texts]
    plain = [re.sub(r"[^\w ]", "", text).lower() for text in every]
    assert [text for text, count in Counter(plain).items() if count > 1] == []
    for kind, texts in templates():
        murder = len(texts) == 4
        who = {"suspect"} if murder else {"a", "b"} if "together" in kind else {"person"}
        *facts, rule = texts[1:] if murder else texts
        assert len(facts) == 2
        assert slots(rule) == set()
        assert all(slots(fact) >= who for fact in facts)
        allowed = {"victim", "weapon", "place"} if murder else {"task"} if "any " in kind else set()
        assert all(slots(text) <= who | allowed for text in texts)
        assert all(text.endswith(".") and "  " not in text for text in texts)
        assert all(text[0].isupper() or text[0] == "{" for text in texts)


def test_there_is_as_much_material_as_levels_need() -> None:
    known = known_material()
    murder, team = known["murder"], known["team"]
    assert len({*known["names"]}) == len(known["names"]) >= 30
    assert len({*murder["weapons"]}) >= 12
    assert len({*murder["places"]}) >= 12
    assert len(team["pairs"]) >= 8
    assert {task for pair in team["pairs"] for task in pair["tasks"]} == {*team["skills"]}
    for kind in ("means", "motive", "opportunity", "suspicious"):
        assert len(murder[kind]) >= 10
        assert all(len(branch) == 2 for branch in murder[kind])
        texts = [" ".join(text for group in branch for text in group) for branch in murder[kind]]
        free = [text for text in texts if not {"weapon", "place"} & slots(text)]
        assert len(free) >= 6
    for level in ("bad", "okay", "good"):
        assert all(len(levels[level]) >= 4 for levels in team["skills"].values())
        assert len(team["any"][level]) >= 8
    assert all(len(team["together"][level]) >= 6 for level in ("badly", "okay", "well"))
    for kind in ("murder", "team"):
        own = known[kind]
        assert len({*own["phrases"]}) == len(own["phrases"]) >= 25
        assert all(slots(phrase) <= {"fact", "detective"} for phrase in own["phrases"])
        assert all("fact" in slots(phrase) for phrase in own["phrases"])
        assert all("premise" in slots(text) for text in own["introductions"])
        assert min(len(own["introductions"]), len(own["endings"])) >= 6
    # A name is no word of any text, or stories would speak of someone else.
    words = {
        word for _, texts in templates() for text in texts for word in re.findall(r"\w+", text)
    }
    assert not words & {*known["names"]}


def test_names_of_people_are_no_part_of_each_other() -> None:
    names = known_material()["names"]
    assert [(a, b) for a in names for b in names if a != b and a in b] == []
