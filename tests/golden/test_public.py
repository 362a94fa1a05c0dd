"""Names and signatures that users may rely on: all that the package exports."""

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

import bayescontam
from tests.golden.expected import check_text

PUBLIC = Path(__file__).parent / "public.txt"


def signature(function: Any) -> str:
    """Return names, order, kinds and defaults of parameters, without annotations."""
    known = inspect.signature(function)
    plain = [
        parameter.replace(annotation=parameter.empty) for parameter in known.parameters.values()
    ]
    return str(known.replace(parameters=plain, return_annotation=known.empty))


def lines() -> Iterator[str]:
    """Give a line for each public name, and one for each public member of a class."""
    for name in sorted(bayescontam.__all__):
        thing = getattr(bayescontam, name)
        if not inspect.isclass(thing):
            yield f"{name}{signature(thing)}"
            continue
        yield f"class {name}{_made_by(thing)}"
        if is_typeddict(thing):
            yield from (f"    {key}: value" for key in sorted(get_type_hints(thing)))
            continue
        for member in sorted(_members(thing)):
            yield f"    {_described(thing, member)}"


def _made_by(thing: type) -> str:
    """Return the signature of a class; of enumerations and plain errors it is Python's."""
    own = inspect.isfunction(thing.__init__) and not issubclass(thing, Enum)  # type: ignore[misc]
    return signature(thing) if own else ""


def _members(thing: type) -> set[str]:
    """Return public members that come from this package."""
    own = [base for base in thing.__mro__ if base.__module__.startswith("bayescontam")]
    return {name for base in own for name in vars(base) if not name.startswith("_")} - {
        "model_config",
        "model_post_init",
    }


def _described(thing: type, member: str) -> str:
    found = inspect.getattr_static(thing, member)
    if isinstance(found, classmethod):
        return f"classmethod {member}{signature(found.__func__)}"
    if isinstance(found, staticmethod):
        return f"staticmethod {member}{signature(found.__func__)}"
    if inspect.isfunction(found):
        return f"{member}{signature(found)}"
    return f"{member}: value"


def test_names_and_signatures_are_what_they_were() -> None:
    check_text(PUBLIC, "".join(f"{line}\n" for line in lines()))
