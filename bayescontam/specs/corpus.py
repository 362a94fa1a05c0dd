"""Corpus manifests: what is scanned, for which benchmarks, and how."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

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
    the number of the record."""
    stratum: Text | None = None
    """Field whose value is the stratum, with ``/`` between levels; default: none."""
    vector: Text = "embedding"
    """Column of vectors, where `format` is ``"vectors"``."""
    share: Share = 1.0
    """Share of every stratum's documents that is scanned, in (0, 1]."""

    LATER: ClassVar[frozenset[str]] = frozenset({"chat", "roles", "where"})

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.paths is None) == (self.dataset is None):
            raise ValueError("give either 'paths' or 'dataset'")
        if self.format == "vectors" and (self.dataset or self.share < 1):
            raise ValueError("format = 'vectors' needs 'paths', and share = 1: give fewer vectors")
        texts_only = [key for key in ("chat", "roles", "where") if getattr(self, key)]
        if self.format == "vectors" and texts_only:
            raise ValueError(f"'{texts_only[0]}' is of texts: leave it out with format = 'vectors'")
        return self


class Generated(Block):
    """A benchmark and a corpus that the package makes, with known duplicates."""

    items: Annotated[int, Field(ge=1, le=10_000)] = 120
    """Items of the benchmark."""
    documents: Annotated[int, Field(ge=1, le=1_000_000)] = 3000
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


class Embedding(Block):
    """What turns texts into vectors."""

    model: Text = "minilm"
    """``"minilm"`` (all-MiniLM-L6-v2, inside the extra 'scan'), ``"hashing"`` (counts of hashed
    words: needs no model, finds only shared words), or the name or folder of a
    sentence-transformers or Hugging Face model."""
    revision: Text | None = None
    """State of a model on the Hugging Face hub."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"
    """Of the arithmetic. ``"auto"``: fp32 on a CPU, fp16 on a GPU."""
    query_prompt: str = ""
    passage_prompt: str = ""
    """Put before benchmark texts, and before chunks."""
    max_tokens: Count | None = None
    """Longest text that the model may see; default: what its own files state."""
    batch_tokens: Count = 1024
    """Tokens that are embedded together."""
    dims: Count | None = None
    """Dimensions: for ``"hashing"`` (default 256), else the first of the model's."""
    trust_remote_code: bool = False
    """Whether code that comes with the model may run."""


class Search(Block):
    """What is stored of the cosines."""

    top_k: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Best matches stored for each item."""
    tail_share: Share = 0.001
    """The tail: the matches of an item with the highest cosines, as a share of all."""
    tail_size: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Matches of each item drawn at random from its tail."""
    shard_chunks: Annotated[int, Field(ge=16, le=2**22)] = 512
    """Chunks that are embedded and searched as one task."""


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
    generated : Block, optional
        Instead of both: a benchmark and a corpus that the package makes.
    reading, chunking, embedding, search, lexical : Block
        How.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"stored"})

    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: str = ""
    seed: Seed = 0
    benchmarks: Annotated[tuple[Benchmark, ...], Field(strict=False)] = ()
    sources: Annotated[tuple[Source, ...], Field(strict=False)] = ()
    stored: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    generated: Generated | None = None
    reading: Reading = Reading()
    chunking: Chunking = Chunking()
    embedding: Embedding = Embedding()
    search: Search = Search()
    lexical: Lexical = Lexical()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.generated is not None:
            if self.benchmarks or self.sources or self.stored:
                raise ValueError(
                    "'generated' stands alone: leave out benchmarks, sources and stored"
                )
        elif not (self.benchmarks and (self.sources or self.stored)):
            raise ValueError(
                "at least one [[benchmarks]], and one [[sources]] or folder in 'stored' are needed"
            )
        for table in ("benchmarks", "sources"):
            names = [block.name for block in getattr(self, table)]
            if repeated := next((name for name, n in Counter(names).items() if n > 1), ""):
                shown = printable(repeated, 60)
                raise ValueError(f"{table}: the name '{shown}' stands twice; names must differ")
        return self
