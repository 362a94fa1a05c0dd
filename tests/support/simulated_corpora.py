"""Simulated: corpora and judgements of which everything is known."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bayescontam.scan.results import Scan

TOP_K = 100


class SimulatedScan(Scan):
    """A scan whose tables are in memory."""

    def __init__(self, tables: dict[str, pd.DataFrame], record: dict[str, object]) -> None:
        super().__init__(Path("simulated"), record)
        for name, table in tables.items():
            self.__dict__[name] = table


@dataclass(frozen=True)
class Corpus:
    """How a corpus is simulated.

    Attributes
    ----------
    items : int
    clean : float
        Share of items without any duplicate.
    mean, shape : float
        Of the negative binomial number of duplicates of the other items.
    near : int
        Other chunks near enough to an item to matter, in the whole corpus.
    share : float
        Share of the corpus that is scanned.
    """

    items: int = 200
    clean: float = 0.5
    mean: float = 3.0
    shape: float = 1.5
    near: int = 20_000
    share: float = 1.0


@dataclass(frozen=True)
class Truth:
    """A simulated scan, with what is true of it.

    Attributes
    ----------
    scan : Scan
    duplicates : array of int
        Of each item in the whole corpus.
    true : pandas.Series
        Of each listed match, whether it is a duplicate.
    """

    scan: Scan
    duplicates: np.ndarray
    true: "pd.Series[bool]"


def simulate(corpus: Corpus, rng: np.random.Generator) -> Truth:
    """Simulate a corpus and its scan.

    Cosines of duplicates are Normal(0.75, 0.11), those of other chunks Normal(0.35 + e,
    0.11) with an e of the item, so that the log-odds of a duplicate are a line in the
    cosine that differs between items.
    """
    rate = rng.gamma(corpus.shape, corpus.mean / corpus.shape, corpus.items)
    duplicates = rng.poisson(rate) * (rng.random(corpus.items) >= corpus.clean)
    rows, counts = [], []
    for i, number in enumerate(duplicates):
        found = rng.binomial(number, corpus.share)
        others = rng.binomial(corpus.near, corpus.share)
        center = 0.35 + rng.normal(0, 0.03)
        cosine = np.concatenate([rng.normal(0.75, 0.11, found), rng.normal(center, 0.11, others)])
        cosine = np.clip(cosine, -1, 0.999)
        true = np.arange(len(cosine)) < found
        order = np.argsort(-cosine)[:TOP_K]
        name = f"i{i:04d}"
        rows.append(
            pd.DataFrame(
                {"item": name, "rank": np.arange(1, len(order) + 1), "cosine": cosine[order],
                 "document": [f"{name}-{k}" for k in order], "true": true[order]}
            )
        )  # fmt: skip
        bins, number_in = np.unique(np.floor(cosine * 1000).astype(int), return_counts=True)
        counts.append(pd.DataFrame({"item": name, "cosine": bins / 1000, "count": number_in}))
    matches = pd.concat(rows, ignore_index=True).assign(
        benchmark="b", source="web", stratum="", chunk=0, copies=1, start=0, end=1
    )
    matches["chunk_id"] = np.arange(len(matches), dtype=np.uint64)
    histogram = pd.concat(counts, ignore_index=True).assign(benchmark="b")
    strata = histogram.groupby("cosine", as_index=False)["count"].sum()
    items = [f"i{i:04d}" for i in range(corpus.items)]
    tables = {
        "matches": matches.drop(columns="true"),
        "tail": matches.iloc[:0].drop(columns=["true", "rank"]),
        "histogram": histogram,
        "strata": strata.assign(benchmark="b", source="web", stratum=""),
        "items": pd.DataFrame({"benchmark": "b", "item": items, "text": "", "tokens": 9}),
        "texts": pd.DataFrame({"chunk_id": matches["chunk_id"], "text": ""}),
    }
    documents = 1_000_000
    sampled = round(documents * corpus.share)
    stratum = {"source": "web", "stratum": "", "documents": documents, "sampled": sampled}
    return Truth(SimulatedScan(tables, {"strata": [stratum]}), duplicates, matches["true"])


def judge(
    truth: Truth, rng: np.random.Generator, *, per_item: int = 3, checked: int = 100,
    sensitivity: float = 0.95, specificity: float = 0.95,
) -> pd.DataFrame:  # fmt: skip
    """Judge the best matches of every item by a model, and some of these pairs by a person."""
    matches = truth.scan.matches.assign(true=truth.true)
    chosen = matches[matches["rank"] <= per_item]
    called = np.where(chosen["true"], sensitivity, 1 - specificity) > rng.random(len(chosen))
    model = chosen.assign(judge="llm:simulated", is_duplicate=called.astype(int))
    person = model.sample(min(checked, len(model)), random_state=rng)
    person = person.assign(judge="Ada", is_duplicate=person["true"].astype(int))
    columns = ["benchmark", "item", "source", "document", "chunk", "judge", "is_duplicate"]
    return pd.concat([model, person], ignore_index=True)[columns]
