"""Simulation-based calibration: ranks of the truth, and tests of their uniformity."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import brentq
from scipy.special import bdtr, chdtr, chdtrc, chdtri, ndtr, ndtri
from scipy.stats import binom, norm

from bayescontam._random import stream
from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray
from bayescontam.calibration.coverage import constant
from bayescontam.errors import UsageError
from bayescontam.inference.checks import Outcome
from bayescontam.model.quadrature import normal_weights

_POINTS = 100  # most points at which distribution functions are compared
_SIMULATED = 10_000
_REACH, _NODES = 30.0, 3001
"""Distance from zero up to which, and nodes at which, normal scores of truths are integrated."""
_MOST_FACTOR = 6.0  # excess of spread up to which is estimated how much would be found
UNIT = ["cell", "estimator", "quantity", "where"]
FAMILY = ["estimator"]
COLUMNS = (
    *UNIT, "p_value", "p_adjusted", "n", "n_failed", "n_without", "p_without_failures",
    "statistic", "p_ecdf", "shift", "p_shift", "spread", "p_spread", "outcome", "sentence",
)  # fmt: skip
"""Columns of the table, in order."""
FAILED_BELOW, CAUTION_BELOW = 0.01, 0.05
"""Adjusted p-values below which a quantity fails, or is to be watched."""
MOST_WITHOUT = 0.01
"""Share of fits without draws, and so without a rank, that a test of ranks bears."""
LEAST = 10  # fewest ranks that are tested: fewer can show nothing but the grossest faults
GROUP = "prior_sbc"  # where `arviz.plot_ecdf_pit` looks for ranks
SAMPLE = ("chain", "draw")  # dims that ArviZ takes for those of independent values
_TIE = 1e-12
"""Distance, beside their size, at which a draw and the truth are the same but for rounding."""


@dataclass(frozen=True)
class Uniformity:
    """What three tests show about numbers that should be uniform."""

    p_value: float  # smallest of the three p-values, times three
    # smallest two-sided binomial tail probability of the empirical distribution function at any
    # point: how far it leaves the diagonal
    gamma: float
    p_ecdf: float  # P-value of `gamma`: against departures of any kind
    # shift, p_shift: mean of the normal quantiles of the numbers, 0 if uniform, and its two-sided
    # p-value: against numbers that are too high or too low
    shift: float
    p_shift: float
    # spread, p_spread: standard deviation of the same, 1 if uniform, and its two-sided p-value:
    # against too many numbers at both ends, or in the middle
    spread: float
    p_spread: float


def uniformity(values: FloatArray) -> Uniformity:
    """Test whether numbers are independent draws from Uniform(0, 1), by three tests."""
    # Corrected by Bonferroni: the simultaneous envelope of the empirical distribution function
    # (Säilynoja, Bürkner & Vehtari 2022, doi:10.1007/s11222-022-10090-6), which has power against
    # anything and is what the pictures show; and the tests of mean and variance of normal
    # quantiles, which are exact, and stronger against intervals that are off to one side, or too
    # narrow or too wide.
    n = len(values)
    z = points(n)
    counts = np.searchsorted(np.sort(values), z, side="right")
    gamma = float(_tails(n)[counts, np.arange(len(z))].min())
    # How often uniform numbers leave the diagonal as far, by simulation. Beyond what was
    # simulated, the sum of the probabilities at single points is a bound.
    null = _null(n)
    simulated = (1 + np.searchsorted(null, gamma, side="right")) / (1 + len(null))
    p_ecdf = float(min(simulated, gamma * len(z), 1.0))
    scores = ndtri(np.clip(values, 1e-12, 1 - 1e-12))
    shift, variance = float(scores.mean()), float(scores.var(ddof=1))
    p_shift = 2 * float(ndtr(-abs(shift) * np.sqrt(n)))
    squares = (n - 1) * variance  # chi-square with n - 1 degrees of freedom
    p_spread = 2 * float(min(chdtr(n - 1, squares), chdtrc(n - 1, squares)))
    return Uniformity(
        p_value=min(1.0, 3 * min(p_ecdf, p_shift, p_spread)),
        gamma=gamma,
        p_ecdf=p_ecdf,
        shift=shift,
        p_shift=p_shift,
        spread=float(np.sqrt(variance)),
        p_spread=p_spread,
    )


def detectable(n: int, draws: int, p_value: float, probability: float = 0.8) -> tuple[float, float]:
    """Return the least shift, and excess of spread, of Normal posteriors that `n` ranks show."""
    # Ranks among few draws show less: how far outside of all of them a truth lies is not known.
    shift = float(ndtri(1 - p_value / 2) + ndtri(probability)) / np.sqrt(n)
    square = float(chdtri(n - 1, p_value / 2) / chdtri(n - 1, probability))
    return (
        _least(lambda by: _moments(draws, by, 1.0)[0] - shift, 0.0),
        _least(lambda by: _moments(draws, 0.0, by)[1] - square, 1.0),
    )


def _least(excess: Callable[[float], float], start: float) -> float:
    """Return where an increasing function is zero, infinity if that is too far off."""
    return float(brentq(excess, start, _MOST_FACTOR)) if excess(_MOST_FACTOR) > 0 else np.inf


def _moments(draws: int, shift: float, factor: float) -> tuple[float, float]:
    """Return mean and mean square of normal scores of ranks, where posteriors are off."""
    nodes, first, second = _scores(draws)
    weights = normal_weights((nodes - shift) / factor)
    return float(weights @ first), float(weights @ second)


@lru_cache(maxsize=16)
def _scores(draws: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean and mean square of a rank's normal score, given the truth's own, dims (node,)."""
    # A rank is Binomial given the truth, and spread evenly over its share of (0, 1).
    edges = ndtri(np.arange(draws + 2) / (draws + 1))
    density = norm.pdf(edges)
    moved = np.where(np.isfinite(edges), edges, 0.0) * density
    first, second = -np.diff(density) * (draws + 1), 1 - np.diff(moved) * (draws + 1)
    nodes = np.linspace(-_REACH, _REACH, _NODES)
    chances = binom.pmf(np.arange(draws + 1), draws, ndtr(nodes)[:, None])
    return nodes, chances @ first, chances @ second


