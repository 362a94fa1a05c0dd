"""Commands ``scan`` and ``corpora …``."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option, Typer

from bayescontam._progress import stage
from bayescontam._text import join_list, printable
from bayescontam.cli.options import (
    FileOnly,
    Quiet,
    RayAddress,
    Workplace,
    examples,
    in_execution,
)
from bayescontam.cli.terminal import (
    command_line,
    print_lines,
    print_list,
    print_table,
    quoted,
    resumable,
    written_at,
)
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.scan.clean import CleanCorpus
    from bayescontam.specs.corpus import (
        Benchmark,
        Embedding,
        Lexical,
        Manifest,
        Source,
        Value,
        Values,
    )


SCAN_EXAMPLES = examples(
    "bayescontam scan offline-demo --out demo-scan",
    "bayescontam scan --benchmark items.jsonl --benchmark-name quiz --corpus 'corpus/*.jsonl.zst'"
    " --out scan",
    "bayescontam scan mine.toml --out scan --jobs 8 --keep-vectors",
    "bayescontam scan --benchmark other.jsonl --vectors scan/vectors --out other-scan",
    "bayescontam scan --benchmark other.jsonl --index index --out other-scan",
    "bayescontam scan mine.toml --out scan --write-clean clean --above 0.5 --curve curve.nc",
    then="Interrupted? Run the same command again. Then: bayescontam report scan --out scan.html",
)
CORPORA_EXAMPLES = examples("bayescontam corpora list", "bayescontam corpora show offline-demo")
LOOKED_FOR = {"input": "questions", "output": "answers", "input_output": "questions with answers"}
in_quick = partial(Option, rich_help_panel="Quick scan, without a manifest")
in_clean = partial(Option, rich_help_panel="Corpus without probable duplicates")
corpora_app = Typer(
    help="Corpus manifests: list those that ship with the package, and show one.",
    no_args_is_help=True,
)


def scan(
    out: Annotated[Path, Option("--out", "-o", help="Folder of the scan; made if need be.")],
    manifest: Annotated[
        str | None, Argument(help="Corpus manifest: a name (see 'corpora list') or a .toml file.")
    ] = None,
    benchmark: Annotated[
        Path | None,
        in_quick(help="Items: JSON Lines, Parquet or CSV with the fields id, input, output."),
    ] = None,
    benchmark_name: Annotated[
        str | None,
        in_quick(help="Name of the benchmark, as in the responses; default: that of its file."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        in_quick(help="File, folder, glob or address of the corpus; may be repeated."),
    ] = None,
    vectors: Annotated[
        list[Path] | None,
        in_quick(
            help="Folder of vectors that --keep-vectors stored, in place of a corpus or beside"
            " it; may be repeated."
        ),
    ] = None,
    index: Annotated[
        Path | None,
        in_quick(help="Folder of an index of such vectors (see 'index'), in place of a corpus."),
    ] = None,
    exact: Annotated[
        bool,
        in_quick("--exact", help="Compare with all vectors of the index, as without it."),
    ] = False,
    backend: Annotated[
        Literal["torch", "faiss"] | None,
        in_quick(
            help="faiss finds best matches alone, without what curves and covariates need;"
            " default: torch."
        ),
    ] = None,
    text: Annotated[
        str | None,
        in_quick(
            help="Field of the corpus that holds the text, or a template of several:"
            " '{title}: {body}'; default: text."
        ),
    ] = None,
    stratum: Annotated[
        str | None, in_quick(help="Field of the corpus that holds the stratum.")
    ] = None,
    text_mode: Annotated[
        Literal["input", "output", "input_output"] | None,
        in_quick(help="Text of an item to search for; default: input."),
    ] = None,
    share: Annotated[
        float | None, in_quick(help="Share of the corpus that is scanned; default: 1.")
    ] = None,
    embedder: Annotated[
        str | None,
        in_quick(
            help="minilm, wordllama, hashing, or a sentence-transformers model; with --endpoint the"
            " name of the model there; default: minilm."
        ),
    ] = None,
    endpoint: Annotated[
        str | None,
        in_quick(help="Address of an OpenAI-compatible endpoint that embeds; needs --max-tokens."),
    ] = None,
    max_tokens: Annotated[
        int | None, in_quick(help="Longest text that the embedder may see; default: its own limit.")
    ] = None,
    tokenizer: Annotated[
        str | None,
        in_quick(
            help="What counts tokens for a model at an endpoint: best its own tokenizer, by name"
            " or folder; default: minilm."
        ),
    ] = None,
    api_key_env: Annotated[
        str | None,
        in_quick(
            help="Environment variable with the key of the endpoint; may be unset where none is"
            " needed; default: OPENAI_API_KEY."
        ),
    ] = None,
    min_tokens: Annotated[
        int | None,
        in_quick(
            help="Shorter texts of the corpus are not searched; default: half of the 5 %"
            " quantile of the items' lengths, at most 50."
        ),
    ] = None,
    top_k: Annotated[
        int | None, in_quick(help="Best matches stored for each item; default: 100.")
    ] = None,
    seed: Annotated[int | None, in_quick(help="Seed of all random samples; default: 0.")] = None,
    write_clean: Annotated[
        Path | None,
        in_clean(
            help="Folder for the corpus without probable duplicates, with counts; written after"
            " the scan, from its files."
        ),
    ] = None,
    above: Annotated[
        float | None,
        in_clean(help="P(duplicate) from which a document is left out, by --curve."),
    ] = None,
    curve: Annotated[
        Path | None, in_clean(help="Curve that 'bayescontam curve' wrote for this scan.")
    ] = None,
    above_cosine: Annotated[
        float | None,
        in_clean(help="Without a curve: cosine from which a document is left out."),
    ] = None,
    engine: Workplace = "local",
    address: RayAddress = None,
    jobs: Annotated[
        int | None,
        in_execution("--jobs", "-j", help="Workers; default: one for each core, or each GPU."),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"], in_execution(help="auto is a GPU where there is one.")
    ] = "auto",
    skip_unreadable: Annotated[
        bool,
        in_execution("--skip-unreadable", help="Count files that cannot be read; do not stop."),
    ] = False,
    replace: Annotated[
        bool,
        in_execution(
            "--replace",
            help="Replace the finished scan of another manifest, or another clean corpus.",
        ),
    ] = False,
    keep_work: Annotated[
        bool, in_execution("--keep-work", help="Keep sampled documents, chunks and sketches.")
    ] = False,
    keep_vectors: Annotated[
        bool,
        in_execution(
            "--keep-vectors", help="Store the vectors of the corpus, to scan for other items later."
        ),
    ] = False,
    vector_precision: Annotated[
        Literal["fp16", "fp32"] | None,
        in_execution(help="Of the vectors that --keep-vectors stores, in bits; default: fp16."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Search a corpus for the items of a benchmark; resumes an interrupted scan."""
    with stage(not quiet, "reading the manifest"):
        from bayescontam.scan.clean import RECORD as CLEAN
        from bayescontam.scan.results import LEVELS, RECORD, by_benchmark
        from bayescontam.scan.run import run_scan

    quick = {
        "text": text, "stratum": stratum, "text_mode": text_mode, "share": share,
        "embedder": embedder, "min_tokens": min_tokens, "top_k": top_k, "seed": seed,
        "benchmark_name": benchmark_name, "endpoint": endpoint, "max_tokens": max_tokens,
        "tokenizer": tokenizer, "api_key_env": api_key_env, "exact": exact or None,
        "backend": backend,
    }  # fmt: skip
    if vector_precision is not None and not keep_vectors:
        raise UsageError(
            "--vector-precision: is of vectors that are stored; add --keep-vectors, or leave it out"
        )
    spec, base = _manifest(manifest, benchmark, corpus, vectors, index, quick)
    limit = {"above": above, "curve": curve, "above_cosine": above_cosine}
    _check_clean(write_clean, limit, spec, base, out)
    before = written_at(out / RECORD), write_clean and written_at(write_clean / CLEAN)
    with resumable("finished work"):
        found = run_scan(
            spec,
            out,
            base=base,
            engine=engine,
            jobs=jobs,
            address=address,
            device=device,
            skip_unreadable=skip_unreadable,
            replace=replace,
            keep_work=keep_work,
            keep_vectors=vector_precision or "fp16" if keep_vectors else None,
            progress=not quiet,
            command=command_line(),
        )
        cleaned = None
        if write_clean is not None:
            from bayescontam.evidence.cleaning import write_clean as write

            cleaned = write(
                found,
                write_clean,
                above=above,
                curve=curve,
                above_cosine=above_cosine,
                base=base,
                engine=engine,
                jobs=jobs,
                address=address,
                device=device,
                replace=replace,
                progress=not quiet,
                command=command_line(),
            )
    if quiet:
        return
    print_lines(found.record["notes"])
    names = {f"share_{level}": f"items_with_≥ {level}" for level in LEVELS}
    names |= {f"top_cosine{end}": f"best_cosine{end}" for end in ("", "_low", "_high")}
    page = f"bayescontam report {quoted(found.folder)} --out scan.html"
    made = f"Wrote the scan to {quoted(found.folder)}"
    if written_at(out / RECORD) == before[0]:
        made = f"Read the finished scan in {quoted(found.folder)}, nothing was searched again"
    print_table(by_benchmark(found).rename(columns=names), ["chunks"], page)
    print_lines(
        [
            "best cosine: of an item's nearest chunk, median over items with quartiles; items with"
            " ≥ x: share of items whose best cosine is at least x.",
            f"{made}. Next: {page}",
        ]
    )
    if keep_vectors:
        stored = quoted(found.folder / "vectors")
        again = f"bayescontam scan --benchmark FILE --vectors {stored} --out FOLDER"
        print_lines([f"Vectors: {stored}. For other items: {again}"])
        print_lines([f"For many searches: bayescontam index {stored} --out INDEX"])
    if cleaned is not None:
        _print_cleaned(cleaned, new=written_at(cleaned.folder / CLEAN) != before[1])


