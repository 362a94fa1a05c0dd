"""Judgements and responses of a scan whose truth is known, simulated."""

import string
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from bayescontam._random import stream
from bayescontam.data.judgements import PAIR, Judgements
from bayescontam.data.responses import Responses
from bayescontam.scan.results import Scan
from bayescontam.scan.synthetic import TRUTH

MANIFEST = "offline-demo"
JUDGED_EACH, BY_A_PERSON, JUDGE_ERROR = 5, 100, 0.05
"""Best matches of each item that the simulated model judges; pairs of these that the
simulated person judges; share of the model's verdicts that are wrong."""
MODELS, SLOPE, SLOPE_SD = 6, 1.5, 0.5
"""Simulated models; mean and spread of what a duplicate adds to their log-odds."""
_KEYS = ["benchmark", "item"]
_KINDS = {"exact": "exact", "paraphrased": "equivalent"}


def read_truth(folder: Path) -> pd.DataFrame:
    """Return which items of the generated benchmark have duplicates."""
    path = folder / "generated" / TRUTH
    return pd.read_csv(path, keep_default_na=False, dtype={"item": str, "documents": str})


def simulated_judgements(scan: Scan, truth: pd.DataFrame, seed: int) -> Judgements:
    """Return how a language model and a person might have judged pairs of a scan."""
    rng = stream(seed, "simulated judgements")
    pairs = scan.matches[scan.matches["rank"] <= JUDGED_EACH].reset_index(drop=True)
    known = truth.set_index(_KEYS).loc[list(pairs[_KEYS].itertuples(index=False, name=None))]
    texts = zip(pairs["document"], known["documents"], strict=True)
    # Of a document in several chunks, the one that is like the item holds the duplicate.
    first = ~pairs.duplicated([*_KEYS, "source", "document"]).to_numpy()
    true = np.array([document in documents.split() for document, documents in texts]) & first
    kind = known["kind"].map(_KINDS).fillna("").to_numpy()
    wrong = rng.random(len(pairs)) < JUDGE_ERROR
    by_model = _said(pairs, true != wrong, true, kind, "llm:simulated")
    chosen = np.sort(rng.choice(len(pairs), BY_A_PERSON, replace=False))
    by_person = _said(pairs, true, true, kind, "simulated person").iloc[chosen]
    table = pd.concat([by_model, by_person], ignore_index=True)
    return Judgements.from_frame(table, source="simulated judgements")


def _said(
    pairs: pd.DataFrame, called: np.ndarray, true: np.ndarray, kind: np.ndarray, judge: str
) -> pd.DataFrame:
    """Return verdicts as judgements; of wrong ones the kind is wrong, too."""
    named = np.where(true, kind, "equivalent")
    return pairs[list(PAIR)].assign(
        judge=judge,
        is_duplicate=called.astype(int),
        kind=np.where(called, named, np.where(true, "related", "unrelated")),
        comment="simulated",
    )


def simulated_responses(truth: pd.DataFrame, seed: int) -> Responses:
    """Return responses of models that remember the items which truly have duplicates."""
    rng = stream(seed, "simulated responses")
    ability = np.linspace(1.0, -1.0, MODELS)[:, None]
    slope = rng.normal(SLOPE, SLOPE_SD, (MODELS, 1))
    difficulty = rng.standard_normal(len(truth))
    duplicated = (truth["n_duplicates"] > 0).to_numpy()
    p = expit(ability - difficulty + slope * duplicated)
    correct = (rng.random(p.shape) < p).astype(int)
    parts = [
        truth[_KEYS].assign(model=f"simulated {letter}", correct=answers)
        for letter, answers in zip(string.ascii_uppercase, correct, strict=False)
    ]
    table = pd.concat(parts, ignore_index=True)
    return Responses.from_frame(table, source="simulated responses")