def points(n: int) -> FloatArray:
    """Return where the distribution function of `n` numbers is compared, inside (0, 1)."""
    count = max(min(n, _POINTS), 2)
    return np.arange(1, count) / count


def envelope_probability(n: int, level: float) -> float:
    """Return the pointwise probability of bands that hold a uniform ECDF everywhere."""
    return 1 - float(np.quantile(_null(n), 1 - level))


@lru_cache(maxsize=64)
def _tails(n: int) -> FloatArray:
    """Return two-sided tail probabilities of each count at each point, dims (count, point)."""
    z = points(n)
    below = bdtr(np.arange(n + 1)[:, None], n, z)
    above = 1 - np.vstack([np.zeros(len(z)), below[:-1]])
    tails: FloatArray = np.minimum(2 * np.minimum(below, above), 1.0)
    return tails


@lru_cache(maxsize=64)
def _null(n: int) -> FloatArray:
    """Return sorted values of gamma of `n` uniform numbers."""
    z, tails = points(n), _tails(n)
    rng = stream(0, "uniformity", n)
    cells = rng.multinomial(n, np.full(len(z) + 1, 1 / (len(z) + 1)), size=_SIMULATED)
    counts = cells.cumsum(axis=1)[:, :-1]
    return np.sort(tails[counts, np.arange(len(z))].min(axis=1))