def _check_clean(
    folder: Path | None,
    limit: Mapping[str, object],
    manifest: "Manifest",
    base: Path,
    scan: Path,
) -> None:
    """Refuse before the scan what would be refused after it."""
    if folder is None:
        if given := [name for name, value in limit.items() if value is not None]:
            option = given[0].replace("_", "-")
            raise UsageError(f"--{option}: is for --write-clean FOLDER; name one, or leave it out")
        return
    from bayescontam.evidence.cleaning import check_limit
    from bayescontam.evidence.curve import Curve
    from bayescontam.scan.clean import check_place, check_sources

    check_limit(**limit)  # type: ignore[arg-type]
    check_sources(manifest)
    check_place(folder, scan, manifest, base)
    if limit["curve"] is not None:
        if manifest.search.backend == "faiss":
            raise UsageError(
                '--curve: needs a scan that counts all cosines, and backend = "faiss" counts'
                ' none; scan with backend = "torch", or give --above-cosine'
            )
        Curve.from_netcdf(str(limit["curve"]))


def _print_cleaned(cleaned: "CleanCorpus", *, new: bool) -> None:
    """Print what a clean corpus has and lacks, and where it is."""
    import pandas as pd

    names = ("files", "documents", "dropped", "written", "short", "unreadable")
    rows = [
        {"source": source, **{name: counts[name] for name in names}}
        for source, counts in cleaned.record["counts"].items()
    ]
    print_table(pd.DataFrame(rows), see_all="clean.json")
    files = quoted(cleaned.folder / "files")
    made = f"Wrote the clean corpus to {files}"
    if not new:
        made = f"Read the finished clean corpus in {files}, nothing was written again"
    print_lines(
        [
            *cleaned.record["notes"],
            f"{made}. What was left out, and why: {quoted(cleaned.folder / 'dropped.parquet')}",
        ]
    )


