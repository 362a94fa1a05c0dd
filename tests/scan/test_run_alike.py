"""What must not change a scan: workers, shards, and the files that texts stand in."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.scan.run import Scan
from tests.support.corpora import tables_of, write_records
from tests.support.small_corpus import ATOL, Small, scan, small_manifest


def test_jobs_do_not_matter(small: Small, scanned: Scan, tmp_path: Path) -> None:
    again = scan(small.manifest, tmp_path / "out", base=small.folder, jobs=2)
    assert tables_of(again.folder) == tables_of(scanned.folder)


def test_the_order_of_files_does_not_matter(small: Small, scanned: Scan, tmp_path: Path) -> None:
    other = small_manifest(web="web/c*', 'web/b*', 'web/a*', 'web/b.jsonl.gz")
    again = scan(other, tmp_path / "out", base=small.folder)
    assert tables_of(again.folder) == tables_of(scanned.folder)


def assert_alike(one: Scan, other: Scan) -> None:
    """Assert that two scans find the same, but for swaps of cosines that are as good as equal."""
    items = ["benchmark", "item"]
    for name in ("matches", "tail"):
        a, b = (getattr(s, name).set_index([*items, "chunk_id"]) for s in (one, other))
        both = a.index.intersection(b.index)
        np.testing.assert_allclose(a.loc[both, "cosine"], b.loc[both, "cosine"], atol=ATOL)
        reported = ["document", "chunk", "start", "end", "source", "stratum", "copies"]
        pd.testing.assert_frame_equal(a.loc[both, reported], b.loc[both, reported])
        assert len(both) >= 0.99 * len(a)
    cosines = [s.matches.sort_values([*items, "rank"])["cosine"] for s in (one, other)]
    np.testing.assert_allclose(*cosines, atol=ATOL)
    for name in ("histogram", "strata"):
        a, b = (getattr(s, name) for s in (one, other))
        keys = [column for column in a.columns if column not in ("cosine", "count")]
        counts = [t.groupby([*keys, "cosine"])["count"].sum() for t in (a, b)]
        # A cosine on an edge may fall to either side.
        assert counts[0].sub(counts[1], fill_value=0).abs().sum() <= 0.001 * counts[0].sum()
        assert counts[0].groupby(keys).sum().equals(counts[1].groupby(keys).sum())


@pytest.mark.parametrize("rows", [17, 64, 4096])
def test_the_size_of_shards_does_not_matter(
    small: Small, scanned: Scan, tmp_path: Path, rows: int
) -> None:
    assert_alike(scanned, scan(small_manifest(rows), tmp_path / "out", base=small.folder))


def test_the_files_that_documents_stand_in_do_not_matter(
    small: Small, scanned: Scan, tmp_path: Path
) -> None:
    for name in ("items.jsonl", "more.csv", "table.parquet", "notes"):
        (tmp_path / name).symlink_to(small.folder / name)
    rows = small.documents[small.documents["source"] == "s0"].sample(frac=1, random_state=1)
    records = [
        {"id": row.document, "kind": row.stratum, "body": row.text} for row in rows.itertuples()
    ]
    for part in range(7):
        write_records(tmp_path / "web" / f"{part}.jsonl", records[part::7])
    assert_alike(scanned, scan(small.manifest, tmp_path / "out", base=tmp_path))
