"""Total effects under interference: designs that identify them, and designs that do not.

    python -m benchmarks.interference --tables 300 --out interference.csv

Tables are simulated with known direct effects and spillover, in each of six designs; each is
fitted by the model spec that `auto` composes. Printed are for each cell: how often 95 % intervals
hold the effect that the fit reports (`covers`), and how often these hold the total effect; mean
width; how often verdicts read "shown" (of a direct effect: how often they could); how often the
table is said not to identify the total effect; how often the predictive check of a direct-only fit
has p < 0.01, where models have a base (`caught`); and fits with divergences. Rows are appended to
the file as they come, and a second run goes on from there.
"""

import argparse
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from bayescontam.calibration.estimators import SampledDraws, engine_of
from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.left_out_spillover import left_out_spillover
from bayescontam.inference.own_slopes import own_slopes
from bayescontam.inference.posterior import stack_draws
from bayescontam.inference.predictive import prior_draws, with_own_effects
from bayescontam.inference.total_effects import own_totals, stored_totals, total_verdicts
from bayescontam.model.auto import compose_spec
from bayescontam.model.build import build
from bayescontam.model.effect_names import DIRECT, TOTAL
from bayescontam.model.lineage import bases_of
from bayescontam.power.advice import advice_of
from bayescontam.specs.registry import load_model
from bayescontam.specs.study import SamplingSpec

SHARE = 0.5  # of an exam's items, contaminated
SPILLOVER, SLOPES = (0.0, 0.5, 1.5), (0.0, 1.0)
TRAINING, TWIN, BASES = 0.15, 0.12, 0.5
"""Spreads of what training changes everywhere, of twins, and of bases' abilities."""
# Chains of ChEES-HMC adapt together: a fourth of the time of nutpie, and more effective draws.
SAMPLING = {
    "jax": SamplingSpec(engine="jax", draws=600, tune=200, chains=2),
    "nutpie": SamplingSpec(draws=600, tune=500, chains=2),
}
TAILS = (0.025, 0.975)
DIRECT_ONLY = load_model("hierarchical")
"""The model spec whose predictive check has to catch spillover."""
COLUMNS = [
    "design", "spillover", "direct", "table", "model", "benchmark", "effect", "total",
    "direct_effect", "mean", "ci_low", "ci_high", "identified", "verdict", "diverged", "left_out",
]  # fmt: skip


class Layout(NamedTuple):
    """Which models are exposed to which benchmarks."""

    models: list[tuple[str, bool]]  # base, empty if none, and whether exposed to the exams
    exams: int
    controls: int
    declared: bool = False  # whether unexposed models are declared clean (column 'clean')
    items: int = 120

    def table(self) -> pd.DataFrame:
        """Return the table without answers."""
        rows = []
        pairs = product(enumerate(self.models), range(self.exams + self.controls))
        for (m, (base, exposed)), b in pairs:
            for i in range(self.items):
                dose = float(exposed and b < self.exams and i < SHARE * self.items)
                row = {"model": f"m{m}", "benchmark": f"b{b}", "item": f"b{b}i{i}"}
                rows.append(
                    row
                    | {"contamination": dose, "correct": i % 2}
                    | ({"base": base} if base else {})
                    | ({"clean": 1 - exposed} if self.declared else {})
                )
        return pd.DataFrame(rows)

    def answered(
        self, frame: pd.DataFrame, spillover: float, slope: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, pd.DataFrame]:
        """Return answers to the rows of a table, and the true effects of each pair."""
        benchmarks = frame["benchmark"].unique()
        bases = {base or f"own{m}": rng.normal(0, BASES) for m, (base, _) in enumerate(self.models)}
        level = dict(zip(benchmarks, rng.normal(0, 0.5, len(benchmarks)), strict=True))
        own = {
            f"m{m}": bases[base or f"own{m}"] + rng.normal(0, TRAINING)
            for m, (base, _) in enumerate(self.models)
        }
        pair = {key: rng.normal(0, TWIN) for key in product(own, benchmarks)}
        items = frame["item"].unique()
        hard = dict(zip(items, rng.normal(0, 1, len(items)), strict=True))
        clean = np.array(
            [
                own[m] + level[b] + pair[m, b] - hard[i]
                for m, b, i in zip(frame["model"], frame["benchmark"], frame["item"], strict=True)
            ]
        )
        p, true = contaminated(frame, clean, spillover, slope)
        return rng.binomial(1, p), true


def contaminated(
    frame: pd.DataFrame, clean: np.ndarray, spillover: float, slope: float
) -> tuple[np.ndarray, pd.DataFrame]:
    """Return probabilities of right answers given clean log-odds, and true effects by pair."""
    dose = frame["contamination"].to_numpy()
    mean = frame.groupby(["model", "benchmark"])["contamination"].transform("mean").to_numpy()
    p = expit(clean + slope * dose + spillover * mean)
    effects = {"total": p - expit(clean), "direct_effect": p - expit(clean + spillover * mean)}
    return p, pd.DataFrame(effects).groupby([frame["model"], frame["benchmark"]]).mean()


_PAIRS = [(base, exposed) for base in "abc" for exposed in (False, True)]
DESIGNS = {
    "items only": Layout([("", True)] * 3, 1, 0),
    "clean models": Layout([("", True)] * 2 + [("", False)] * 2, 1, 0, declared=True),
    "twins": Layout([("a", False), ("a", True)], 1, 0),
    "controls, no twin": Layout([("a", True), ("a", True)], 1, 3),
    "twins and controls": Layout(_PAIRS, 2, 2),
    "all": Layout(_PAIRS, 2, 2, declared=True),
}


def fitted(
    name: str, wanted: Iterable[tuple[int, float, float]], sampling: SamplingSpec
) -> Iterator[pd.DataFrame]:
    """Yield a row for each exposed pair, for each number of a table, spillover and slope."""
    frame = DESIGNS[name].table()
    first = Responses.from_frame(frame)
    frame = first.frame.drop(columns=["n_correct", "n_trials"]).assign(correct=0)
    spec, _ = compose_spec(first)
    sampler = engine_of(spec, sampling.engine, first, moving=False)
    built = build(spec, first)
    prior = prior_draws(built, 1000, np.random.default_rng(0))[1]
    advised = advice_of(spec, built.design, built.terms, 0.95).set_index("effect")
    checker = slope_sd = None
    if "base" in frame:
        checker = engine_of(DIRECT_ONLY, sampling.engine, first, moving=False)
        of_slopes = prior_draws(build(DIRECT_ONLY, first), 1000, np.random.default_rng(0))[0].beta
        slope_sd = of_slopes.std(axis=0).reshape(built.design.answered.shape)
    for number, spillover, slope in wanted:
        rng = np.random.default_rng([number, int(10 * spillover), int(10 * slope)])
        correct, true = DESIGNS[name].answered(frame, spillover, slope, rng)
        responses = Responses.from_frame(frame.assign(correct=correct))
        drawn = sampler.draw(responses, number, sampling)
        found = estimands_of(drawn, sampling, rng)
        which = TOTAL if TOTAL.overfitting in found else DIRECT
        table = intervals(found[which.overfitting])
        own = own_totals(drawn.posterior, prior, drawn.built)
        if own is None:
            # No verdict can be "shown" unless the interval excludes 0.
            high = table["ci_low"] > 0
            verdict = np.where(high, Overfitting.SHOWN.value, Overfitting.INCONCLUSIVE.value)
        else:
            stored = stored_totals(own, drawn.built, np.zeros(1))
            verdict = total_verdicts(stored, (), table, 0.95, 0.02)
        p_value = np.nan
        if checker is not None:
            checked = checker.draw(responses, number, sampling)
            draws = stack_draws(checked.posterior, checked.built.design)
            draws = with_own_effects(draws, checked.built, rng)
            left = left_out_spillover(
                own_slopes(draws, checked.built, slope_sd), checked.built, bases_of(responses)
            )
            p_value = np.nan if left is None else left.p_value
        dose = frame.groupby(["model", "benchmark"])["contamination"].mean()
        table = table.assign(verdict=verdict).loc[dose.index[dose > 0]]
        table = table.rename_axis(["model", "benchmark"]).join(true).assign(
            effect=which.overfitting, diverged=drawn.diverged, left_out=p_value, design=name,
            identified=advised.loc["total effect", "identified"],
            spillover=spillover, direct=slope, table=number,
        )  # fmt: skip
        yield table.reset_index()[COLUMNS]