def _manifest(
    name: str | None,
    benchmark: Path | None,
    corpus: list[str] | None,
    vectors: list[Path] | None,
    index: Path | None,
    quick: Mapping[str, Any],
) -> "tuple[Manifest, Path]":
    """Return the manifest that was named, or the one that the options amount to."""
    from bayescontam.specs.registry import load_manifest, quick_manifest

    given = {key: value for key, value in quick.items() if value is not None}
    if name is None:
        if benchmark is None or not (corpus or vectors or index):
            raise UsageError(
                "give a manifest, or --benchmark FILE and --corpus PATH (or --vectors FOLDER, or"
                " --index FOLDER)"
            )
        if index and (corpus or vectors):
            raise UsageError(
                "--index: is searched by itself; leave out --corpus and --vectors, or leave out"
                " --index and name its vectors by --vectors"
            )
        if index and given.get("backend") == "faiss":
            raise UsageError(
                "--backend: faiss compares all vectors, and an --index is searched by FAISS anyway;"
                " leave it out, or name the vectors of the index by --vectors"
            )
        if "exact" in given and not index:
            raise UsageError("--exact: is of an --index; without one every scan is exact")
        of_texts = ("text", "stratum", "share", "min_tokens")
        if not corpus and (own := [word for word in of_texts if word in given]):
            raise UsageError(
                f"--{own[0].replace('_', '-')}: is of the texts of a corpus, and none is given;"
                " stored vectors come with theirs: leave it out, or name a --corpus"
            )
        folders = tuple(map(str, vectors or ()))
        embedding = None
        if (folders or index) and "embedder" not in given:
            at = quick["endpoint"], quick["api_key_env"]
            embedding = _embedding(folders, index, *at)
        searched = None if index is None else str(index)
        return quick_manifest(
            str(benchmark), tuple(corpus or ()), given, folders, embedding, searched
        ), Path()
    if benchmark is not None or corpus or vectors or index or given:
        named = {"benchmark": benchmark, "corpus": corpus, "vectors": vectors, "index": index}
        words = [*(word for word, value in named.items() if value), *given]
        options = ", ".join("--" + word.replace("_", "-") for word in words)
        raise UsageError(f"{options}: belongs into the manifest; copy '{name}' and change it there")
    return load_manifest(name), Path(name).parent


