"""What `advise` expects of designs, against what fits of them then show.

    python -m benchmarks.advice --designs 30 --out advice.csv

Designs are drawn at random: bases with exposed models, with or without clean twins, on one or two
benchmarks, with or without controls. Each is advised on, answered by simulated models with known
effects, and fitted. Printed are for what `advise` calls identified, in part, or not: how wide the
median interval of the total effect is beside the expected one, how many totals hold the truth, and
verdicts. Rows are appended to the file as they come, and a second run goes on from there.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

import bayescontam as bc


def design(rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of a random design, with answers of models with known effects."""
    items, controls = int(rng.choice([60, 120])), int(rng.choice([0, 2]))
    exams, direct, spillover = int(rng.choice([1, 2])), rng.normal(0.5, 0.7), rng.normal(0.7, 1.0)
    rows = []
    for base in range(int(rng.choice([1, 2]))):
        level, twins = rng.normal(0, 0.5), bool(rng.random() < 0.7)
        for k, exposed in enumerate([False, True] if twins else [True]):
            training = level + rng.normal(0, 0.15)
            for b in range(exams + controls):
                dose = 0.5 * (exposed and b < exams)
                hard = np.random.default_rng(b).normal(0, 1, items)
                d = (np.arange(items) < dose * items) * 1.0
                clean = training + rng.normal(0, 0.12) - hard
                p = expit(clean + direct * d + spillover * dose)
                total = float((p - expit(clean)).mean())
                rows += [
                    {"model": f"m{base}{k}", "base": f"base{base}", "benchmark": f"b{b}",
                     "item": f"b{b}i{i}", "correct": int(rng.random() < p[i]),
                     "contamination": d[i], "total": total}
                    for i in range(items)
                ]  # fmt: skip
    frame = pd.DataFrame(rows)
    alone = frame.groupby("base")["model"].transform("nunique") == 1
    return frame.assign(base=frame["base"].where(~alone, ""))


def compared(number: int) -> dict[str, object]:
    """Return what is expected of a design, and what its fit shows."""
    frame = design(np.random.default_rng([7, number]))
    truth = frame[frame["contamination"] > 0].groupby(["model", "benchmark"])["total"].first()
    table = frame.drop(columns="total")
    advice = bc.advise(table).table.set_index("effect")
    fit = bc.fit(table, seed=number, draws=500, tune=500, chains=2)
    found = fit.estimands().set_index(["model", "benchmark"])
    row: dict[str, object] = {"design": number}
    for effect, name in (("direct effect", "overfitting_direct"), ("total effect", "overfitting")):
        own = found[found["quantity"] == name]
        own = own.loc[own.index.isin(truth.index)]
        width = own["ci_high"] - own["ci_low"]
        row |= {
            f"{name}_identified": advice.loc[effect, "identified"],
            f"{name}_expected": advice.loc[effect, "width"],
            f"{name}_width": width.median() if len(own) else np.nan,
            f"{name}_verdicts": ", ".join(sorted(set(own["verdict"].dropna()))),
        }
        if name == "overfitting" and len(own):
            inside = own["ci_low"].le(truth) & truth.le(own["ci_high"])
            row |= {"held": int(inside.sum()), "totals": len(own)}
    return row


def main() -> None:
    """Run what is missing, and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--designs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("advice.csv"))
    given = parser.parse_args()
    done = set(pd.read_csv(given.out)["design"]) if given.out.exists() else set()
    for number in range(given.designs):
        if number not in done:
            names = ["held", "totals"]
            row = dict.fromkeys(names) | compared(number)
            pd.DataFrame([row]).to_csv(
                given.out, mode="a", header=not given.out.exists(), index=False
            )
            print(f"{number + 1} of {given.designs} designs", flush=True)
    rows = pd.read_csv(given.out)
    for name in ("overfitting_direct", "overfitting"):
        rows["ratio"] = rows[f"{name}_width"] / rows[f"{name}_expected"]
        print(f"\n{name}")
        for kind, own in rows.groupby(f"{name}_identified"):
            verdicts = own[f"{name}_verdicts"].fillna("not estimated").value_counts().to_dict()
            middle = own["ratio"].quantile([0.05, 0.5, 0.95]).round(2).tolist()
            print(f"{kind}: {len(own)} designs; fitted / expected width {middle}; {verdicts}")
    print(f"\n{rows['held'].sum():.0f} of {rows['totals'].sum():.0f} totals held the truth")


if __name__ == "__main__":
    main()