def sbc_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return which quantities of a study have ranks that are not uniform."""
    # The truth's rank among independent posterior draws is uniform for every quantity if truths are
    # drawn from the prior and data from the model (Talts et al. 2018, arXiv:1804.06788). All fits
    # count, failed ones too: to leave them out is to choose data sets. A fit without draws has no
    # rank, is counted in `n_without`, and a quantity that lacks more than 1 % of its ranks has not
    # passed. Second fits of audits do not count, nor constants, nor estimators without draws.
    used = ranked(rows)
    # in how many fits with draws a quantity has no rank, by its keys
    without = rows[~rows["audit"] & (rows["ranks"] == 0) & (rows["engine"] != "bootstrap")]
    lacking = without.groupby(UNIT, observed=True).size()
    groups = used.groupby(UNIT, sort=False, observed=True)
    found = [_row(dict(zip(UNIT, key, strict=True)), part) for key, part in groups]
    known = {tuple(row[name] for name in UNIT) for row in found}
    never = [key for key in lacking.index if key not in known]
    found += [_row(dict(zip(UNIT, key, strict=True)), used[:0]) for key in never]
    if not found:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in COLUMNS})
    table = pd.DataFrame(found)
    table["p_adjusted"] = table.groupby(FAMILY)["p_value"].transform(holm)
    at = pd.MultiIndex.from_frame(table[UNIT])
    table["n_without"] = lacking.reindex(at, fill_value=0).to_numpy()
    table["outcome"] = [_outcome(row).value for row in table.to_dict("records")]
    table["sentence"] = [_sentence(row) for row in table.to_dict("records")]
    order = table.sort_values(["p_adjusted", "p_value", *UNIT], kind="stable")
    return order[list(COLUMNS)].reset_index(drop=True)


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that count, with the column ``u``: ranks spread over (0, 1)."""
    counts = ~rows["audit"] & (rows["ranks"] > 0) & (rows["rank"] >= 0)
    used = rows[counts.to_numpy() & ~constant(rows)].sort_values([*UNIT, "replicate"])
    v = np.empty(len(used))
    groups: dict[Any, Any] = used.groupby(UNIT, sort=False, observed=True).indices
    for key, index in groups.items():
        v[index] = stream(0, "sbc", *map(str, key)).random(len(index))
    return used.assign(u=(used["rank"] + v) / (used["ranks"] + 1))


def holm(p_values: "pd.Series[float]") -> "pd.Series[float]":
    """Return p-values adjusted by Holm's method; NaN stays and does not count.

    >>> import pandas as pd
    >>> holm(pd.Series([0.01, 0.04, 0.03, float("nan")])).tolist()
    [0.03, 0.06, 0.06, nan]
    """
    ordered = p_values.dropna().sort_values()
    steps = ordered * np.arange(len(ordered), 0, -1)
    return steps.cummax().clip(upper=1.0).reindex(p_values.index)


def _row(key: dict[str, Any], part: pd.DataFrame) -> dict[str, Any]:
    failed = (part["status"] == "failed").to_numpy()
    u = part["u"].to_numpy()
    tests = _tests(u)
    without = _tests(u[~failed]) if failed.any() else tests
    return {
        **key,
        **asdict(tests),
        "statistic": tests.gamma,
        "n": len(u),
        "n_failed": int(failed.sum()),
        "p_without_failures": without.p_value,
    }


def _tests(u: FloatArray) -> Uniformity:
    return uniformity(u) if len(u) >= LEAST else Uniformity(*[float("nan")] * 7)


def _outcome(row: dict[Any, Any]) -> Outcome:
    if row["p_adjusted"] < FAILED_BELOW:
        return Outcome.FAILED
    # A quantity that was not tested has not passed.
    tested = row["p_adjusted"] >= CAUTION_BELOW and not _lacks_ranks(row)
    return Outcome.PASSED if tested else Outcome.CAUTION


def _lacks_ranks(row: dict[Any, Any]) -> bool:
    return bool(row["n_without"] > MOST_WITHOUT * (row["n"] + row["n_without"]))


def _sentence(row: dict[Any, Any]) -> str:
    """Return what is wrong with a quantity, and by how much."""
    if row["n"] < LEAST:
        return f"Too few ranks to be tested: {row['n']}; it needs {LEAST}."
    if row["outcome"] == Outcome.PASSED.value:
        return "No departure from uniform ranks found."
    if _lacks_ranks(row) and not row["p_adjusted"] < CAUTION_BELOW:
        return (
            f"{row['n_without']} fits have no rank, since they drew nothing or it is undefined in"
            " some draws: ranks of the others decide little."
        )
    parts = []
    if row["p_spread"] < CAUTION_BELOW:
        narrow = row["spread"] > 1
        factor = row["spread"] if narrow else 1 / row["spread"]
        parts.append(
            f"intervals too {'narrow' if narrow else 'wide'}, by a factor of about {factor:.2g}"
        )
    if row["p_shift"] < CAUTION_BELOW:
        side = "low" if row["shift"] > 0 else "high"
        parts.append(f"estimates too {side}, by about {abs(row['shift']):.2g} posterior sd")
    if not parts:
        parts = ["ranks are not uniform in some other way: see the picture"]
    text = "; ".join(parts)
    doubt = " Perhaps by chance." if row["outcome"] == Outcome.CAUTION.value else ""
    failures = ""
    if row["n_failed"] and row["p_without_failures"] > CAUTION_BELOW:
        failures = f" Not so without the {row['n_failed']} failed fits."
    return f"{text[0].upper()}{text[1:]}.{doubt}{failures}"


