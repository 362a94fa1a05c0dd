"""Hashes by which stored work is found again: of specs, plans, items, chunks, answers and tables.

Where one changes, runs that stopped half-way begin anew or are refused, and sheets, caches and
folders of earlier versions are not recognised. The hash of a plan also seeds the streams of a
study. Comments and layout of a file count nowhere; in model specs and manifests every word of
``summary`` and ``description`` does.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import bayescontam
from bayescontam.calibration.study import plan_of
from bayescontam.data.importers.runs import fingerprint
from bayescontam.evidence.llm import Question, cache_key, load_prompt, shipped_prompts
from bayescontam.evidence.sheets import sheet_key
from bayescontam.inference.crossval import By, RefitData, fold_of, units_of
from bayescontam.inference.sampling import Sampling
from bayescontam.model.build import build
from bayescontam.scan.chunking import occurrence_hash, text_hash
from bayescontam.scan.documents import priority
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.items import Item
from bayescontam.specs.corpus import Embedding
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import (
    shipped_folder,
    shipped_manifests,
    shipped_models,
    shipped_studies,
)
from bayescontam.specs.study import StudySpec
from tests.golden.expected import check_numbers
from tests.golden.tables import TABLES, table_of

KEYS = Path(__file__).parent / "keys.json"


def studies() -> dict[str, Any]:
    """Return the hashes of all shipped studies, and of the plans of those that simulate."""
    found = {}
    for name in shipped_studies():
        study = bayescontam.load_study(name)
        known = {"hash": study.hash}
        if isinstance(study, StudySpec):
            plan = plan_of(study, shipped_folder("studies"))
            known |= {"plan": plan.hash, "cells": [cell.hash for cell in plan.cells][:3]}
        found[name] = known
    return found


def answers() -> dict[str, str]:
    """Return the keys of answers of language models, one for each prompt."""
    return {
        name: cache_key(Question(load_prompt(name), "an item", "a chunk"), "small", 1, 0.0)
        for name in shipped_prompts()
    }


def folds() -> dict[str, list[int]]:
    """Return the folds that responses are dealt to, by what is left out together."""
    responses = bayescontam.Responses.from_frame(table_of("single"))
    design = build(bayescontam.load_model("hierarchical"), responses).design
    kinds: tuple[By, ...] = ("response", "item", "model")
    return {by: fold_of(units_of(design, by), 4, 1).tolist() for by in kinds}


def refit() -> str:
    """Return what keys of stored refits of cross-validation have of a table."""
    spec = bayescontam.load_model("hierarchical")
    built = build(spec, bayescontam.Responses.from_frame(table_of("single")))
    return RefitData(spec, built.design, Sampling()).fingerprint


def test_keys_are_what_they_were() -> None:
    pair = {"benchmark": "quiz", "item": "q1", "source": "web", "document": "d", "chunk": 0,
            "chunk_id": 7, "cosine": 0.5}  # fmt: skip
    vectors = load_embedder(Embedding(model="hashing"), "cpu").embed(["w1 w2 w1", "é"], "query")
    found = {
        "models": {name: bayescontam.load_model(name).hash for name in shipped_models()},
        "manifests": {name: bayescontam.load_manifest(name).hash for name in shipped_manifests()},
        "curves": {"monotone": bayescontam.load_curve("monotone").hash},
        "studies": studies(),
        "answers": answers(),
        "tables": {
            path.stem: bayescontam.read_responses(path).data_hash
            for path in sorted(TABLES.glob("*.csv"))
        },
        "folds": folds(),
        "refit": refit(),
        "item": Item("quiz", "q1", "text").key(3),
        "document": priority(3, "web", "d"),
        "chunk": [text_hash("a text"), occurrence_hash("web", "d", 2)],
        "row of a sheet": sheet_key(pd.DataFrame([pair]))["pair"].tolist(),
        "answer of a log": fingerprint(["an answer"]),
        "words": [
            [int(at), round(float(row[at]), 6)] for row in vectors for at in row.nonzero()[0]
        ],
    }
    check_numbers(KEYS, found, rel=1e-6)


def test_data_hash_does_not_hang_on_order_or_other_columns() -> None:
    table = table_of("single")
    hashes = {
        bayescontam.Responses.from_frame(each).data_hash
        for each in (table, table[::-1], table.drop(columns=["guess", "concept"]))
    }
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("change", "same"), [("# a comment\n", True), ('description = "Other words."\n', False)]
)
def test_words_of_a_model_spec_count_and_comments_do_not(change: str, same: bool) -> None:
    plain = 'summary = "s"\n'
    specs = [ModelSpec.parse(text, "mine.toml") for text in (plain, plain + change)]
    assert (specs[0].hash == specs[1].hash) is same
