"""Running out of memory or disk is one message and exit status 2, whatever ran out of it."""

import errno
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pytest
import xarray as xr

import bayescontam.data.tables
from bayescontam.inference.result import Fit
from tests.cli.conftest import Done
from tests.support.full_disk import files_up_to

TABLE = "model,benchmark,item,correct\nm,b,i,1\n"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), r"^error: out of memory; no file was left half written\nuse fewer rows"),
        (np._core._exceptions._ArrayMemoryError((10**12,), np.dtype(float)), r"Unable to allocate"),
        (pa.ArrowMemoryError("malloc of size 7 failed"), r"\(malloc of size 7 failed\)"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "^error: out of memory"),
        (OSError(errno.ENOSPC, "No space left", "o.nc"), r"^error: the disk is full \(.*'o.nc'\)"),
    ],
)
def test_what_ran_out_is_named(
    run: Callable[..., Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    message: str,
) -> None:
    def fails(*_: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(bayescontam.data.tables, "unpacked", fails)
    (tmp_path / "a.csv").write_text(TABLE)
    done = run("fit", tmp_path / "a.csv", "--out", tmp_path / "o.nc")
    assert done.status == 2
    assert re.search(message, done.err)
    assert "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_fit_too_large_for_the_disk_is_not_half_written(tmp_path: Path) -> None:
    draws = np.random.default_rng(1).normal(size=10**5)
    tree = xr.DataTree.from_dict({"/posterior": xr.Dataset({"x": ("draw", draws)})})
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN
    with files_up_to(50_000), pytest.raises(OSError, match="File too large") as caught:
        Fit(tree).to_netcdf(tmp_path / "o.nc")
    assert caught.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []
