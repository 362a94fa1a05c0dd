"""Total effects under interference: designs that identify them, and designs that do not.

    python -m benchmarks.interference --tables 300 --out interference.csv

Tables are simulated with known direct effects and spillover, in each of four designs; each is
fitted by the model spec that `auto` composes. Printed are, for each cell, how often 95 % intervals
of the total hold the truth, how often verdicts read "shown", and how often they say that the table
cannot show it. Rows are appended to the file as they come, and a second run goes on from there.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from bayescontam.calibration.estimators import engine_of
from bayescontam.data.responses import Responses
from bayescontam.inference.estimands import estimands
from bayescontam.inference.identification import Overfitting
from bayescontam.inference.posterior import stack_draws
from bayescontam.inference.predictive import prior_draws, with_own_effects
from bayescontam.inference.total_effects import own_totals, stored_totals, total_verdicts
from bayescontam.model.auto import compose_spec
from bayescontam.model.build import build
from bayescontam.model.effect_names import DIRECT, TOTAL
from bayescontam.specs.study import SamplingSpec

ITEMS, SHARE = 120, 0.5
SPILLOVER, SLOPES = (0.0, 0.5, 1.5), (0.0, 1.0)
TRAINING, TWIN, BASES = 0.15, 0.12, 0.5
"""Spreads of what training changes everywhere, of twins, and of bases' abilities."""
SAMPLING = SamplingSpec(draws=600, tune=500, chains=2)
TAILS = (0.025, 0.975)
# Models as (base, whether it met the exams), number of exams, number of controls.
DESIGNS = {
    "items only": ([("", True)] * 3, 1, 0),
    "twins": ([("a", False), ("a", True)], 1, 0),
    "controls, no twin": ([("a", True), ("a", True)], 1, 3),
    "twins and controls": (
        [(base, met) for base in "abc" for met in (False, True)], 2, 2,
    ),
}  # fmt: skip


def layout(name: str) -> pd.DataFrame:
    """Return the table of a design without answers."""
    models, exams, controls = DESIGNS[name]
    rows = []
    for (m, (base, met)), b in product(enumerate(models), range(exams + controls)):
        for i in range(ITEMS):
            dose = float(met and b < exams and i < SHARE * ITEMS)
            row = {"model": f"m{m}", "benchmark": f"b{b}", "item": f"b{b}i{i}"}
            rows.append(
                row | {"contamination": dose, "correct": i % 2} | ({"base": base} if base else {})
            )
    return pd.DataFrame(rows)


def answered(
    name: str, frame: pd.DataFrame, spillover: float, slope: float, rng: np.random.Generator
) -> tuple[np.ndarray, pd.Series]:
    """Return answers to the rows of a design, and the true total effect of each pair."""
    models, _, _ = DESIGNS[name]
    benchmarks = frame["benchmark"].unique()
    bases = {base or f"own{m}": rng.normal(0, BASES) for m, (base, _) in enumerate(models)}
    level = dict(zip(benchmarks, rng.normal(0, 0.5, len(benchmarks)), strict=True))
    own = {
        f"m{m}": bases[base or f"own{m}"] + rng.normal(0, TRAINING)
        for m, (base, _) in enumerate(models)
    }
    pair = {key: rng.normal(0, TWIN) for key in product(own, benchmarks)}
    hard = dict(zip(frame["item"].unique(), rng.normal(0, 1, frame["item"].nunique()), strict=True))
    clean = np.array(
        [
            own[m] + level[b] + pair[m, b] - hard[i]
            for m, b, i in zip(frame["model"], frame["benchmark"], frame["item"], strict=True)
        ]
    )
    dose = frame["contamination"].to_numpy()
    mean = frame.groupby(["model", "benchmark"])["contamination"].transform("mean").to_numpy()
    p = expit(clean + slope * dose + spillover * mean)
    total = pd.Series(p - expit(clean)).groupby([frame["model"], frame["benchmark"]]).mean()
    return rng.binomial(1, p), total


