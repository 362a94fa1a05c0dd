"""Corpus manifests: what is scanned, for which benchmarks, and how."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from bayescontam._text import printable
from bayescontam.specs.base import Block, WholeSpec
from bayescontam.specs.template import Template


def _check_template(text: str) -> str:
    Template.parse(text)
    return text


def _check_message(text: str) -> str:
    if {"content"} <= set(Template.parse(text).names) <= {"role", "content"} and "{" in text:
        return text
    raise ValueError("a template of one message is needed, with {content} and, if need be, {role}")


def _check_whole(text: str) -> str:
    if set(Template.parse(text).names) == {"input", "output"}:
        return text
    raise ValueError("a template with {input} and {output} is needed")


def _flat(conditions: Any) -> Any:
    """Return conditions on nested fields by names with dots, as TOML spells both alike."""
    return dict(_flattened(conditions, "")) if isinstance(conditions, Mapping) else conditions


def _flattened(conditions: Mapping[str, Any], start: str) -> Iterator[tuple[str, Any]]:
    for key, value in conditions.items():
        name = f"{start}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{name}.")
            continue
        values = value if isinstance(value, list | tuple) else [value]
        # Of a union of so many types, each would have its own sentence.
        if not values or not all(isinstance(one, Value) and one == one for one in values):
            raise ValueError(
                f"'{printable(name, 60)}': got {printable(repr(value), 60)}; a text, a number, true"
                " or false, or a list of these is needed"
            )
        yield name, value


TextMode = Literal["input", "output", "input_output"]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
Texts = Annotated[tuple[Text, ...], Field(strict=False, min_length=1)]
FieldText = Annotated[Text, AfterValidator(_check_template)]
"""A field, or a template of several: ``"{question}\\n{answer}"``."""
FieldTexts = Annotated[tuple[FieldText, ...], Field(strict=False, min_length=1)]
Value = bool | int | float | str
Values = Annotated[tuple[Value, ...], Field(strict=False, min_length=1)]
Conditions = Annotated[dict[str, Value | Values], BeforeValidator(_flat)]
"""Values that fields must have, by their names."""
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
MINILM, WORDLLAMA = "minilm", "wordllama"
"""Models whose weights lie in packages."""


class Benchmark(Block):
    """A benchmark whose items are looked for."""

    name: Text
    """Name of the benchmark, as in the responses."""
    path: Text | None = None
    """File of its items: JSON Lines (plain or compressed), Parquet or CSV, one row an item. Either
    `path` or `dataset`."""
    dataset: Text | None = None
    """Hugging Face dataset: its name, or the folder of one saved to disk."""
    config: Text | None = None
    split: Text = "test"
    revision: Text | None = None
    """Which part and state of a Hugging Face dataset; split is ``"test"`` by default."""
    item: Text = "id"
    """Field that names the item; ``"#"`` is the number of its row, from 0."""
    input: FieldText = "input"
    output: FieldText = "output"
    """Fields of the question and of its answer, or templates of several fields."""
    text_mode: TextMode = "input"
    """What is looked for: the question, the answer, or both, as `input_output` joins them."""
    input_output: Annotated[Text, AfterValidator(_check_whole)] = "{input}\n{output}"
    """Template of question and answer, if both are looked for."""
    where: Conditions = Field(default={})
    """Values that fields must have: ``{ level = "hard", kind = ["a", "b"] }``. Other rows are
    counted and left out."""
    vectors: Text | None = None
    """``.npy`` file with one embedding for each row; nothing is embedded then."""

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"dataset", "config", "split", "revision", "input_output", "where"}
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.dataset is None):
            raise ValueError("give either 'path' or 'dataset'")
        own = [key for key in ("config", "split", "revision") if key in self.model_fields_set]
        if own and self.dataset is None:
            raise ValueError(f"'{own[0]}' is of a 'dataset', and a 'path' is given")
        if "input_output" in self.model_fields_set and self.text_mode != "input_output":
            raise ValueError("'input_output' is only used with text_mode = 'input_output'")
        if self.where and self.vectors is not None:
            raise ValueError("leave out 'where', or 'vectors', which are of all rows")
        return self


class Source(Block):
    """A part of the corpus."""

    name: Text
    """Name of the source; the first level of the hierarchy of strata."""
    paths: Texts | None = None
    """Files, folders, globs or fsspec addresses (``s3://…``). Relative ones start at the folder of
    the manifest. Either `paths` or `dataset`."""
    dataset: Text | None = None
    """Hugging Face dataset: its name, or the folder of one saved to disk."""
    config: Text | None = None
    split: Text = "train"
    revision: Text | None = None
    """Which part and state of a Hugging Face dataset; split is ``"train"`` by default."""
    format: Literal["auto", "jsonl", "parquet", "text", "vectors"] = "auto"
    """Format of files, compression aside; ``"auto"`` goes by their names. ``"vectors"`` are
    embeddings made elsewhere (``.npy``, or Parquet and Arrow files with a column of vectors)."""
    text: FieldText | FieldTexts = "text"
    """Field, or fields joined by a blank line, that hold the text; or a template of several, such
    as ``"{title}: {body}"``. A dot goes into nested fields. A list of chat messages is joined by
    blank lines."""
    chat: Annotated[Text, AfterValidator(_check_message)] | None = None
    """Template of a chat message, such as ``"{role}: {content}"``; default: its content alone."""
    roles: Texts | dict[Text, str] | None = None
    """Roles of the chat messages that are scanned; or a table of them, with what stands for
    ``{role}``. Messages of other roles are counted and left out. Default: all."""
    where: Conditions = Field(default={})
    """Values that fields must have: ``{ lang = "en", kind = ["a", "b"] }``. Other records are
    counted and left out."""
    document: Text | None = None
    """Field that names the document; default: ``id`` where there is one, else the file's path and
    the number of the record, as ``"#"`` has it for all."""
    stratum: Text | None = None
    """Field whose value is the stratum, with ``/`` between levels; default: none."""
    vector: Text = "embedding"
    """Column of vectors, where `format` is ``"vectors"``."""
    share: Share = 1.0
    """Share of every stratum's documents that is scanned, in (0, 1]."""
    text_mode: TextMode | None = None
    """What of the items is looked for in this source, where search.per is ``"source"``; default:
    what their benchmarks say."""
    input_output: Annotated[Text, AfterValidator(_check_whole)] | None = None
    """Template of question and answer in this source, likewise."""

    LATER: ClassVar[frozenset[str]] = frozenset(
        {"chat", "roles", "where", "text_mode", "input_output"}
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.paths is None) == (self.dataset is None):
            raise ValueError("give either 'paths' or 'dataset'")
        if self.format == "vectors" and (self.dataset or self.share < 1):
            raise ValueError("format = 'vectors' needs 'paths', and share = 1: give fewer vectors")
        texts_only = [key for key in ("chat", "roles", "where") if getattr(self, key)]
        if self.format == "vectors" and texts_only:
            raise ValueError(f"'{texts_only[0]}' is of texts: leave it out with format = 'vectors'")
        if self.input_output is not None and self.text_mode not in (None, "input_output"):
            raise ValueError("'input_output' is only used with text_mode = 'input_output'")
        return self


class Generated(Block):
    """A benchmark and a corpus that the package makes, with known duplicates."""

    items: Annotated[int, Field(ge=1, le=10_000)] = 120
    """Items of the benchmark."""
    documents: Annotated[int, Field(ge=1, le=1_000_000)] = 1500
    """Documents of the corpus, the duplicates included."""
    exact: Annotated[float, Field(ge=0, le=1)] = 0.2
    paraphrased: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of items that have exact, and paraphrased, duplicates in the corpus."""

    @model_validator(mode="after")
    def _room_for_duplicates(self) -> Self:
        if self.exact + self.paraphrased > 1:
            raise ValueError("exact + paraphrased is above 1: an item has one kind of duplicate")
        duplicated = round(self.items * self.exact) + round(self.items * self.paraphrased)
        if self.documents < duplicated:
            raise ValueError(
                f"{duplicated:,} items have duplicates, which do not fit into documents ="
                f" {self.documents:,}: request more documents, or fewer items"
            )
        return self


class Reading(Block):
    """How files are read."""

    max_record_megabytes: Count = 256
    """Longer records are counted as unreadable."""


class Chunking(Block):
    """How documents become chunks."""

    min_tokens: Annotated[int, Field(ge=0)] | None = None
    """Shorter texts are counted, not searched. Tokens are the embedder's. Default: half of the 5 %
    quantile of the lengths of a benchmark's items, of the benchmark where it is the least, and at
    most 50."""
    max_tokens: Count | None = None
    """Longer texts are split. Default: 2,048, or what the embedder can see if that is less."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        least = self.min_tokens or 0
        if self.max_tokens is not None and least > self.max_tokens:
            raise ValueError("min_tokens is above max_tokens: nothing would be scanned")
        return self


def address_problem(address: str) -> str:
    """Return what is wrong with the address of an endpoint, without showing it; or nothing.

    >>> address_problem("localhost:8000")
    'an address that begins with http:// or https:// is needed'
    """
    try:
        parts = urlsplit(address)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    # First, as what follows a password may look like a port.
    if "@" in address or "?" in address or "#" in address:
        return (
            "it has a name, a password or a query in it, which would be stored with the scan; give"
            " the bare address, and the key in an environment variable (api_key_env)"
        )
    return "" if whole else "an address that begins with http:// or https:// is needed"


class Embedding(Block):
    """What turns texts into vectors."""

    LATER: ClassVar[frozenset[str]] = frozenset({"tokenizer"})
    LOCAL: ClassVar[frozenset[str]] = frozenset(
        {
            "endpoint", "api_key_env", "request_texts", "request_tokens", "concurrency", "timeout",
            "retries", "max_tokens_total",
        }
    )  # fmt: skip

    model: Text = MINILM
    """``"minilm"`` (all-MiniLM-L6-v2, inside the extra 'scan'), ``"wordllama"`` (means of word
    vectors, extra 'wordllama': fast), ``"hashing"`` (counts of hashed words: needs no model,
    finds only shared words), or the name or folder of a
    sentence-transformers or Hugging Face model. With `endpoint`, the name of the model there."""
    revision: Text | None = None
    """State of a model on the Hugging Face hub."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """Of the arithmetic. ``"auto"``: fp32 on a CPU, fp16 on a GPU."""
    query_prompt: str = ""
    passage_prompt: str = ""
    """Put before benchmark texts, and before chunks."""
    max_tokens: Count | None = None
    """Longest text that the model may see; default: what its own files state. Needed with
    `endpoint`."""
    batch_tokens: Count = 1024
    """Tokens that are embedded together."""
    dims: Count | None = None
    """Dimensions: for ``"hashing"`` (default 256), else the first of the model's."""
    trust_remote_code: bool = False
    """Whether code that comes with the model may run."""
    endpoint: Text | None = None
    """Address of an OpenAI-compatible interface that embeds, such as
    ``"http://localhost:8000/v1"``. The keys below are for it alone."""
    tokenizer: Text | None = None
    """What counts tokens: ``"minilm"`` (the default with `endpoint`; texts are then cut at 3/4 of
    `max_tokens`, as the model's tokens are others), ``"hashing"`` (words), or the name or folder
    of a Hugging Face tokenizer, which should be the model's."""
    api_key_env: Text = "OPENAI_API_KEY"
    """Environment variable with the key; may be unset where none is needed."""
    request_texts: Count = 32
    request_tokens: Count = 32_768
    """Most texts, and tokens, of a request; a longer text is sent alone."""
    concurrency: Count = 8
    """Requests at a time, of all workers together."""
    timeout: Annotated[float, Field(ge=1e-3, allow_inf_nan=False)] = 60.0
    """Seconds that a request may take."""
    retries: Annotated[int, Field(ge=0)] = 5
    """Further tries of a failed request."""
    max_tokens_total: Count | None = None
    """Most tokens to send in one run, retries included; the scan then stops, and may be resumed."""

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, data: Any) -> Any:
        # Written out, so that a model that is served is another than one of its name loaded here.
        if isinstance(data, Mapping) and data.get("endpoint") is not None:
            return {**data, "tokenizer": data.get("tokenizer") or MINILM}
        return data

    @model_validator(mode="after")
    def _served_or_loaded(self) -> Self:
        loaded = {"revision", "precision", "batch_tokens", "trust_remote_code"}
        served = (self.LOCAL | self.LATER) - {"endpoint"}
        odd = loaded if self.endpoint is not None else served
        fields = type(self).model_fields
        if changed := [n for n in fields if n in odd and getattr(self, n) != fields[n].default]:
            why = "are of a model that is loaded here, and there is an endpoint"
            if self.endpoint is None:
                why = "are of an endpoint, and none is given"
            raise ValueError(f"{', '.join(changed)}: {why}; leave them out")
        if self.endpoint is None:
            return self
        if problem := address_problem(self.endpoint):
            raise ValueError(f"endpoint: {problem}")
        if "model" not in self.model_fields_set:
            raise ValueError("model: name the model at the endpoint")
        if self.max_tokens is None:
            raise ValueError(
                "max_tokens: is needed with an endpoint, which does not say how long a text the"
                " model sees beside its prompt and special tokens"
            )
        return self


