"""What lies in ``tests/golden/files``: fits, a curve, scans and studies of earlier versions."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import xarray as xr

import bayescontam
from bayescontam.inference.prior_sampling import sample_by_pymc
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_model
from tests.golden.tables import imputed_table, table_of

FILES = Path(__file__).parent / "files"
SCANS, STUDIES, ANSWERS = FILES / "scan", FILES / "study", FILES / "answers"
CURVE = FILES / "curve.nc.xz"

SAMPLER, PRIOR, PRIOR_DRAWS = (
    "bayescontam.inference.pipeline.sample",
    "bayescontam.inference.predictive.sample_prior",
    "bayescontam.inference.reusable.PRIOR_DRAWS",
)
"""What fits call to draw from a posterior and a prior, and how many draws of the prior they make.

When the stored fits were made, PyMC drew priors one after another, from other random numbers.
"""
OPTIONS: dict[str, Any] = {
    "seed": 7, "draws": 50, "tune": 300, "chains": 2, "cores": 1, "reference": "zero",
}  # fmt: skip
"""How the stored fits were made."""


@dataclass(frozen=True)
class StoredFit:
    """A fit on disk: its model spec, its table, and how it was made."""

    base: str
    table: str = "single"
    difficulties: Literal["auto", "sampled", "marginalised"] = "auto"
    whole: bool = True
    changes: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()

    @property
    def model(self) -> ModelSpec:
        """The model spec, with its changes."""
        return changed_spec(self.base, {name: dict(keys) for name, keys in self.changes})


def changed_spec(name: str, changes: dict[str, dict[str, Any]]) -> ModelSpec:
    """Return a shipped model spec with some keys of its blocks changed."""
    spec = load_model(name)
    content = spec.model_dump()
    blocks = {block: content[block] | keys for block, keys in changes.items()}
    return ModelSpec.model_validate(content | blocks) if blocks else spec


def fit_of(stored: StoredFit) -> bayescontam.Fit:
    """Fit what a stored fit is of, with few draws of the prior, so that the file stays small."""
    frame = imputed_table() if stored.base == "imputed_covariate" else table_of(stored.table)
    table = bayescontam.Responses.from_frame(frame, source=f"{stored.table}.csv")
    with mock.patch(PRIOR_DRAWS, 50), mock.patch(PRIOR, sample_by_pymc):
        return bayescontam.fit(
            table,
            stored.model,
            difficulties=stored.difficulties,
            store_all=stored.whole,
            **OPTIONS,
        )


@contextmanager
def sampled_before(fit: bayescontam.Fit) -> Iterator[list[int]]:
    """Have fits take the draws of a stored one, where they would sample; give the seeds."""
    posterior, statistics = fit.joint_posterior(), fit.data["sample_stats"].to_dataset()

    seeds: list[int] = []

    def sample(built: Any, _: Any, seed: int, *__: Any) -> tuple[xr.Dataset, xr.Dataset]:
        seeds.append(seed)
        names = [str(variable.name) for variable in built.model.unobserved_RVs]
        return posterior[[name for name in names if name in posterior]], statistics

    with mock.patch(SAMPLER, side_effect=sample):
        yield seeds


FITS = {
    "ability": StoredFit("ability"),
    "anchored": StoredFit("anchored", "repeated"),
    "compact": StoredFit("hierarchical", "repeated", whole=False),
    "concepts": StoredFit("concepts"),
    "confounding": StoredFit(
        "hierarchical", changes=(("contamination", (("confounding", "sensitivity"),)),)
    ),
    "hierarchical": StoredFit("hierarchical"),
    "latent_duplicate": StoredFit("latent_duplicate"),
    "marginalised": StoredFit("hierarchical", difficulties="marginalised"),
    "noisy_covariate": StoredFit("noisy_covariate"),
    "repeated": StoredFit("hierarchical", "repeated"),
    "single": StoredFit("single"),
    "spillover": StoredFit("spillover", "varied"),
    "two_parameter": StoredFit("two_parameter"),
}
"""By the name of the file."""
