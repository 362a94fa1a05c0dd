"""Stories over trees of facts: who committed a murder, and who should do which of two tasks.

Items of this kind are those of MuSR (Sprague et al. 2024, arXiv:2310.16049). New ones are made of
``stories.toml``; records of MuSR are read with their trees.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from bayescontam._text import join_list, printable
from bayescontam.duplicates.items import DuplicateError
from bayescontam.errors import UsageError

type FactKind = Literal["deduced", "stated", "commonsense"]

_GUILT = {"means": "has a means", "motive": "has a motive", "opportunity": "has an opportunity"}
_HEADS = _GUILT | {"suspicious": "has done something suspicious"}
MURDERER = " is the murderer."
_SKILLS, _TOGETHER = ("bad", "okay", "good"), ("badly", "okay", "well")  # levels 1, 2 and 3
_GUILTY = re.compile(r".+ has an? (?P<kind>means|motive|opportunity)\.?")
_SKILL = re.compile(r"(?P<who>.+?) is (?P<level>bad|okay|good) at (?P<task>.+?)\.?")
_PAIR = re.compile(r"(?P<a>.+?) and (?P<b>.+?) work (?P<level>badly|okay|well) together\.?")
_ALLOCATION = re.compile(r"([^:]+): ([^,:]+), ([^:]+): (.+?) and (.+)")
_GUILT_WORDS = re.compile(
    r" (?:murderers?|killers?|guilty|guilt|culprits?|perpetrators?"
    r"|commit(?:ted|s|ting)? (?:the|this|that) (?:murder|killing|crime)) "
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)*_]*\s+|\n+")
_LAST = re.compile(r"[.!?…][\"'”’»)*_]*$")
_HEADING = re.compile(r"^\s*(?:#{1,6}(?:\s|$)|\*\*[^*\n]+\*\*\s*$|={3,}\s*$)", re.MULTILINE)


@dataclass(frozen=True)
class Fact:
    """A node of a tree: what follows from its children, or a leaf."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)
    text: str
    children: tuple["Fact", ...] = ()
    kind: FactKind = "stated"  # stated leaves stand in the story, those of common sense do not

    def texts(self, *kinds: FactKind) -> list[str]:
        """Return the texts of some kinds, of this node and of those below."""
        own = [self.text] if self.kind in kinds else []
        return own + [text for child in self.children for text in child.texts(*kinds)]


