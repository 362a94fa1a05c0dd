"""Reply: what an endpoint sends back, which may be anything."""

from typing import Any

from bayescontam.evidence.llm.answer import Answer, read_answer
from bayescontam.evidence.llm.failure import REFUSED, UNPARSABLE, Failure
from bayescontam.names import visible

_SHOWN = 300


def judged(reply: Any) -> Answer | Failure:
    """Return the answer in a reply of chat completions."""
    try:
        choice = reply.choices[0]
        message = choice.message
        refusal, content = message.refusal, message.content
    except (AttributeError, TypeError, IndexError):
        said = getattr(reply, "error", None) or reply
        return Failure("no completion", visible(str(said), _SHOWN), again=True)
    if refusal or choice.finish_reason == "content_filter":
        return Failure(REFUSED, visible(str(refusal or "content filter"), _SHOWN))
    if not isinstance(content, str) or not content.strip():
        return Failure(REFUSED, "nothing was written")
    try:
        return read_answer(content)
    except ValueError as error:
        cut = "the answer was cut off: " if choice.finish_reason == "length" else ""
        return Failure(UNPARSABLE, cut + visible(str(error), _SHOWN))


def reported_tokens(reply: Any) -> int | None:
    """Return how many tokens a reply says that the call took, if it says so."""
    total = getattr(getattr(reply, "usage", None), "total_tokens", None)
    return total if isinstance(total, int) and total >= 0 else None
