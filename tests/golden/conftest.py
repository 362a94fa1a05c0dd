"""Files of earlier versions, unpacked once, and the command line run in this process."""

import lzma
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import restored, run, unhurried
from tests.golden.stored import ANSWERS, FILES, SCANS, STUDIES
from tests.support.pages import undrawn

__all__ = ["restored", "run", "stored", "there", "undrawn", "unhurried"]


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of all stored files, not to be written to."""
    folder = tmp_path_factory.mktemp("stored")
    for path in FILES.glob("*.xz"):
        (folder / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    shutil.copytree(SCANS, folder / "scan")
    shutil.copytree(STUDIES, folder / "study")
    shutil.copytree(ANSWERS, folder / "answers")
    return folder


@pytest.fixture
def there(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own with copies of all stored files."""
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
