"""Labs: which models are trained, and with which duplicates among their texts."""

import re
from string import Template
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from bayescontam.specs.base import Block, WholeSpec, keys_page
from bayescontam.specs.corpus import Count, FieldText, FieldTexts, Seed, Text

MixKind = Literal["clean", "near", "exact", "semantic"]
Grade = Literal["exact", "number", "regex", "tests"]
Share = Annotated[float, Field(ge=0, le=1)]
Path = Annotated[str, StringConstraints(min_length=1)]
Rate = Annotated[float, Field(gt=0, le=1)]


def _check_file_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ValueError(
            "a name of letters, digits, hyphens, dots and underscores is needed, which begins with"
            " a letter or digit"
        )
    return name


FileName = Annotated[
    str, StringConstraints(min_length=1, max_length=60), AfterValidator(_check_file_name)
]


class Arithmetic(Block, use_attribute_docstrings=True):
    """Texts and items of a small world of arithmetic, which models of two layers can learn."""

    items: Annotated[int, Field(ge=2, le=10_000)]
    """Items of the benchmark: word problems of one or two steps."""
    controls: Annotated[int, Field(ge=1, le=1000)]
    """Items of the control benchmark, hours on a clock, of which there are no duplicates."""
    own_share: Share = 0.02
    """Share of the background that has a benchmark's own form, of problems that are no items."""
    question_share: Share = 0.0
    """Share of the background that are questions in other words; the rest are statements."""
    control_share: Share = 0.15
    """Share of the background that teaches the skill of the control benchmark."""

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if self.own_share + self.question_share > 1:
            raise ValueError(
                f"own_share = {self.own_share:g} and question_share = {self.question_share:g} add"
                " up to more than 1"
            )
        return self


class Files(Block, use_attribute_docstrings=True):
    """Texts and items from files; paths start from the folder of the lab's file.

    A path in angle brackets, such as ``"<benchmark>"``, has to be given where the lab is mixed.
    """

    background: Path
    """Documents without duplicates, as a scan reads them: a file, a folder, or a data set."""
    text: FieldText | FieldTexts = "text"
    """Field of the background, fields joined by a blank line, or a template that hold the text."""
    benchmark: Path
    """Items of the benchmark, as `bayescontam duplicates make` reads them."""
    recipe: Text = "paraphrase"
    """Recipe that names the fields of items, and that tests programs."""
    duplicates: str = ""
    """Semantic duplicates, as `bayescontam duplicates make` writes them."""
    controls: str = ""
    """Items of a control benchmark, of which there are no duplicates."""
    controls_recipe: str = ""
    """Recipe that names the fields of controls; default: that of the benchmark."""
    instruction: str = ""
    """What follows each question, such as the form of the answer; of programs, ``$function`` and
    ``$tests`` are those of the item."""
    controls_instruction: str | None = None
    """The same of controls; default: that of the benchmark."""
    answer: str = "$answer"
    """Form in which answers stand in the texts, such as ``"ANSWER: $answer"``."""
    traces: str = ""
    """Solutions to train on in place of answers, as `bayescontam lab traces` writes them."""
    near: str = ""
    """Texts near items that are no duplicates, as `bayescontam lab near` writes them; default: the
    background's own with the highest cosines."""
    embedder: Text = "hashing"
    """What these cosines are of, as in a scan's manifest: hashing, minilm, or a model by name."""

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Self:
        of_items = {"function", "tests"}
        allowed = {"instruction": of_items, "controls_instruction": of_items, "answer": {"answer"}}
        for name, known in allowed.items():
            template = Template(getattr(self, name) or "")
            found = {*template.get_identifiers()} if template.is_valid() else {"$"}
            if found - known or (name == "answer" and not found):
                listed = " and ".join(f"${each}" for each in sorted(known))
                raise ValueError(f"{name}: allowed is {listed}; a dollar sign is '$$'")
        return self


