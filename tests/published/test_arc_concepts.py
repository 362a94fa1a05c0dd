"""ARC concepts: generated answers follow their truth, counts follow their words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.published_tables import read_published
from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.published.study import Study
from bayescontam.specs.registry import shipped_folder
from bayescontam.specs.study import ReproductionSpec
from studies.arc_concepts import (
    GENERATED,
    ConceptBenchmark,
    diluted,
    extrapolated,
    generated_benchmark,
    real_benchmark,
    shares,
)
from tests.support.real_data import shared


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    text = (shipped_folder("studies") / "arc-concepts.toml").read_text()
    spec = ReproductionSpec.parse(text, "arc-concepts")
    settings = {**spec.at_size(False), "tasks": 150, "models": 200}
    folder = tmp_path_factory.mktemp("study")
    return Study(spec, settings, read_published(spec.published), folder)


def test_answers_follow_the_true_contamination_not_the_expected_one(study: Study) -> None:
    """With 200 models the share of correct answers shows each task's true accuracy."""
    posed = generated_benchmark(study)
    frame = posed.responses.frame
    share = frame.groupby("item", sort=False)["n_correct"].mean().loc[posed.items].to_numpy()
    genuine, boost = study.settings["genuine"], study.settings["boost"]
    true = (share - genuine) / boost
    low, high = np.quantile(posed.contamination, [0.0005, 0.9995], axis=0)
    noise = 4 * np.sqrt(0.25 / 200) / boost
    assert ((true > low - noise) & (true < high + noise)).all()
    reference = study.settings["reference"]
    assert posed.truth["genuine_ability_direct"] == pytest.approx(genuine + boost * reference)
    over = frame["n_correct"].mean() - posed.truth["genuine_ability_direct"]
    assert posed.truth["overfitting_direct"] == pytest.approx(over, abs=4 * 0.5 / len(frame) ** 0.5)


def test_the_same_seed_gives_the_same_answers(study: Study, tmp_path: Path) -> None:
    one, again = generated_benchmark(study), generated_benchmark(replace(study, folder=tmp_path))
    assert one.responses.data_hash == again.responses.data_hash
    assert (one.contamination == again.contamination).all()
    assert one.name == GENERATED


def test_tasks_of_another_size_or_seed_in_the_folder_are_not_taken(
    study: Study, tmp_path: Path
) -> None:
    first = replace(study, folder=tmp_path, settings={**study.settings, "tasks": 4, "models": 1})
    more = replace(first, settings={**first.settings, "tasks": 6})
    other = replace(first, spec=first.spec.model_copy(update={"seed": first.spec.seed + 1}))
    assert [len(generated_benchmark(one).items) for one in (first, more, first)] == [4, 6, 4]
    alone = replace(other, folder=tmp_path / "alone")
    (tmp_path / "alone").mkdir()
    assert (
        generated_benchmark(other).contamination == generated_benchmark(alone).contamination
    ).all()


def test_slopes_on_drawn_contaminations_are_as_much_too_small_as_is_reported() -> None:
    """Against the regression of one draw of contaminations on another, over many pairs."""
    rng = np.random.default_rng(1)
    drawn = 0.5 + 0.1 * rng.standard_normal(400) + 0.05 * rng.standard_normal((600, 400))
    none = Responses.from_frame(
        pd.DataFrame({"model": ["m"], "benchmark": ["b"], "item": ["i"], "correct": [1]}), source=""
    )
    posed = ConceptBenchmark("quiz", none, [], drawn, {})
    slopes = [np.polyfit(drawn[k], drawn[k + 1], 1)[0] for k in range(0, 600, 2)]
    assert f"about {1 - np.mean(slopes):.0%}." in diluted(posed)
    assert "about 0%." in diluted(replace(posed, contamination=drawn[:1].repeat(3, 0)))


def test_a_concept_without_exposure_is_refused() -> None:
    concepts = pd.DataFrame({"task": ["a", "b", "b"], "concept": ["Copy", "Copy", "Ordr"]})
    with pytest.raises(UsageError, match="of the concepts 'Ordr'; known are 'Copy', 'Order'"):
        shares(concepts, ["Copy", "Order"])
    concepts = concepts.replace("Ordr", "Order")
    assert shares(concepts, ["Order", "Copy"]).to_numpy().tolist() == [[0, 1], [0.5, 0.5]]


def test_all_items_of_a_concept_share_its_exposure(study: Study) -> None:
    posed = real_benchmark(study, shared("conceptarc.csv"), shared("texts/corpus.jsonl"))
    assert posed.contamination.shape[1] == len(posed.items) == 480
    assert len(np.unique(posed.contamination[0].round(12))) == 16
    assert set(posed.responses.models) == set(study.settings["solvers"])
    assert "contamination" not in posed.responses.frame
    least = posed.contamination.mean(axis=0).min()
    assert "are extrapolated" in extrapolated(posed, least - 0.01)[0]
    assert extrapolated(posed, least) == []