def _embedding(
    folders: Sequence[str], index: Path | None, endpoint: str | None, api_key_env: str | None
) -> dict[str, object]:
    """Return the settings of the embedder of stored vectors, but for those by default."""
    from bayescontam.scan.stored_vectors import StoredVectors
    from bayescontam.scan.vector_index import VectorIndex

    stored = StoredVectors.load(folders[0]) if index is None else VectorIndex.load(index).stored[0]
    found = stored.embedding(endpoint, api_key_env)
    # The name of a served model is needed even if it is that of the default.
    named = {} if endpoint is None else {"model": found.model}
    return found.model_dump(exclude_defaults=True) | named


@corpora_app.command("list", epilog="Example: bayescontam corpora list")
def list_manifests() -> None:
    """List the corpus manifests that ship with the package."""
    from bayescontam.specs.registry import load_manifest, shipped_manifests

    print_list((name, load_manifest(name).summary) for name in shipped_manifests())
    print()
    print_lines(
        [
            "To make your own: corpora show NAME --toml > mine.toml, change it, and give mine.toml"
            " in place of a name."
        ]
    )


@corpora_app.command(
    "show",
    epilog=examples(
        "bayescontam corpora show olmo3",
        "bayescontam corpora show offline-demo --toml > mine.toml",
    ),
)
def show_corpus(
    name: Annotated[str, Argument(help="Name of a corpus manifest, or path of a .toml file.")],
    file_only: FileOnly = False,
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
    yield from (f"Scanned: the vectors stored in {printable(p)}." for p in manifest.stored)
    if manifest.index is not None:
        exactly = ", all of them" if search.exact else ", by it"
        yield f"Scanned: the vectors of the index {printable(manifest.index)}{exactly}."
    each = " in each source" if search.per == "source" else ""
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
    counted = (
        f", how often each cosine occurs, and {search.tail_size:,} matches drawn from the"
        f" {_percent(search.tail_share)} with the highest cosines"
    )
    if search.backend == "faiss":
        counted = " (found by FAISS), and nothing of other cosines"
    yield f"Stored for each item{each}: its {search.top_k:,} best matches{counted}."
    yield f"Lexical baselines of the matches: {_lexical(manifest.lexical)}."
    yield f"Seed: {manifest.seed}. Relative paths start at the folder of the file."


def _benchmark(benchmark: "Benchmark") -> str:
    embedded = "" if benchmark.vectors is None else f", embedded in {printable(benchmark.vectors)}"
    place = _dataset(benchmark) if benchmark.path is None else printable(benchmark.path)
    texts = {"questions": benchmark.input, "answers": benchmark.output}
    looked_for = LOOKED_FOR[benchmark.text_mode]
    made = "".join(
        f"; {what} from '{printable(text)}'"
        for what, text in texts.items()
        if what in looked_for and "{" in text
    )
    items = f"{looked_for} of {place}{_conditions(benchmark.where)}{made}"
    return f"{printable(benchmark.name)}, {items}{embedded}"


def _dataset(place: "Benchmark | Source") -> str:
    config = f", {printable(place.config)}" if place.config else ""
    return f"dataset {printable(str(place.dataset))}{config}, split {printable(place.split)}"


def _conditions(where: "Mapping[str, Value | Values]") -> str:
    """Return which records are chosen, "" for all."""
    parts = []
    for name, values in where.items():
        listed = values if isinstance(values, tuple) else (values,)
        # True and False as manifests spell them.
        spelled = [str(v).lower() if isinstance(v, bool) else repr(v) for v in listed]
        shown = " or ".join(printable(value, 60) for value in spelled)
        parts.append(f"{printable(name, 60)} is {shown}")
    return f" where {' and '.join(parts)}" if parts else ""


def _source(source: "Source") -> str:
    place = _dataset(source) if source.paths is None else join_list(source.paths, most=3)
    if source.format == "vectors":
        return f"{printable(source.name)}, the vectors of {place}{_own_text(source)}"
    whole = "all" if source.share == 1 else _percent(source.share)
    of = f" of each stratum (field {printable(source.stratum, 60)})" if source.stratum else ""
    fields = [source.text] if isinstance(source.text, str) else source.text
    text = f"text from {join_list(fields)}{_messages(source)}{_own_text(source)}"
    return f"{printable(source.name)}, {whole}{of} of {place}{_conditions(source.where)}; {text}"


def _messages(source: "Source") -> str:
    """Return how chat messages are read, "" by default."""
    form = f" as '{printable(source.chat)}'" if source.chat else ""
    roles = f" of {join_list(source.roles)}" if source.roles else ""
    return f", messages{roles}{form}" if form or roles else ""


def _own_text(source: "Source") -> str:
    """Return what of the items is looked for in a source, "" where the benchmarks say."""
    mode = LOOKED_FOR[source.text_mode] if source.text_mode else ""
    joined = f"joined as '{printable(source.input_output)}'" if source.input_output else ""
    return f"; searched for {', '.join(filter(None, [mode, joined]))}" if mode or joined else ""


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _embedder(embedding: "Embedding") -> str:
    known = {
        "minilm": "all-MiniLM-L6-v2, which comes with the extra 'scan'",
        "wordllama": "WordLlama, means of word vectors, which comes with the extra 'wordllama'",
        "hashing": "counts of hashed words, which find only shared words",
    }
    prompts = {"items": embedding.query_prompt, "chunks": embedding.passage_prompt}
    put = [
        f"{what} begin with {printable(repr(text), 120)}" for what, text in prompts.items() if text
    ]
    precision = "" if embedding.precision == "auto" else f"in {embedding.precision}"
    code = "runs code that comes with the model" if embedding.trust_remote_code else ""
    name = known.get(embedding.model, printable(embedding.model))
    if embedding.endpoint is not None:
        name = f"{printable(embedding.model)}, served at {printable(embedding.endpoint)}"
    return "; ".join(filter(None, [name, precision, *put, code]))


def _lexical(lexical: "Lexical") -> str:
    ngrams = ", ".join(map(str, lexical.ngrams))
    parts = [
        f"shared n-grams of {ngrams} words" if lexical.ngrams else "",
        "Jaccard" if lexical.jaccard else "",
        "ROUGE-L" if lexical.rouge_l else "",
    ]
    return ", ".join(filter(None, parts)) or "none"
