"""
Planning a table
================

How many items does a benchmark need, so that overfitting would show? And what helps
more to estimate the total effect: a second clean twin, or a control benchmark? Both can
be estimated before anything is run. Nothing is sampled on this page: posteriors of
simulated tables are approximated, which takes seconds.
"""

# %%
# How many items
# --------------
#
# Suppose that four models answer, that three items in ten are contaminated, and that
# contamination adds 1.5 in log-odds. ``power`` is the probability that overfitting is
# shown, ``width`` the width of its 95 % interval (median over simulated tables), and
# ``true_overfitting_direct`` what there is to be shown, a difference of accuracies.

import matplotlib.pyplot as plt

import bayescontam as bc

assumptions = bc.Assumptions(accuracy=0.6, slope=1.5, contamination=0.3)
designs = [bc.SampleSizes(items=items, models=4) for items in (50, 100, 200, 400, 800)]
plan = bc.power_analysis(
    "hierarchical",
    designs,
    assumptions,
    quantity="overfitting_direct",
    data_sets=40,
    seed=1,
)
columns = ["items", "true_overfitting_direct", "width", "width_low", "width_high"]
print(plan.table[[*columns, "power", "power_mcse"]].round(3).to_string(index=False))

# %%
# The smallest number for a given width can be searched for. "With probability" is about
# tables that have not been made yet: some turn out more informative than others.

found = bc.power_analysis(
    "hierarchical",
    bc.SampleSizes(items=50, models=4),
    assumptions,
    quantity="overfitting_direct",
    width=0.1,
    solve="items",
    data_sets=40,
    seed=1,
)
print(found.sentence)

# %%
# Twins or controls
# -----------------
#
# The total effect includes what training on some items does to the others. Twins of one
# base identify it, and controls, benchmarks that none of them was exposed to, show what
# else their training changed.

sizes = [
    bc.TwinSizes(items=250, twins=twins, controls=controls)
    for twins in (1, 2, 4)
    for controls in (0, 1, 2, 4)
]
widths = bc.twin_power_analysis("twins", sizes)
total = widths.pivot(index="controls", columns="twins", values="overfitting")
print(total.round(3).to_string())

# %%
# Left: the band holds the widths of 80 % of the simulated tables. Right: each line is a
# number of clean twins.

figure, (left, right) = plt.subplots(1, 2, figsize=(5.0, 3.0))
table = plan.table
left.fill_between(
    table["items"], table["width_low"], table["width_high"], color="C0", alpha=0.3
)
left.plot(table["items"], table["width"], "o-", color="C0")
left.set_ylim(bottom=0)
left.set_xscale("log")
left.set_xticks(table["items"], table["items"])
left.minorticks_off()
left.set_xlabel("items")
left.set_ylabel("width of the 95 % interval")
left.set_title("direct effect")
for place, twins in enumerate(total):
    label = f"{twins} clean twin" + "s" * (twins > 1)
    right.plot(total.index, total[twins], "o-", color=f"C{place}", label=label)
right.set_ylim(bottom=0)
right.set_xticks(total.index)
right.set_xlabel("control benchmarks")
right.set_title("total effect")
right.legend()
plt.show()

# %%
# What this does not show
# -----------------------
#
# A plan is as good as its assumptions. With a smaller slope than the one assumed, or
# with items that are contaminated to a degree and not wholly, the same design shows
# less; spreads of difficulties and abilities are drawn from the priors of the model
# spec, and yours may differ. The approximation takes spreads as known, so that
# intervals of a fit can come out wider. Of the twins only the widths of intervals are
# planned, not whether a verdict would be "shown". No plan repairs a table in which easy
# items are the contaminated ones.
