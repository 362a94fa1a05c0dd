"""Draws of a curve, and what follows from them: P(duplicate | cosine)."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from bayescontam._types import FloatArray, IntArray
from bayescontam.evidence.curve_model import basis, segments
from bayescontam.evidence.kinds import KindDraws, split_of
from bayescontam.model.quadrature import normal_gauss_hermite
from bayescontam.specs.curve import CurveSpec


@dataclass(frozen=True, eq=False)
class CurveDraws:
    """Draws of a curve, chains joined; the same lines serve report and covariates."""

    threshold: FloatArray  # (draw, benchmark), as the next three
    steepness: FloatArray
    threshold_open: FloatArray
    steepness_open: FloatArray
    source_shift: FloatArray  # (draw, source)
    relative: FloatArray  # (draw, segment)
    sigma_item: FloatArray  # (draw, 1); zero where items have no effect
    edges: FloatArray  # ends of the segments
    crowding: float = 0.0  # by how much the log-odds fall with the log of a document's place
    kinds: KindDraws | None = None  # shares of kinds among duplicates, where they matter

    def __len__(self) -> int:
        return len(self.threshold)

    def __getitem__(self, rows: Any) -> "CurveDraws":
        whole = ("edges", "crowding", "kinds")
        names = [field.name for field in fields(self) if field.name not in whole]
        kinds = None if self.kinds is None else self.kinds[rows]
        return replace(self, **{name: getattr(self, name)[rows] for name in names}, kinds=kinds)

    def counted(self, cosine: FloatArray, benchmark: int) -> FloatArray | float:
        """Return the share of duplicates that are of a kind that counts, (draw, match), or 1."""
        if self.kinds is None or not self.kinds.split.partial:
            return 1.0
        return self.kinds.counted(cosine, benchmark)

    def log_odds(
        self,
        cosine: FloatArray,
        benchmark: int,
        source: IntArray | int,
        place: FloatArray | float = 1.0,
    ) -> FloatArray:
        """Return the log-odds of a duplicate for an open item without effect, (draw, match).

        Benchmark and source are positions, -1 a source of no shift; the nearest document of an
        item has the place 1.
        """
        shift = np.concatenate([self.source_shift, np.zeros((len(self), 1))], axis=1)
        middle = self.threshold[:, [benchmark]] + shift[:, np.atleast_1d(source)]
        level = self.steepness[:, [benchmark]] * self._rise(cosine, middle)
        return level - self.crowding * np.log(place)

    def log_odds_open(self, best: FloatArray, benchmark: int) -> FloatArray:
        """Return the log-odds that items are open, (draw, item), by the cosines of best matches."""
        middle = self.threshold_open[:, [benchmark]]
        return self.steepness_open[:, [benchmark]] * self._rise(best, middle)

    def _rise(self, cosine: FloatArray, middle: FloatArray) -> FloatArray:
        start = np.einsum("smk,sk->sm", basis(middle, self.edges), self.relative)
        rise: FloatArray = (
            self.relative @ basis(np.asarray(cosine, dtype=float), self.edges).T - start
        )
        return rise


def flat(posterior: xr.Dataset, name: str, width: int = 1, default: float = 0.0) -> FloatArray:
    """Return draws of a parameter, chains joined, dims (draw, …); a constant if it has none."""
    if name not in posterior:
        return np.full((posterior.sizes["chain"] * posterior.sizes["draw"], width), default)
    values = posterior[name].to_numpy()
    return values.reshape(values.shape[0] * values.shape[1], -1)


def take_curve(posterior: xr.Dataset, spec: CurveSpec, kinds: tuple[str, ...] = ()) -> CurveDraws:
    """Return the draws of a posterior (or prior) group, chains joined."""
    edges = segments(spec)
    names = "threshold", "steepness", "threshold_open", "steepness_open", "source_shift"
    return CurveDraws(
        **{name: flat(posterior, name) for name in (*names, "sigma_item")},
        relative=flat(posterior, "relative", len(edges) - 1, 1.0),
        edges=edges,
        crowding=spec.shape.crowding,
        kinds=_take_kinds(posterior, kinds) if "threshold_exact" in posterior else None,
    )


def _take_kinds(posterior: xr.Dataset, kinds: tuple[str, ...]) -> KindDraws:
    wide = posterior["threshold_exact"].shape[-1]
    return KindDraws(
        split_of(kinds, rules=True),
        flat(posterior, "threshold_exact"),
        flat(posterior, "steepness_exact"),
        flat(posterior, "chosen", wide),
        flat(posterior, "chosen_slope"),
        flat(posterior, "naming", 0),
    )


def marginal(draws: CurveDraws, cosine: FloatArray, benchmark: int, source: int = -1) -> FloatArray:
    """Return P(duplicate | cosine) of the best match of a random item, dims (draw, cosine).

    Of a duplicate that counts, if only some kinds do.
    """
    of_open = marginal_of_open(draws, cosine, benchmark, source)
    of_open = of_open * expit(draws.log_odds_open(cosine, benchmark))
    return of_open * draws.counted(cosine, benchmark)


def marginal_of_open(
    draws: CurveDraws, cosine: FloatArray, benchmark: int, source: int = -1
) -> FloatArray:
    """Return P(duplicate | cosine) of the nearest document of an open item, dims (draw, cosine).

    Of a duplicate of any kind.
    """
    nodes, weights = normal_gauss_hermite(31)
    level = draws.log_odds(cosine, benchmark, source)
    total = np.zeros_like(level)
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * expit(level + draws.sigma_item * node)
    return total
