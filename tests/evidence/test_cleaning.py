"""A corpus without probable duplicates by a curve: limits, judged pairs, and what is refused."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from bayescontam import Curve, Scan, UsageError, write_clean
from bayescontam.errors import FitError
from bayescontam.evidence.cleaning import limits_of
from tests.support.corpora import manifest, text, write_items, write_records
from tests.support.made_curve import judge, make_curve
from tests.support.small_corpus import scan

HERE: dict[str, Any] = {"jobs": 1, "device": "cpu"}
LINE = {"threshold": 0.8, "steepness": 20.0, "threshold_open": 0.7, "steepness_open": 30.0}
COVERED: dict[str, Any] = {"benchmarks": ("b0",), "sources": ("s0", "s1")}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """Scan a corpus with texts at all distances from some items, and none near others."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(6)
    write_items(folder / "items.jsonl", 5)
    items = pd.read_json(folder / "items.jsonl", lines=True, dtype=False)["input"].tolist()
    near = [f"{items[k]} {text(rng, more)}" for k in range(3) for more in range(0, 24, 2)]
    for name in ("a", "b"):
        texts = near[name == "b" :: 2] + [text(rng) for _ in range(20)]
        records = [{"id": f"{name}{i}", "text": one} for i, one in enumerate(texts)]
        write_records(folder / f"{name}.jsonl", records)
    made = manifest(
        "paths = ['a.jsonl']", "paths = ['b.jsonl']",
        search="top_k = 30\ntail_size = 3\nshard_chunks = 16",
    )  # fmt: skip
    return scan(made, folder / "scan")


def p_of(cosine: Any, best: Any) -> Any:
    """Return P(duplicate) as the curve defines it, of the nearest document of an item."""
    return expit(30 * (best - 0.7)) * expit(20 * (cosine - 0.8))


@pytest.mark.parametrize("above", [0.1, 0.5, 0.9])
def test_documents_are_dropped_from_the_probability_on(
    found: Scan, above: float, tmp_path: Path
) -> None:
    curve = make_curve(**COVERED, **LINE)
    clean = write_clean(found, tmp_path / "clean", above=above, curve=curve, **HERE)
    matches = found.matches.assign(best=found.matches.groupby("item")["cosine"].transform("max"))
    matches = matches[p_of(matches["cosine"], matches["best"]) >= above]
    assert 3 < len(matches) < 36
    assert set(clean.dropped["document"]) == set(matches["document"])
    best = found.matches.groupby("item")["cosine"].max()
    wanted = p_of(clean.dropped["cosine"], clean.dropped["item"].map(best))
    np.testing.assert_allclose(clean.dropped["p_duplicate"], wanted, atol=1e-3)
    assert clean.dropped["p_duplicate"].min() >= above - 1e-3
    assert clean.record["limits"]["above"] == above


def test_limits_are_where_the_curve_reaches_the_probability(found: Scan) -> None:
    limits = limits_of(found, make_curve(**COVERED, **LINE), 0.5)
    best = found.matches.groupby("item")["cosine"].max().to_numpy(float)
    share = 0.5 / expit(30 * (best - 0.7))
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = np.where(p_of(1.0, best) >= 0.5, 0.8 + logit(share) / 20, np.inf)
    assert np.isfinite(wanted).sum() == 3
    np.testing.assert_allclose(limits.cosine, np.repeat(wanted[:, None], 2, axis=1), atol=1e-3)


def test_sources_have_limits_of_their_own(found: Scan) -> None:
    curve = make_curve(**COVERED, **LINE)
    curve.data["posterior"]["source_shift"][:] = np.array([0.05, -0.05])
    limits = limits_of(found, curve, 0.5)
    near = np.isfinite(limits.cosine).all(axis=1)
    np.testing.assert_allclose(limits.cosine[near, 0] - limits.cosine[near, 1], 0.1, atol=1e-3)


