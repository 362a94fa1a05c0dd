"""Options of commands that call a language model."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import BadParameter, Option

from bayescontam._text import printable
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.endpoint import Endpoint

API_KEY = "OPENAI_API_KEY"
in_calls = partial(Option, rich_help_panel="Calls")
ADDRESS = "Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1."
MODEL = "Name of the model there."

Concurrency = Annotated[int, in_calls(help="Calls at a time.")]
MaxCalls = Annotated[int | None, in_calls(help="Calls to make at most, retries included.")]
MaxTokensTotal = Annotated[int | None, in_calls(help="Tokens to spend at most, prompts included.")]
Timeout = Annotated[float, in_calls(help="Seconds that a call may take.")]
Retries = Annotated[int, in_calls(help="Further tries of a failed call.")]
ApiKeyEnv = Annotated[
    str,
    in_calls(help="Environment variable with the key; may be unset where none is needed."),
]
ExtraBody = Annotated[
    str,
    in_calls(help="Further fields of each call, as JSON, such as '{\"top_p\": 0.9}'."),
]
MaxOutputTokens = Annotated[
    int | None,
    in_calls(help="Longest reply in tokens, a model's thinking included; default: its own."),
]
Effort = Annotated[
    str | None,
    in_calls(help="How much a model thinks, such as low, medium or high; default: its own."),
]
CacheFolder = Annotated[
    Path | None,
    in_calls(help="Folder that stores answers; default: judge-cache beside the output."),
]


def _temperature(text: str) -> str:
    """Return what was given, if it is a number or the word for the model's own."""
    if text != _OWN:
        try:
            float(text)
        except ValueError as error:
            raise BadParameter(f"'{text}' is neither a number nor '{_OWN}'") from error
    return text


_OWN = "default"
Temperature = Annotated[
    str, in_calls(help=f"0 to 2, or '{_OWN}': the model's own.", callback=_temperature)
]


def endpoint_of(
    base_url: str,
    model: str,
    *,
    api_key_env: str,
    timeout: float,
    retries: int,
    concurrency: int,
    extra_body: str = "",
    temperature: float | str | None = None,
    max_output_tokens: int | None = None,
    effort: str | None = None,
) -> "Endpoint":
    """Return the endpoint that the options describe."""
    from bayescontam.endpoint import Endpoint, key_in

    api_key = key_in(api_key_env, API_KEY, "--api-key-env")
    try:
        extra = json.loads(extra_body or "{}")
    except ValueError as error:
        raise UsageError(f"--extra-body: {printable(extra_body, 60)!r} is no JSON") from error
    if not isinstance(extra, dict):
        raise UsageError(f"--extra-body: {printable(extra_body, 60)!r} is no JSON object")
    for option, field, value in (
        ("--effort", "reasoning_effort", effort),
        ("--max-output-tokens", "max_tokens", max_output_tokens),
    ):
        if value is not None and field in extra:
            raise UsageError(f"{option} and '{field}' in --extra-body: give one")
    if effort is not None:
        if not effort.strip():
            raise UsageError("--effort: is blank; give a word that the model knows, or none")
        extra["reasoning_effort"] = effort.strip()
    if max_output_tokens is not None and max_output_tokens < 1:
        raise UsageError(f"--max-output-tokens {max_output_tokens}: allowed is 1 or more")
    if isinstance(temperature, str):
        temperature = None if temperature == _OWN else float(temperature)
    return Endpoint(
        base_url, model, api_key=api_key, temperature=temperature, timeout=timeout,
        retries=retries, concurrency=concurrency, max_tokens=max_output_tokens, extra=extra,
    )  # fmt: skip
