"""Several fits under names: those given, or those of their files or model specs."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from bayescontam.data.responses import Path
from bayescontam.inference.result import Fit

FitsOrFiles = Mapping[str, Fit | Path] | Sequence[Fit | Path]
"""Several fits, or files of them, with or without names."""


def named_fits(fits: FitsOrFiles) -> dict[str, Fit]:
    """Return fits under names: given ones, or those of their files or model specs."""
    if isinstance(fits, Mapping):
        return {str(name): _loaded(fit) for name, fit in fits.items()}
    loaded = [_loaded(fit) for fit in fits]
    names = [
        fit.spec.name if isinstance(given, Fit) else PurePath(given).stem
        for given, fit in zip(fits, loaded, strict=True)
    ]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return dict(zip(names, loaded, strict=True))


def compared_with(fit: Fit, others: FitsOrFiles) -> dict[str, Fit]:
    """Return a fit and others under names; its own is that of its model spec."""
    if not isinstance(others, Mapping):
        return named_fits([fit, *others])
    own = fit.spec.name
    return {own if own not in others else f"{own} (this fit)": fit} | named_fits(others)


def _loaded(fit: Fit | Path) -> Fit:
    return fit if isinstance(fit, Fit) else Fit.from_netcdf(fit)