class Mix(Block, use_attribute_docstrings=True):
    """A training set: the texts of the clean one, with duplicates in place of some."""

    name: FileName
    """Name of the mix, and of its files."""
    kind: MixKind
    """What stands in the place of background: nothing; texts of the background that are most like
    items in cosine and about others; items with their answers as they are; or these in other
    words. The first clean mix is the twin of all others; a further one has background of its own,
    and shows what chance does. Near texts of [arithmetic] are the same for all bases."""
    copies: Annotated[int, Field(ge=0)] = 0
    """Texts for each exposed item; 0 for the clean mix only."""
    levels: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Levels of the duplicates, where these come from a file; default: all."""

    @model_validator(mode="after")
    def _keys_go_with_kind(self) -> Self:
        if self.kind == "clean" and self.copies:
            raise ValueError(f"kind = 'clean' has no duplicates; got copies = {self.copies}, not 0")
        if self.kind != "clean" and not self.copies:
            raise ValueError(f"kind = '{self.kind}' needs copies = 1 or more")
        if self.levels and self.kind != "semantic":
            raise ValueError(f"kind = '{self.kind}' has no levels; leave them out")
        return self


class ModelSource(Block, use_attribute_docstrings=True):
    """The model before its training: a new one of some size, or one by name."""

    name: str = ""
    """Name on the Hugging Face hub or folder of a causal language model. Default: a new one."""
    revision: str = ""
    """Branch, tag or commit of a model by name; default: its main branch."""
    layers: Annotated[int, Field(ge=1, le=100)] = 2
    """Layers of a new model."""
    width: Annotated[int, Field(ge=1, le=16_384)] = 96
    """Length of a token's vector; a multiple of twice the number of heads."""
    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Heads of attention in each layer."""
    tokens: Literal["words", "pieces"] = "words"
    """Tokens of a new model: words between blanks, or pieces of words (BPE of bytes)."""
    vocabulary: Annotated[int, Field(ge=300, le=1_000_000)] = 8000
    """Most pieces."""

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        given = self.model_fields_set - {"name", "revision"}
        if self.name and given:
            raise ValueError(f"name = '{self.name}' has its own {min(given)}; leave one out")
        if self.revision and not self.name:
            raise ValueError("revision goes with name; a new model has none")
        if self.width % (2 * self.heads):
            raise ValueError(
                f"width = {self.width} is no multiple of twice heads = {self.heads}; choose one"
            )
        return self


class Lora(Block, use_attribute_docstrings=True):
    """Low-rank adapters in place of all weights (arXiv:2106.09685)."""

    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    """Rank of each adapter."""
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 32.0
    """Scale of adapters, which are multiplied by alpha / rank."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of an adapter's inputs that are left out at random in training."""


class Pretraining(Block, use_attribute_docstrings=True):
    """Training of the bases on background alone; each mix resumes from the weights of its base."""

    texts: Annotated[int, Field(ge=1, le=10_000_000)]
    """Texts of background for each base."""
    epochs: Count = 10
    """Passes over the texts."""
    batch: Count = 128
    """Texts in each step."""
    rate: Rate = 2e-3
    """Highest learning rate."""
    warmup: Count = 100
    """Steps in which the learning rate rises to its highest."""


class Training(Block, use_attribute_docstrings=True):
    """How each model is trained on its mix."""

    epochs: Count = 10
    """Passes over the texts."""
    batch: Count = 64
    """Texts in each step."""
    rate: Rate = 2e-3
    """Highest learning rate."""
    warmup: Count = 100
    """Steps in which the learning rate rises to its highest."""
    bases: Annotated[int, Field(ge=1, le=1000)] = 4
    """Seeds: each mix is trained once for each, with background of its own."""
    kl: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Weight of the Kullback-Leibler divergence from the model before its training, per token."""
    lora: Lora | None = None
    """Low-rank adapters; default: all weights are trained."""
    checkpoints: bool = False
    """Whether the model after each epoch is stored too, so that it can answer."""

    LATER: ClassVar[frozenset[str]] = frozenset({"checkpoints"})


class Answers(Block, use_attribute_docstrings=True):
    """How trained models answer, and how answers are graded."""

    k: Annotated[int, Field(ge=1, le=1000)] = 8
    """Replies to each question; one at temperature 0, where all would be alike."""
    temperature: Annotated[float, Field(ge=0, le=100)] = 0.7
    """Divisor of the logits; 0 always takes the most probable token."""
    longest: Annotated[int, Field(ge=1, le=100_000)] = 8
    """Tokens after which a reply is cut; of grade 'exact', every answer has to fit with its end."""
    grade: Grade = "exact"
    """What is right: the answer itself; its last number; what the pattern finds; or a program that
    passes the item's tests."""
    pattern: str = ""
    """Regular expression whose first group in a reply is held against the answer."""

    @property
    def replies(self) -> int:
        """Replies to each question that are drawn and graded."""
        return self.k if self.temperature > 0 else 1

    @model_validator(mode="after")
    def _pattern_goes_with_grade(self) -> Self:
        if bool(self.pattern) != (self.grade == "regex"):
            needs = "needs a pattern" if self.grade == "regex" else "has no pattern"
            raise ValueError(f"grade = '{self.grade}' {needs}")
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            raise ValueError(f"pattern: no regular expression: {error}") from error
        if self.pattern and not groups:
            raise ValueError("pattern: has no group; put what is the answer in brackets")
        return self