@dataclass(frozen=True)
class Story:
    """A question on trees of facts; what is narrated is made of it."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["murder", "team"]
    trees: tuple[Fact, ...]  # murder: one for each suspect; team: one
    names: tuple[str, ...]  # suspects, in the order of their trees, or people
    question: str
    choices: tuple[str, ...]
    premise: str  # what is known at the beginning
    slots: Mapping[str, str]  # what facts may name: victim, weapon, place, detective; or both tasks

    @property
    def answer(self) -> int:
        """Position of the right choice, computed from the trees."""
        return _murderer(self) if self.kind == "murder" else _best_allocation(self)

    @property
    def facts(self) -> list[str]:
        """Facts that a story has to state."""
        return [text for tree in self.trees for text in tree.texts("stated")]

    def item_text(self, story_text: str) -> str:
        """Return a narrated story with the question and the lettered choices."""
        return story_text + self._ending

    @property
    def _ending(self) -> str:
        """What follows the story in its item: the question, and the lettered choices."""
        lettered = (f"{chr(ord('A') + at)}. {choice}" for at, choice in enumerate(self.choices))
        return "\n\n".join(["", self.question, "\n".join(lettered)])

    def as_json(self) -> dict[str, Any]:
        """Return the story as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the story that `as_json` has written."""
        try:
            story = TypeAdapter(cls).validate_python(value)
        except ValidationError as error:
            raise DuplicateError("it is no story with trees of facts", first_fault(error)) from None
        check_whole(story)
        return story


def first_fault(error: ValidationError) -> str:
    """Return the place and the message of the first thing that is wrong."""
    first = error.errors()[0]
    return printable(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", 120)


def check_whole(story: Story) -> None:
    """Refuse trees without one answer, or about others than the people of the story."""
    needed = {"murder": ["detective", "victim"], "team": ["first", "second"]}[story.kind]
    trees = len(story.names) if story.kind == "murder" else 1
    if len(story.trees) != trees or not {*story.slots} >= {*needed}:
        raise DuplicateError(
            f"it is no story with trees of facts: a {story.kind} has a tree for"
            f" {'each suspect' if trees != 1 else 'all'}, and slots {join_list(needed)}",
            f"{len(story.trees)} trees, slots {join_list(story.slots)}",
        )
    _ = story.answer
    for key in branches(story):
        who, _, what = key.partition(": ")
        if not {*([who] if what else who.split(" and "))} <= {*story.names}:
            raise DuplicateError("a branch is about none of its people", key)


@cache
def known_material() -> Mapping[str, Any]:
    """Return what new stories, and new branches, are made of."""
    return tomllib.loads(Path(__file__).with_name("stories.toml").read_text(encoding="utf-8"))


def branches(story: Story) -> dict[str, Fact]:
    """Return the branches of all trees, such as those of ``Ana: motive`` and ``Ana and Ben``."""
    found: dict[str, Fact] = {}
    for at, tree in enumerate(story.trees):
        for branch in tree.children:
            if (key := _key(story, at, branch)) in found:
                raise DuplicateError("it has two branches of one kind", f"{key}")
            if key is not None:
                found[key] = branch
    return found


def _key(story: Story, at: int, branch: Fact) -> str | None:
    """Return the name of a branch of a tree; None: it is a rule."""
    if branch.kind == "commonsense":
        return None
    if branch.kind == "stated":
        raise DuplicateError("a branch has no facts that it follows from", branch.text)
    if story.kind == "murder":
        match = _GUILTY.fullmatch(branch.text)
        return f"{story.names[at]}: {match['kind'] if match else 'suspicious'}"
    tasks = {task.casefold(): task for task in story.slots.values()}
    if (match := _SKILL.fullmatch(branch.text)) and match["task"].casefold() in tasks:
        return f"{match['who']}: {tasks[match['task'].casefold()]}"
    if match := _PAIR.fullmatch(branch.text):
        return " and ".join(sorted((match["a"], match["b"])))
    raise DuplicateError("a branch is neither about a skill nor about a pair", branch.text)


def changed_branches(a: Story, b: Story) -> list[str]:
    """Return the names of branches that are not the same in two stories."""
    one, other = branches(a), branches(b)
    return sorted(key for key in one.keys() | other if one.get(key) != other.get(key))


def _murderer(story: Story) -> int:
    """Return the choice that names the one suspect with means, motive and opportunity."""
    found, choices = branches(story), range(len(story.choices))
    guilty = [at for at in choices if all(f"{story.choices[at]}: {k}" in found for k in _GUILT)]
    if len(guilty) != 1:
        raise DuplicateError("not exactly one has means, motive and opportunity", f"{guilty}")
    return guilty[0]


def _best_allocation(story: Story) -> int:
    """Return the one choice with the most skill at both tasks and cooperation."""
    scores = _scores(story)
    if len(scores) != 3 or scores.count(max(scores)) != 1:
        raise DuplicateError("not exactly one allocation has the highest score", f"{scores}")
    return int(np.argmax(scores))


def _scores(story: Story) -> list[int]:
    """Return the score of each choice: three skills, and the cooperation of two."""
    found, tasks = branches(story), (story.slots["first"], story.slots["second"])
    scores = []
    for choice in story.choices:
        alone, one, together, a, b = read_allocation(choice)
        if {one, a, b} != {*story.names} or (alone, together) != tasks:
            raise DuplicateError("a choice does not allocate its people to its tasks", choice)
        pair = " and ".join(sorted((a, b)))
        keys = (f"{one}: {alone}", f"{a}: {together}", f"{b}: {together}", pair)
        if not found.keys() >= {*keys}:
            raise DuplicateError("a skill or a pair is not in its tree", join_list(found))
        scores.append(sum(_level(found[key]) for key in keys))
    return scores


def read_allocation(choice: str) -> list[str]:
    """Return a task, who does it, the other task, and the two who do that."""
    if (match := _ALLOCATION.fullmatch(choice)) is None:
        raise DuplicateError("it is neither a murder mystery nor a team allocation", choice)
    return [*match.groups()]


def _level(branch: Fact) -> int:
    """Return the level, from 1 to 3, that a branch of a team gives."""
    match = _SKILL.fullmatch(branch.text) or _PAIR.fullmatch(branch.text)
    return (*_SKILLS, *_TOGETHER).index(match["level"]) % 3 + 1 if match else 0


def new_murder(rng: np.random.Generator) -> Story:
    """Return a new murder mystery with two suspects."""
    known = known_material()["murder"]
    victim, *names = _drawn(known_material()["names"], 3, rng)
    [weapon], [place], [detective], [premise] = (
        _drawn(known[of], 1, rng) for of in ("weapons", "places", "detectives", "premises")
    )
    slots = {"victim": victim, "weapon": weapon, "place": place, "detective": detective}
    values = (*names, *_drawn(known["roles"], 2, rng))
    cast = dict(zip(("a", "b", "role_a", "role_b"), values, strict=True))
    both, text = tuple(names), filled(premise, slots | cast)
    story = Story("murder", (), both, known["question"], both, text, slots)
    trees, murderer = [], names[int(rng.integers(2))]
    for name in names:
        others = [*_drawn([*_GUILT], 2, rng), "suspicious"]
        kinds = _drawn([*_GUILT] if name == murderer else others, 3, rng)
        bare = tuple(Fact(f"{name} {_HEADS[kind]}.", (), "deduced") for kind in kinds)
        trees.append(Fact(name + MURDERER, bare, "deduced"))
    return _grown(replace(story, trees=tuple(trees)), rng)


def new_team(rng: np.random.Generator) -> Story:
    """Return a new allocation of three people to two tasks."""
    known = known_material()["team"]
    pair = known["pairs"][int(rng.integers(len(known["pairs"])))]
    names, tasks = _drawn(known_material()["names"], 3, rng), pair["tasks"]
    slots = {"first": tasks[0], "second": tasks[1]}
    choices = [
        "{}: {}, {}: {} and {}".format(tasks[0], one, tasks[1], *sorted({*names} - {one}))
        for one in _drawn(names, 3, rng)
    ]
    premise = team_premise(pair["scenario"], names, slots)
    story = Story("team", (), tuple(names), known["question"], tuple(choices), premise, slots)
    heads = [f"{name} is {{}} at {_within(task)}." for name in names for task in tasks]
    heads += [f"{a} and {b} work {{}} together." for a, b in combinations(names, 2)]
    scores = [0, 0]
    while scores.count(max(scores)) > 1:  # until one allocation has the highest score
        words = [_drawn(_TOGETHER if " work " in head else _SKILLS, 1, rng)[0] for head in heads]
        bare = tuple(Fact(text, (), "deduced") for text in map(str.format, heads, words))
        story = replace(story, trees=(Fact(pair["scenario"], bare, "deduced"),))
        scores = _scores(story)
    return _grown(story, rng)


def _grown(story: Story, rng: np.random.Generator) -> Story:
    """Return a story of which so far the branches alone are known, with all facts."""
    now: dict[str, Fact] = {}
    for key, branch in branches(story).items():
        now[key] = _other_branch(story, key, branch.text, now, rng)
    return _with_branches(story, now)


def _drawn(values: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    """Return different values at random."""
    return [values[int(at)] for at in rng.permutation(len(values))[:count]]


def team_premise(scenario: str, names: Sequence[str], slots: Mapping[str, str]) -> str:
    """Return what is known of a team at the beginning."""
    cast = dict(zip("abc", names, strict=True), scenario=scenario.rstrip(". ") + ".")
    tasks = {slot: _within(task) for slot, task in slots.items()}
    return filled(known_material()["team"]["premise"], cast | tasks)


def mutate(story: Story, level: int, rng: np.random.Generator) -> Story:
    """Return a story with other branches, and the same answer.

    Levels are those of "Soft Contamination Means Benchmarks Test Shallow Generalization" (2026),
    A.3.3: at 0 all branches stay; at 1 one changes, a suspicious one of an innocent suspect or one
    of a skill; at 2 all of the innocent suspect change, or all of a team. Skills and cooperation
    stay as good or bad as they are.
    """
    keys, count = _changeable(story, level)
    now = branches(story)
    for key in _drawn(keys, count, rng):
        now[key] = _other_branch(story, key, now[key].text, now, rng)
    return _with_branches(story, now)


def _changeable(story: Story, level: int) -> tuple[list[str], int]:
    """Return the branches that a level changes, and how many of them."""
    if level not in (0, 1, 2):
        raise UsageError(f"level: got {printable(str(level), 40)}; allowed are 0, 1 and 2")
    keys = [*branches(story)]
    if story.kind == "murder":
        murderer = story.choices[story.answer]
        keys = [key for key in keys if key.rpartition(": ")[0] != murderer]
    if level == 1:
        wanted = ": suspicious" if story.kind == "murder" else ": "
        keys = [key for key in keys if wanted in key]
        if not keys:
            raise DuplicateError("none of its innocent suspects has a suspicious branch")
    return keys, (0, 1, len(keys))[level]


def _other_branch(
    story: Story, key: str, head: str, now: Mapping[str, Fact], rng: np.random.Generator
) -> Fact:
    """Return a branch of the same kind and level with facts that none has now."""
    # Rules have no slots, so they identify the branches that are in use.
    taken = {rule for branch in now.values() for rule in branch.texts("commonsense")}
    before = _stated(now[key]) if key in now else set()
    free = [
        new for new in _known_branches(story, key, head)
        if not taken & {*new.texts("commonsense")} and not before & _stated(new)
    ]  # fmt: skip
    if not free:
        raise DuplicateError("there is no other branch of its kind", key)
    return free[int(rng.integers(len(free)))]


def _known_branches(story: Story, key: str, head: str) -> Iterator[Fact]:
    """Yield the branches of the material that fit, with the slots filled."""
    known, values = known_material()[story.kind], {**story.slots}
    who, _, what = key.partition(": ")
    if story.kind == "murder":
        templates, values["suspect"] = known[what], who
        # The branches of others on what is suspicious state it; theirs would stay in the tree.
        head = f"{who} {_HEADS[what]}."
    elif match := _PAIR.fullmatch(head):
        templates, values = known["together"][match["level"]], values | match.groupdict()
    else:
        level = _SKILLS[_level(Fact(head)) - 1]
        templates = known["skills"].get(what, known["any"])[level]
        values |= {"person": who, "task": _within(what)}
    for template in templates:
        with suppress(KeyError):  # a slot, such as the weapon, that this story has no value for
            yield Fact(head, _children(template, values), "deduced")


def _children(template: Sequence[Any], values: Mapping[str, str]) -> tuple[Fact, ...]:
    """Return stated facts and their rule, or deduced facts with theirs."""
    if isinstance(template[0], str):
        *stated, rule = template
        return (*(Fact(filled(text, values)) for text in stated), Fact(rule, (), "commonsense"))
    return tuple(
        Fact(filled(text, values), _children(rest, values), "deduced") for text, *rest in template
    )


def _with_branches(story: Story, now: Mapping[str, Fact]) -> Story:
    """Return a story with other branches in the places of those of the same names."""
    trees = (
        replace(tree, children=tuple(now.get(_key(story, at, b) or "", b) for b in tree.children))
        for at, tree in enumerate(story.trees)
    )
    return replace(story, trees=tuple(trees))


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its slots filled, as a sentence."""
    text = template.format(**values)
    return text[:1].upper() + text[1:]


