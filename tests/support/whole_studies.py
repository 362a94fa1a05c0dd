"""Studies at a small size, from their settings to their pages, without sampling."""

from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import bayescontam
from bayescontam.calibration.estimators import SampledDraws, engine_of
from bayescontam.data.published_tables import read_published
from bayescontam.data.responses import Responses
from bayescontam.evidence.curve import Curve
from bayescontam.inference.predictive import prior_draws
from bayescontam.inference.result import Fit
from bayescontam.model.build import build
from bayescontam.published import draws
from bayescontam.published.findings import Record
from bayescontam.published.study import Study, analysis_of
from bayescontam.report.published_page import render_reproduction
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import shipped_folder
from bayescontam.specs.study import ReproductionSpec, SamplingSpec
from tests.support.arc_puzzles import write_set
from tests.support.made_findings import RUN, Quick
from tests.support.made_fit import drawn_from_prior, in_chains

SMALL: dict[str, dict[str, Any]] = {
    "arc-concepts": {"tasks": 40, "imputations": 2},
    "arc-real": {"imputations": 40, "assignments": 2, "resamples": 20, "fits": 1},
    "arc-decomposition": {"tables": 2, "resamples": 100},
    "arc-versions": {"tables": 2, "resamples": 100},
    "conceptarc": {},
    "degradation": {"draws": 500},
    "duplicate-finetuning": {"draws": {}},
    "in-vivo": {},
    "eight-models": {"tables": 1, "tasks": 60, "resamples": 100},
    "novelty": {"tables": 2, "tasks": 30, "levels": 3, "resamples": 100},
    "total-effects": {},
    "prevalence": {"items": 12, "documents": 60, "repeats": 20},
}
"""What is made smaller; nothing is required of what the fits say."""


class Sparing(Quick):
    """A study whose fits and curves are draws of their priors.

    Nothing is required of what they say. Tables that differ in their numbers alone have one fit.
    """

    @cached_property
    def made(self) -> dict[str, Fit]:
        return {}

    def fit(
        self, name: str, responses: Any, spec: ModelSpec | str = "hierarchical", **settings: Any
    ) -> Fit:
        frame = responses.frame if isinstance(responses, Responses) else responses
        labels = frame.select_dtypes(exclude="number").to_csv(index=False)
        key = f"{spec!r} {sorted(settings)} {list(frame.columns)} {labels}"
        if key not in self.made:
            few = {**settings, "draws": 150, "chains": 2}
            with drawn_from_prior():
                self.made[key] = super().fit(name, responses, spec, **few)
        return self.made[key]

    def curve(self, *given: Any, **settings: Any) -> Curve:
        with drawn_from_prior():
            return super().curve(*given, **settings)


class FromPrior:
    """Draws of the prior for those of any table, where a study fits many by one model."""

    def __init__(self, spec: ModelSpec, *_: Any, **__: Any) -> None:
        self._spec = spec

    def draw(self, responses: Responses, seed: int, sampling: SamplingSpec) -> SampledDraws:
        built, shape = build(self._spec, responses), (sampling.chains, sampling.draws)
        _, known = prior_draws(built, shape[0] * shape[1], np.random.default_rng(seed))
        return SampledDraws(in_chains(known, shape), 0.0, built)


def sampler_of(spec: ModelSpec, *given: Any, **options: Any) -> Any:
    """Return the sampler of one spec, and draws of the prior for others."""
    return (engine_of if spec.name == "single" else FromPrior)(spec, *given, **options)


def assert_becomes_a_page(name: str, folder: Path) -> None:
    """Run a study small, and assert that its findings and pictures stand on its page."""
    text = (shipped_folder("studies") / f"{name}.toml").read_text(encoding="utf-8")
    spec = ReproductionSpec.parse(text, name)
    settings = {**spec.at_size(smoke=bool(spec.smoke)), **SMALL[name]}
    if name == "arc-real":
        settings["sets"] = {each: str(write_set(folder, each)) for each in settings["sets"]}
    study: Study = Sparing(spec, settings, read_published(spec.published), folder)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(draws, "engine_of", sampler_of))
        for work in ("run_scan", "solve_arc"):  # in this process: others take longer to start
            here = partial(getattr(bayescontam, work), jobs=1)
            stack.enter_context(mock.patch.object(bayescontam, work, here))
        found = analysis_of(spec.analysis)(study)
    assert all(each.source for each in found.comparisons)
    # Of one it is printed as a picture only; the other is held against its own truth.
    assert bool(found.comparisons) == (name not in ("eight-models", "in-vivo"))
    Record(name, text, (RUN,), found).save(folder)
    page = render_reproduction(Record.load(folder))
    assert page.count("<figure") == len(found.pictures) >= 2
    for source in {each.source for each in found.comparisons}:
        assert source.split(" (")[0].split(",")[0] in page