def fitted(name: str, spillover: float, slope: float, tables: range) -> Iterator[dict[str, object]]:
    """Yield a row for each exposed pair of each table."""
    frame = layout(name)
    first = Responses.from_frame(frame)
    frame = first.frame.drop(columns=["n_correct", "n_trials"]).assign(correct=0)
    spec, _ = compose_spec(first)
    sampler = engine_of(spec, "nutpie", first, moving=False)
    built = build(spec, first)
    prior = prior_draws(built, 1000, np.random.default_rng(0))[1]
    for number in tables:
        rng = np.random.default_rng([number, int(10 * spillover), int(10 * slope)])
        correct, total = answered(name, frame, spillover, slope, rng)
        responses = Responses.from_frame(frame.assign(correct=correct))
        drawn = sampler.draw(responses, number, SAMPLING)
        draws = stack_draws(drawn.posterior, drawn.built.design)
        draws = with_own_effects(draws, drawn.built, rng)
        shape = SAMPLING.chains, SAMPLING.draws
        found = estimands(draws, drawn.built, shape, "min_observed", "all", rng)["estimands"]
        which = TOTAL if TOTAL.overfitting in found else DIRECT
        values = found[which.overfitting]
        ends = values.quantile(TAILS, ("chain", "draw"))
        table = pd.DataFrame(
            {
                "mean": values.mean(("chain", "draw")).to_series(),
                "ci_low": ends.isel(quantile=0, drop=True).to_series(),
                "ci_high": ends.isel(quantile=1, drop=True).to_series(),
            }
        )
        verdict = pd.Series("not identified", table.index)
        own = own_totals(drawn.posterior, prior, drawn.built)
        if own is not None:
            stored = stored_totals(own, drawn.built.design)
            verdict = total_verdicts(stored, (), table, 0.95, 0.02)
        for pair in table.index:
            if frame.loc[
                (frame["model"] == pair[0]) & (frame["benchmark"] == pair[1]), "contamination"
            ].any():
                yield {
                    "design": name, "spillover": spillover, "direct": slope, "table": number,
                    "model": pair[0], "benchmark": pair[1], "effect": which.overfitting,
                    "truth": total[pair], **table.loc[pair].to_dict(), "verdict": verdict[pair],
                    "diverged": drawn.diverged,
                }  # fmt: skip


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage and verdicts of each cell, with the standard error over tables."""
    inside = (rows["ci_low"] <= rows["truth"]) & (rows["truth"] <= rows["ci_high"])
    unknown = rows["verdict"].isin(["not identified", Overfitting.BORROWED.value])
    keys = ["design", "spillover", "direct"]
    marked = rows.assign(
        covers=inside * 1.0, width=rows["ci_high"] - rows["ci_low"],
        shown=(rows["verdict"] == Overfitting.SHOWN.value) * 1.0, unknown=unknown * 1.0,
    )  # fmt: skip
    each = marked.groupby([*keys, "effect", "table"])[
        ["covers", "width", "shown", "unknown"]
    ].mean()
    cells = each.groupby([*keys, "effect"], sort=False)
    return cells.mean().assign(tables=cells.size(), covers_se=cells["covers"].sem()).reset_index()


def main() -> None:
    """Run what is missing of all cells, and print the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("interference.csv"))
    given = parser.parse_args()
    for name, spillover, slope in product(DESIGNS, SPILLOVER, SLOPES):
        done = 0
        if given.out.exists():
            rows = pd.read_csv(given.out)
            here = (
                (rows["design"] == name)
                & (rows["spillover"] == spillover)
                & (rows["direct"] == slope)
            )
            done = rows.loc[here, "table"].nunique()
        if done >= given.tables:
            continue
        found = list(fitted(name, spillover, slope, range(done, given.tables)))
        pd.DataFrame(found).to_csv(given.out, mode="a", header=not given.out.exists(), index=False)
        print(
            f"{name}, spillover {spillover:g}, direct {slope:g}: {given.tables} tables", flush=True
        )
    print(summary(pd.read_csv(given.out)).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
