"""Which models of one base show by their other exposure what contamination adds to a score."""

import numpy as np

from bayescontam._types import BoolArray
from bayescontam.model.design import Design
from bayescontam.model.lineage import NO_DOSE, Lineage

_SAME_KIND = 0.5
"""Part of two exposures that must be of the same kinds for them to inform on one coefficient."""


def exposed(design: Design) -> BoolArray:
    """Return which pairs have contamination, (model, benchmark)."""
    return np.asarray(design.pair_dose > NO_DOSE)


def relatives(design: Design, m: int, b: int) -> BoolArray:
    """Return the models that show what the exposure of one adds on a benchmark, itself too."""
    # Those of its base that answered it, and were not exposed or to the same kinds of duplicates.
    lineage = _lineage(design)
    share = lineage.share.reshape(*design.answered.shape, -1)[:, b]
    alike = np.minimum(share, share[m]).sum(axis=1) >= _SAME_KIND
    related: BoolArray = design.answered[:, b] & (lineage.base == lineage.base[m])
    return related & (alike | ~exposed(design)[:, b])


def with_twins(design: Design) -> BoolArray:
    """Return which exposed pairs have a relative of other exposure, (model, benchmark)."""
    dose = design.pair_dose
    found = np.zeros(dose.shape, dtype=bool)
    for m, b in zip(*np.nonzero(exposed(design)), strict=True):
        found[m, b] = np.ptp(dose[relatives(design, m, b), b]) > NO_DOSE
    return found


def controls(design: Design) -> dict[str, list[int]]:
    """Return of each base the benchmarks that several of its models answered, none exposed.

    Bases whose models were not exposed anywhere, or that have one model only, are left out.
    """
    lineage, met = _lineage(design), exposed(design)
    found = {}
    for a, name in enumerate(lineage.bases):
        rows = lineage.base == a
        if rows.sum() > 1 and met[rows].any():
            clean = ~met[rows].any(axis=0) & (design.answered[rows].sum(axis=0) > 1)
            found[name] = np.flatnonzero(clean).tolist()
    return found


def controlled(design: Design) -> BoolArray:
    """Return which models answered a control of their base beside a relative, (model,)."""
    known = controls(design)
    return np.array(
        [
            bool(design.answered[m, known.get(name, [])].any())
            for m, name in enumerate(np.array(_lineage(design).bases)[_lineage(design).base])
        ]
    )


def _lineage(design: Design) -> Lineage:
    assert design.lineage is not None
    return design.lineage
