"""
Twins: the total effect
=======================

Training on some items of a benchmark may lift the others too. How much of a score would
be gone if the benchmark had not been in the training data at all? One model cannot show
that. Twins can: models of one base that are trained alike but for the duplicates. This
page shows what a table identifies with twins and without, and fits one with twins. The
table is generated, so that the answer is known.
"""

# %%
# The table
# ---------
#
# Two bases, and two models trained from each: one with duplicates of half of the items
# of two benchmarks, and its clean twin. The third benchmark is a control: its items are
# in no training data. An item that was trained on gains ``DIRECT``; all items of a
# benchmark of which half was trained on gain ``SPILLOVER`` as well, both in log-odds.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayescontam as bc

DIRECT, SPILLOVER = 0.8, 1.2
BENCHMARKS = ("stories", "puzzles", "control")
rng = np.random.default_rng(8)
items = 120
duplicated = np.arange(items) % 2 == 0
difficulty = {benchmark: rng.normal(0, 1, items) for benchmark in BENCHMARKS}


def expected(ability, benchmark, dose, lift):
    """Return the probability that each item is solved."""
    eta = ability - difficulty[benchmark] + DIRECT * dose + lift
    return 1 / (1 + np.exp(-eta))


parts, truth = [], []
for base in ("Ada", "Bea"):
    of_base = {benchmark: rng.normal(-0.3, 0.6) for benchmark in BENCHMARKS}
    for kind in ("clean", "exposed"):
        own = rng.normal(0, 0.2)  # what the training of this model changes everywhere
        for benchmark in BENCHMARKS:
            trained_on = kind == "exposed" and benchmark != "control"
            dose = duplicated * float(trained_on)
            p = expected(
                of_base[benchmark] + own, benchmark, dose, SPILLOVER * trained_on
            )
            if trained_on:
                without = expected(of_base[benchmark] + own, benchmark, 0 * dose, 0.0)
                truth.append((f"{base} {kind}", benchmark, (p - without).mean()))
            columns = {
                "model": f"{base} {kind}",
                "base": base,
                "benchmark": benchmark,
                "item": [f"i{number}" for number in range(items)],
                "correct": (rng.random(items) < p).astype(int),
                "contamination": dose,
            }
            parts.append(pd.DataFrame(columns))
table = pd.concat(parts, ignore_index=True)
truth = pd.DataFrame(truth, columns=["model", "benchmark", "true_total"])
truth = truth.set_index(["model", "benchmark"])["true_total"]
scores = table.groupby(["model", "benchmark"])["correct"].mean().unstack()
print(scores.round(2).to_string())

# %%
# What a table identifies
# -----------------------
#
# ``advise`` reports it before anything is fitted: with the column ``base``, and without
# it.


def advised(responses):
    """Return which effects a table identifies."""
    return bc.advise(responses).table.set_index("effect")["identified"]


both = {"with base": advised(table), "without": advised(table.drop(columns="base"))}
print(pd.DataFrame(both).to_string())

# %%
# The fit
# -------
#
# With the column ``base``, ``fit`` estimates the total effect as the sum of direct
# effect and spillover.

fit = bc.fit(table, seed=3, draws=750, tune=500)
found = fit.summary().set_index(["model", "benchmark"]).loc[truth.index]
shown = found[["overfitting", "overfitting_low", "overfitting_high"]]
shown = shown.set_axis(["total", "low", "high"], axis=1).round(3)
verdicts = found["overfitting_verdict"]
print(shown.assign(true_total=truth.round(3), verdict=verdicts).to_string())
checks = pd.DataFrame([check.to_dict() for check in fit.checks()])
print(checks["outcome"].value_counts().to_string())
print(*checks.loc[checks["outcome"] != "passed", "sentence"], sep="\n")

# %%
# The picture has both parts of the total. An analysis that compares items with each
# other, as one without twins must, finds the part called direct.

place = np.arange(len(found))
direct, spillover = found["overfitting_direct"], found["overfitting_spillover"]
figure, axes = plt.subplots(figsize=(4.8, 3.8))
axes.barh(place, direct, height=0.4, color="C0", label="direct")
axes.barh(place, spillover, left=direct, height=0.4, color="C1", label="spillover")
total = found["overfitting"]
error = [total - found["overfitting_low"], found["overfitting_high"] - total]
axes.errorbar(
    total, place + 0.35, xerr=error, fmt="o", color="0.5", label="total, 95 % interval"
)
axes.plot(truth, place + 0.35, "x", color="C2", markeredgewidth=2, label="true total")
axes.set_yticks(place, [f"{model}\n{benchmark}" for model, benchmark in found.index])
axes.invert_yaxis()
axes.set_xlabel("overfitting: accuracy owed to contamination")
figure.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# What this does not show
# -----------------------
#
# The estimate holds for twins, models that would do about the same without
# contamination. The clean twin of a model that somebody else trained seldom exists; its
# base before finetuning is no such twin, since finetuning on anything changes a model.
# The control benchmark shows what a model's own training changes everywhere only as far
# as that is the same on all benchmarks. Two bases on two benchmarks show little of how
# effects differ between bases, so nothing here predicts the spillover of a third. The
# sizes of both effects are those that the script generated, not those of a real
# experiment.
