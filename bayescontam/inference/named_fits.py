"""Several fits under names: those given, or those of their files or model specs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from bayescontam.data.responses import Path
from bayescontam.errors import UsageError
from bayescontam.inference.result import Fit

FitsOrFiles = Mapping[str, Fit | Path] | Sequence[Fit | Path]
"""Several fits, or files of them, with or without names."""


def named_fits(fits: FitsOrFiles) -> dict[str, Fit]:
    """Return fits under names: given ones, or those of their files or model specs.

    Files of one name are distinguished by their whole paths, fits of one spec by numbers.
    """
    if isinstance(fits, Mapping):
        return {str(name): _loaded(fit) for name, fit in fits.items()}
    files = [str(fit) for fit in fits if not isinstance(fit, Fit)]
    if len({os.path.realpath(path) for path in files}) < len(files):
        raise UsageError("one file is named twice; name each fit once")
    stems = [PurePath(path).stem for path in files]
    names_of = dict(zip(files, stems if len(set(stems)) == len(stems) else files, strict=True))
    names = [fit.spec.name if isinstance(fit, Fit) else names_of[str(fit)] for fit in fits]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return {name: _loaded(fit) for name, fit in zip(names, fits, strict=True)}


def compared_with(fit: Fit, others: FitsOrFiles) -> dict[str, Fit]:
    """Return a fit and others under names; its own is that of its model spec."""
    if not isinstance(others, Mapping):
        return named_fits([fit, *others])
    own = fit.spec.name
    return {own if own not in others else f"{own} (this fit)": fit} | named_fits(others)


def _loaded(fit: Fit | Path) -> Fit:
    return fit if isinstance(fit, Fit) else Fit.from_netcdf(fit)
