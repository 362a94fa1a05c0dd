"""Stages: what workers load, and how many tasks many small files make."""

import pickle
import random
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayescontam.scan.chunking import ChunkStage
from bayescontam.scan.documents import Cutoffs
from bayescontam.scan.embedders import load_embedder
from bayescontam.scan.execution import Execution, stage_folder
from bayescontam.scan.run import run_scan
from bayescontam.specs.corpus import Chunking, Embedding
from tests.support.corpora import manifest, shard_lines, text, write_items

HEAVY = ("torch", "transformers", "sentence_transformers", "semchunk", "datasets", "ray")


def test_workers_that_read_load_no_models() -> None:
    code = f"""
import sys
import bayescontam.scan.run
print([name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_workers_that_chunk_load_no_model(tmp_path: Path) -> None:
    code = """
import pickle, sys
from pathlib import Path
stage = pickle.loads(Path(sys.argv[1]).read_bytes())
assert stage.count(["one two three"]) == [3]
stage()
print([name for name in ("torch", "transformers", "sentence_transformers") if name in sys.modules])
"""
    for model in ("hashing", "minilm"):
        embedder = load_embedder(Embedding(model=model), "cpu")
        cutoffs, specs = Cutoffs(pd.DataFrame()), {"": Chunking()}
        stage = ChunkStage(Path(), Path(), cutoffs, embedder.count, embedder.max_tokens, specs, 16)
        path = tmp_path / model
        path.write_bytes(pickle.dumps(stage))
        done = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
        )
        assert done.stdout == "[]\n"


def test_small_files_share_shards_and_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(1)
    (tmp_path / "tiny").mkdir()
    for number in range(300):
        (tmp_path / "tiny" / f"{number}.txt").write_text(text(rng))
    write_items(tmp_path / "items.jsonl", 3)
    tasks: dict[str, int] = {}
    run = Execution.run

    def counting(self: Execution, title: str, stage: Any, todo: Any, *more: Any) -> Any:
        tasks[title] = len(todo)
        return run(self, title, stage, todo, *more)

    monkeypatch.setattr(Execution, "run", counting)
    monkeypatch.setattr("bayescontam.scan.documents._FILES", 10)
    made = manifest("paths = ['tiny']", search="shard_chunks = 128")
    found = run_scan(made, tmp_path / "out", base=tmp_path, jobs=1, device="cpu")
    assert tasks == {"items": 1, "read": 30, "chunk": 1, "search": 3}
    assert len(shard_lines(tmp_path / "out")) == 3
    assert found.record["search"]["chunks"] == 300
    assert {row.document for row in found.matches.itertuples()} <= {
        f"tiny/{number}.txt#1" for number in range(300)
    }


CONDITIONS: list[tuple[object, ...]] = [
    (), (0,), (1,), (1.0,), (True,), ("1",), (None,), ("None",), ([],), ({},), (1, 2), ([1, 2],),
    ("ab", "c"), ("a", "bc"), ("é",), ("e\u0301",), ("\ud800",), ({"a": 1},), ({"a": 2},),
    ({"b": 1},), ({"a": {"b": 1}},),
]  # fmt: skip


def test_stages_of_other_conditions_have_other_folders(tmp_path: Path) -> None:
    for one, other in combinations(CONDITIONS, 2):
        assert stage_folder(tmp_path, "read", *one) != stage_folder(tmp_path, "read", *other)
    assert stage_folder(tmp_path, "read", 1) != stage_folder(tmp_path, "chunk", 1)


def test_stages_of_equal_conditions_share_a_folder(tmp_path: Path) -> None:
    folder = stage_folder(tmp_path, "read", {"a": 1, "b": (2, 3)})
    assert folder.parent == tmp_path / "work"
    (folder / "000000.json").write_text("{}")
    again = stage_folder(tmp_path, "read", {"b": [2, 3], "a": 1})
    assert again == folder
    assert (again / "000000.json").read_text() == "{}"


def test_conditions_that_do_not_report_their_value_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        stage_folder(tmp_path, "read", object())


def test_what_a_killed_task_left_half_written_is_removed(tmp_path: Path) -> None:
    folder, other = stage_folder(tmp_path, "read"), stage_folder(tmp_path, "search")
    for name in (".a.parquet.abcdefgh.part", "000000.parquet"):
        (folder / name).write_text("half or whole")
        (other / name).write_text("half or whole")
    assert stage_folder(tmp_path, "read") == folder
    assert [path.name for path in folder.iterdir()] == ["000000.parquet"]
    assert len(list(other.iterdir())) == 2
