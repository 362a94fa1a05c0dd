"""Template: contents become one HTML file, everything in them escaped."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bayescontam.report import words


def fill(name: str, content: Mapping[str, Any]) -> str:
    """Return the template `name` filled with `content`.

    Parameters
    ----------
    name : str
        File in ``report/templates``.
    content : mapping of str to object
        Names that the template uses; one that is missing is an error.

    Returns
    -------
    str
    """
    environment = Environment(
        loader=PackageLoader("bayescontam.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for filter_name in ("number", "probability", "percent", "interval", "measured", "place"):
        environment.filters[filter_name] = getattr(words, filter_name)
    return environment.get_template(name).render(content)
