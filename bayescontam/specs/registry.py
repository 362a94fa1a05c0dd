"""Specs that ship with the package, by name, and manifests from options."""

import glob
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from bayescontam._text import printable
from bayescontam.errors import Fault, SpecError
from bayescontam.specs.base import parse_toml, read_text, suggest
from bayescontam.specs.corpus import Manifest
from bayescontam.specs.curve import CurveSpec
from bayescontam.specs.lab import LabSpec
from bayescontam.specs.model import (
    ModelSpec,
    refuse_odd_keys,
    restored_spec,
    spec_with_priors,
)
from bayescontam.specs.recipe import Recipe
from bayescontam.specs.study import ReproductionSpec, StudySpec

_FILE = "manifest.toml"  # name that a scan gives to its manifest
_PLACES = {
    "benchmark_name": ("benchmarks", "name"),
    "seed": ("", "seed"),
    "text_mode": ("benchmarks", "text_mode"),
    "text": ("sources", "text"),
    "stratum": ("sources", "stratum"),
    "share": ("sources", "share"),
    "min_tokens": ("chunking", "min_tokens"),
    "embedder": ("embedding", "model"),
    "max_tokens": ("embedding", "max_tokens"),
    "endpoint": ("embedding", "endpoint"),
    "tokenizer": ("embedding", "tokenizer"),
    "api_key_env": ("embedding", "api_key_env"),
    "top_k": ("search", "top_k"),
    "exact": ("search", "exact"),
    "backend": ("search", "backend"),
}
"""Table and key of each option; "" is what stands above all tables."""
_COMPRESSED = {".gz", ".zst", ".zstd", ".bz2"}


def shipped_folder(kind: str) -> Path:
    """Return the folder of shipped specs, such as ``models``."""
    package = Path(__file__).parent.parent
    inside = package / "_shipped" / kind  # where the package is installed; in a checkout beside it
    return inside if inside.is_dir() else package.parent / kind


def load_model(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    priors: Mapping[str, Any] | None = None,
) -> ModelSpec:
    """Read a model spec by name or by path, or make one from its content.

    Parameters
    ----------
    spec : str, path-like or mapping
        Name of a shipped model spec, such as ``"hierarchical"``, or the path of a
        TOML file. What ends in ``.toml`` or holds a path separator is a path. A mapping is
        the content of such a file: ``{"contamination": {"form": "none"}}``.
    priors : mapping of str to mapping, optional
        Priors that replace those of the model spec, under the keys of its table ``priors``.

    Returns
    -------
    ModelSpec
        Frozen; its ``hash`` depends on its meaning, not on its layout.

    Raises
    ------
    SpecError
        If there is no such name or file, or if the file is not a valid model spec;
        then every fault is listed, with suggestions for misspelt keys.

    Examples
    --------
    >>> spec = load_model("hierarchical")
    >>> spec.priors.beta_bar.text()
    'Normal(0, 2)'
    >>> wide = {"beta_bar": {"family": "normal", "mu": 0.0, "sigma": 4.0}}
    >>> load_model("hierarchical", wide).priors.beta_bar.text()
    'Normal(0, 4)'
    """
    if isinstance(spec, Mapping):
        found = restored_spec({"summary": "Given in Python."} | dict(spec), "unnamed", "")
    else:
        found = _MODELS.load(os.fspath(spec))
    found = spec_with_priors(found, priors or {})
    refuse_odd_keys(found)
    return found


def given_spec(spec: ModelSpec | str | os.PathLike[str] | Mapping[str, Any]) -> ModelSpec:
    """Return the model spec that is given by itself, or as for `load_model`."""
    if not isinstance(spec, ModelSpec):
        return load_model(spec)
    refuse_odd_keys(spec)
    return spec


def load_manifest(manifest: str | os.PathLike[str]) -> Manifest:
    """Read a corpus manifest by name or by path.

    Parameters
    ----------
    manifest : str or path-like
        Name of a shipped one, such as ``"offline-demo"``, or a path. Names, paths, hash and
        errors are as those of `load_model`.

    Returns
    -------
    Manifest

    Raises
    ------
    SpecError
        If there is no such manifest, or it is not valid.

    Examples
    --------
    >>> load_manifest("offline-demo").embedding.model
    'minilm'
    """
    return _MANIFESTS.load(os.fspath(manifest))


def load_curve(curve: str | os.PathLike[str]) -> CurveSpec:
    """Read a curve spec by name or by path.

    Parameters
    ----------
    curve : str or path-like
        Name of a shipped one, such as ``"monotone"``, or a path. Names, paths, hash and errors
        are as those of `load_model`.

    Returns
    -------
    CurveSpec

    Raises
    ------
    SpecError
        If there is no such curve spec, or it is not valid.

    Examples
    --------
    >>> load_curve("monotone").priors.matches.threshold.text()
    'Normal(0.65, 0.1)'
    """
    return _CURVES.load(os.fspath(curve))


def load_recipe(recipe: str | os.PathLike[str]) -> Recipe:
    """Read a recipe of duplicates by name or by path.

    Parameters
    ----------
    recipe : str or path-like
        Name of a shipped one, such as ``"logic-grid"``, or a path. Names, paths, hash and errors
        are as those of `load_model`.

    Returns
    -------
    Recipe

    Raises
    ------
    SpecError
        If there is no such recipe, or it is not valid.

    Examples
    --------
    >>> load_recipe("mbpp").copies
    5
    """
    return _RECIPES.load(os.fspath(recipe))


