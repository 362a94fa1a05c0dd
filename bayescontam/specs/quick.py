"""Quick manifests: what a few options of the command line amount to, written out."""

import glob
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from bayescontam.errors import Fault, SpecError
from bayescontam.names import visible
from bayescontam.specs.corpus import Manifest

_FILE = "manifest.toml"
"""Name that a scan gives to its manifest."""
_PLACES = {
    "benchmark_name": ("benchmarks", "name"),
    "seed": ("", "seed"),
    "text_mode": ("benchmarks", "text_mode"),
    "text": ("sources", "text"),
    "stratum": ("sources", "stratum"),
    "share": ("sources", "share"),
    "min_tokens": ("chunking", "min_tokens"),
    "embedder": ("embedding", "model"),
    "top_k": ("search", "top_k"),
}
"""Table and key of each option; "" is what stands above all tables."""
_COMPRESSED = {".gz", ".zst", ".zstd", ".bz2"}


def quick_manifest(benchmark: str, corpus: tuple[str, ...], options: Mapping[str, Any]) -> Manifest:
    """Return the manifest of one benchmark and one source.

    Parameters
    ----------
    benchmark : str
        File of items; the benchmark has its name, without endings, unless ``benchmark_name``
        is given.
    corpus : tuple of str
        Files, folders, globs or addresses; relative ones start at the current folder.
    options : mapping
        Any of ``benchmark_name``, ``text``, ``stratum``, ``share``, ``text_mode``,
        ``embedder``, ``min_tokens``, ``top_k``, ``seed``.

    Returns
    -------
    Manifest
        Its text is TOML that gives the same manifest anywhere on this machine.

    Raises
    ------
    SpecError
        If a value is not allowed.

    Examples
    --------
    >>> manifest = quick_manifest("/data/quiz.jsonl.gz", ("s3://bucket/web",), {"share": 0.5})
    >>> print(manifest.text)
    summary = "Quick scan for quiz.jsonl.gz"
    <BLANKLINE>
    [[benchmarks]]
    name = "quiz"
    path = "/data/quiz.jsonl.gz"
    <BLANKLINE>
    [[sources]]
    name = "corpus"
    paths = ["s3://bucket/web"]
    share = 0.5
    <BLANKLINE>
    """
    tables: dict[str, dict[str, Any]] = {
        "": {"summary": f"Quick scan for {visible(PurePath(benchmark).name)}"},
        "benchmarks": {"name": _stem(benchmark), "path": _whole(benchmark)},
        "sources": {"name": "corpus", "paths": [_whole(path) for path in corpus]},
    }
    for option, value in options.items():
        table, key = _PLACES[option]
        tables.setdefault(table, {})[key] = value
    return Manifest.parse(_toml(tables), _FILE)


def _stem(path: str) -> str:
    name = PurePath(path)
    return (name.with_suffix("") if name.suffix.lower() in _COMPRESSED else name).stem


def _whole(path: str) -> str:
    """Return a path that means the same in any folder; addresses stay as they are."""
    if not path or "://" in path:
        return path
    path = os.path.expanduser(path)  # noqa: PTH111 (fails for no unknown user)
    here = str(Path.cwd())
    if glob.has_magic(path) and not Path(path).exists():
        here = glob.escape(here)
    return str(Path(here, path))


def _toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for table, keys in tables.items():
        if table:
            lines += ["", f"[[{table}]]" if table in ("benchmarks", "sources") else f"[{table}]"]
        lines += [f"{key} = {_value(key, value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _value(key: str, value: Any) -> str:
    if isinstance(value, float):
        return repr(value)  # JSON spells infinity otherwise
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"got {visible(text, 60)}, which is not Unicode; rename it"
        raise SpecError([Fault(_FILE, problem, column=key)]) from error
    return text
