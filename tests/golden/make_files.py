"""Writes the files in ``tests/golden/files``, as the version of the package at hand stores them.

Run it by hand only, and only to add files of a new format: those that are there say what users
have on their disks, and must be read by every later version.

    python -m tests.golden.make_files NAME …

NAME is ``tables``, ``fits``, one of the fits, ``scan``, ``curve``, ``study``, ``published`` or
``answers``.
"""

import json
import lzma
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

import bayescontam
from bayescontam.cli.app import app
from tests.golden.corpus import (
    JUDGEMENTS,
    MANIFEST,
    corpus_in_memory,
    write_corpus,
    write_judgements,
)
from tests.golden.stored import ANSWERS, CURVE, FILES, FITS, SCANS, STUDIES, fit_of
from tests.golden.tables import TABLES, draw_tables
from tests.support.llm_server import running
from tests.support.made_findings import findings, spec, with_analysis


class Interrupted(BaseException):
    """What stops a run half-way."""


def make_tables() -> None:
    """Write the tables of responses."""
    TABLES.mkdir(exist_ok=True)
    for name, table in draw_tables().items():
        table.to_csv(TABLES / f"{name}.csv", index=False, lineterminator="\n")


def make_fit(name: str) -> None:
    """Write one of the fits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fit.nc")
        fit_of(FITS[name]).to_netcdf(path)
        pack(path, FILES / f"{name}.nc.xz")


def make_scan() -> None:
    """Write a corpus, its finished scan, and a scan that stopped while it searched."""
    from bayescontam.scan.sketch import SketchMerger

    take = SketchMerger.take
    taken: list[str] = []

    def stopping(self: SketchMerger, key: str) -> None:
        take(self, key)
        taken.append(key)
        if len(taken) == 2:
            raise Interrupted

    write_corpus(SCANS)
    with corpus_in_memory(), elsewhere() as folder:
        shutil.copytree(SCANS / "corpus", folder / "corpus")
        shutil.copy(SCANS / MANIFEST, folder)
        done = bayescontam.run_scan(MANIFEST, "finished", jobs=1, device="cpu")
        write_judgements(done.matches, SCANS / JUDGEMENTS)
        with mock.patch.object(SketchMerger, "take", stopping), ended_early():
            bayescontam.run_scan(MANIFEST, "stopped", jobs=1, device="cpu")
        for name in ("finished", "stopped"):
            replaced(folder / name, SCANS / name)
    record = SCANS / "finished" / "scan.json"
    content = json.loads(record.read_text(encoding="utf-8"))
    content["base"] = "/golden"
    record.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def make_curve() -> None:
    """Write the curve of the finished scan."""
    curve = bayescontam.fit_curve(
        SCANS / "finished", SCANS / JUDGEMENTS, seed=7, draws=50, tune=500, chains=2, cores=1
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "curve.nc")
        curve.to_netcdf(path)
        pack(path, CURVE)


def make_study() -> None:
    """Write the runs of two studies, whole and stopped half-way."""
    for name in ("bootstrap", "sampled"):
        with elsewhere() as folder:
            for file in (f"{name}.toml", "mine.toml"):
                shutil.copy(STUDIES / file, folder)
            bayescontam.run_study(f"{name}.toml", "out", jobs=1, block=1)
            replaced(folder / "out", STUDIES / name / "finished")
        stopped = replaced(STUDIES / name / "finished", STUDIES / name / "stopped")
        shards = sorted((stopped / "rows").glob("*.parquet"))
        for shard in shards[1::2]:
            shard.unlink()
        record = json.loads((stopped / "study.json").read_text(encoding="utf-8"))
        for key in ("fits", "audits"):
            del record[key]
        (stopped / "study.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def pack(path: Path, target: Path) -> None:
    """Write a file compressed."""
    target.write_bytes(lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME))


def make_published() -> None:
    """Write the run of a published study, with findings that are made up."""
    with pytest.MonkeyPatch.context() as patch, elsewhere() as folder:
        with_analysis(patch, lambda _: findings())
        bayescontam.run_reproduction(spec(), "out")
        replaced(folder / "out", STUDIES / "published")


def make_answers() -> None:
    """Write answers of a language model on pairs of the finished scan."""
    with running() as server, elsewhere() as folder:
        run_judge(SCANS / "finished", server.base_url, "answers")
        replaced(folder / "answers", ANSWERS)


def run_judge(scan: Path, address: str, cache: str) -> None:
    """Have the language model at an address judge some pairs of a scan."""
    options = ["--base-url", address, "--model", "small", "--out", "judged.csv", "--cache", cache]
    done = CliRunner().invoke(app, ["judge", "llm", str(scan), "--pairs", "4", *options])
    assert done.exit_code == 0, done.output


@contextmanager
def elsewhere() -> Iterator[Path]:
    """Work in an empty folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


@contextmanager
def ended_early() -> Iterator[None]:
    """Expect that the block is interrupted."""
    try:
        yield
    except Interrupted:
        return
    raise AssertionError("nothing was interrupted")


def replaced(source: Path, target: Path) -> Path:
    """Copy a folder in the place of another."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target


MAKERS: dict[str, Callable[[], None]] = {
    "tables": make_tables, "scan": make_scan, "curve": make_curve, "study": make_study,
    "published": make_published, "answers": make_answers,
}  # fmt: skip


def main(names: list[str]) -> None:
    """Write what the names say."""
    for name in names:
        for each in FITS if name == "fits" else [name]:
            MAKERS[each]() if each in MAKERS else make_fit(each)


if __name__ == "__main__":
    main(sys.argv[1:])