class Search(Block):
    """What is stored of the cosines."""

    LATER: ClassVar[frozenset[str]] = frozenset({"exact", "per", "backend"})

    per: Literal["corpus", "source"] = "corpus"
    """Whether best matches, histogram and tail of an item are those of the whole corpus, or of
    each source by itself."""
    top_k: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Best matches stored for each item."""
    tail_share: Share = 0.001
    """The tail: the matches of an item with the highest cosines, as a share of all."""
    tail_size: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Matches of each item drawn at random from its tail."""
    shard_chunks: Annotated[int, Field(ge=16, le=2**22)] = 512
    """Chunks that are embedded and searched as one task."""
    exact: bool = False
    """Whether all vectors of an index are compared, as without one."""
    backend: Literal["torch", "faiss"] = "torch"
    """What compares all chunks with all items. ``"faiss"`` finds the best matches alone: no
    histogram and no tail, which curves, covariates and prevalence need."""


class Lexical(Block):
    """Lexical baselines, computed for the matches."""

    ngrams: Annotated[tuple[Count, ...], Field(strict=False)] = (2, 3, 8, 13)
    """Lengths of n-grams of words; the share of the item's that the chunk holds."""
    jaccard: bool = True
    rouge_l: bool = True
    """Jaccard similarity of word sets; ROUGE-L F-measure."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.ngrams)) < len(self.ngrams):
            raise ValueError("ngrams: a length stands twice")
        return self


class Manifest(WholeSpec):
    """A scan: benchmarks, a corpus, and how the one is looked for in the other.

    Read one with `load_manifest`. Every block has defaults.

    Attributes
    ----------
    summary : str
        One line that says what is scanned.
    description : str
        More about it.
    seed : int, default 0
        Decides which documents are sampled, and which matches of the tail.
    benchmarks, sources : list of Block
        What is looked for, and where.
    stored : list of str
        Folders of vectors that scans stored (``--keep-vectors``), searched under the names of
        their own sources, beside or instead of `sources`. None by default.
    index : str, optional
        Folder of an index of stored vectors (``bayescontam index``), searched instead of all of
        them and of any sources.
    generated : Block, optional
        Instead of both: a benchmark and a corpus that the package makes.
    reading, chunking, embedding, search, lexical : Block
        How.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"stored", "index"})

    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: str = ""
    seed: Seed = 0
    benchmarks: Annotated[tuple[Benchmark, ...], Field(strict=False)] = ()
    sources: Annotated[tuple[Source, ...], Field(strict=False)] = ()
    stored: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    index: Text | None = None
    generated: Generated | None = None
    reading: Reading = Reading()
    chunking: Chunking = Chunking()
    embedding: Embedding = Embedding()
    search: Search = Search()
    lexical: Lexical = Lexical()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.generated is not None:
            if self.benchmarks or self.sources or self.stored or self.index:
                raise ValueError(
                    "'generated' stands alone: leave out benchmarks, sources, stored and index"
                )
        elif not (self.benchmarks and (self.sources or self.stored or self.index)):
            raise ValueError(
                "at least one [[benchmarks]], and one [[sources]], folder in 'stored' or 'index'"
                " are needed"
            )
        elif self.index and (self.sources or self.stored):
            raise ValueError(
                "index: it is searched by itself; leave out sources and stored, or leave out index"
                " and name its vectors in stored"
            )
        elif self.index and self.search.backend == "faiss":
            raise ValueError(
                "search.backend: 'faiss' compares all vectors, and an index is searched by FAISS"
                " anyway; leave out backend, or leave out index and name its vectors in stored"
            )
        elif self.search.exact and not self.index:
            raise ValueError("search.exact: is of an index; without one every scan is exact")
        if self.index and self.search.per == "source" and not self.search.exact:
            raise ValueError(
                "search.per: got 'source', and an index is searched for the best of all sources;"
                " compare with all of its vectors (exact = true under [search], which is --exact),"
                " or leave per out"
            )
        for table in ("benchmarks", "sources"):
            names = [block.name for block in getattr(self, table)]
            if repeated := next((name for name, n in Counter(names).items() if n > 1), ""):
                shown = printable(repeated, 60)
                raise ValueError(f"{table}: the name '{shown}' stands twice; names must differ")
        return self

    @model_validator(mode="after")
    def _texts_by_source(self) -> Self:
        for source in self.sources:
            name = f"sources: '{printable(source.name, 60)}'"
            own = [key for key in ("text_mode", "input_output") if getattr(source, key) is not None]
            if own and self.search.per != "source":
                raise ValueError(
                    f"{name}: '{own[0]}' is for a search by source; put per = \"source\" under"
                    " [search], or leave it out"
                )
            here = [as_looked_for(benchmark, source) for benchmark in self.benchmarks]
            modes = [benchmark.text_mode for benchmark in here]
            if source.input_output is not None and "input_output" not in modes:
                raise ValueError(
                    f"{name}: 'input_output' is only used with text_mode = 'input_output', which"
                    " neither it nor a benchmark has"
                )
            for benchmark, changed in zip(self.benchmarks, here, strict=True):
                if benchmark.vectors is not None and changed != benchmark:
                    raise ValueError(
                        f"{name}: has '{own[0]}', and the vectors of benchmark"
                        f" '{printable(benchmark.name, 60)}' are of other texts; leave out"
                        f" '{own[0]}', or the vectors, so that the items are embedded"
                    )
        return self


def as_looked_for(benchmark: Benchmark, source: Source) -> Benchmark:
    """Return a benchmark with the texts that a source has in place of its own.

    Equal benchmarks have equal texts.
    """
    mode = source.text_mode or benchmark.text_mode
    joined = benchmark.input_output
    if mode == "input_output" and source.input_output is not None:
        joined = source.input_output
    return benchmark.model_copy(update={"text_mode": mode, "input_output": joined})
