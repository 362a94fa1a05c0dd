"""Failure: why a call gave no answer, and whether to try again."""

import datetime
import email.utils
from dataclasses import dataclass
from typing import Any

from bayescontam.errors import TaskError, UsageError
from bayescontam.names import visible

REFUSED, UNPARSABLE, TIMEOUT, CONNECTION = "refused", "unparsable", "timeout", "no connection"
LONGEST_WAIT = 600.0
"""Seconds; an endpoint that asks for more is left alone, and the run stops."""

_AGAIN = {408, 409, 425, 429}
_FOR_ALL = {401, 402, 403, 404}


@dataclass(frozen=True)
class Failure:
    """A call without an answer."""

    reason: str  # what failures are counted by
    detail: str  # what the endpoint said
    again: bool = False  # whether the same call may succeed later
    wait: float | None = None  # seconds that the endpoint asks to wait before

    @property
    def status(self) -> int | None:
        """Status of HTTP, if that is the reason."""
        word, _, number = self.reason.partition(" ")
        return int(number) if word == "status" else None


def failure_of(error: Exception) -> Failure:
    """Return what an exception of the client means."""
    import openai

    text = visible(str(error), 300)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Failure(TIMEOUT, "no reply in time", again=True)
    if isinstance(error, openai.APIConnectionError):
        return Failure(CONNECTION, f"{text} ({visible(str(error.__cause__), 200)})", again=True)
    if isinstance(error, openai.APIStatusError):
        again = error.status_code in _AGAIN or error.status_code >= 500
        wait = _asked_wait(error.response.headers.get("retry-after"))
        if error.code == "content_filter":
            return Failure(REFUSED, text)
        return Failure(f"status {error.status_code}", text, again, wait)
    return Failure("no completion", text, again=True)


def _asked_wait(header: str | None) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, which may name a time instead.

    >>> _asked_wait("2")
    2.0
    >>> _asked_wait("Wed, 21 Oct 2015 07:28:00 GMT")
    0.0
    >>> _asked_wait("soon")
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            then = email.utils.parsedate_to_datetime(header)
        except ValueError:
            return None
        seconds = (then - datetime.datetime.now(then.tzinfo)).total_seconds()
    return seconds if seconds > 0 else 0.0  # NaN is a number too


def stop_if_for_all(failure: Failure, error: Any, place: str, answered: bool) -> None:
    """Raise if a failure concerns every call, not this pair."""
    said = f"{place}: {failure.detail}"
    if failure.status in _FOR_ALL and not (failure.status == 403 and answered):
        raise UsageError(
            f"{said}; check --base-url, --model and the key in the variable that "
            "--api-key-env names"
        ) from error
    if getattr(error, "code", None) == "insufficient_quota":
        raise TaskError(f"{said}; raise the quota, then run the same command again") from error
    if (failure.wait or 0) > LONGEST_WAIT:
        raise TaskError(
            f"{said}; it asks to wait {failure.wait:,.0f} seconds: run the same command again then"
        ) from error
