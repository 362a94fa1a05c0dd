"""Curve draws: P(duplicate | cosine) for every draw of a posterior."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import xarray as xr

from bayescontam._types import FloatArray, IntArray
from bayescontam.evidence.curve import basis, segments
from bayescontam.specs.curve import CurveSpec


@dataclass(frozen=True, eq=False)
class CurveDraws:
    """Draws of a curve, chains joined; the same lines serve report and covariates.

    Attributes
    ----------
    threshold, steepness, threshold_open, steepness_open : array
        Dims (draw, benchmark).
    source_shift : array
        Dims (draw, source).
    relative : array
        Dims (draw, segment).
    sigma_item : array
        Dims (draw, 1); zero where items have no effect.
    edges : array
        Ends of the segments.
    crowding : float, default 0
        By how much the log-odds fall with the log of a document's place.
    """

    threshold: FloatArray
    steepness: FloatArray
    threshold_open: FloatArray
    steepness_open: FloatArray
    source_shift: FloatArray
    relative: FloatArray
    sigma_item: FloatArray
    edges: FloatArray
    crowding: float = 0.0

    def __len__(self) -> int:
        return len(self.threshold)

    def __getitem__(self, rows: Any) -> "CurveDraws":
        names = [field.name for field in fields(self) if field.name not in ("edges", "crowding")]
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def log_odds(
        self,
        cosine: FloatArray,
        benchmark: int,
        source: IntArray | int,
        place: FloatArray | float = 1.0,
    ) -> FloatArray:
        """Return the log-odds of a duplicate for an open item without effect.

        Parameters
        ----------
        cosine : array
            One for each match.
        benchmark : int
        source : int or array of int
            Positions, one for all or for each match; -1 is a source of no shift.
        place : array or float, default 1
            Place of each document among those of the item, the nearest being the first.

        Returns
        -------
        array
            Dims (draw, match).
        """
        shift = np.concatenate([self.source_shift, np.zeros((len(self), 1))], axis=1)
        middle = self.threshold[:, [benchmark]] + shift[:, np.atleast_1d(source)]
        level = self.steepness[:, [benchmark]] * self._rise(cosine, middle)
        return level - self.crowding * np.log(place)

    def log_odds_open(self, best: FloatArray, benchmark: int) -> FloatArray:
        """Return the log-odds that items are open, dims (draw, item).

        Parameters
        ----------
        best : array
            Cosine of each item's best match.
        benchmark : int
        """
        middle = self.threshold_open[:, [benchmark]]
        return self.steepness_open[:, [benchmark]] * self._rise(best, middle)

    def _rise(self, cosine: FloatArray, middle: FloatArray) -> FloatArray:
        start = np.einsum("smk,sk->sm", basis(middle, self.edges), self.relative)
        rise: FloatArray = (
            self.relative @ basis(np.asarray(cosine, dtype=float), self.edges).T - start
        )
        return rise


def take_curve(posterior: xr.Dataset, spec: CurveSpec) -> CurveDraws:
    """Return the draws of a posterior (or prior) group, chains joined."""
    count = posterior.sizes["chain"] * posterior.sizes["draw"]
    edges = segments(spec)

    def flat(name: str, width: int = 1, default: float = 0.0) -> FloatArray:
        if name not in posterior:
            return np.full((count, width), default)
        return posterior[name].to_numpy().reshape(count, -1)

    return CurveDraws(
        threshold=flat("threshold"),
        steepness=flat("steepness"),
        threshold_open=flat("threshold_open"),
        steepness_open=flat("steepness_open"),
        source_shift=flat("source_shift"),
        relative=flat("relative", len(edges) - 1, 1.0),
        sigma_item=flat("sigma_item"),
        edges=edges,
        crowding=spec.shape.crowding,
    )
