"""
A new model in seconds
======================

A table of six models has been fitted, and a seventh model has now answered the same
items. Does everything have to be fitted again? ``update`` scores the new model from the
draws of the existing fit, which are weighted by how well they predict its responses.
This page compares the result with a joint fit.
"""

# %%
# The table and the fit
# ---------------------
#
# Six models and a benchmark of 150 items, of which some are contaminated. The fit is
# the expensive part. It is made once; ``fit.to_netcdf`` stores it for later.

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayescontam as bc

rng = np.random.default_rng(21)
items = 150
contaminated = rng.random(items) < 0.35
difficulty = rng.normal(0, 1, items)
abilities = {
    "Ada": 1.1,
    "Bea": 0.7,
    "Cleo": 0.4,
    "Dag": 0.1,
    "Eve": -0.4,
    "Fay": -0.9,
    "new": 0.3,
}


def answers(model):
    """Return the responses of a model whose contaminated items gain 1.5 in log-odds."""
    p = 1 / (1 + np.exp(difficulty - abilities[model] - 1.5 * contaminated))
    columns = {
        "model": model,
        "benchmark": "quiz",
        "item": [f"q{number}" for number in range(items)],
        "correct": (rng.random(items) < p).astype(int),
        "contamination": contaminated.astype(float),
    }
    return pd.DataFrame(columns)


fitted_first = [answers(model) for model in abilities if model != "new"]
old = pd.concat(fitted_first, ignore_index=True)
new = answers("new")


def report_checks(fitted):
    """Print how many checks of a fit passed, and the others."""
    checks = fitted.checks()
    for check in checks:
        if check.outcome is not bc.Outcome.PASSED:
            print(f"{check.name}: {check.outcome.value}: {check.sentence}")
    passed = sum(check.outcome is bc.Outcome.PASSED for check in checks)
    print(f"{passed} of {len(checks)} checks passed")


fit = bc.fit(old, seed=4, draws=750, tune=500)
report_checks(fit)

# %%
# The new model
# -------------
#
# The verdict reports whether the weights can be trusted. Where they could not, old and
# new responses would be fitted together instead.

start = time.perf_counter()
updated = bc.update(fit, new, seed=4)
print(f"update took {time.perf_counter() - start:.1f} s")
print(updated.entries[0].verdict)
quantities = ["accuracy", "genuine_ability_direct", "overfitting_direct"]
columns = ["mean", "ci_low", "ci_high"]
by_update = updated.estimands().set_index("quantity").loc[quantities, columns]
print(by_update.round(3).to_string())

# %%
# How probably it is better than each of the others:

better = updated.p_better()
print(better[["other", "probability"]].round(3).to_string(index=False))

# %%
# Beside a joint fit
# ------------------
#
# The same responses, all fitted together.

start = time.perf_counter()
joint = bc.fit(pd.concat([old, new], ignore_index=True), seed=5, draws=750, tune=500)
print(f"the joint fit took {time.perf_counter() - start:.1f} s")
report_checks(joint)
estimands = joint.estimands()
by_joint = estimands[estimands["model"] == "new"].set_index("quantity")
by_joint = by_joint.loc[quantities, columns]
difference = (by_update["mean"] - by_joint["mean"]).abs().max()
print(f"largest difference of the posterior means: {difference:.4f}")

# %%
place = np.arange(len(quantities))
figure, axes = plt.subplots(figsize=(4.8, 2.8))
for shift, rows, color, label in (
    (-0.12, by_update, "C0", "update"),
    (0.12, by_joint, "C1", "joint fit"),
):
    error = [rows["mean"] - rows["ci_low"], rows["ci_high"] - rows["mean"]]
    axes.errorbar(
        rows["mean"], place + shift, xerr=error, fmt="o", color=color, label=label
    )
axes.set_yticks(
    place, ["accuracy", "genuine ability\n(direct)", "overfitting\n(direct)"]
)
axes.invert_yaxis()
axes.set_xlabel("new model, posterior mean and 95 % interval")
figure.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# What this does not show
# -----------------------
#
# An update inherits everything that the fit assumes and every check that it failed. It
# answers what the new model's scores are given the others; the others' estimates stay
# as they were, and whether the new model's slope is identified is reported by a fit
# only. Agreement on one model that resembles the others shows nothing about one that
# does not: there the weights rest on few draws, the verdict reports it, and the update
# turns into a fit. Times depend on the machine, and the first fit of a session also
# compiles the model.
