"""Updates against joint fits, of models left out of tables. Run by ``make bench-all``.

Of real tables at default settings; of simulated ones with fewer draws. Each uses as many cores
as there are, up to four.
"""

import numpy as np
import pandas as pd

import bayescontam
from bayescontam.data.responses import read_responses
from bayescontam.updating.update import update
from tests.support.real_data import shared
from tests.support.refits import LeftOut, compared, left_out
from tests.support.simulated_responses import simulate

DEFAULT: dict[str, int] = {}
FASTER = 20
"""How many times less time an update must take."""


def show(found: LeftOut, figures: pd.DataFrame) -> None:
    entry, joint, updated = found.updated.entries[0], found.joint_time, found.update_time
    ratio = joint.clock / updated.clock
    print(
        f"\nPareto k {entry.pareto_k:.2f}, worth {entry.ess:.0f} draws; farthest mean"
        f" {figures['z'].abs().max():.1f} Monte Carlo errors away, standard deviations"
        f" {figures['ratio'].min():.2f} to {figures['ratio'].max():.2f} times those of the joint"
        f" fit\njoint fit {joint.clock:.1f} s, update {updated.clock:.1f} s by the clock,"
        f" {ratio:.1f} times less; of the processor {joint.processor:.1f} s and"
        f" {updated.processor:.1f} s, {joint.processor / updated.processor:.1f} times less"
    )
    assert ratio >= FASTER


def test_left_out_program_of_conceptarc_agrees_with_a_joint_fit():
    table = read_responses(shared("conceptarc.csv"), where="not minimal")
    found = left_out(table, "gpt-4-t0", "concepts", DEFAULT)
    accuracy = compared(found.joint, found.updated).xs("accuracy", level="quantity")
    assert accuracy["z"].abs().max() < 4
    assert accuracy["ratio"].between(0.8, 1.2).all()
    show(found, accuracy)


def test_left_out_language_model_agrees_with_a_joint_fit():
    table = read_responses(
        shared("llm_benchmarks.parquet"),
        where="benchmark in ['GPQA Diamond', 'HumanEval']",
    ).frame
    rng = np.random.default_rng(3)
    dose = pd.Series(rng.beta(0.6, 1.4, table["item"].nunique()), table["item"].unique())
    table["contamination"] = table["item"].map(dose).to_numpy()
    found = left_out(table, "llm-05", "hierarchical", DEFAULT)
    figures = compared(found.joint, found.updated).drop("rank", level="quantity")
    assert figures["z"].abs().max() < 4
    assert figures["ratio"].between(0.85, 1.15).all()
    show(found, figures)


def test_simulated_newcomer_agrees_with_a_joint_fit():
    """Repeated trials, some items that only the newcomer answered."""
    table = simulate(seed=4, models=5, benchmarks=2, items=60, trials=3, sigma_eps=0.6).responses
    # Of middling contamination, so that reference levels are the same for both.
    fresh = table["contamination"].between(0.30, 0.36)
    assert table.loc[fresh, "item"].nunique() > 5
    table = table[~fresh | (table["model"] == "model-4")]
    found = left_out(table, "model-4", "hierarchical")
    figures = compared(found.joint, found.updated)
    figures = figures[~figures.index.isin(["rank"], level="quantity")]
    assert figures["z"].abs().max() < 4
    assert figures["ratio"].between(0.85, 1.15).all()


def test_cleaner_items_move_the_reference_as_in_a_joint_fit():
    """Or the sign of overfitting would depend on whether weights happened to be trusted."""
    frame = simulate(4, models=5, benchmarks=1, items=120, slope=2.0).responses
    own = frame["model"] == "model-4"
    old = frame[~own].copy()
    old["contamination"] = 0.4 + 0.6 * old["contamination"]
    fit = bayescontam.fit(old, seed=1, draws=500, tune=500, chains=2)
    tables = {}
    for how in ("auto", "always"):
        updated = update(fit, frame[own], seed=2, refit=how)
        table = updated.estimands().set_index("quantity")
        tables[updated.entries[0].method] = table
        assert any("cleaner than all of the fit's" in note for note in updated.notes)
    weighed, joint = tables["update"], tables["refit"]
    for name in ("genuine_ability_direct", "overfitting_direct", "novelty_gap"):
        assert abs(weighed.loc[name, "mean"] - joint.loc[name, "mean"]) < joint.loc[name, "sd"] / 2
    assert weighed.loc["overfitting_direct", "mean"] > 0
