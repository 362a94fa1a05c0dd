"""Open netCDF files, in about half of the time that h5netcdf takes by itself."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import xarray as xr

LOOKED_UP = "_h5ds"
"""Property of variables and dimensions of h5netcdf: what they stand for in the HDF5 file."""
_FOUND = "_found_in_file"


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[xr.DataTree]:
    """Open a netCDF file as a tree, and close it in the end."""
    with _looked_up_once():
        with warnings.catch_warnings():
            # What h5netcdf reports for HDF5 files that are no netCDF, which are refused anyway.
            warnings.filterwarnings("ignore", "The 'phony_dims' kwarg", UserWarning)
            tree = xr.open_datatree(path, engine="h5netcdf")
        with tree:
            yield tree


class _Once(property):
    """A property that is looked up once for each object of a file that is only read."""


@contextmanager
def _looked_up_once() -> Iterator[None]:
    """Let variables and dimensions of h5netcdf be looked up in their file once.

    h5netcdf 1.8 looks them up for each of their properties, dozens of times for each of the 200
    arrays of a fit. In files that are written they may be replaced by others of their name. A
    version without such a property is left as it is.
    """
    from h5netcdf import core, dimensions

    theirs = {
        kind: kind.__dict__.get(LOOKED_UP) for kind in (core.BaseObject, dimensions.Dimension)
    }
    known = all(type(each) is property for each in theirs.values())  # not within another call
    if known:
        for kind, own in theirs.items():
            setattr(kind, LOOKED_UP, _once(own))
    try:
        yield
    finally:
        if known:
            for kind, own in theirs.items():
                setattr(kind, LOOKED_UP, own)


def _once(theirs: Any) -> _Once:
    def look_up(self: Any) -> Any:
        if self._root._writable:
            return theirs.fget(self)
        if _FOUND not in self.__dict__:
            self.__dict__[_FOUND] = theirs.fget(self)
        return self.__dict__[_FOUND]

    return _Once(look_up)
