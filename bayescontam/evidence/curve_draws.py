"""Draws of a curve, and what follows from them: P(duplicate | cosine)."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from bayescontam._types import FloatArray, IntArray
from bayescontam.evidence.curve_model import basis, segments
from bayescontam.evidence.kinds import MIDDLE, KindDraws, split_of
from bayescontam.evidence.predictor import chance
from bayescontam.model.quadrature import normal_gauss_hermite
from bayescontam.specs.curve import CurveSpec

RATIOS = "log_odds_ratio", "log_odds_ratio_slope", "log_odds_ratio_open"
"""Parameters of what a predictor's verdicts inform."""


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
    # of the truth and what a trained judge reports, at a cosine of 0.7, and its change per unit of
    # cosine, (draw, 1); none where no trained judge is a predictor
    log_odds_ratio: FloatArray | None = None
    log_odds_ratio_slope: FloatArray | None = None
    log_odds_ratio_open: FloatArray | None = None  # of an item being open, (draw, 1)

    def __len__(self) -> int:
        return len(self.threshold)

    def __getitem__(self, rows: Any) -> "CurveDraws":
        whole = ("edges", "crowding", "kinds")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in whole}
        own = {name: value[rows] for name, value in values.items() if value is not None}
        return replace(self, **own, kinds=None if self.kinds is None else self.kinds[rows])

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

    def informed(
        self, log_odds: FloatArray, cosine: FloatArray, sign: FloatArray, share: FloatArray
    ) -> FloatArray:
        """Return log-odds given what a trained judge reported as well, dims (draw, …, match).

        Sign and share, of open items, are those of `Predictor.joined`, dims (match,); shares may
        also differ by draw, with the dims of the log-odds.
        """
        if self.log_odds_ratio is None:
            return log_odds
        assert self.log_odds_ratio_slope is not None
        ratio = self.log_odds_ratio + self.log_odds_ratio_slope * (cosine - MIDDLE)
        ratio = (sign * ratio).reshape(len(ratio), *(1,) * (log_odds.ndim - 2), -1)
        return _given(log_odds, ratio, share)

    def informed_open(
        self, log_odds: FloatArray, sign: FloatArray, share: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return log-odds that items are open given what was reported of their nearest documents.

        And the shares of what was reported, of open items. Dims (draw, item).
        """
        if self.log_odds_ratio_open is None:
            return log_odds, np.broadcast_to(share, log_odds.shape)
        found = _given(log_odds, sign * self.log_odds_ratio_open, share)
        return found, share * expit(found) / expit(log_odds)

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


def _given(log_odds: FloatArray, ratio: FloatArray, share: FloatArray) -> FloatArray:
    """Return log-odds given a verdict of these log odds ratios and shares."""
    # Both ways, as 1 - P has no digits where P is near 1.
    sides = [chance(expit(way * log_odds), way * ratio, share, np) for way in (1, -1)]
    odds: FloatArray = np.log(np.maximum(sides[0], 1e-300) / np.maximum(sides[1], 1e-300))
    return np.where(ratio == 0, log_odds, odds)


def flat(posterior: xr.Dataset, name: str, width: int = 1, default: float = 0.0) -> FloatArray:
    """Return draws of a parameter, chains joined, dims (draw, …); a constant if it has none."""
    if name not in posterior:
        return np.full((posterior.sizes["chain"] * posterior.sizes["draw"], width), default)
    values = posterior[name].to_numpy()
    return values.reshape(values.shape[0] * values.shape[1], -1)


def take_curve(posterior: xr.Dataset, spec: CurveSpec, kinds: tuple[str, ...] = ()) -> CurveDraws:
    """Return the draws of a posterior (or prior) group, chains joined."""
    edges = segments(spec)
    names = ["threshold", "steepness", "threshold_open", "steepness_open", "source_shift"]
    names += [name for name in RATIOS if name in posterior]
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
