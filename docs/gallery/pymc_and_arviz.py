"""
PyMC and ArviZ by hand
======================

``fit`` makes many choices for you. What if you want to see the model, sample it with
other settings, add a part that no key of a model spec reaches, or draw a picture that
the report does not have? ``build_model`` returns the PyMC model that ``fit`` would
sample. From there on, everything is PyMC and ArviZ.
"""

# %%
# The model
# ---------
#
# A generated table of four models and 100 items, of which two models gain more from
# contamination than the others.

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import bayescontam as bc

rng = np.random.default_rng(31)
items = 100
dose = rng.choice([0.0, 0.5, 1.0], items, p=[0.5, 0.25, 0.25])
difficulty = rng.normal(0, 1, items)
parts = []
truth = {"Ada": (1.0, 0.8), "Bea": (0.3, 3.0), "Cleo": (0.0, 2.5), "Dag": (-0.4, 0.8)}
for name, (ability, slope) in truth.items():
    p = 1 / (1 + np.exp(difficulty - ability - slope * dose))
    columns = {
        "model": name,
        "benchmark": "quiz",
        "item": [f"q{number}" for number in range(items)],
        "correct": (rng.random(items) < p).astype(int),
        "contamination": dose,
    }
    parts.append(pd.DataFrame(columns))
table = pd.concat(parts, ignore_index=True)

model = bc.build_model("hierarchical", table)
for name in ("theta", "beta", "delta"):
    print(f"{name}: dims {model.named_vars_to_dims[name]}")

# %%
# In log-odds, ``theta`` is what a model does on an item of average difficulty at the
# mean contamination of the benchmark, ``beta`` the slope from a clean item to a
# contaminated one, and ``delta`` the difficulty of an item.
#
# A part of your own
# ------------------
#
# Suppose that Bea has also answered 60 fresh items of the same kind, which no corpus
# holds, and solved 34. No key of a model spec has a place for this; in PyMC it is a few
# lines. The fresh items are taken to be as difficult as those of the benchmark.

mean_dose = float(table["contamination"].mean())
with model:
    clean = model["theta"][1, 0] - model["beta"][1, 0] * mean_dose - model["delta"]
    pm.Binomial("fresh", n=60, p=pm.math.invlogit(clean).mean(), observed=34)

# %%
# Sampling
# --------
#
# ``pm.sample``, with any of its samplers and settings, and ArviZ's summary of what you
# look at.

with model:
    draws = pm.sample(
        500,
        tune=500,
        chains=4,
        cores=1,
        target_accept=0.9,
        nuts_sampler="nutpie",
        random_seed=1,
        progressbar=False,
    )
summary = az.summary(draws, var_names=["theta", "beta"])
print(summary[["mean", "sd", "ess_bulk", "ess_tail", "r_hat"]].to_string())
print("divergent transitions:", int(draws["sample_stats"]["diverging"].sum()))

# %%
# An estimand of your own
# -----------------------
#
# ``fit`` reports accuracies averaged over the items of the benchmark. By hand: give all
# items one contamination, predict, and average. The probability that Ada is better than
# Bea is then a curve over contamination.

posterior = az.extract(draws, var_names=["theta", "beta", "delta"]).squeeze("benchmark")


def accuracy(contamination):
    """Return draws of each model's accuracy if all items had this contamination."""
    eta = posterior["theta"] + posterior["beta"] * (contamination - mean_dose)
    return (1 / (1 + np.exp(posterior["delta"] - eta))).mean("item")


grid = np.linspace(0, 1, 11)
drawn = [accuracy(level) for level in grid]
better = [
    float((each.sel(model="Ada") > each.sel(model="Bea")).mean()) for each in drawn
]
print("P(Ada better than Bea)")
for level in (0, 5, 10):
    print(f"at contamination {grid[level]:.1f}: {better[level]:.2f}")

# %%
# Accuracy of both with 95 % bands, over the contamination that all items are given:

figure, axes = plt.subplots(figsize=(4.8, 3.2))
for place, name in enumerate(["Ada", "Bea"]):
    low, middle, high = np.transpose(
        [np.quantile(each.sel(model=name), [0.025, 0.5, 0.975]) for each in drawn]
    )
    axes.fill_between(grid, low, high, color=f"C{place}", alpha=0.25, linewidth=0)
    axes.plot(grid, middle, color=f"C{place}", label=name)
axes.set_xlabel("contamination of all items")
axes.set_ylabel("accuracy")
figure.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# What this does not show
# -----------------------
#
# Sampling by hand leaves the checks to you: predictive checks, sensitivity to the
# prior, and the verdict on whether a slope is identified are made by ``fit``, not by
# the model. Two convergence figures and no divergent transition do not show that the
# model describes the responses. That the fresh items are like the others is an
# assumption of the added lines, and nothing here tests it. A model with a part of your
# own is a new model: calibrate it before you rely on it
# (:ref:`sphx_glr_generated_gallery_own_spec_calibrated.py`).
