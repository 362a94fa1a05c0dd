"""Real texts: programming tasks, of half of which a corpus has planted duplicates."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

import bayescontam
from bayescontam import Curve
from bayescontam.data.judgements import PAIR
from bayescontam.evidence.pairs import scan_pairs
from bayescontam.scan.results import Scan
from bayescontam.specs.registry import quick_manifest
from tests.support.real_data import shared


def scan_texts(folder: Path, step: int = 1) -> Scan:
    """Scan every so many of 188 tasks in a corpus of their duplicates and of other texts."""
    truth = planted_counts()
    tasks = pd.concat([truth[truth > 0].iloc[::step], truth[truth == 0].iloc[::step]]).index
    items, corpus = (
        pd.read_json(shared(f"texts/{name}.jsonl"), lines=True, dtype=False)
        for name in ("benchmark", "corpus")
    )
    of = "task-" + corpus["id"].str.extract(r"^(?:dup|exact)-(\d+)")[0]
    others = corpus.index[of.isna()][::step]
    tables = {
        "benchmark": items[items["id"].isin(tasks)],
        "corpus": corpus[of.isin(tasks) | corpus.index.isin(others)],
    }
    for name, table in tables.items():
        table.to_json(folder / f"{name}.jsonl", orient="records", lines=True)
    files = str(folder / "benchmark.jsonl"), (str(folder / "corpus.jsonl"),)
    manifest = quick_manifest(*files, {"text_mode": "input_output"})
    return bayescontam.run_scan(manifest, folder / "scan", jobs=1)


def planted_counts() -> "pd.Series[int]":
    """Return the number of duplicates that were planted of each task."""
    return pd.read_csv(shared("texts/truth.csv")).set_index("item")["n_duplicates"]


def contaminated(scan: Scan) -> np.ndarray:
    """Return whether duplicates of each item were planted."""
    planted = planted_counts().reindex(scan.items["item"]).to_numpy() > 0
    assert 2 * planted.sum() == len(planted) >= 60
    return planted


def true_pairs(scan: Scan) -> set[tuple[object, ...]]:
    """Return the pairs that are duplicates: of each planted document the best chunk."""
    pairs = scan_pairs(scan)
    task = pairs["item"].str.removeprefix("task-")
    planted = pairs["document"].str.extract(r"^(?:dup|exact)-(\d+)")[0] == task
    best = pairs[planted].drop_duplicates(["item", "document"])
    return set(best[list(PAIR)].itertuples(index=False, name=None))


def verdicts(pairs: pd.DataFrame, scan: Scan, judge: str, error: float) -> pd.DataFrame:
    """Return the truth of pairs, each turned round with probability `error`."""
    true, rng = true_pairs(scan), np.random.default_rng(1)
    rows = pairs[list(PAIR)]
    said = [key in true for key in rows.itertuples(index=False, name=None)]
    called = np.array(said) ^ (rng.random(len(rows)) < error)
    return rows.assign(judge=judge, is_duplicate=called.astype(int))


def assert_found(scan: Scan, curve: Curve, auc: float) -> np.ndarray:
    """Check that contamination distinguishes planted items from others, and how many they are."""
    planted = contaminated(scan)
    weighed = bayescontam.item_contamination(scan, curve)
    p = 1 - weighed.none.mean(axis=0)
    ranks = mannwhitneyu(p[planted], p[~planted]).statistic
    assert ranks / (planted.sum() * (~planted).sum()) >= auc
    reported = bayescontam.prevalence(weighed).iloc[0]
    assert reported["by"] == "corpus"
    assert reported["n_low"] <= planted.sum() <= reported["n_high"]
    return p
