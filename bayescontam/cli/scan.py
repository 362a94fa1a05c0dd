"""Verb ``scan``: a corpus and a benchmark to matches."""

import shlex
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.cli.options import EXECUTION, Quiet, RayAddress, Workplace, WorkplaceName
from bayescontam.progress import stage

if TYPE_CHECKING:
    from bayescontam.scan.results import Scan
    from bayescontam.specs.corpus import Manifest

EXAMPLES = """
Examples:

bayescontam scan offline-demo --out demo-scan

bayescontam scan --benchmark items.jsonl --corpus 'corpus/*.jsonl.zst' --out scan

bayescontam scan mine.toml --out scan --jobs 8

Interrupted? Run the same command again. Then: bayescontam report scan --out scan.html
"""
_QUICK = "Quick scan, without a manifest"
_QUARTILES = ("top_cosine_low", "top_cosine_high")


class Device(StrEnum):
    """What computes."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Mode(StrEnum):
    """Which text of an item is looked for."""

    INPUT = "input"
    OUTPUT = "output"
    BOTH = "input_output"


def scan(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder of the scan; made if need be.", show_default=False
        ),
    ],
    manifest: Annotated[
        str | None,
        typer.Argument(
            help="Corpus manifest: a name (see 'corpora list') or a .toml file.",
            show_default=False,
        ),
    ] = None,
    benchmark: Annotated[
        Path | None,
        typer.Option(
            help="Items: JSON Lines, Parquet or CSV with the fields id, input, output.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    benchmark_name: Annotated[
        str | None,
        typer.Option(
            help="Name of the benchmark, as in the responses; default: that of its file.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            help="File, folder, glob or address of the corpus; may be repeated.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            help="Field of the corpus that holds the text; default: text.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    stratum: Annotated[
        str | None,
        typer.Option(
            help="Field of the corpus that holds the stratum.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    text_mode: Annotated[
        Mode | None,
        typer.Option(
            help="Text of an item to search for; default: input.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the corpus that is scanned; default: 1.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    embedder: Annotated[
        str | None,
        typer.Option(
            help="minilm, hashing, or a sentence-transformers model; default: minilm.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    min_tokens: Annotated[
        int | None,
        typer.Option(
            help="Shorter texts of the corpus are not searched; default: half of the 5 %"
            " quantile of the items' lengths, at most 50.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            help="Best matches stored for each item; default: 100.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of all random samples; default: 0.",
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    engine: WorkplaceName = Workplace.LOCAL,
    address: RayAddress = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            help="Workers; default: one for each core, or each GPU.",
            show_default=False,
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    device: Annotated[
        Device, typer.Option(help="auto is a GPU where there is one.", rich_help_panel=EXECUTION)
    ] = Device.AUTO,
    skip_unreadable: Annotated[
        bool,
        typer.Option(
            "--skip-unreadable",
            help="Count files that cannot be read; do not stop.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace the finished scan of another manifest.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
    keep_work: Annotated[
        bool,
        typer.Option(
            "--keep-work",
            help="Keep sampled documents, chunks and sketches.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Search a corpus for the items of a benchmark; resumes an interrupted scan."""
    with stage(not quiet, "reading the manifest"):
        from bayescontam.scanning import run_scan

    quick = {
        "text": text, "stratum": stratum, "text_mode": text_mode and text_mode.value,
        "share": share, "embedder": embedder, "min_tokens": min_tokens, "top_k": top_k,
        "seed": seed, "benchmark_name": benchmark_name,
    }  # fmt: skip
    spec, base = _manifest(manifest, benchmark, corpus, quick)
    try:
        scanned = run_scan(
            spec,
            out,
            base=base,
            engine=engine.value,
            jobs=jobs,
            address=address,
            device=device.value,
            skip_unreadable=skip_unreadable,
            replace=replace,
            keep_work=keep_work,
            progress=not quiet,
            command=shlex.join(["bayescontam", *sys.argv[1:]]),
        )
    except KeyboardInterrupt:
        print("finished work is stored: run the same command again to resume", file=sys.stderr)
        raise
    if not quiet:
        show(scanned)


def _manifest(
    name: str | None,
    benchmark: Path | None,
    corpus: list[str] | None,
    quick: Mapping[str, object],
) -> "tuple[Manifest, Path]":
    """Return the manifest that was named, or the one that the options amount to."""
    from bayescontam.errors import UsageError
    from bayescontam.specs.catalogue import load_manifest
    from bayescontam.specs.quick import quick_manifest

    given = {key: value for key, value in quick.items() if value is not None}
    if name is None:
        if benchmark is None or not corpus:
            raise UsageError("give a manifest, or --benchmark FILE and --corpus PATH")
        return quick_manifest(str(benchmark), tuple(corpus), given), Path()
    if benchmark is not None or corpus or given:
        words = [*(["benchmark"] if benchmark else []), *(["corpus"] if corpus else []), *given]
        options = ", ".join("--" + word.replace("_", "-") for word in words)
        raise UsageError(f"{options}: belongs into the manifest; copy '{name}' and change it there")
    return load_manifest(name), Path(name).parent


def show(scanned: "Scan") -> None:
    """Print what a scan found and where it lies."""
    from bayescontam.cli.terminal import print_lines, print_table
    from bayescontam.names import visible
    from bayescontam.scan.summary import LEVELS, by_benchmark, notes

    print_lines(notes(scanned))
    names = {f"share_{level}": f"items_with_≥ {level}" for level in LEVELS}
    names |= {name: name.replace("top", "best") for name in ("top_cosine", *_QUARTILES)}
    table = by_benchmark(scanned).rename(columns=names)
    folder = shlex.quote(visible(str(scanned.folder)))
    print_table(table, ["chunks"], f"bayescontam report {folder} --out scan.html")
    print_lines(
        [
            "best cosine: of an item's nearest chunk, median over items with quartiles; items with"
            " ≥ x: share of items whose best cosine is at least x.",
            f"Wrote the scan to {folder}. Next: bayescontam report {folder} --out scan.html",
        ]
    )
