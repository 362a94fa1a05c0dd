"""Tables, parameters and likelihoods of integrated difficulties, written out row by row."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from bayescontam.data.responses import Responses
from bayescontam.inference.posterior import Draws
from bayescontam.model.build import BuiltModel, build
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.support.model_points import PLAIN

Values = Mapping[str, np.ndarray]
Z, WEIGHTS = (9 * each for each in np.polynomial.legendre.leggauss(300))
"""Difficulties, in their standard deviations, at which integrals over them are summed."""


def spec_of(name: str, **blocks: Mapping[str, Any]) -> ModelSpec:
    """Return a shipped model spec with keys of its blocks changed."""
    changed = load_model(name).model_dump()
    for block, keys in blocks.items():
        changed[block] |= keys
    return ModelSpec.model_validate(changed)


def table(
    seed: int = 1,
    models: int = 4,
    items: tuple[int, ...] = (16, 14),
    levels: tuple[float, ...] | None = None,
    missing: float = 0.0,
    trials: int = 1,
    unshared: bool = False,
) -> pd.DataFrame:
    """Return answers at random, the first two items of each benchmark all right and all wrong.

    Parameters
    ----------
    seed : int
    models : int
        The last one is clean.
    items : tuple of int
        Numbers of items of the benchmarks.
    levels : tuple of float, optional
        Values of contamination; default: any in [0, 1].
    missing : float
        Share of the answers that are not there.
    trials : int
        Most trials of an answer.
    unshared : bool
        Whether every item of the last benchmark is answered by one model only.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for b, count in enumerate(items):
        d = rng.beta(0.7, 1.2, count) if levels is None else rng.choice(levels, count)
        for i in range(count):
            for m in range(models):
                n = int(rng.integers(1, trials + 1))
                k = [n, 0][i] if i < 2 else int(rng.binomial(n, rng.uniform(0.2, 0.8)))
                alone = unshared and b == len(items) - 1 and i % models != m
                if not alone and (rng.random() >= missing or i % models == m):
                    rows.append((f"m{m}", f"b{b}", f"i{b}-{i}", f"c{b}-{i % 2}", k, n, d[i], m))
    frame = pd.DataFrame(
        rows,
        columns=[
            "model", "benchmark", "item", "concept", "n_correct", "n_trials", "contamination",
            "clean",
        ],
    )  # fmt: skip
    return frame.assign(clean=(frame["clean"] == models - 1).astype(int))


