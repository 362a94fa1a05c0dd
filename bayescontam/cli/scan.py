"""Commands ``scan`` and ``corpora …``."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam._progress import stage
from bayescontam._text import join_list, printable
from bayescontam.cli.options import EXECUTION, Quiet, RayAddress, Workplace, WorkplaceName

if TYPE_CHECKING:
    from bayescontam.scan.results import Scan
    from bayescontam.specs.corpus import Benchmark, Embedding, Lexical, Manifest, Source


SCAN_EXAMPLES = """
Examples:

bayescontam scan offline-demo --out demo-scan

bayescontam scan --benchmark items.jsonl --corpus 'corpus/*.jsonl.zst' --out scan

bayescontam scan mine.toml --out scan --jobs 8

Interrupted? Run the same command again. Then: bayescontam report scan --out scan.html
"""
_QUICK = "Quick scan, without a manifest"
_QUARTILES = ("top_cosine_low", "top_cosine_high")
CORPORA_EXAMPLES = """
Examples:

bayescontam corpora list

bayescontam corpora show offline-demo
"""
LIST_EXAMPLE = "Example: bayescontam corpora list"
SHOW_EXAMPLES = """
Examples:

bayescontam corpora show olmo3

bayescontam corpora show offline-demo --toml > mine.toml
"""
LOOKED_FOR = {"input": "questions", "output": "answers", "input_output": "questions with answers"}
corpora_app = typer.Typer(
    help="Corpus manifests: list those that ship with the package, and show one.",
    no_args_is_help=True,
)


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
        from bayescontam.scan.run import run_scan

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
        print_scan(scanned)


def _manifest(
    name: str | None,
    benchmark: Path | None,
    corpus: list[str] | None,
    quick: Mapping[str, object],
) -> "tuple[Manifest, Path]":
    """Return the manifest that was named, or the one that the options amount to."""
    from bayescontam.errors import UsageError
    from bayescontam.specs.registry import load_manifest, quick_manifest

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


def print_scan(scanned: "Scan") -> None:
    """Print what a scan found and where it lies."""
    from bayescontam._text import printable
    from bayescontam.cli.terminal import print_lines, print_table
    from bayescontam.scan.results import LEVELS, by_benchmark, notes

    print_lines(notes(scanned))
    names = {f"share_{level}": f"items_with_≥ {level}" for level in LEVELS}
    names |= {name: name.replace("top", "best") for name in ("top_cosine", *_QUARTILES)}
    table = by_benchmark(scanned).rename(columns=names)
    folder = shlex.quote(printable(str(scanned.folder)))
    print_table(table, ["chunks"], f"bayescontam report {folder} --out scan.html")
    print_lines(
        [
            "best cosine: of an item's nearest chunk, median over items with quartiles; items with"
            " ≥ x: share of items whose best cosine is at least x.",
            f"Wrote the scan to {folder}. Next: bayescontam report {folder} --out scan.html",
        ]
    )


@corpora_app.command("list", epilog=LIST_EXAMPLE)
def list_manifests() -> None:
    """List the corpus manifests that ship with the package."""
    from bayescontam.cli.terminal import print_lines, print_list
    from bayescontam.specs.registry import load_manifest, shipped_manifests

    print_list((name, load_manifest(name).summary) for name in shipped_manifests())
    print()
    print_lines([
        "To make your own: corpora show NAME --toml > mine.toml, change it, and give mine.toml"
        " in place of a name."
    ])  # fmt: skip


@corpora_app.command("show", epilog=SHOW_EXAMPLES)
def show_corpus(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of a corpus manifest, or path of a .toml file.", show_default=False
        ),
    ],
    file_only: Annotated[
        bool, typer.Option("--toml", help="Print only the file, to copy and change.")
    ] = False,
) -> None:
    """Print a corpus manifest: its file, and in words what is scanned and stored."""
    from bayescontam.specs.registry import load_manifest

    manifest = load_manifest(name)
    if file_only:
        print(manifest.text, end="")
        return
    print(f"# {printable(manifest.name)} ({manifest.hash[:12]})\n\n{manifest.text.rstrip()}\n")
    print("# In words\n")
    for line in _account(manifest):
        print(f"    {line}")


def _account(manifest: "Manifest") -> Iterator[str]:
    """Give lines that say what a scan by `manifest` does."""
    chunking, search = manifest.chunking, manifest.search
    if manifest.generated is not None:
        made = manifest.generated
        yield (
            f"A benchmark of {made.items:,} items and a corpus of {made.documents:,} documents"
            f" are made: {_percent(made.exact)} of the items stand in it word for word,"
            f" {_percent(made.paraphrased)} in other words."
        )
    yield from (f"Looked for: {_benchmark(benchmark)}." for benchmark in manifest.benchmarks)
    yield from (f"Scanned: {_source(source)}." for source in manifest.sources)
    longest = f"{chunking.max_tokens or 2048:,}"
    least = "half of the items' 5 % quantile, at most 50,"
    if chunking.min_tokens is not None:
        least = f"{chunking.min_tokens:,}"
    unless = "" if chunking.max_tokens else ", or what the embedder can see if that is less"
    yield (
        f"Chunks: {least} to {longest} tokens{unless}; longer texts are split, shorter ones only"
        " counted."
    )
    yield f"Embedder: {_embedder(manifest.embedding)}."
    yield (
        f"Stored for each item: its {search.top_k:,} best matches, how often each cosine occurs,"
        f" and {search.tail_size:,} matches drawn from the {_percent(search.tail_share)} with the"
        " highest cosines."
    )
    yield f"Lexical baselines of the matches: {_lexical(manifest.lexical)}."
    yield f"Seed: {manifest.seed}. Relative paths start at the folder of the file."


def _benchmark(benchmark: "Benchmark") -> str:
    embedded = "" if benchmark.vectors is None else f", embedded in {printable(benchmark.vectors)}"
    items = f"{LOOKED_FOR[benchmark.text_mode]} of {printable(benchmark.path)}"
    return f"{printable(benchmark.name)}, {items}{embedded}"


def _source(source: "Source") -> str:
    if source.paths is not None:
        place = join_list(source.paths, most=3)
    else:
        place = f"dataset {printable(str(source.dataset))}, split {printable(source.split)}"
    if source.format == "vectors":
        return f"{printable(source.name)}, the vectors of {place}"
    whole = "all" if source.share == 1 else _percent(source.share)
    of = f" of each stratum (field {printable(source.stratum, 60)})" if source.stratum else ""
    fields = [source.text] if isinstance(source.text, str) else source.text
    return f"{printable(source.name)}, {whole}{of} of {place}; text from {join_list(fields)}"


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _embedder(embedding: "Embedding") -> str:
    known = {
        "minilm": "all-MiniLM-L6-v2, which comes with the extra 'scan'",
        "hashing": "counts of hashed words, which find only shared words",
    }
    prompts = {"items": embedding.query_prompt, "chunks": embedding.passage_prompt}
    put = [
        f"{what} begin with {printable(repr(text), 120)}" for what, text in prompts.items() if text
    ]
    precision = "" if embedding.precision == "auto" else f"in {embedding.precision}"
    code = "runs code that comes with the model" if embedding.trust_remote_code else ""
    name = known.get(embedding.model, printable(embedding.model))
    return "; ".join(filter(None, [name, precision, *put, code]))


def _lexical(lexical: "Lexical") -> str:
    ngrams = ", ".join(map(str, lexical.ngrams))
    parts = [
        f"shared n-grams of {ngrams} words" if lexical.ngrams else "",
        "Jaccard" if lexical.jaccard else "",
        "ROUGE-L" if lexical.rouge_l else "",
    ]
    return ", ".join(filter(None, parts)) or "none"
