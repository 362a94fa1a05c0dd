"""Effects against brute force and known ones, and those of a lab against its table of answers."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bayescontam.errors import DataError, UsageError
from bayescontam.lab.truth import (
    clean_accuracy,
    lab_truth,
    read_accuracies,
    truth_sentence,
    twin_effects,
)
from tests.support.small_lab import (
    BASES,
    BENCHMARKS,
    EPOCHS,
    K,
    answered_lab,
    checkpointed_lab,
    trained_lab,
)

__all__ = ["answered_lab", "checkpointed_lab", "trained_lab"]

KEYS = ["mix", "benchmark", "effect"]


def answers(rng: np.random.Generator, bases: int = 4, items: int = 12) -> pd.DataFrame:
    """Answers with halves of unequal sizes that differ between bases, and two models of a base."""
    rows: list[dict[str, Any]] = []
    for base in range(bases):
        halves = rng.permutation(["seen"] * (items // 3) + ["unseen"] * (items - items // 3))
        for mix in ("exact", "clean", "semantic"):
            for copy in range(1 + (base == 0 and mix == "exact")):
                for benchmark in ("sums", "others"):
                    for item in range(items):
                        half = halves[item] if benchmark == "sums" else "control"
                        row = {"model": f"{mix}-{base}-{copy}", "base": base, "mix": mix}
                        row |= {"benchmark": benchmark, "item": f"i{item}", "half": half}
                        rows.append({**row, "p": rng.random()})
    return pd.DataFrame(rows)


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def brute_force(table: pd.DataFrame, mix: str, benchmark: str, effect: str) -> dict[str, float]:
    """Go through bases and items one by one."""
    values, variances = [], []
    for base in sorted(set(table["base"])):
        by_half: dict[str, list[float]] = {"seen": [], "unseen": [], "control": []}
        own = table[(table["base"] == base) & (table["benchmark"] == benchmark)]
        for item in sorted(set(own["item"])):
            at = own[own["item"] == item]
            theirs, twins = at[at["mix"] == mix], at[at["mix"] == "clean"]
            by_half[theirs["half"].iloc[0]].append(theirs["p"].mean() - twins["p"].mean())
        seen, unseen, control = by_half["seen"], by_half["unseen"], by_half["control"]
        used = {"total": seen + unseen, "spillover": unseen, "control": control}.get(effect, [])
        if effect == "direct":
            values.append(np.mean(seen) - np.mean(unseen))
            variances.append(
                np.var(seen, ddof=1) / len(seen) + np.var(unseen, ddof=1) / len(unseen)
            )
        else:
            values.append(np.mean(used))
            variances.append(np.var(used, ddof=1) / len(used))
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    return {
        "estimate": float(np.mean(values)),
        "se": float(stats.sem(values)),
        "low": interval.low,
        "high": interval.high,
        "item_se": float(np.sqrt(np.sum(variances)) / len(values)),
        "bases": len(values),
    }


def test_effects_are_those_of_brute_force() -> None:
    table = answers(np.random.default_rng(1))
    found = twin_effects(table, level=0.9)
    wanted = [("sums", effect) for effect in ("total", "direct", "spillover")]
    wanted = [*wanted, ("others", "control")]
    keys = [(mix, *key) for mix in ("exact", "semantic") for key in wanted]
    assert list(found[KEYS].itertuples(index=False, name=None)) == keys
    for row in found.to_dict("records"):
        expected = brute_force(table, row["mix"], row["benchmark"], row["effect"])
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    # The halves differ between bases: nearly every item is unseen for one of them.
    assert found.set_index(KEYS)["items"].loc[("exact", "others", "control")] == 12


def test_the_total_is_the_spillover_and_the_share_of_the_direct_effect() -> None:
    found = twin_effects(answers(np.random.default_rng(2)))
    effect = found[found["mix"] == "semantic"].set_index("effect")["estimate"]
    assert effect["total"] == pytest.approx(effect["spillover"] + effect["direct"] / 3)


def test_the_order_of_rows_does_not_matter() -> None:
    table = answers(np.random.default_rng(3))
    found = twin_effects(table).sort_values(KEYS, ignore_index=True)
    shuffled = twin_effects(table.sample(frac=1, random_state=1))
    pd.testing.assert_frame_equal(found, shuffled.sort_values(KEYS, ignore_index=True))


def test_intervals_cover_known_effects() -> None:
    """2,000 tables of five bases; a right formula fails in less than one of 10,000 tests."""
    tables, bases, items = 2000, 5, 10
    truth = {"total": 0.16, "direct": 0.08, "spillover": 0.12, "control": 0.02}
    rng = np.random.default_rng(4)
    index = pd.MultiIndex.from_product([range(tables), range(bases), range(items)])
    table, base, item = (index.get_level_values(i).to_numpy() for i in range(3))
    half = np.select([item < 3, item < 6], ["seen", "unseen"], "control")
    means = {"seen": 0.20, "unseen": 0.12, "control": 0.02}
    # Bases differ in each half by their own amounts, and items within bases.
    gains = rng.normal(0, 0.03, (tables, bases, 3))[table, base, np.minimum(item // 3, 2)]
    gains += np.vectorize(means.get)(half) + rng.normal(0, 0.03, len(index))
    columns = {"base": base, "benchmark": table, "item": item, "half": half}
    rows = [
        pd.DataFrame({"model": mix, "mix": mix, **columns, "p": p})
        for mix, p in (("clean", np.full(len(index), 0.45)), ("exact", 0.45 + gains))
    ]
    found = twin_effects(pd.concat(rows))
    known = found["effect"].map(truth)
    covered = ((found["low"] <= known) & (known <= found["high"])).groupby(found["effect"]).sum()
    # Four effects, each outside these bounds in 2 of 100,000.
    least, most = stats.binom.ppf([1e-5, 1 - 1e-5], tables, 0.95)
    assert set(covered.index) == set(truth)
    assert covered.between(least, most).all()
    # The error over items knows nothing of the differences between bases.
    controls = found[found["effect"] == "control"]
    assert (controls["item_se"] ** 2).mean() == pytest.approx(0.03**2 / (4 * bases), rel=0.05)


def test_one_base_has_no_interval() -> None:
    found = twin_effects(answers(np.random.default_rng(5), bases=1))
    assert found[["se", "low", "high"]].isna().all(axis=None)
    assert found["item_se"].notna().all()
    assert (found["bases"] == 1).all()


def changed(**values: Any) -> pd.DataFrame:
    """Return a table with a value of its first row changed."""
    table = answers(np.random.default_rng(6)).astype({"p": object})
    for name, value in values.items():
        table.loc[0, name] = value
    return table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed().drop(columns=["p", "half"]), "no column 'half', 'p'; needed are 'model'"),
        (changed(p=1.2), "row 1: p: got 1.2; allowed are probabilities from 0 to 1"),
        (changed(p=None), "row 1: p: got None; allowed"),
        (changed(half="third"), "row 1: half: got 'third'; allowed are 'seen', 'unseen'"),
        (changed(item=None), "row 1: item: missing; each row needs a value"),
        (changed(item="i1"), "row 2: item: an item that this model has in an earlier row"),
        (changed(item="new"), "1 items without an answer of the clean twin, the first 'new'"),
        (changed(half="control"), "item 'i0' of base '0' and mix 'exact' is in several halves"),
        (changed().query("mix != 'clean'"), "mixes are 'exact', 'semantic'; needed are 'clean'"),
        (changed().query("mix != 'clean' or base != 2"), "no model of mix 'clean' for '2'"),
    ],
)
def test_what_is_wrong_with_a_table_is_named(table: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        twin_effects(table)


def test_a_level_is_a_share() -> None:
    with pytest.raises(UsageError, match=r"level: got 95; allowed is 0\.5 up to"):
        twin_effects(changed(), level=95)


@pytest.fixture
def lab(answered_lab: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(answered_lab, tmp_path / "lab"))


def test_the_truth_of_a_lab_is_that_of_its_answers(lab: Path) -> None:
    found = lab_truth(lab, level=0.9)
    table = pd.read_csv(lab / "responses.csv")
    kinds = {"near-2": "near", "exact-2": "exact", "exact-4": "exact", "semantic-2": "semantic"}
    assert [*found["mix"].drop_duplicates()] == [*kinds]
    assert (found["kind"] == found["mix"].map(kinds)).all()
    assert found["copies"].tolist() == found["mix"].str[-1].astype(int).tolist()
    for row in rows_of(found):
        expected = brute_force(table, row["mix"], row["benchmark"], row["effect"])
        assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    written = pd.read_csv(lab / "truth.csv")
    pd.testing.assert_frame_equal(written, found, rtol=1e-12)


def test_replies_count_where_requested_or_where_the_grade_needs_them(lab: Path) -> None:
    table = pd.read_csv(lab / "responses.csv")
    share = table["n_correct"] / K
    assert not np.allclose(share, table["p"])
    assert read_accuracies(lab)["p"].tolist() == table["p"].tolist()
    assert read_accuracies(lab, "replies")["p"].tolist() == share.tolist()
    row = rows_of(lab_truth(lab, measure="replies"))[0]
    expected = brute_force(table.assign(p=share), row["mix"], row["benchmark"], row["effect"])
    assert row["estimate"] == pytest.approx(expected["estimate"])


def test_effects_at_each_epoch_are_against_the_twins_then(
    checkpointed_lab: Path, tmp_path: Path
) -> None:
    lab = Path(shutil.copytree(checkpointed_lab, tmp_path / "lab"))
    found = lab_truth(lab, level=0.9)
    table, curve = pd.read_csv(lab / "responses.csv"), pd.read_csv(lab / "curve.csv")
    names = ["epoch", "mix", "benchmark", "effect", "estimate", "low", "high"]
    assert list(curve) == names
    assert len(curve) == 7 * EPOCHS
    for row in rows_of(curve):
        own = table[table["checkpoint"] == row["epoch"]]
        expected = brute_force(own, row["mix"], row["benchmark"], row["effect"])
        for name in ("estimate", "low", "high"):
            assert row[name] == pytest.approx(expected[name], abs=1e-12)
    last = curve[curve["epoch"] == EPOCHS].reset_index(drop=True)
    pd.testing.assert_frame_equal(last[names[1:]], found[names[1:]])
    assert set(read_accuracies(lab)["checkpoint"]) == {EPOCHS}
    assert curve.groupby(names[1:4])["estimate"].nunique().eq(EPOCHS).all()


def test_without_checkpoints_there_is_no_curve(lab: Path) -> None:
    lab_truth(lab)
    assert not (lab / "curve.csv").exists()


def test_clean_accuracy_is_by_base_with_its_spread(lab: Path) -> None:
    table = read_accuracies(lab)
    found = clean_accuracy(table)
    assert len(found) == len(BENCHMARKS) * BASES
    for benchmark in BENCHMARKS:
        own = table[(table["mix"] == "clean") & (table["benchmark"] == benchmark)]
        means = [own.loc[own["base"] == f"base-{base}", "p"].mean() for base in range(BASES)]
        rows = found[found["benchmark"] == benchmark]
        assert rows["accuracy"].tolist() == pytest.approx(means)
        assert rows["sd"].tolist() == pytest.approx([np.std(means, ddof=1)] * BASES)
    one = clean_accuracy(table[table["base"] == "base-0"])
    assert one["sd"].isna().all()


def test_names_that_are_numbers_stay_names(lab: Path) -> None:
    path = lab / "responses.csv"
    before = read_accuracies(lab)["item"]
    path.write_text(path.read_text().replace('"clock-0', '"0'))
    assert read_accuracies(lab)["item"].tolist() == before.str.removeprefix("clock-").tolist()
    assert "0001" in set(read_accuracies(lab)["item"])


def test_answers_have_to_be_there(lab: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no texts of a lab"):
        lab_truth(tmp_path)
    with pytest.raises(UsageError, match=r"level: got 0; allowed is 0\.5 up to"):
        lab_truth(lab, level=0)
    with pytest.raises(UsageError, match="measure='both': allowed are 'auto', 'probability'"):
        lab_truth(lab, measure="both")  # type: ignore[arg-type]
    (lab / "responses.csv").unlink()
    with pytest.raises(UsageError, match="not all models have answered; run: bayescontam lab ans"):
        lab_truth(lab)


def some_effects(**changes: object) -> pd.DataFrame:
    rows = [
        {"mix": mix, "kind": kind, "copies": copies, "benchmark": "b", "effect": effect,
         "estimate": size * at, "low": size * at - 0.05, "high": size * at + 0.05, "bases": 4}
        for mix, kind, copies, size in (
            ("near-9", "near", 9, 0.9), ("exact-1", "exact", 1, 0.1),
            ("semantic-4", "semantic", 4, 0.2),
        )
        for effect, at in (("total", 2), ("direct", 1), ("spillover", 1.5))
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**changes)


SOME = pd.DataFrame(
    {"mix": ["clean", "exact-1"], "benchmark": "b", "half": "seen", "p": [0.4, 0.6]}
)


def test_the_sentence_is_about_the_largest_effect_of_duplicates() -> None:
    assert truth_sentence(some_effects(), SOME, 0.9) == (
        "Training on items of 'b' in other words, 4 times each, changes accuracy on it by 0.400"
        " [0.350, 0.450] in all: by 0.300 [0.250, 0.350] on items that were not trained on"
        " (spillover), and by 0.200 [0.150, 0.250] more on those that were (direct). Intervals of"
        " 90 % are over 4 bases."
    )
    only = some_effects()[lambda table: table["kind"] == "exact"]
    assert "as they are, once each, changes accuracy" in truth_sentence(only, SOME)
    assert truth_sentence(some_effects(low=-1.0), SOME).endswith(
        "over 4 bases. None excludes zero."
    )
    # Of the mix that it speaks of: others, and effects on controls, do not count.
    others = some_effects()
    others.loc[others["mix"] == "semantic-4", "low"] = -1.0
    control = others.iloc[-1:].assign(effect="control", low=0.2, high=0.4)
    mixed = pd.concat([others, control], ignore_index=True)
    assert (mixed["low"] > 0).any()
    assert truth_sentence(mixed, SOME).endswith("over 4 bases. None excludes zero.")
    assert "With one base there" in truth_sentence(
        some_effects(low=float("nan"), high=float("nan")), SOME
    )
    none = some_effects()[lambda table: table["kind"] == "near"]
    assert truth_sentence(none, SOME).startswith("No mix has duplicates")


@pytest.mark.parametrize(
    ("p", "beginning"),
    [
        ([0.0, 0.0], "No effect can show: the models solve less than 0.1 % of the items of any"),
        ([0.001, 0.019], "No effect can show: the models solve at most 1.9 % of the items"),
        ([0.985, 0.999], "No effect can show: the models fail at most 1.5 % of the items"),
        ([0.001, 0.021], "Training on items of 'b'"),
    ],
)
def test_no_effect_and_none_that_could_show_differ(p: list[float], beginning: str) -> None:
    assert truth_sentence(some_effects(), SOME.assign(p=p)).startswith(beginning)
