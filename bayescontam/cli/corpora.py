"""Verb ``corpora``: the corpus manifests that ship with the package."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from bayescontam.names import listed, visible

if TYPE_CHECKING:
    from bayescontam.specs.corpus import Benchmark, Embedding, Lexical, Manifest, Source

EXAMPLES = """
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
app = typer.Typer(
    help="Corpus manifests: list those that ship with the package, and show one.",
    no_args_is_help=True,
)


@app.command("list", epilog=LIST_EXAMPLE)
def list_manifests() -> None:
    """List the corpus manifests that ship with the package."""
    from bayescontam.cli.terminal import print_lines, print_list
    from bayescontam.specs.catalogue import load_manifest, shipped_manifests

    print_list((name, load_manifest(name).summary) for name in shipped_manifests())
    print()
    print_lines([
        "To make your own: corpora show NAME --toml > mine.toml, change it, and give mine.toml"
        " in place of a name."
    ])  # fmt: skip


@app.command("show", epilog=SHOW_EXAMPLES)
def show(
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
    from bayescontam.specs.catalogue import load_manifest

    manifest = load_manifest(name)
    if file_only:
        print(manifest.text, end="")
        return
    print(f"# {visible(manifest.name)} ({manifest.hash[:12]})\n\n{manifest.text.rstrip()}\n")
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
    embedded = "" if benchmark.vectors is None else f", embedded in {visible(benchmark.vectors)}"
    items = f"{LOOKED_FOR[benchmark.text_mode]} of {visible(benchmark.path)}"
    return f"{visible(benchmark.name)}, {items}{embedded}"


def _source(source: "Source") -> str:
    if source.paths is not None:
        place = listed(source.paths, most=3)
    else:
        place = f"dataset {visible(str(source.dataset))}, split {visible(source.split)}"
    if source.format == "vectors":
        return f"{visible(source.name)}, the vectors of {place}"
    whole = "all" if source.share == 1 else _percent(source.share)
    of = f" of each stratum (field {visible(source.stratum, 60)})" if source.stratum else ""
    fields = [source.text] if isinstance(source.text, str) else source.text
    return f"{visible(source.name)}, {whole}{of} of {place}; text from {listed(fields)}"


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _embedder(embedding: "Embedding") -> str:
    known = {
        "minilm": "all-MiniLM-L6-v2, which comes with the extra 'scan'",
        "hashing": "counts of hashed words, which find only shared words",
    }
    prompts = {"items": embedding.query_prompt, "chunks": embedding.passage_prompt}
    put = [
        f"{what} begin with {visible(repr(text), 120)}" for what, text in prompts.items() if text
    ]
    precision = "" if embedding.precision == "auto" else f"in {embedding.precision}"
    code = "runs code that comes with the model" if embedding.trust_remote_code else ""
    name = known.get(embedding.model, visible(embedding.model))
    return "; ".join(filter(None, [name, precision, *put, code]))


def _lexical(lexical: "Lexical") -> str:
    ngrams = ", ".join(map(str, lexical.ngrams))
    parts = [
        f"shared n-grams of {ngrams} words" if lexical.ngrams else "",
        "Jaccard" if lexical.jaccard else "",
        "ROUGE-L" if lexical.rouge_l else "",
    ]
    return ", ".join(filter(None, parts)) or "none"
