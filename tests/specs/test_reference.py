"""The reference of a spec's keys names them all, with limits, defaults and meanings."""

import pytest

from bayescontam.specs.base import keys_of, reference_text
from bayescontam.specs.study import StudySpec, study_keys_page

KEYS = {(key.block, key.name): key for key in keys_of(StudySpec)}


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.block + key.name)
def test_every_key_has_limits_and_a_meaning(key):
    assert key.allowed not in ("", "value")
    assert key.meaning.endswith((".", ")"))
    assert "None" not in key.default


def test_all_keys_are_there():
    blocks = {"[simulator]", "[design]", "[[estimators]]", "[sampling]", "[gates]"}
    assert {block for block, _ in KEYS} == blocks | {""}
    held = {"simulator", "design", "estimators", "sampling", "gates"}
    assert {name for block, name in KEYS if not block} == set(StudySpec.model_fields) - held


@pytest.mark.parametrize(
    ("block", "name", "allowed", "default"),
    [
        ("", "summary", "text, not empty, at most 200 characters", "required"),
        ("", "audit", "number, at least 0, at most 1", "0.02"),
        ("", "quantities", "list of texts", '["parameters", "estimands", "log_likelihood"]'),
        ("", "grid", "table of name = list of numbers", ""),
        ("[simulator]", "fresh", "true or false", "true"),
        ("[simulator]", "ability", "number, or list of numbers", ""),
        ("[design]", "contamination_sd", "number, above 0, below 0.5", "0.2"),
        ("[sampling]", "engine", '"nutpie" or "jax" or "pymc"', '"nutpie"'),
        ("[sampling]", "draws", "whole number, at least 50, at most 100,000", "1000"),
    ],
)
def test_limits_and_defaults_are_those_of_the_schema(block, name, allowed, default):
    key = KEYS[block, name]
    assert (key.allowed, key.default) == (allowed, default)


def test_text_and_page_have_every_key():
    text, page = "\n".join(reference_text(StudySpec, 80)), study_keys_page()
    for block, name in KEYS:
        assert f"\n  {name}: " in text
        assert f"| `{name}` |" in page
        assert block in text
    assert max(map(len, text.splitlines())) < 110
