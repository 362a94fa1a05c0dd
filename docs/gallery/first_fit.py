"""
A first fit
===========

Five models have answered the same 120 questions, and a list names the questions whose
text is in the training corpus that the models share. How good is each model on
questions that it has not seen? This page goes from such a table to scores without what
the listed questions add by themselves. The table is generated here, so that the answer
is known.
"""

# %%
# The table
# ---------
#
# One row for each model and item: whether the answer was correct, and
# ``contamination``, which is 1 for questions of the list and 0 for all others. Each
# model gains something else on questions of the list: ``boost`` is in log-odds.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayescontam as bc

rng = np.random.default_rng(11)
ability = pd.Series({"Ada": 1.2, "Bea": 0.6, "Cleo": 0.3, "Dag": 0.0, "Eve": -0.6})
boost = pd.Series({"Ada": 0.2, "Bea": 1.8, "Cleo": 1.0, "Dag": 2.4, "Eve": 0.4})
listed = rng.random(120) < 0.4
difficulty = rng.normal(0, 1, len(listed))


def chance(model, seen):
    """Return the probability that a model solves each question."""
    return 1 / (1 + np.exp(difficulty - ability[model] - boost[model] * seen))


parts = [
    pd.DataFrame(
        {
            "model": model,
            "benchmark": "quiz",
            "item": [f"q{number}" for number in range(len(listed))],
            "correct": (rng.random(len(listed)) < chance(model, listed)).astype(int),
            "contamination": listed.astype(float),
        }
    )
    for model in ability.index
]
table = pd.concat(parts, ignore_index=True)
print(table.sample(5, random_state=1).to_string(index=False))

# %%
# The fit
# -------
#
# Without the name of a model spec, ``fit`` composes one from the columns of the table.
# Draws are few here, to be quick; the defaults are larger.

fit = bc.fit(table, seed=1, draws=750, tune=500)
checks = pd.DataFrame([check.to_dict() for check in fit.checks()])
print(checks["outcome"].value_counts().to_string())
print(*checks.loc[checks["outcome"] != "passed", "sentence"], sep="\n")

# %%
# The result
# ----------
#
# ``raw_accuracy`` is the observed score, and ``genuine`` the genuine ability: the
# accuracy if each question by itself were clean, with its 95 % interval.

summary = fit.summary().set_index("model")
columns = ["raw_accuracy", "genuine_ability_direct"]
columns += ["genuine_ability_direct_low", "genuine_ability_direct_high"]
shown = summary[columns].rename(
    columns=lambda name: name.replace("genuine_ability_direct", "genuine")
)
print(shown.round(3).to_string())
print(summary["overfitting_direct_verdict"].to_string())

# %%
# Whether the table could show an effect is part of the answer. A verdict such as
# "inconclusive" means that the interval holds both an effect that matters and none.

truth = pd.Series({model: chance(model, False).mean() for model in ability.index})
place = np.arange(len(summary))
estimate = summary["genuine_ability_direct"]
low, high = (
    summary["genuine_ability_direct_low"],
    summary["genuine_ability_direct_high"],
)

figure, axes = plt.subplots(figsize=(4.8, 3.4))
error = [estimate - low, high - estimate]
axes.errorbar(
    estimate,
    place,
    xerr=error,
    fmt="o",
    color="C0",
    label="genuine ability, 95 % interval",
)
axes.plot(summary["raw_accuracy"], place, "D", color="C1", label="raw accuracy")
axes.plot(
    truth[summary.index],
    place,
    "x",
    color="C2",
    label="true accuracy if clean",
    zorder=3,
)
axes.set_yticks(place, summary.index)
axes.invert_yaxis()
axes.set_xlabel("accuracy")
figure.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# What this does not show
# -----------------------
#
# The list counts what a question gains from its own text in the corpus. If training on
# these questions also made the models better at the others, that part is still in every
# score here: identifying it takes models of one base that differ in what they were
# trained on (:ref:`sphx_glr_generated_gallery_twins.py`). The fit also assumes that
# listed questions are as difficult as the others, which is true of this table because
# it was made so. Where easy questions are copied more often, an estimate like this one
# takes their ease for contamination. And one table in which intervals hold the truth
# does not show that they do so 95 % of the time: that takes many
# (:ref:`sphx_glr_generated_gallery_own_spec_calibrated.py`).
