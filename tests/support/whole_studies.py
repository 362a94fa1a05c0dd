"""Studies at a small size, from their settings to their pages, without sampling."""

from functools import cached_property
from pathlib import Path
from typing import Any

from bayescontam.data.published_tables import read_published
from bayescontam.data.responses import Responses
from bayescontam.inference.result import Fit
from bayescontam.published.findings import Record
from bayescontam.published.study import Study, analysis_of
from bayescontam.report.published_page import render_reproduction
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import shipped_folder
from bayescontam.specs.study import ReproductionSpec
from tests.support.arc_puzzles import write_set
from tests.support.made_findings import RUN, Quick
from tests.support.made_fit import drawn_from_prior

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
    """A study whose fits are draws of their priors, as nothing is required of what they say.

    Tables that differ in their numbers alone have one fit.
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
            with drawn_from_prior():
                self.made[key] = super().fit(name, responses, spec, **settings)
        return self.made[key]


def assert_becomes_a_page(name: str, folder: Path) -> None:
    """Run a study small, and assert that its findings and pictures stand on its page."""
    text = (shipped_folder("studies") / f"{name}.toml").read_text(encoding="utf-8")
    spec = ReproductionSpec.parse(text, name)
    settings = {**spec.at_size(smoke=bool(spec.smoke)), **SMALL[name]}
    if name == "arc-real":
        settings["sets"] = {each: str(write_set(folder, each)) for each in settings["sets"]}
    study: Study = Sparing(spec, settings, read_published(spec.published), folder)
    found = analysis_of(spec.analysis)(study)
    assert all(each.source for each in found.comparisons)
    # Of one it is printed as a picture only; the other is held against its own truth.
    assert bool(found.comparisons) == (name not in ("eight-models", "in-vivo"))
    Record(name, text, (RUN,), found).save(folder)
    page = render_reproduction(Record.load(folder))
    assert page.count("<figure") == len(found.pictures) >= 2
    for source in {each.source for each in found.comparisons}:
        assert source.split(" (")[0].split(",")[0] in page
