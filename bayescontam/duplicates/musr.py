"""Stories as they are stored, and records of MuSR with their trees of facts."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from bayescontam._text import join_list
from bayescontam.duplicates.items import DuplicateError
from bayescontam.duplicates.stories import (
    MURDERER,
    Fact,
    FactKind,
    Story,
    check_whole,
    filled,
    first_fault,
    known_material,
    read_allocation,
    team_premise,
)


def read_story(record: Mapping[str, Any]) -> Story:
    """Read a new item, which has its ``tree``, or one of MuSR."""
    if "tree" not in record:
        return read_musr(record)
    story = Story.from_json(record["tree"])
    if record.get("answer") not in (story.answer, story.choices[story.answer]):
        raise DuplicateError("the answer that it states is not that of its trees")
    return story


def read_musr(record: Mapping[str, Any]) -> Story:
    """Read a murder mystery or a team allocation of MuSR, with its trees."""
    questions = record.get("questions") or [record]
    first = questions[0] if isinstance(questions, list) else None
    if isinstance(first, Mapping) and not first.get("intermediate_trees"):
        raise DuplicateError(
            "it has no trees of facts, which duplicates are made of; the files of the folder"
            " datasets in github.com/Zayne-sprague/MuSR have them, those on Hugging Face do not"
        )
    try:
        [question] = TypeAdapter(list[_Question]).validate_python(questions)
        trees = tuple(_read_node(tree.root) for tree in question.intermediate_trees)
    except ValueError as error:
        reason = "it has not one question with answer, choices and trees of nodes with children"
        found = first_fault(error) if isinstance(error, ValidationError) else str(error)
        raise DuplicateError(reason, found) from None
    choices, answer, text = question.choices, question.answer, question.question
    data = question.victim_info
    if all(tree.text.endswith(MURDERER) for tree in trees):
        by_name = {tree.text.removesuffix(MURDERER): tree for tree in trees}
        if sorted(by_name) != sorted(choices):
            raise DuplicateError("its choices are not its suspects", join_list(choices))
        trees = tuple(by_name[name] for name in choices)
        slots, premise = _read_scene({**record, **data}, choices)
        story = Story("murder", trees, choices, text, choices, premise, slots)
    else:
        alone, one, together, a, b = read_allocation(choices[0])
        slots = {"first": alone, "second": together}
        premise = team_premise(trees[0].text, (one, a, b), slots)
        story = Story("team", trees, (one, a, b), text, choices, premise, slots)
    check_whole(story)
    if story.answer != answer:
        raise DuplicateError("the answer that it states is not that of its trees", f"{answer}")
    return story


def _read_scene(fields: Mapping[str, Any], suspects: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return what facts of a mystery may name, as far as known, and its premise."""
    known = known_material()["murder"]
    detective = re.search(r"Detective [A-Z]\w+", str(fields.get("context")))
    slots = {
        "victim": str(fields.get("victim") or "the victim"),
        "detective": detective[0] if detective else known["detectives"][0],
    }
    if (place := fields.get("crime_scene")) and (weapon := fields.get("murder_weapon")):
        slots |= {"weapon": f"the {weapon}", "place": f"the {str(place).removeprefix('the ')}"}
    premise = known["known" if "weapon" in slots else "unknown"]
    return slots, filled(premise, slots | {"cast": " and ".join(suspects)})


class _Node(BaseModel):
    """A node of a tree of MuSR."""

    value: str
    children: list["_Node"] | None = None
    fact_type: str | None = None


class _Tree(BaseModel):
    """A tree of MuSR."""

    root_structure: list[_Node] | None = None
    nodes: list[_Node] | None = None

    @property
    def root(self) -> _Node:
        """The first node."""
        found = self.root_structure or self.nodes
        if not found:
            raise ValueError("a tree has no nodes")
        return found[0]


class _Question(BaseModel):
    """A question of MuSR, with its trees."""

    question: str
    choices: Annotated[tuple[str, ...], Field(min_length=1)]
    answer: int
    intermediate_trees: Annotated[list[_Tree], Field(min_length=1)]
    intermediate_data: Any = None

    @property
    def victim_info(self) -> Mapping[str, Any]:
        """What is known of a mystery's victim; nothing in other forms."""
        data = self.intermediate_data
        first = data[0] if isinstance(data, list) and data else None
        found = first.get("victim_info") if isinstance(first, Mapping) else None
        return found if isinstance(found, Mapping) else {}


def _read_node(node: _Node) -> Fact:
    """Return a node of MuSR, and all below it, as a fact."""
    text = " ".join(node.value.partition("Because we find out in the story")[0].split())
    children = tuple(map(_read_node, node.children or ()))
    kind: FactKind = "commonsense" if node.fact_type == "commonsense" else "stated"
    return Fact(text, children, "deduced" if children else kind)