def estimands_of(
    drawn: SampledDraws, sampling: SamplingSpec, rng: np.random.Generator
) -> xr.Dataset:
    """Return the estimands of a fit."""
    draws = stack_draws(drawn.posterior, drawn.built.design)
    draws = with_own_effects(draws, drawn.built, rng)
    whole = estimands(draws, drawn.built, sampling.run, "min_observed", "all", rng)
    return whole["estimands"]


def intervals(values: xr.DataArray) -> pd.DataFrame:
    """Return mean and interval of each pair of model and benchmark."""
    over = ("chain", "draw")
    figures = {"mean": values.mean(over)} | {
        name: values.quantile(tail, over, skipna=False).drop_vars("quantile")
        for name, tail in zip(("ci_low", "ci_high"), TAILS, strict=True)
    }
    return pd.DataFrame({name: each.to_series() for name, each in figures.items()})


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage and verdicts of each cell, with the standard error over tables."""
    total = rows["effect"] == TOTAL.overfitting
    own = rows["total"].where(total, rows["direct_effect"])
    verdict = rows["verdict"]
    marked = rows.assign(
        covers=rows["ci_low"].le(own) & own.le(rows["ci_high"]),
        covers_total=rows["ci_low"].le(rows["total"]) & rows["total"].le(rows["ci_high"]),
        width=rows["ci_high"] - rows["ci_low"], shown=verdict == Overfitting.SHOWN.value,
        not_identified=(rows["identified"] == "no") | (verdict == Overfitting.BORROWED.value),
        caught=(rows["left_out"] < 0.01).where(rows["left_out"].notna()),
        diverged=rows["diverged"] > 0,
    )  # fmt: skip
    keys = ["design", "spillover", "direct", "effect"]
    figures = [
        "covers", "covers_total", "width", "shown", "not_identified", "caught", "diverged"
    ]  # fmt: skip
    marked[figures] = marked[figures].astype(float)
    each = marked.groupby([*keys, "table"], sort=False)[figures].mean()
    cells = each.groupby(keys, sort=False)
    return cells.mean().assign(tables=cells.size(), covers_se=cells["covers"].sem()).reset_index()


def main() -> None:
    """Run what is missing of all cells, and print the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("interference.csv"))
    parser.add_argument("--engine", choices=tuple(SAMPLING), default="jax")
    parser.add_argument("--design", choices=tuple(DESIGNS), action="append", dest="designs")
    given = parser.parse_args()
    done = set()
    if given.out.exists():
        keys = ["design", "table", "spillover", "direct"]
        done = set(pd.read_csv(given.out)[keys].itertuples(index=False, name=None))
    for name in given.designs or DESIGNS:
        cells = product(range(given.tables), SPILLOVER, SLOPES)
        wanted = [cell for cell in cells if (name, *cell) not in done]
        for at, found in enumerate(
            fitted(name, wanted, SAMPLING[given.engine]) if wanted else (), 1
        ):
            found.to_csv(given.out, mode="a", header=not given.out.exists(), index=False)
            if at % 10 == 0:
                print(f"{name}: {at} of {len(wanted)} tables", flush=True)
    print(summary(pd.read_csv(given.out)).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
