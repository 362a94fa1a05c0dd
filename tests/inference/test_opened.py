"""Files that are read: the same trees in fewer steps, and nothing left of it afterwards."""

import lzma
from pathlib import Path
from typing import Any

import h5py
import pytest
import xarray as xr
from h5netcdf import core, dimensions

from bayescontam.inference.opened import LOOKED_UP, opened
from tests.golden.stored import FILES

PLACES = core.BaseObject, dimensions.Dimension


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fit") / "compact.nc"
    path.write_bytes(lzma.decompress((FILES / "compact.nc.xz").read_bytes()))
    return path


def plain(path: Path) -> xr.DataTree:
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        return tree.load()


def test_the_tree_is_that_of_xarray_in_half_of_the_look_ups(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, count = h5py.Group.__getitem__, 0

    def counted(self: Any, name: Any) -> Any:
        nonlocal count
        count += 1
        return get(self, name)

    monkeypatch.setattr(h5py.Group, "__getitem__", counted)
    wanted, needed = plain(path), count
    count = 0
    with opened(path) as tree:
        found = tree.load()
    assert found.identical(wanted)
    assert count < 0.5 * needed


def test_what_is_written_meanwhile_is_written_as_ever(path: Path, tmp_path: Path) -> None:
    with opened(path) as tree:
        own = tree.load()
        own.to_netcdf(tmp_path / "copy.nc", engine="h5netcdf")
        with opened(tmp_path / "copy.nc") as other:
            assert other.load().identical(own)
    assert plain(tmp_path / "copy.nc").identical(own)


def test_the_library_is_left_as_it_was(path: Path, tmp_path: Path) -> None:
    before = [kind.__dict__[LOOKED_UP] for kind in PLACES]
    with opened(path), opened(path):
        assert [kind.__dict__[LOOKED_UP] for kind in PLACES] != before
    (tmp_path / "no.nc").write_text("no file")
    with pytest.raises(OSError), opened(tmp_path / "no.nc"):  # noqa: PT011
        pytest.fail("it was opened")
    assert [kind.__dict__[LOOKED_UP] for kind in PLACES] == before


def test_another_version_of_the_library_reads_in_its_own_way(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = plain(path)
    for kind in PLACES:
        theirs = kind.__dict__[LOOKED_UP]
        monkeypatch.setattr(kind, LOOKED_UP, type("Other", (property,), {})(theirs.fget))
    with opened(path) as tree:
        assert tree.load().identical(wanted)