def _plain(text: str) -> str:
    """Return the words of a text, by which facts are compared and found in it."""
    return f" {' '.join(re.findall(r'\w+', text.lower()))} "


def _stated(branch: Fact) -> set[str]:
    """Return the stated facts of a branch as they are compared."""
    return {*map(_plain, branch.texts("stated"))}


@cache
def _common_words() -> frozenset[str]:
    """Return words at the beginning of sentences that are written small within them."""
    text = Path(__file__).with_name("stories.toml").read_text(encoding="utf-8")
    known = known_material()
    proper = " ".join(["I", *known["names"], *known["murder"]["detectives"]]).split()
    return frozenset(re.findall(r'"([A-Z][a-z]*)\b', text)).difference(proper)


def _within(text: str) -> str:
    """Return a text as it stands within a sentence."""
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first in _common_words() else text


def narrate(story: Story, rng: np.random.Generator) -> str:
    """Return a story of the stated facts, word for word, with a chapter for each person."""
    known, values = known_material()[story.kind], {**story.slots}
    chapters: dict[str, list[str]] = {name: [] for name in _drawn(story.names, 99, rng)}
    seen: set[str] = set()
    for key, branch in branches(story).items():
        who, _, what = key.partition(": ")
        # What is known of two people stands in the chapter of either.
        name = who if what else _drawn(who.split(" and "), 1, rng)[0]
        new = {_plain(text): text.rstrip(". ") for text in branch.texts("stated")}
        chapters[name] += [new[fact] for fact in new if fact not in seen]
        seen |= new.keys()
    [introduction], [ending] = (_drawn(known[of], 1, rng) for of in ("introductions", "endings"))
    openings = iter(_drawn(known["openings"], len(chapters), rng))
    phrases = iter(_drawn(known["phrases"], 99, rng))
    parts = [filled(introduction, values | {"premise": story.premise})]
    for name, facts in chapters.items():
        sentences = [filled(next(openings, "{name}."), values | {"name": name})]
        for fact in _drawn(facts, len(facts), rng):
            # Some facts stand without a connecting phrase, as do those after the last one.
            phrase = next(phrases, "{fact}.") if rng.random() < 0.6 else "{fact}."
            sentences.append(filled(phrase, values | {"fact": _within(fact)}))
        parts += [" ".join(sentences[at : at + 5]) for at in range(0, len(sentences), 5)]
    return "\n\n".join([*parts, filled(ending, values)])


