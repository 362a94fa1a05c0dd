"""Template: contents become one HTML file, everything in them escaped."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bayescontam.report import words


@dataclass(frozen=True)
class Script:
    """The script of a page."""

    text: str  # as it stands between its tags
    source: str  # what allows this text, and no other, in a content security policy


@cache
def script() -> Script:
    """Return the script that sorts and filters tables."""
    path = files("bayescontam.report") / "templates" / "tables.js"
    # Without indentation, which pages need not carry: no string of the script has several lines.
    text = "\n".join(map(str.lstrip, path.read_text(encoding="utf-8").splitlines()))
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
    return Script(text, f"sha256-{digest}")


def fill(name: str, content: Mapping[str, Any]) -> str:
    """Return the template `name` filled with `content`."""
    environment = Environment(
        loader=PackageLoader("bayescontam.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = (
        "number",
        "probability",
        "percent",
        "interval",
        "measured",
        "place",
        "raw",
        "from_half",
    )
    for filter_name in names:
        environment.filters[filter_name] = getattr(words, filter_name)
    environment.globals["script"] = script()
    return environment.get_template(name).render(content)
