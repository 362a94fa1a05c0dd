import os
import subprocess
import sys
from pathlib import Path

import pytest

SKIPS = """
import pytest

def test_missing_extra():
    pytest.importorskip("no_such_package_anywhere")

@pytest.mark.skipif(True, reason="no browser")
def test_missing_browser():
    pass

@pytest.mark.skip(reason="no shared data: a.csv")
def test_no_data():
    pass

def test_no_gpu():
    pytest.skip("needs a GPU")

@pytest.mark.xfail(strict=True)
def test_known_fault():
    assert False

def test_good():
    pass
"""
WHOLE_FILE = 'import pytest\npytest.importorskip("no_such_package_anywhere")\n'


def run_pytest(folder: Path, required: str) -> str:
    conftest = Path(__file__).with_name("conftest.py").read_text(encoding="utf-8")
    (folder / "conftest.py").write_text(conftest, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-n", "0"]
    done = subprocess.run(
        [*command, "--rootdir", str(folder), str(folder)],
        env={**kept, "BAYESCONTAM_REQUIRE_ALL": required},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def test_skips_stay_skips_by_default(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIPS, encoding="utf-8")
    assert "1 passed, 4 skipped, 1 xfailed" in run_pytest(tmp_path, required="0")


def test_required_skips_fail_but_for_data_and_gpu(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIPS, encoding="utf-8")
    output = run_pytest(tmp_path, required="1")
    # A skip by a mark happens in the set-up of a test, where pytest calls a failure an error.
    assert "1 failed, 1 passed, 2 skipped, 1 xfailed, 1 error" in output
    assert "skipped under BAYESCONTAM_REQUIRE_ALL=1: no browser" in output


@pytest.mark.parametrize(("required", "expected"), [("0", "1 skipped"), ("1", "1 error")])
def test_a_file_skipped_whole(tmp_path: Path, required: str, expected: str) -> None:
    (tmp_path / "test_it.py").write_text(WHOLE_FILE, encoding="utf-8")
    assert expected in run_pytest(tmp_path, required)
