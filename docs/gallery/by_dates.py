"""
LiveCodeBench by dates
======================

`LiveCodeBench <https://arxiv.org/abs/2403.07974>`__ collects programming problems with
the day on which each was published, and models have a date up to which their training
data go. A problem that was published after that date cannot have been in the training
data. Which score would a model have had if all problems were new to it? And do
estimates made from dates predict what models do on problems that were published later?

The table of LiveCodeBench does not ship with the package, so this page generates one of
the same structure: problems of a year, models of different cutoffs, and some models
whose training data end before all problems. Its numbers are made up, and it has one
program for each model and problem, where LiveCodeBench has up to ten.
"""

# %%
# The table
# ---------
#
# Problems of twelve months; four models whose data end before the first of them, and
# four whose data end in between. Old problems are easier than new ones here, so that
# "the score falls after the cutoff" alone would not show contamination.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bayescontam as bc

rng = np.random.default_rng(5)
problems = pd.DataFrame({"item": [f"problem {number}" for number in range(200)]})
days = pd.date_range("2023-05-05", "2024-04-25", periods=200)
problems["released"] = days.normalize()
difficulty = rng.normal(np.linspace(-0.5, 0.5, 200), 1.5)

cutoffs = {
    "older A": "2022-12-31", "older B": "2022-12-31", "older C": "2023-01-31",
    "older D": "2023-03-31", "newer E": "2023-08-31", "newer F": "2023-08-31",
    "newer G": "2023-10-31", "newer H": "2023-10-31",
}  # fmt: skip
ability = rng.normal(-0.5, 0.8, len(cutoffs))
boost = rng.normal(1.5, 0.5, len(cutoffs))

parts = []
for number, (model, cutoff) in enumerate(cutoffs.items()):
    seen = problems["released"] <= cutoff
    eta = ability[number] - difficulty + boost[number] * seen
    solved = (rng.random(len(problems)) < 1 / (1 + np.exp(-eta))).astype(int)
    parts.append(problems.assign(model=model, cutoff=cutoff, correct=solved))
table = pd.concat(parts, ignore_index=True).assign(benchmark="live")
table["released"] = table["released"].dt.strftime("%Y-%m-%d")
print(table.iloc[[0, 1, -2, -1]].to_string(index=False))

# %%
# Hold out what is known to be clean
# ----------------------------------
#
# For the newer models, half of the problems after all cutoffs are held out. Their
# accuracy there is the truth that estimates are compared with.

newest = problems["item"][problems["released"] > max(cutoffs.values())]
out = set(rng.choice(newest, len(newest) // 2, replace=False))
newer = table["model"].str.startswith("newer")
held_out = newer & table["item"].isin(out)
print(held_out.sum(), "responses are held out,", (~held_out).sum(), "are fitted")

# %%
# The fit
# -------
#
# ``fit`` recognises the columns ``released`` and ``cutoff``: contamination is 1 for
# problems that were released on or before a model's cutoff, and models whose cutoff
# precedes all problems are clean. The model spec ``anchored`` takes from the clean
# models how difficult the older problems are. One key of it is changed: which responses
# are missing was drawn at random, so that it informs on nothing.

spec = bc.load_model("anchored").model_dump()
spec["difficulty"]["selection"] = "ignored"
fit = bc.fit(table[~held_out], spec, seed=2, draws=750, tune=500)
checks = pd.DataFrame([check.to_dict() for check in fit.checks()])
print(checks["outcome"].value_counts().to_string())
print(*checks.loc[checks["outcome"] != "passed", "sentence"], sep="\n")

# %%
# Estimates beside the problems held out
# --------------------------------------
#
# Raw accuracy is over the problems that were fitted. ``genuine`` is the estimated
# accuracy on all problems, without what those before the cutoff add. Accuracy on the
# problems held out is over problems of one part of the year, which are harder than the
# average. So every column is taken relative to the mean of the clean models on the same
# problems.

clean = table[~newer].groupby("item")["correct"].mean()
summary = fit.summary().set_index("model")
summary = summary[summary.index.str.startswith("newer")]
solved = table[held_out].groupby("model")["correct"]
every = clean.mean()
columns = {
    "raw": summary["raw_accuracy"] - clean.drop(sorted(out)).mean(),
    "genuine": summary["genuine_ability_direct"] - every,
    "low": summary["genuine_ability_direct_low"] - every,
    "high": summary["genuine_ability_direct_high"] - every,
    "held_out": solved.mean() - clean[sorted(out)].mean(),
    "held_out_se": solved.std() / np.sqrt(len(out)),
}
beside = pd.DataFrame(columns)
print(f"accuracy minus that of clean models on the same problems ({len(out)} held out)")
print(beside.round(3).to_string())
for name in ("raw", "genuine"):
    distance = (beside[name] - beside["held_out"]).mean()
    print(f"mean distance of {name} from held_out: {distance:+.3f}")

# %%
# If dates show contamination and nothing else, ``genuine`` is as far from the clean
# models as the accuracy on the problems held out, up to the chance in both. Lines are
# 95 % intervals.

place = np.arange(len(beside))
figure, axes = plt.subplots(figsize=(4.8, 3.4))
genuine, out_of_fit = beside["genuine"], beside["held_out"]
error = [genuine - beside["low"], beside["high"] - genuine]
around = 1.96 * beside["held_out_se"]
axes.errorbar(genuine, place, xerr=error, fmt="o", color="C0", label="genuine ability")
axes.plot(beside["raw"], place, "D", color="C1", label="raw accuracy")
axes.errorbar(
    out_of_fit, place + 0.2, xerr=around, fmt="x", color="C2", label="problems held out"
)
axes.axvline(0, color="0.5", linewidth=1, zorder=0)
axes.set_yticks(place, beside.index)
axes.invert_yaxis()
axes.set_xlabel("accuracy, relative to the clean models")
figure.legend(loc="outside upper center", ncols=2)
plt.show()

# %%
# What this does not show
# -----------------------
#
# The table is made up: nothing here is a finding about LiveCodeBench or about a real
# model, and real problems need not follow the model that generated these. A date shows
# what a model *cannot* have seen. It does not show that it saw the older problems, so
# the estimate is the effect of having been able to, averaged over all older problems.
# Published cutoffs are often approximate, and training after the cutoff (such as
# finetuning) may hold newer problems. What training on old problems does for new ones
# of the same kind stays in the estimate. Four models on few problems held out are a
# check of the direction, not of the coverage of the intervals.
