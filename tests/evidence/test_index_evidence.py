"""What an index estimates of duplicates, against the exact search of the same vectors."""

import json
from pathlib import Path

import numpy as np
import pytest

from bayescontam.evidence.covariates import ItemContamination, item_contamination
from bayescontam.evidence.prevalence import prevalence
from bayescontam.scan import index_build
from bayescontam.scan.index_build import build_index
from bayescontam.scan.run import run_scan
from bayescontam.specs.corpus import Manifest
from tests.support.made_evidence import make_curve, make_draws
from tests.support.made_vectors import drawn_vectors, write_vectors

ITEMS, TEXTS, DRAWS = 150, 6000, 200


@pytest.fixture(scope="module")
def weighed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ItemContamination]:
    """Return what an exact scan and one by an index say of the same items, by one curve."""
    folder = tmp_path_factory.mktemp("made")
    write_vectors(folder / "vectors", TEXTS, part=3000)
    np.save(folder / "items.npy", drawn_vectors(ITEMS, seed=11))
    lines = [json.dumps({"id": f"q{i}", "input": f"item {i}"}) for i in range(ITEMS)]
    (folder / "items.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_build, "_SAMPLE", 300)
        index = build_index(folder / "vectors", folder / "index", kind="ivf-sq8")
    assert index.about["weight"] == 20
    # Steep, so that most of what is duplicated is not among the best matches.
    curve = make_curve(make_draws(DRAWS, threshold=0.75, steepness=25.0), sources=("made",))
    found = {}
    for name, top in (("exact", "stored = ['vectors']"), ("index", "index = 'index'")):
        text = f"""summary = "test"
{top}
[[benchmarks]]
name = "quiz"
path = "items.jsonl"
vectors = "items.npy"
[search]
top_k = 5
tail_size = 5
"""
        scan = run_scan(Manifest.parse(text, "made.toml"), folder / name, base=folder, jobs=1)
        found[name] = item_contamination(scan, curve, draws=DRAWS)
    return found


def test_numbers_of_duplicates_cover_those_of_an_exact_search(
    weighed: dict[str, ItemContamination],
) -> None:
    # The curve is known, so that the exact search leaves nothing open.
    true = weighed["exact"].expected_rest
    assert np.ptp(true, axis=0).max() < 1e-9 * true.max()
    draws, true = weighed["index"].expected_rest, true[0]
    assert (draws.std(axis=0) > 0).all()
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    inside = (low <= true) & (true <= high)
    # Seeds are fixed. Of 150, 95 % would be 142 if they did not share one sample.
    assert inside.mean() > 0.85
    assert draws.sum(axis=1).mean() == pytest.approx(true.sum(), rel=0.1)


def test_prevalence_is_near_that_of_an_exact_search(weighed: dict[str, ItemContamination]) -> None:
    tables = {name: prevalence(each).set_index("by") for name, each in weighed.items()}
    exact, found = (tables[name].loc["corpus"] for name in ("exact", "index"))
    assert abs(found["mean"] - exact["mean"]) < 0.03
    assert found["ci_low"] <= exact["mean"] <= found["ci_high"]


def test_vectors_alone_are_searched_whole(tmp_path: Path) -> None:
    """A scan of sources that have no documents to count."""
    np.save(tmp_path / "v.npy", drawn_vectors(400, seed=2))
    np.save(tmp_path / "items.npy", drawn_vectors(5, seed=11))
    lines = [json.dumps({"id": f"q{i}", "input": f"item {i}"}) for i in range(5)]
    (tmp_path / "items.jsonl").write_text("\n".join(lines) + "\n")
    text = """summary = "test"
[[sources]]
name = "ready"
paths = ["v.npy"]
format = "vectors"
[[benchmarks]]
name = "quiz"
path = "items.jsonl"
vectors = "items.npy"
[search]
top_k = 5
tail_size = 5
"""
    scan = run_scan(Manifest.parse(text, "made.toml"), tmp_path / "out", base=tmp_path, jobs=1)
    curve = make_curve(make_draws(20, threshold=0.75, steepness=25.0), sources=("ready",))
    weighed = item_contamination(scan, curve, draws=20)
    assert weighed.shares.tolist() == [1.0]
    np.testing.assert_array_equal(weighed.none, weighed.none_scanned)