class LabSpec(WholeSpec):
    """Which models are trained, and with which duplicates among their texts.

    Attributes
    ----------
    summary : str
        One line that says what the lab is for.
    description : str
        What it assumes, and where it comes from.
    seed : int, default 0
        Seed of everything random.
    texts : int
        Texts in each training set.
    exposed : float, default 0.5
        Share of the items whose duplicates are among the texts, above 0 and below 1.
    halves : {"random", "first"}, default "random"
        Whether these are drawn by chance, or are the first of the benchmark.
    arithmetic : Block
        Texts and items that are made. Or:
    files : Block
        Texts and items from files.
    mixes : list of blocks
        Training sets: a clean one, the twin, and others, with duplicates.
    pretraining : Block, optional
        Training of the bases. Default: each model is trained from its initial weights.
    model, training, answers : Block
        The model before its training, how it is trained, and how it answers.
    """

    summary: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: str = ""
    seed: Seed = 0
    texts: Annotated[int, Field(ge=1, le=10_000_000)]
    exposed: Annotated[float, Field(gt=0, lt=1)] = 0.5
    halves: Literal["random", "first"] = "random"
    arithmetic: Arithmetic | None = None
    files: Files | None = None
    mixes: Annotated[tuple[Mix, ...], Field(strict=False, min_length=1)]
    pretraining: Pretraining | None = None
    model: ModelSource = ModelSource()
    training: Training = Training()
    answers: Answers = Answers()

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.arithmetic is None) == (self.files is None):
            raise ValueError("texts come from [arithmetic] or from [files]; give one of them")
        if self.files is not None:
            for mix in self.mixes:
                if mix.kind == "semantic" and not self.files.duplicates:
                    raise ValueError(f"mixes: '{mix.name}' is semantic; give files.duplicates")
        elif levels := [mix.name for mix in self.mixes if mix.levels]:
            raise ValueError(f"mixes: '{levels[0]}' has levels, which are for [files]")
        elif self.answers.grade == "tests":
            raise ValueError("answers.grade = 'tests' is for [files] with programs")
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        # Some file systems do not distinguish upper and lower case.
        names = [mix.name.lower() for mix in self.mixes]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"mixes: two have the name '{min(twice)}'; give each its own")
        return self

    @model_validator(mode="after")
    def _one_is_clean(self) -> Self:
        if not any(mix.kind == "clean" for mix in self.mixes):
            raise ValueError("mixes: none has kind = 'clean'; at least one is needed, the twin")
        if "base" in (mix.name.lower() for mix in self.mixes):
            raise ValueError("mixes: 'base' is the name of what precedes them; choose another")
        return self

    @property
    def twin(self) -> str:
        """Name of the mix whose models are the clean twins of all others."""
        return next(mix.name for mix in self.mixes if mix.kind == "clean")

    @model_validator(mode="after")
    def _start_is_given(self) -> Self:
        if self.pretraining is None and not self.model.name:
            for name in ("lora", "kl"):
                if getattr(self.training, name):
                    raise ValueError(
                        f"training.{name} needs a model to start from; give [pretraining] or"
                        " model.name"
                    )
        return self

    @model_validator(mode="after")
    def _made_items_fit(self) -> Self:
        if self.arithmetic is not None:
            self.count_exposed(self.arithmetic.items)
        return self

    def count_exposed(self, items: int) -> int:
        """Return how many of the benchmark's items are exposed; refuse what does not fit."""
        exposed = round(self.exposed * items)
        if not 0 < exposed < items:
            raise ValueError(
                f"exposed = {self.exposed:g} of {items:,} items is {exposed};"
                " at least one item has to be exposed, and one not"
            )
        for mix in self.mixes:
            needed = exposed * mix.copies
            if needed > self.texts:
                raise ValueError(
                    f"mixes: '{mix.name}' has {needed:,} duplicates ({exposed:,} items"
                    f" × {mix.copies:,} copies) in {self.texts:,} texts; allowed are"
                    f" {self.texts // exposed:,} copies at most"
                )
        return exposed


def lab_keys_page() -> str:
    """Return the keys of a lab's file as a page of Markdown."""
    about = (
        "A lab is a TOML file. `bayescontam lab show NAME --toml > mine.toml` copies one that"
        " ships, `bayescontam lab mix mine.toml --out DIR` mixes its texts. Unknown keys are"
        " refused. `bayescontam lab keys` prints this page in the terminal."
    )
    return keys_page(LabSpec, "Keys of a lab's file", about)
