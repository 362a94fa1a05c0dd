"""How often statements against a margin are wrong, where the truth is at the margin and elsewhere.

Run by ``make bench-all``. Two models with so many items each, their accuracies with posteriors of
counts; and ten models drawn together by a hierarchical posterior, one of which is worse.
"""

import os

import numpy as np
import pandas as pd
import pytest

from tests.support.margins import Design, pooled_rates, rates, wrong_on_average

DATA_SETS = int(os.environ.get("BAYESCONTAM_DATA_SETS", "4000"))


@pytest.mark.timeout(3600)
def test_statements_are_wrong_at_most_as_often_as_stated() -> None:
    parts = []
    for items in (200, 1000, 5000):
        for accuracy, margin in ((0.6, 0.05), (0.9, 0.02)):
            for two_sided in (False, True):
                design = Design(items, accuracy, margin, two_sided)
                found = rates(design, DATA_SETS, seed=items, draws=2000)
                names = {"items": items, "accuracy": accuracy, "margin": margin}
                parts.append(found.assign(**names, two_sided=two_sided))
    table = pd.concat(parts, ignore_index=True)
    table["stated"] = table["no worse"] + table["within"]
    shown = ["two_sided", "items", "accuracy", "margin", "truth", "stated", "worse", "better"]
    print("\n" + table[[*shown, "undecided"]].round(3).to_string(index=False))
    most = 0.05 + 5 * np.sqrt(0.05 * 0.95 / DATA_SETS) + 0.005  # Jeffreys' prior is no exact test
    at_margin = table["truth"] == -1
    assert (table.loc[at_margin, "stated"] <= most).all()
    assert (table.loc[table["two_sided"] & (table["truth"] == 1), "stated"] <= most).all()
    assert (table.loc[table["truth"] < -1, "stated"] <= most).all()
    assert (table.loc[table["truth"] >= -1, "worse"] <= most).all()


@pytest.mark.timeout(3600)
def test_statements_are_wrong_on_average_at_most_as_often_as_stated() -> None:
    for items in (50, 200, 1000):
        share = wrong_on_average(Design(items, 0.5, 0.05), DATA_SETS, seed=items, draws=2000)
        print(f"\n{items} items, truths from the prior: {share:.4f} of statements are wrong")
        assert share < 0.05


@pytest.mark.timeout(3600)
def test_pooled_posteriors_need_the_model_s_own_responses() -> None:
    rows = []
    for models in (3, 10, 30):
        for ratio in (1.0, 2.0, 3.0):
            found = pooled_rates(models, 0.02, 0.02 * ratio, DATA_SETS, seed=models, draws=1000)
            rows.append({"models": models, "margin in errors": ratio} | found)
    table = pd.DataFrame(rows)
    print("\n" + table.round(3).to_string(index=False))
    assert (table["both"] <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / DATA_SETS)).all()
