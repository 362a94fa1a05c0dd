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

import bayescontam as bc
from benchmarks.interference import Layout


def design(rng: np.random.Generator) -> Layout:
    """Return a random design: bases with an exposed model, most with a clean twin."""
    models = []
    for base in "ab"[: int(rng.choice([1, 2]))]:
        twins = bool(rng.random() < 0.7)
        models += [(base, False), (base, True)] if twins else [("", True)]
    exams, controls, items = (int(rng.choice(sizes)) for sizes in ([1, 2], [0, 2], [60, 120]))
    return Layout(models, exams, controls, items=items)


def compared(number: int) -> dict[str, object]:
    """Return what is expected of a design, and what its fit shows."""
    rng = np.random.default_rng([7, number])
    layout = design(rng)
    frame = layout.table()
    correct, true = layout.answered(frame, rng.normal(0.7, 1.0), rng.normal(0.5, 0.7), rng)
    table = frame.assign(correct=correct)
    dose = frame.groupby(["model", "benchmark"])["contamination"].mean()
    truth = true.loc[dose.index[dose > 0], "total"]
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
