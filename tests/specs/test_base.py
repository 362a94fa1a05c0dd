"""What all specs share reports what is wrong with any kind of table."""

import pytest

from bayescontam.errors import SpecError
from bayescontam.specs.base import Block, validate
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model


class Shelves(Block):
    """A table of lists, whose keys are the author's own."""

    books: dict[str, tuple[str, ...]]


def test_a_list_under_a_key_of_ones_own_is_requested() -> None:
    with pytest.raises(SpecError) as caught:
        validate(Shelves, {"books": {"top": "Gauss"}}, "mine.toml")
    assert [str(fault) for fault in caught.value.faults] == [
        "mine.toml: books.top: got 'Gauss'; a list is needed"
    ]


def test_where_a_spec_was_read_from_is_no_difference() -> None:
    shipped = load_model("single")
    again = ModelSpec.parse(shipped.text, "elsewhere/single.toml")
    assert again.source != shipped.source
    assert again == shipped