def related(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which models 0 and 1, and the others, have a base, 1 and 3 are clean."""
    clean = frame["model"].isin(["m1", "m3"])
    return frame.assign(
        base=np.where(frame["model"].isin(["m0", "m1"]), "m1", "recipe"),
        contamination=frame["contamination"].where(~clean, 0.0),
    )


def built_of(
    spec: ModelSpec, frame: pd.DataFrame, difficulties: str = "marginalised"
) -> BuiltModel:
    """Return the model of a table, difficulties integrated out."""
    return build(spec, Responses.from_frame(frame), difficulties)


def log_odds(frame: pd.DataFrame, values: Values, built: BuiltModel, z: np.ndarray) -> np.ndarray:
    """Return the log-odds of rows of a table, (row, z), as the statistics page writes them.

    Rows may have a column ``at`` with the contamination that they are reported at; means are
    those of all of the table's ``contamination``, in the columns that `doses` adds.
    """
    design, spec = built.design, built.spec.contamination
    m = [design.models.index(name) for name in frame["model"]]
    b = [design.benchmarks.index(name) for name in frame["benchmark"]]
    unit = frame["benchmark"] if design.by == "benchmark" else frame["concept"]
    u = [design.units.index(name) for name in unit]
    delta = values["sigma_delta"][b][:, None] * frame["shared"].to_numpy()[:, None] * z
    eta = values["theta"][m, u][:, None] - delta
    if "psi" in values:
        for place, name in enumerate(design.models):
            if f"chosen_{name}" in frame:
                harder = values["psi"][place, b] * frame[f"chosen_{name}"].to_numpy()
                eta = eta - harder[:, None]
    if spec.form == "none":
        return eta
    slope = values["beta"][m, b][:, None] + values.get("gamma", 0.0) * delta
    dose = frame["dose"].to_numpy()
    if spec.form == "monotone":
        dose = frame.filter(like="reach").to_numpy() @ values["increments"]
    eta = eta + slope * dose[:, None]
    if "kappa" in values:
        eta = eta - (values["kappa"][b] * frame["item_dose"].to_numpy())[:, None]
    spillover = values.get("spillover", np.zeros(1))
    coefficient = spillover[m, b] if spillover.ndim == 2 else spillover
    return eta + (coefficient * frame["cell_dose"].to_numpy())[:, None]


def doses(frame: pd.DataFrame, spec: ModelSpec) -> pd.DataFrame:
    """Return a table with what the log-odds need of the whole of it."""
    d, by = frame["contamination"], frame["benchmark"]
    shared = frame.groupby("item")["model"].transform("size").gt(1).groupby(by).transform("any")
    cell = d.groupby([frame["model"], by]).transform("mean")
    reported = frame
    if spec.ability.lineage != "none":
        reported = frame[frame["model"].isin(["m0", "m2"])]
    if spec.contamination.confounding == "anchored":
        reported = frame[frame["clean"] == 0]
        cell = cell.where(frame["clean"] == 0, 0.0)
    first = [
        part.groupby(["benchmark", "item"])["contamination"].first() for part in (reported, frame)
    ]
    of_item = first[0].combine_first(first[1])  # of items that only clean models answered
    of_item = of_item - of_item.groupby("benchmark").transform("mean")
    keys = pd.MultiIndex.from_frame(frame[["benchmark", "item"]])
    result = frame.assign(
        shared=shared.astype(float),
        dose=d - d.groupby(by).transform("mean"),
        cell_dose=cell - d.groupby(by).transform("mean"),
        item_dose=of_item.reindex(keys).to_numpy(),
    )
    related = spec.ability.lineage != "none"  # doses count from zero then
    if related:
        result = result.assign(dose=d, cell_dose=cell)
    result = result.assign(**_chosen(frame))
    knots = spec.contamination.knots if spec.contamination.form == "monotone" else ()
    edges = [0.0, *knots, 1.0]
    for k, (low, high) in enumerate(pairwise(edges)):
        reach = ((d - low) / (high - low)).clip(0, 1)
        mean = reach.groupby(by).transform("mean")
        result[f"reach{k:02d}"] = reach if related else reach - mean
    return result


def _chosen(frame: pd.DataFrame) -> dict[str, "pd.Series[float]"]:
    """Return for each model whether it answered a row's item, as psi sees it."""
    columns: dict[str, pd.Series[float]] = {}
    for _, part in frame.groupby("benchmark"):
        answered = pd.crosstab(part["item"], part["model"]).astype(float)
        share = answered.mean()
        partly = share.index[(share >= 0.05) & (share <= 0.95)]
        for name in partly:
            seen = (answered[name] - share[name]) / np.sqrt(len(partly))
            column = columns.setdefault(f"chosen_{name}", pd.Series(0.0, frame.index))
            column[part.index] = part["item"].map(seen)
    return columns


def log_integrals(rows: pd.DataFrame, of: np.ndarray, values: Values, built: BuiltModel) -> Any:
    """Return the log density of the answers to each item, by a Gaussian rule of 300 nodes.

    `of` is the item of each row, or what else shares one difficulty; rows of one follow each other.
    """
    k, n = (rows[name].to_numpy()[:, None] for name in ("n_correct", "n_trials"))
    eta = log_odds(rows, values, built, Z)
    each = np.log(special.comb(n, k)) + k * eta - n * np.logaddexp(0, eta)
    together = np.add.reduceat(each, np.flatnonzero(np.r_[True, of[1:] != of[:-1]]), axis=0)
    return special.logsumexp(together + stats.norm.logpdf(Z), axis=1, b=WEIGHTS)


def log_likelihood(frame: pd.DataFrame, values: Values, built: BuiltModel) -> float:
    """Return the log density of all answers."""
    whole = doses(frame, built.spec).sort_values("item", kind="stable")
    return float(log_integrals(whole, whole["item"].to_numpy(), values, built).sum())


def draws_of(built: BuiltModel, count: int, seed: int = 0, slope: float = 1.5) -> Draws:
    """Return draws of parameters at random; difficulties are integrated out."""
    rng, design = np.random.default_rng(seed), built.design
    shape = len(design.models), len(design.benchmarks)
    beta = slope + rng.normal(0, 0.5, (count, *shape)) * ~design.clean[:, None]
    given: dict[str, Any] = {"theta": rng.normal(0, 0.7, (count, shape[0] * len(design.units)))}
    given["sigma_delta"] = rng.uniform(0.6, 1.4, (count, shape[1]))
    if built.spec.contamination.form != "none":
        given["beta"] = (beta * ~design.clean[:, None]).reshape(count, -1)
    if "increments" in built.terms:
        given["increments"] = rng.dirichlet(np.ones(len(design.knots) + 1), count)
    if "kappa" in built.terms:
        given["kappa"] = rng.normal(0, 0.7, (count, shape[1]))
    if "psi" in built.terms:
        given["psi"] = rng.normal(0, 0.8, (count, shape[0] * shape[1]))
    for name in {"gamma", "spillover"} & built.terms.entered:
        each = name == "spillover" and design.lineage is not None
        given[name] = rng.normal(0, 0.4, (count, shape[0] * shape[1] if each else 1))
    return Draws(delta=None, eta=None, sigma_eps=None, **({"beta": None} | given))


def values_of(draws: Draws, position: int, built: BuiltModel) -> dict[str, np.ndarray]:
    """Return one draw as `log_odds` takes it."""
    names = ("theta", "beta", "sigma_delta", "increments", "kappa", "gamma", "spillover", "psi")
    values = {name: getattr(draws, name) for name in names}
    found = {name: v[position] for name, v in values.items() if v is not None}
    rows = len(built.design.models)
    return {
        n: v.reshape(rows, -1)
        if n in ("theta", "beta", "psi") or (n == "spillover" and built.design.lineage)
        else v
        for n, v in found.items()
    }


def in_order(frame: pd.DataFrame, built: BuiltModel) -> pd.DataFrame:
    """Return a table in the order of the design, with what `doses` adds."""
    design, keys = built.design, ["model", "benchmark", "item"]
    labels = [
        np.array(getattr(design, f"{key}s"), dtype=object)[getattr(design, key)] for key in keys
    ]
    order = pd.MultiIndex.from_arrays(labels, names=keys)
    return doses(frame, built.spec).set_index(keys).loc[order].reset_index()


class PointwiseModel:
    """A model as functions of a point, in the sampler's coordinates."""

    def __init__(self, built: BuiltModel) -> None:
        model = built.model
        self.start = model.initial_point()
        self.built = built
        logp = model.logp(vars=model.observed_RVs)
        named = model.unobserved_value_vars
        self._names = [v.name for v in named]
        self._values = model.compile_fn([*named, logp], mode=PLAIN)

    def point(self, seed: int) -> dict[str, np.ndarray]:
        """Return a point; spreads of difficulty lie between 0.6 and 1.6."""
        rng = np.random.default_rng(seed)
        point = {k: v + rng.normal(0, 0.7, np.shape(v)) for k, v in self.start.items()}
        rv = self.built.model["sigma_delta"]
        name = self.built.model.rvs_to_values[rv].name
        scale = rng.uniform(0.6, 1.6, np.shape(point[name]))
        return point | {
            name: self.built.model.rvs_to_transforms[rv].forward(scale).eval(mode=PLAIN)
        }

    def at(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], float]:
        """Return the values of all parameters, and the log density of the responses."""
        *values, logp = self._values(point)
        return dict(zip(self._names, values, strict=True)), float(logp)