def load_lab(lab: str | os.PathLike[str]) -> LabSpec:
    """Read a lab by name or by path.

    Parameters
    ----------
    lab : str or path-like
        Name of a shipped one, such as ``"arithmetic"``, or a path. Names, paths, hash and errors
        are as those of `load_model`.

    Returns
    -------
    LabSpec

    Raises
    ------
    SpecError
        If there is no such lab, or it is not valid.

    Examples
    --------
    >>> load_lab("finetuning-musr").training.epochs
    6
    """
    return _LABS.load(os.fspath(lab))


def load_study(study: str | os.PathLike[str]) -> StudySpec | ReproductionSpec:
    """Read a study by name or by path.

    Parameters
    ----------
    study : str or path-like
        Name of a shipped one, such as ``"recovery"``, or a path. Names, paths and errors are as
        those of `load_model`.

    Returns
    -------
    StudySpec or ReproductionSpec
        As the key ``kind`` states: ``"simulation"`` (default) or ``"reproduction"``. The number
        of replicates is no part of its ``hash``.

    Raises
    ------
    SpecError
        If there is no such study, or it is not valid.

    Examples
    --------
    >>> load_study("recovery").simulator.kind
    'published'
    """
    return _STUDIES.load(os.fspath(study))


def _parse_study(text: str, name: str) -> StudySpec | ReproductionSpec:
    """Return a study of the kind that its file says."""
    kind = parse_toml(text, name).get("kind", "simulation")
    parsers: dict[str, Callable[[str, str], StudySpec | ReproductionSpec]]
    parsers = {"simulation": StudySpec.parse, "reproduction": ReproductionSpec.parse}
    if not isinstance(kind, str) or kind not in parsers:
        shown = printable(str(kind), 60)
        problem = f"got {shown!r}; {suggest(shown, parsers)}"
        raise SpecError([Fault(name, problem, column="kind")])
    return parsers[kind](text, name)


@dataclass(frozen=True)
class _Registry[SpecT]:
    """The shipped specs of one kind."""

    folder: str
    what: str
    verb: str
    parse: Callable[[str, str], SpecT]

    def names(self) -> tuple[str, ...]:
        """Return the names of the shipped specs, sorted."""
        return tuple(sorted(path.stem for path in shipped_folder(self.folder).glob("*.toml")))

    def load(self, given: str) -> SpecT:
        if given.endswith(".toml") or {os.sep, "/"} & set(given):
            path = Path(given)
            return self.parse(read_text(path), str(path))
        if given not in self.names():
            problem = f"no such {self.what} ({suggest(given, self.names())})"
            known = f"bayescontam {self.verb}" if self.verb else ", ".join(self.names())
            advice = f"Name a shipped {self.what} ({known}) or give a path to a .toml."
            raise SpecError([Fault(f"{self.what} '{printable(given, 60)}'", problem)], advice)
        path = shipped_folder(self.folder) / f"{given}.toml"
        return self.parse(read_text(path), path.name)


_MODELS = _Registry("models", "model spec", "models list", ModelSpec.parse)
_MANIFESTS = _Registry("corpus", "corpus manifest", "corpora list", Manifest.parse)
_CURVES = _Registry("curves", "curve spec", "", CurveSpec.parse)
_RECIPES = _Registry("recipes", "recipe", "duplicates recipes", Recipe.parse)
_LABS = _Registry("labs", "lab", "lab list", LabSpec.parse)
_STUDIES = _Registry("studies", "study", "study list", _parse_study)
shipped_models, shipped_manifests, shipped_studies = _MODELS.names, _MANIFESTS.names, _STUDIES.names
shipped_recipes, shipped_labs = _RECIPES.names, _LABS.names


def quick_manifest(
    benchmark: str,
    corpus: tuple[str, ...],
    options: Mapping[str, Any],
    stored: tuple[str, ...] = (),
    embedding: Mapping[str, Any] | None = None,
    index: str | None = None,
) -> Manifest:
    """Return the manifest of one benchmark, and a source, or stored vectors, or an index of them.

    `options` are keys of `_PLACES`.
    """
    file = PurePath(benchmark)
    stem = (file.with_suffix("") if file.suffix.lower() in _COMPRESSED else file).stem
    tables: dict[str, dict[str, Any]] = {
        "": {"summary": f"Quick scan for {printable(file.name)}"},
        "benchmarks": {"name": stem, "path": _whole(benchmark)},
    }
    if corpus or not (stored or index):
        tables["sources"] = {"name": "corpus", "paths": [_whole(path) for path in corpus]}
    if stored:
        tables[""]["stored"] = [_whole(path) for path in stored]
    if index:
        tables[""]["index"] = _whole(index)
    if embedding:
        tables["embedding"] = dict(embedding)
    for option, value in options.items():
        table, key = _PLACES[option]
        tables.setdefault(table, {})[key] = value
    lines = []
    for table, keys in tables.items():
        if table:
            lines += ["", f"[[{table}]]" if table in ("benchmarks", "sources") else f"[{table}]"]
        lines += [f"{key} = {_value(key, value)}" for key, value in keys.items()]
    return Manifest.parse("\n".join(lines) + "\n", _FILE)


def _whole(path: str) -> str:
    """Return a path that means the same in any folder; addresses stay as they are."""
    if not path or "://" in path:
        return path
    path = os.path.expanduser(path)  # noqa: PTH111 (fails for no unknown user)
    here = str(Path.cwd())
    if glob.has_magic(path) and not Path(path).exists():
        here = glob.escape(here)
    return str(Path(here, path))


def _value(key: str, value: Any) -> str:
    if isinstance(value, float):
        return repr(value)  # JSON spells infinity otherwise
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"got {printable(text, 60)}, which is not Unicode; rename it"
        raise SpecError([Fault(_FILE, problem, column=key)]) from error
    return text
