"""Known duplicates: how many a scan finds, and how well scores show who has one.

Run by ``make bench-all``, on the shared texts: tasks of which half have duplicates in the corpus.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayescontam.scan.run import run_scan
from bayescontam.specs.registry import quick_manifest
from tests.support.real_data import shared

pytest.importorskip("torch")

LEXICAL = ["ngram_2", "ngram_3", "ngram_8", "ngram_13", "jaccard", "rouge_l"]


def area(scores: "pd.Series[float]", planted: "pd.Series[bool]") -> float:
    """Return the area under the ROC curve: how often a duplicated task scores higher."""
    one, other = scores[planted], scores[~planted]
    return float(stats.mannwhitneyu(one, other).statistic / (len(one) * len(other)))


def figures(matches: pd.DataFrame, planted: "pd.Series[bool]") -> dict[str, float]:
    """Return shares of tasks whose own duplicate is found, and areas by score.

    Documents are called ``dup-7-1`` or ``exact-7``, after the task ``task-7``.
    """
    parts = matches["document"].str.split("-")
    own = parts.str[0].isin(["dup", "exact"]) & (
        parts.str[1] == matches["item"].str.removeprefix("task-")
    )
    rank = matches["rank"].where(own).groupby(matches["item"]).min().reindex(planted.index)
    found = {f"own duplicate in the top {k}": float((rank[planted] <= k).mean()) for k in (1, 10)}
    best = matches.groupby("item")[["cosine", *LEXICAL]].max().fillna(0).reindex(planted.index)
    return found | {f"AUC of best {name}": area(best[name], planted) for name in best}


@pytest.mark.timeout(1800)
def test_duplicates_are_found(tmp_path: Path) -> None:
    folder = shared("texts/benchmark.jsonl").parent
    truth = pd.read_csv(folder / "truth.csv").set_index("item")["n_duplicates"]
    corpus = (str(folder / "corpus.jsonl"),)
    table = {}
    for mode in ("input", "input_output"):
        options = {"text_mode": mode, "stratum": "source"}
        spec = quick_manifest(str(folder / "benchmark.jsonl"), corpus, options)
        scan = run_scan(spec, tmp_path / mode, device="cpu")
        table[mode] = figures(scan.matches, truth > 0)
    print("\n" + pd.DataFrame(table).round(3).to_string())
    for found in table.values():
        assert found["own duplicate in the top 10"] >= 0.98
        assert found["AUC of best cosine"] > max(found[f"AUC of best {n}"] for n in LEXICAL)
    assert np.isfinite(pd.DataFrame(table).to_numpy()).all()