def check_duplicate(
    parent: Story, child: Story, text: str, level: int, *, verbatim: bool = True
) -> None:
    """Raise a DuplicateError unless a text is a duplicate.

    Parameters
    ----------
    parent, child : Story
        The item's story, and that of the duplicate.
    text : str
        The duplicate, as `Story.item_text` returns it.
    level : {0, 1, 2}
        What of the trees has changed.
    verbatim : bool, default True
        Whether it is as `narrate` writes it, with facts word for word. If not, a model wrote it:
        then it is not empty, has the names, and does not give the answer away.
    """
    for reason, found in _faults(parent, child, text, level, verbatim):
        if found:
            raise DuplicateError(reason, join_list(sorted(found)))


def check_written(story: Story, text: str) -> None:
    """Raise a DuplicateError unless a text is a story: without its question and its choices.

    Parameters
    ----------
    story : Story
        What it should state.
    text : str
        What a model has written.
    """
    for reason, found in _written_faults(story, text):
        if found:
            raise DuplicateError(reason, join_list(sorted(found)))


def _faults(
    parent: Story, child: Story, text: str, level: int, verbatim: bool
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what can be wrong with a duplicate, and where it is."""
    yield "its names are not those of its item", [*{*parent.names} ^ {*child.names}]
    before, after = branches(parent), branches(child)
    yield "its branches are not of the kinds of those of its item", [*before.keys() ^ after.keys()]
    levels = [key for key in before if _level(before[key]) != _level(after[key])]
    yield "a level of skill or cooperation is not that of its item", levels
    right, wanted = child.choices[child.answer], parent.choices[parent.answer]
    yield "its answer is not that of its item", [right] * (right != wanted)
    places = {child.answer, parent.answer}
    yield "its answer has another place among its choices", [f"{places}"] * (len(places) > 1)
    parts = ("kind", "question", "choices", "premise", "slots")
    beside = [part for part in parts if getattr(parent, part) != getattr(child, part)]
    yield "what it has beside its trees is not that of its item", beside
    (keys, count), changed = _changeable(parent, level), changed_branches(parent, child)
    yield "a branch is changed that its level leaves as it is", [*{*changed} - {*keys}]
    number = [f"{len(changed)}, not {count}"] * (len(changed) != count)
    yield "not as many branches are changed as its level demands", number
    shared = [key for key in changed if _stated(before[key]) & _stated(after[key])]
    yield "a changed branch has a stated fact of its item's", shared
    ending = child._ending
    other = [printable(text[-len(ending) :].strip(), 60)] * (not text.endswith(ending))
    yield "it does not end with the question and the lettered choices of its item", other
    narrated = text.removesuffix(ending)
    plain, stated = (
        _plain(narrated),
        {fact for branch in after.values() for fact in _stated(branch)},
    )
    if verbatim:
        yield "a name is not in its text", _lost_names(child, narrated)
        yield "a stated fact is not in its text", [fact for fact in stated if fact not in plain]
        yield _HIDDEN, _hidden_facts(child, narrated)
    else:
        yield from _written_faults(child, narrated)
    old = {fact for key in changed for fact in _stated(before[key])} - stated
    found = [fact for fact in old if fact in plain]
    yield "a stated fact of its item's changed branch is still in its text", found
    if verbatim:
        yield "it has more, or less, than its facts in known sentences", _left_over(child, narrated)


_HIDDEN = "a deduced fact or a rule of common sense is in its text"


def _written_faults(story: Story, text: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what can be wrong with a story by a model, without question and choices."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    yield "its story is empty", ["no words"] * (not lines)
    shown, least = len(_plain(text).split()), len(_plain(" ".join(story.facts)).split()) / 2
    yield "a name is not in its text", _lost_names(story, text)
    yield "its story has fewer words than half of its facts", [f"{shown}"] * (shown < least)
    yield "it has a heading", [each[0].strip() for each in _HEADING.finditer(text)]
    yield "it begins with words about the story", lines[:1] * lines[0].rstrip("*_ ").endswith(":")
    whole = _LAST.search(text.rstrip()) is not None
    yield "its last sentence has no end", [printable(lines[-1][-40:])] * (not whole)
    repeated = _plain(story.question) in _plain(text)
    yield "its question is within its story", [story.question] * repeated
    yield "it gives the answer away", [printable(each, 120) for each in _giveaways(story, text)]
    yield _HIDDEN, _hidden_facts(story, text)


def _lost_names(story: Story, text: str) -> list[str]:
    """Return the names that a text does not have."""
    plain = _plain(text)
    return [name for name in story.names if _plain(name) not in plain]


def _hidden_facts(story: Story, text: str) -> list[str]:
    """Return the facts that a reader has to find, which a text states."""
    plain, stated = _plain(text), {*map(_plain, story.facts)}
    # The root of a team's tree is the scenario, which the premise has.
    trees = story.trees if story.kind == "murder" else story.trees[0].children
    hidden = {_plain(each) for tree in trees for each in tree.texts("deduced", "commonsense")}
    # What is part of a stated fact or of the premise cannot be absent.
    open_facts = "|".join([*stated, _plain(story.premise)])
    return [fact for fact in hidden if fact in plain and fact not in open_facts]


def _giveaways(story: Story, text: str) -> Iterator[str]:
    """Yield where a text calls a suspect guilty, or gives someone a task as the choices do."""
    if story.kind == "murder":
        known = [*map(_plain, [*story.facts, story.premise])]
        for sentence in _SENTENCE_END.split(text):
            rest = plain = _plain(sentence)
            for fact in known:
                rest = rest.replace(fact, "  ")
            if _GUILT_WORDS.search(rest) and any(_plain(name) in plain for name in story.names):
                yield sentence
        return
    for task in story.slots.values():
        names = "|".join(map(re.escape, story.names))
        stated = rf"(?<!\w){re.escape(task)}\W*[:–—=]\W*(?:{names})(?!\w)"
        yield from (each[0] for each in re.finditer(stated, text, re.IGNORECASE))
    plain = _plain(text)
    yield from (choice for choice in story.choices if _plain(choice) in plain)


def _left_over(story: Story, text: str) -> list[str]:
    """Return what of a text `narrate` does not write, or twice; nothing if all of it is."""
    known, values = known_material()[story.kind], {**story.slots}
    first, last = (
        [filled(each, values | {"premise": story.premise}) for each in known[of]]
        for of in ("introductions", "endings")
    )
    begins = [each for each in first if text.startswith(f"{each}\n\n")]
    ends = [each for each in last if text.endswith(f"\n\n{each}")]
    if not begins or not ends:
        return [printable(text if not begins else text[-120:], 120)]
    rest = text[len(max(begins, key=len)) : -len(max(ends, key=len))].strip("\n")
    facts = {_plain(fact): fact.rstrip(". ") for fact in story.facts}
    # Every way to write what has to be there once: an opening for each person, and the facts.
    ways = {
        filled(template, values | {"fact": _within(fact)}): fact
        for fact in facts.values() for template in ["{fact}.", *known["phrases"]]
    } | {
        filled(template, values | {"name": name}): f"the opening of {name}"
        for name in story.names for template in ["{name}.", *known["openings"]]
    }  # fmt: skip
    missing = Counter([*facts.values(), *(f"the opening of {name}" for name in story.names)])
    rest = " ".join(rest.split("\n\n"))
    longest = sorted(ways, key=len, reverse=True)
    while rest:
        words = next((each for each in longest if f"{rest} ".startswith(f"{each} ")), None)
        if words is None or not missing[ways[words]]:
            return [printable(rest, 120)]
        missing[ways[words]] -= 1
        rest = rest[len(words) :].removeprefix(" ")
    return [*missing.elements()]
