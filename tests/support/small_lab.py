"""A lab of tiny models, mixed and trained once, which tests copy."""

import shutil
from pathlib import Path

import pytest

from bayescontam.lab.answering import answer_lab
from bayescontam.lab.mix import make_mixes
from bayescontam.lab.training_runs import train_lab
from bayescontam.specs.lab import LabSpec

BASES, ITEMS, CONTROLS, SEEN, K = 3, 24, 6, 12, 4
BENCHMARKS = ("sums", "changes", "clock")
MIXES = {"clean": 0, "near-2": 2, "exact-2": 2, "exact-4": 4, "semantic-2": 2}
SPEC = f"""
summary = "Models of one layer that hardly learn."
seed = 3
texts = 60
arithmetic = {{ items = {ITEMS}, controls = {CONTROLS}, own_share = 0.8 }}
mixes = [
    {{ name = "clean", kind = "clean" }},
    {{ name = "near-2", kind = "near", copies = 2 }},
    {{ name = "exact-2", kind = "exact", copies = 2 }},
    {{ name = "exact-4", kind = "exact", copies = 4 }},
    {{ name = "semantic-2", kind = "semantic", copies = 2 }},
]
model = {{ layers = 1, width = 16, heads = 2 }}
pretraining = {{ texts = 300, epochs = 3, batch = 16, rate = 1e-2 }}
training = {{ bases = {BASES}, epochs = 2, batch = 16, rate = 1e-2 }}
answers = {{ k = {K}, temperature = 0.8 }}
"""
EPOCHS = 3
CHECKPOINTED = f"""
summary = "Models of one layer, stored after each epoch."
seed = 3
texts = 60
arithmetic = {{ items = {ITEMS}, controls = {CONTROLS}, own_share = 0.8 }}
mixes = [
    {{ name = "clean", kind = "clean" }},
    {{ name = "exact-4", kind = "exact", copies = 4 }},
]
model = {{ layers = 1, width = 16, heads = 2 }}
training = {{ bases = 2, epochs = {EPOCHS}, batch = 16, rate = 1e-2, checkpoints = true }}
answers = {{ k = {K}, temperature = 0.8 }}
"""
_made: dict[str, Path] = {}


def write_spec(folder: Path) -> Path:
    """Write the spec of the lab to a file."""
    path = folder / "small.toml"
    path.write_text(SPEC, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained_lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a lab whose models are trained, not to be written to."""
    pytest.importorskip("transformers")
    if "trained" not in _made:
        folder = tmp_path_factory.mktemp("small") / "lab"
        make_mixes(LabSpec.parse(SPEC, "small.toml"), folder)
        train_lab(folder, jobs=1)
        _made["trained"] = folder
    return _made["trained"]


@pytest.fixture(scope="session")
def answered_lab(trained_lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a lab whose models have answered, not to be written to."""
    if "answered" not in _made:
        folder = tmp_path_factory.mktemp("small") / "lab"
        shutil.copytree(trained_lab, folder)
        answer_lab(folder, jobs=1)
        _made["answered"] = folder
    return _made["answered"]


@pytest.fixture(scope="session")
def checkpointed_lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a lab whose checkpoints have answered, not to be written to."""
    pytest.importorskip("transformers")
    if "checkpointed" not in _made:
        folder = tmp_path_factory.mktemp("checkpointed") / "lab"
        make_mixes(LabSpec.parse(CHECKPOINTED, "checkpointed.toml"), folder)
        train_lab(folder, jobs=1)
        answer_lab(folder, jobs=1)
        _made["checkpointed"] = folder
    return _made["checkpointed"]