def test_scanned_again_nothing_reaches_the_probability(found: Scan, tmp_path: Path) -> None:
    curve = make_curve(**COVERED, **LINE)
    clean = write_clean(found, tmp_path / "clean", above=0.3, curve=curve, **HERE)
    files = clean.folder / "files"
    write_items(files / "items.jsonl", 5)
    made = manifest("paths = ['a.jsonl']", "paths = ['b.jsonl']", search="shard_chunks = 16")
    again = scan(made, files / "scan")
    best = again.matches.groupby("item")["cosine"].transform("max")
    assert p_of(again.matches["cosine"], best).max() < 0.3
    twice = write_clean(again, tmp_path / "twice", above=0.3, curve=curve, **HERE)
    assert twice.dropped.empty


def test_what_judges_called_duplicates_goes_at_any_cosine(found: Scan, tmp_path: Path) -> None:
    own = found.matches[found.matches["item"] == "0"]
    far = own[own["cosine"] < 0.6].head(2)
    near = own[own["cosine"] > 0.95].head(1)
    verdicts = pd.concat([judge(pd.concat([far, near]), [1, 0, 0], "Ada")])
    curve = make_curve(**COVERED, **LINE, judged=verdicts)
    clean = write_clean(found, tmp_path / "clean", above=0.5, curve=curve, **HERE)
    rows = clean.dropped.set_index("document")
    assert rows["judged"].sum() == 1
    assert rows.loc[far["document"].iloc[0], "judged"]
    assert rows.loc[far["document"].iloc[0], "p_duplicate"] < 0.1
    assert far["document"].iloc[1] not in rows.index
    # A verdict alone keeps nothing that is above the limit.
    assert near["document"].iloc[0] in rows.index


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, r"needs a limit: give --above P .* or --above-cosine C"),
    "both": ({"above": 0.5, "above_cosine": 0.8}, r"needs a limit: .* and not both"),
    "no curve": ({"above": 0.5}, r"--above: a probability needs a curve .*bayescontam curve"),
    "zero": ({"above": 0.0, "curve": "c.nc"}, r"--above: got 0; allowed is a probability above 0"),
    "two": ({"above": 2.0, "curve": "c.nc"}, r"--above: got 2; allowed is a probability"),
    "no number": ({"above": float("nan"), "curve": "c.nc"}, r"--above: got nan; allowed is"),
    "no cosine": ({"above_cosine": 1.5}, r"--above-cosine: got 1\.5; allowed is a cosine"),
    "curve alone": ({"above_cosine": 0.5, "curve": "c.nc"}, r"--curve: is for --above P"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_limits_that_cannot_be_used(found: Scan, tmp_path: Path, case: str) -> None:
    options, problem = REFUSED[case]
    with pytest.raises(UsageError, match=problem):
        write_clean(found, tmp_path / "clean", **options)


def test_curves_that_cannot_be_used(
    found: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "clean"
    with pytest.raises(FitError, match=r"none\.nc: no such file"):
        write_clean(found, out, above=0.5, curve=tmp_path / "none.nc")
    lacking = make_curve(("other",), ("s0", "s1"))
    with pytest.raises(UsageError, match=r"curve: does not cover benchmark 'b0' of this scan"):
        write_clean(found, out, above=0.5, curve=lacking)
    with pytest.raises(UsageError, match=r"curve: does not cover source 's1' of this scan"):
        write_clean(found, out, above=0.5, curve=make_curve(("b0",), ("s0",)))
    flat = make_curve(**COVERED, **LINE)
    with pytest.raises(UsageError, match=r"got 0\.99, .*benchmark 'b0' in source 's0' is 0\.98.*"):
        write_clean(found, out, above=0.99, curve=flat)
    record = flat.record | {"embedder": {"model": "another"}}
    monkeypatch.setattr(Curve, "record", record)
    with pytest.raises(UsageError, match=r"curve: is of cosines of another embedder \(model"):
        write_clean(found, out, above=0.5, curve=make_curve(**COVERED, **LINE))
    assert not out.exists()