def rank_of(
    truth: float, draws: FloatArray, ess: float, rng: np.random.Generator
) -> tuple[int, int]:
    """Return the rank of the truth among nearly independent draws, and their number.

    >>> rank_of(0.5, np.arange(-2.0, 4.0), 6, np.random.default_rng(1))
    (3, 6)
    """
    # The same numbers are drawn whatever the draws are.
    lot = rng.random()
    if not np.isfinite(draws).all() or not np.isfinite(truth):
        return -1, 0
    step = 1 if np.isnan(ess) else int(np.ceil(len(draws) / max(ess, 1.0)))
    thinned = draws[::step]
    close = np.abs(thinned - truth) <= _TIE * max(1.0, abs(truth))
    below = int(((thinned < truth) & ~close).sum())
    return below + int(lot * (close.sum() + 1)), len(thinned)


def rank_tree(
    rows: pd.DataFrame,
    estimator: str | None,
    cell: str | None,
    quantities: Sequence[str] | None,
) -> xr.DataTree:
    """Return the ranks of an estimator in one cell of a study."""
    used = ranked(rows)
    if used.empty:
        raise UsageError("the study has no ranks yet: none of its fits with draws has ended")
    for column, given in (("estimator", estimator), ("cell", cell)):
        used = used[used[column] == _only(used[column], column, given)]
    used = used[used["quantity"].isin(_wanted(used["quantity"], quantities))]
    wide = used.pivot(index="replicate", columns=["quantity", "where"], values="u")
    whole = wide.dropna()
    if whole.empty:
        rare = str(wide.count().groupby("quantity").min().idxmin())
        raise UsageError(
            f"no replicate has a rank of every quantity; '{printable(rare)}' has the fewest: choose"
            " others with quantities"
        )
    arrays = {
        str(quantity): _array(str(quantity), whole[[quantity]].droplevel("quantity", axis=1))
        for quantity in wide.columns.unique("quantity")
    }
    # A distribution function has no place for ranks that are missing.
    attributes = {"n_left_out": len(wide) - len(whole)}
    attributes |= {column: used[column].iloc[0] for column in ("estimator", "cell")}
    coords = {"chain": [0], "draw": whole.index.to_numpy()}
    return xr.DataTree.from_dict({GROUP: xr.Dataset(arrays, coords, attributes)})


def _only(names: "pd.Series[str]", column: str, given: str | None) -> str:
    """Return the estimator or cell that is requested."""
    known = list(names.drop_duplicates())
    if given is None and len(known) == 1:
        return str(known[0])
    if given not in known:
        got = "there are several" if given is None else f"got '{printable(given)}'"
        raise UsageError(f"{column}: {got}; with ranks there are {join_list(known)}: give one")
    return str(given)


def _wanted(names: "pd.Series[str]", given: Sequence[str] | None) -> list[str]:
    """Return the quantities that are requested, if they can be variables."""
    known = list(names.drop_duplicates())
    if unknown := [name for name in given or () if name not in known]:
        raise UsageError(
            f"quantities: got {join_list(unknown)}; with ranks there are {join_list(known)}"
        )
    wanted = known if given is None else list(given)
    if barred := [name for name in wanted if "/" in name or name in SAMPLE]:
        raise UsageError(
            f"quantities: {join_list(barred)} cannot be the name of a variable beside {SAMPLE}, or"
            " holds a slash: give the formula another name, or choose other quantities"
        )
    return wanted


def _array(quantity: str, values: pd.DataFrame) -> xr.DataArray:
    """Return the ranks of a quantity, dims (chain, draw[, where])."""
    where = list(values.columns)
    if where == [""]:
        return xr.DataArray(values.to_numpy().T, dims=SAMPLE)
    dim = f"{quantity}_where"
    return xr.DataArray(values.to_numpy()[None], {dim: where}, (*SAMPLE, dim))
