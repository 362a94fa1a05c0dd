"""The demo's tables: what is printed in the papers, as counts."""

import pandas as pd
import pytest

from bayescontam.data.published_tables import ITEMS, conceptarc, duplicate_finetuning
from bayescontam.data.responses import Responses
from bayescontam.specs.registry import shipped_folder


@pytest.fixture(scope="module")
def finetuned() -> Responses:
    return duplicate_finetuning()


@pytest.fixture(scope="module")
def solvers() -> Responses:
    return conceptarc()


def printed(name: str) -> pd.DataFrame:
    return pd.read_csv(shipped_folder("studies") / "data" / name)


def test_sources_are_named(finetuned: Responses, solvers: Responses) -> None:
    assert finetuned.source == "duplicate_finetuning.csv (printed figures)"
    assert solvers.source == "conceptarc_table1.csv (printed figures)"
    readme = (shipped_folder("studies") / "data" / "README.md").read_text(encoding="utf-8")
    for responses in (finetuned, solvers):
        assert f"`{responses.source.split()[0]}`" in readme


def test_finetuning_counts_round_to_the_printed_accuracy(finetuned: Responses) -> None:
    table = printed("duplicate_finetuning.csv")
    clean, control = table["training"] == "none", table["split"] == "control"
    table["model"] = (table["target"] + ", " + table["training"]).where(~clean, "not finetuned")
    table["benchmark"] = table["target"].where(~control, table["control"])
    table = table.rename(columns={"split": "item"})
    joined = finetuned.frame.merge(table, on=["model", "benchmark", "item"])
    assert len(joined) == len(finetuned.frame)
    error = joined["n_correct"] / joined["n_trials"] - joined["accuracy"] / 100
    assert (error.abs() <= 0.5 / joined["n_trials"] + 1e-12).all()


def test_finetuning_rows_are_those_of_duplicates(finetuned: Responses) -> None:
    table = printed("duplicate_finetuning.csv")
    wanted = table["training"].str.match("none|exact|semantic")
    assert len(finetuned.frame) == wanted.sum()
    targets, controls = (
        ("MuSR", "ZebraLogic", "MBPP"),
        ("TrueDetective", "ARC Challenge", "HumanEval"),
    )
    assert set(finetuned.benchmarks) == {*targets, *controls}
    assert not finetuned.frame["model"].str.contains("cosine").any()
    assert set(finetuned.frame["item"]) == {"all", "seen", "unseen", "control"}


def test_all_finetuned_models_descend_from_the_one_before(finetuned: Responses) -> None:
    frame = finetuned.frame
    assert (frame["base"] == "not finetuned").all()
    assert set(frame.loc[frame["model"] == "not finetuned", "item"]) == {"all", "control"}
    seen = frame[frame["contamination"] == 1]
    assert (seen["model"] == seen["benchmark"] + ", " + seen["duplicate_kind"]).all()


def test_only_the_half_that_was_seen_is_contaminated(finetuned: Responses) -> None:
    frame = finetuned.frame
    assert frame["contamination"].tolist() == (frame["item"] == "seen").astype(float).tolist()


def test_numbers_of_items_are_those_of_the_standard_errors() -> None:
    table = printed("duplicate_finetuning.csv")
    control = table["split"] == "control"
    table = table.assign(
        target=table["target"].where(~control, table["control"]),
        split=table["split"].where(~control, "all"),
    )
    p = table["accuracy"] / 100
    trials = p * (1 - p) / (table["stderr"] / 100) ** 2
    for (target, part), items in ITEMS.items():
        chosen = (table["target"] == target) & ((table["split"] == "all") == (part == "all"))
        # Halves of two benchmarks are printed as if two generations were two items.
        shares = trials[chosen & ~table["training"].str.startswith("cosine")] / items
        wanted = 1 if part == "all" or target == "MBPP" else 2
        assert shares.median() == pytest.approx(wanted, rel=0.1), (target, part)


def test_conceptarc_counts_give_the_printed_accuracy(solvers: Responses) -> None:
    table = printed("conceptarc_table1.csv").melt("concept", var_name="model")
    joined = solvers.frame.merge(table, on=["model", "concept"])
    assert len(joined) == len(solvers.frame) == 16 * 4
    error = joined["n_correct"] / joined["n_trials"] - joined["value"]
    assert (error.abs() <= 0.5 / 30 + 1e-12).all()
    # The programs solved whole items of 30, so that their counts are exact to print.
    programs = joined["model"] != "humans"
    assert (error[programs].abs() <= 0.005 + 1e-9).all()


def test_conceptarc_is_one_benchmark_of_concepts(solvers: Responses) -> None:
    assert solvers.benchmarks == ("ConceptARC",)
    assert solvers.models == ("humans", "kaggle_first", "kaggle_second", "gpt4")
    assert (solvers.frame["item"] == solvers.frame["concept"]).all()
    assert "contamination" not in solvers.frame
