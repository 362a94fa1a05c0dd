"""Corpus manifests: strict, frozen, and refused in words that help."""

import re
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bayescontam.errors import SpecError
from bayescontam.specs.base import Block, content_of
from bayescontam.specs.corpus import (
    Benchmark,
    Chunking,
    Embedding,
    Generated,
    Lexical,
    Manifest,
    Reading,
    Search,
    Source,
)
from bayescontam.specs.registry import load_manifest, shipped_folder, shipped_manifests
from bayescontam.specs.template import Template

HOW: dict[str, type[Block]] = {
    "reading": Reading,
    "chunking": Chunking,
    "embedding": Embedding,
    "search": Search,
    "lexical": Lexical,
}
"""The blocks that say how, in every manifest."""
WHAT: dict[str, type[Block]] = {"benchmarks": Benchmark, "sources": Source, "generated": Generated}
SHIPPED = ("offline-demo", "olmo3")
SHORT = 'summary = "x"\n'
MADE = SHORT + "[generated]\n"
BENCHMARK = '[[benchmarks]]\nname = "quiz"\npath = "quiz.jsonl"\n'
SOURCE = '[[sources]]\nname = "web"\npaths = ["web"]\n'
WHOLE = SHORT + BENCHMARK + SOURCE


def refused(text: str, name: str = "corpus/mine.toml") -> list[str]:
    """Return the faults of a manifest as they are shown."""
    with pytest.raises(SpecError) as caught:
        Manifest.parse(text, name)
    return [str(fault) for fault in caught.value.faults]


def without_marks(text: str, keys: set[str]) -> dict[str, Any]:
    """Return a shipped file as if its commented keys were keys."""
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    header = re.compile(r"\[+\w+\]+")
    kept = [x for x in lines if header.fullmatch(x) or x.partition(" =")[0] in keys]
    return tomllib.loads("\n".join(kept))


def test_the_shipped_manifests_are_those_known() -> None:
    assert shipped_manifests() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_manifests_load_and_say_what_they_are_for(name: str) -> None:
    manifest = load_manifest(name)
    path = shipped_folder("corpus") / f"{name}.toml"
    assert manifest.name == name
    assert manifest.summary.endswith(".")
    assert len(manifest.description) > 100
    assert manifest.text == path.read_text(encoding="utf-8")
    assert len(manifest.hash) == 64
    assert load_manifest(path).hash == manifest.hash


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_manifests_spell_every_key_out(name: str) -> None:
    text = load_manifest(name).text
    assert {"summary", "description", "seed"} <= tomllib.loads(text).keys()
    for block, kind in HOW.items():
        written = without_marks(text, set(kind.model_fields))[block]
        assert written.keys() == set(kind.model_fields), block


def test_the_demo_states_the_defaults_of_the_code() -> None:
    demo = load_manifest("offline-demo")
    words = {"summary", "description"}
    # By default the shortest chunk follows the items.
    shortest = Chunking(min_tokens=50)
    code = Manifest(summary="x", generated=Generated(), chunking=shortest)
    assert Chunking().min_tokens is None
    assert demo.model_dump(exclude=words) == code.model_dump(exclude=words)
    assert tomllib.loads(demo.text)["generated"].keys() == set(Generated.model_fields)


def test_the_demo_shows_every_key_of_benchmarks_and_sources() -> None:
    shown = load_manifest("offline-demo").text.partition("# [[benchmarks]]")[2]
    benchmark, _, source = shown.partition("# [[sources]]")
    for kind, text in ((Benchmark, benchmark), (Source, source)):
        keys = {line.removeprefix("# ").partition(" =")[0] for line in text.splitlines()}
        assert set(kind.model_fields) <= keys
    example = "\n".join(line.removeprefix("# ") for line in shown.splitlines())
    # Keys of a data set go without a path, and vectors without conditions.
    dataset = re.compile(r"^(dataset|config|split|revision|vectors) = .*\n", re.MULTILINE)
    example = SHORT + "[[benchmarks]]\n" + dataset.sub("", example)
    manifest = Manifest.parse(example + '\n[search]\nper = "source"\n', "example")
    example_of = manifest.benchmarks[0]
    assert example_of.where == {"level": "hard", "kind": ("a", "b")}
    assert example_of.input_output == Benchmark(name="x", path="x").input_output
    assert manifest.sources[0].text_mode == "input_output"
    said = {
        "name", "paths", "config", "revision", "document", "stratum", "chat", "roles", "where",
        "text_mode", "input_output",
    }  # fmt: skip
    assert manifest.sources[0].model_dump(exclude=said) == Source(
        name="x", paths=("x",)
    ).model_dump(exclude=said)


def test_olmo3_is_the_published_design() -> None:
    manifest = load_manifest("olmo3")
    shares = {source.name: source.share for source in manifest.sources}
    assert shares == {
        "dolma3": 0.01, "dolmino": 0.01, "dolci-sft": 1.0, "dolci-dpo": 1.0, "dolci-rl": 1.0,
    }  # fmt: skip
    assert [benchmark.name for benchmark in manifest.benchmarks] == [
        "MBPP", "CodeForces", "MuSR", "ZebraLogic",
    ]  # fmt: skip
    codeforces = manifest.benchmarks[1]
    assert (codeforces.dataset, codeforces.split) == ("open-r1/codeforces", "test")
    names = Template.parse(codeforces.input).names
    assert names == ("description", "input_format", "output_format")
    assert manifest.embedding.model == "nvidia/llama-embed-nemotron-8b"
    assert manifest.embedding.precision == "fp16"
    assert (manifest.chunking.min_tokens, manifest.chunking.max_tokens) == (50, 2048)
    assert (manifest.search.top_k, manifest.search.tail_share) == (100, 0.001)


def test_a_short_manifest_has_the_defaults() -> None:
    manifest = Manifest.parse(WHOLE, "a.b.toml")
    assert manifest.name == "a.b"
    assert manifest.text == WHOLE
    assert manifest.benchmarks == (Benchmark(name="quiz", path="quiz.jsonl"),)
    assert manifest.sources == (Source(name="web", paths=("web",)),)
    assert manifest.seed == 0


def test_hash_is_of_the_meaning() -> None:
    changed = WHOLE.replace(" = ", "=").replace(
        'paths=["web"]', '# why\npaths = [\n  "web",\n]\nformat = "auto"  # the default'
    )
    assert changed != WHOLE
    assert Manifest.parse(changed, "b.toml").hash == Manifest.parse(WHOLE, "a.toml").hash
    assert Manifest.parse(WHOLE + "[search]\n", "a").hash == Manifest.parse(WHOLE, "a").hash


@pytest.mark.parametrize(
    "change",
    [
        SHORT + BENCHMARK + SOURCE + "share = 0.5\n",
        SHORT + BENCHMARK + 'text_mode = "output"\n' + SOURCE,
        WHOLE + "[embedding]\nmax_tokens = 128\n",
        WHOLE + "[lexical]\nngrams = [2, 3]\n",
        "seed = 1\n" + WHOLE,
        SHORT + BENCHMARK + SOURCE + SOURCE.replace('"web"', '"more"'),
        MADE,
    ],
)
def test_hash_changes_with_the_meaning(change: str) -> None:
    assert Manifest.parse(change, "a").hash != Manifest.parse(WHOLE, "a").hash


def test_manifests_are_frozen() -> None:
    manifest = load_manifest("offline-demo")
    for block, name in ((manifest, "seed"), (manifest.search, "top_k")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(block, name, getattr(block, name))


KEYS = [(block, key) for block, kind in (HOW | WHAT).items() for key in kind.model_fields]


@pytest.mark.parametrize(("block", "key"), KEYS)
def test_a_misspelt_key_is_refused_and_the_right_one_named(block: str, key: str) -> None:
    misspelt = key[:-1] + key[-1] * 3
    text = {
        "benchmarks": f"{SHORT}{BENCHMARK}{misspelt} = 1\n{SOURCE}",
        "sources": f"{SHORT}{BENCHMARK}{SOURCE}{misspelt} = 1\n",
        "generated": f"{MADE}{misspelt} = 1\n",
    }.get(block, f"{MADE}[{block}]\n{misspelt} = 1\n")
    place = f"{block}.0" if block in ("benchmarks", "sources") else block
    assert refused(text) == [
        f"corpus/mine.toml: {place}.{misspelt}: unknown key (did you mean '{key}'?)"
    ]


@given(st.sampled_from(["", *HOW, "generated"]), st.from_regex(r"[a-z_]{1,20}", fullmatch=True))
def test_an_unknown_key_anywhere_is_refused_and_named(block: str, key: str) -> None:
    kind = {"": Manifest, **HOW, **WHAT}[block]
    if key in kind.model_fields:
        return
    text = f"{key} = 1\n{MADE}" if not block else MADE.replace("[generated]", "")
    if block:
        text += ("" if block == "generated" else "[generated]\n") + f"[{block}]\n{key} = 1\n"
    place = f"{block}.{key}" if block else key
    assert any(fault.startswith(f"a: {place}: unknown key (") for fault in refused(text, "a"))


MESSAGE = "a template of one message is needed, with {content} and, if need be, {role}"
VALUE = "a text, a number, true or false, or a list of these is needed"
STORED = "stored = ['scan/vectors']\n"
NEEDED = (
    "at least one [[benchmarks]], and one [[sources]], folder in 'stored' or 'index' are needed"
)
ALONE = "'generated' stands alone: leave out benchmarks, sources, stored and index"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (SHORT, NEEDED),
        (SHORT + BENCHMARK, NEEDED),
        (SHORT + SOURCE, NEEDED),
        (SHORT + STORED, NEEDED),
        (SHORT + STORED + BENCHMARK, None),
        (WHOLE + "[generated]\n", ALONE),
        (STORED + MADE, ALONE),
        (WHOLE + SOURCE, "sources: the name 'web' stands twice; names must differ"),
        (SHORT + BENCHMARK * 2 + SOURCE,
         "benchmarks: the name 'quiz' stands twice; names must differ"),
        (MADE.replace('"x"', '""'), "summary: got ''; it must not be empty"),
        ("seed = -1\n" + MADE, "seed: got -1; allowed is 0 or more"),
        ("seed = 9223372036854775807\n" + MADE, None),
        ("seed = 1.0\n" + MADE, "seed: got 1.0; a whole number is needed"),
        (MADE + "items = 0\n", "generated.items: got 0; allowed is 1 or more"),
        (MADE + "exact = 1.5\n", "generated.exact: got 1.5; allowed is 1 or less"),
        (MADE + "exact = 0.7\nparaphrased = 0.7\n",
         "generated: exact + paraphrased is above 1: an item has one kind of duplicate"),
        (MADE + "documents = 47\n",
         "generated: 48 items have duplicates, which do not fit into documents = 47: request"
         " more documents, or fewer items"),
        (MADE + "documents = 48\n", None),
        (MADE + "[reading]\nmax_record_megabytes = 0\n",
         "reading.max_record_megabytes: got 0; allowed is 1 or more"),
        (MADE + "[chunking]\nmin_tokens = 9\nmax_tokens = 8\n",
         "chunking: min_tokens is above max_tokens: nothing would be scanned"),
        (MADE + "[chunking]\nmin_tokens = 8\nmax_tokens = 8\n", None),
        (MADE + "[embedding]\nprecision = 16\n",
         "embedding.precision: got 16; did you mean 'fp16'?"),
        (MADE + '[embedding]\nprecision = "fp64"\n',
         "embedding.precision: got 'fp64'; did you mean 'fp16'?"),
        (MADE + "[embedding]\ntrust_remote_code = 1\n",
         "embedding.trust_remote_code: got 1; allowed is true or false"),
        (MADE + "[embedding]\nmodel = 3\n", "embedding.model: got 3; a text in quotes is needed"),
        (MADE + "[search]\ntop_k = 0\n", "search.top_k: got 0; allowed is 1 or more"),
        (MADE + "[search]\ntop_k = 10001\n", "search.top_k: got 10001; allowed is 10,000 or less"),
        (MADE + "[search]\ntop_k = true\n", "search.top_k: got True; a whole number is needed"),
        (MADE + "[search]\ntail_share = 0.0\n",
         "search.tail_share: got 0.0; allowed is more than 0"),
        (MADE + "[search]\ntail_share = nan\n",
         "search.tail_share: got nan; a finite number is needed"),
        (MADE + "[search]\nshard_chunks = 8\n",
         "search.shard_chunks: got 8; allowed is 16 or more"),
        (MADE + "[lexical]\nngrams = 3\n",
         "lexical.ngrams: got 3; a list is needed, such as [2, 3]"),
        (MADE + "[lexical]\nngrams = [2, 0]\n", "lexical.ngrams.1: got 0; allowed is 1 or more"),
        (MADE + "[lexical]\nngrams = [2, 2]\n", "lexical: ngrams: a length stands twice"),
        (MADE + "[lexical]\nngrams = []\n", None),
        ("search = 3\n" + MADE, "search: got 3; a table is needed"),
        ("sources = 3\n" + SHORT + BENCHMARK,
         "sources: got 3; a list of tables is needed: begin each with [[sources]]"),
        (SHORT + BENCHMARK + "[sources]\n",
         "sources: got {}; a list of tables is needed: begin each with [[sources]]"),
        ("sources = [3]\n" + SHORT + BENCHMARK, "sources.0: got 3; a table is needed"),
        (SHORT + SOURCE + '[[benchmarks]]\nname = "a"\n',
         "benchmarks.0: give either 'path' or 'dataset'"),
        (SHORT + SOURCE + BENCHMARK + 'text_mode = "inputs"\n',
         "benchmarks.0.text_mode: got 'inputs'; did you mean 'input'?"),
    ],
)  # fmt: skip
def test_a_fault_names_key_value_and_what_is_allowed(text: str, fault: str | None) -> None:
    if fault is None:
        assert Manifest.parse(text, "a").summary == "x"
    else:
        assert refused(text) == [f"corpus/mine.toml: {fault}"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('dataset = "a"', ": give either 'paths' or 'dataset'"),
        ('paths = "x"', '.paths: got \'x\'; a list is needed, such as ["…"]'),
        ("paths = []", ".paths: got []; it must not be empty"),
        ("paths = [3]", ".paths.0: got 3; a text in quotes is needed"),
        ('paths = [""]', ".paths.0: got ''; it must not be empty"),
        ("text = 3", ".text: got 3; a text in quotes or a list is needed"),
        ("text = { a = 1 }", ".text: got {'a': 1}; a text in quotes or a list is needed"),
        ('text = ""', ".text: got ''; it must not be empty"),
        ("text = []", ".text: got []; it must not be empty"),
        ("text = [1]", ".text.0: got 1; a text in quotes is needed"),
        ('text = ["a", ""]', ".text.1: got ''; it must not be empty"),
        ("share = 0.0", ".share: got 0.0; allowed is more than 0"),
        ("share = 1.01", ".share: got 1.01; allowed is 1 or less"),
        ('share = "1 %"', ".share: got '1 %'; a number is needed"),
        ('format = "json"', ".format: got 'json'; did you mean 'jsonl'?"),
        ('format = "vectors"\nshare = 0.5',
         ": format = 'vectors' needs 'paths', and share = 1: give fewer vectors"),
        ('text = "{a"', ".text: got '{a'; '{' stands alone at character 1: a field is written"
         " {field}, and braces themselves {{ and }}"),
        ('text = ["a", "{}"]', ".text.1: got '{}'; '{}' names no field: write {field}, or {field?}"
         " for one that may be missing"),
        ('chat = "{role}"', f".chat: got '{{role}}'; {MESSAGE}"),
        ('chat = "content"', f".chat: got 'content'; {MESSAGE}"),
        ('chat = "{content} {x}"', f".chat: got '{{content}} {{x}}'; {MESSAGE}"),
        ('roles = "user"', ".roles: got 'user'; a list or a table is needed"),
        ("roles = []", ".roles: got []; it must not be empty"),
        ("roles = { user = 3 }", ".roles.user: got 3; a text in quotes is needed"),
        ("where = 3", ".where: got 3; a table is needed"),
        ("where = { a = [] }", f".where: 'a': got []; {VALUE}"),
        ("where = { a = { b = [[1]] } }", f".where: 'a.b': got [[1]]; {VALUE}"),
        ("where = { a = {} }", f".where: 'a': got {{}}; {VALUE}"),
        ("where = { a = nan }", f".where: 'a': got nan; {VALUE}"),
        ("where = { a = 2026-01-01 }", f".where: 'a': got datetime.date(2026, 1, 1); {VALUE}"),
        ('format = "vectors"\nwhere = { a = 1 }',
         ": 'where' is of texts: leave it out with format = 'vectors'"),
        ('format = "vectors"\nroles = ["user"]',
         ": 'roles' is of texts: leave it out with format = 'vectors'"),
    ],
)  # fmt: skip
def test_faults_of_a_source(line: str, fault: str) -> None:
    key = line.split()[0]
    kept = "" if key == "paths" else 'paths = ["web"]\n'
    text = f'{SHORT}{BENCHMARK}[[sources]]\nname = "web"\n{kept}{line}\n'
    assert refused(text) == [f"corpus/mine.toml: sources.0{fault}"]
    # Of several entries the one in question is named.
    others = SOURCE.replace('"web"', '"books"') + SOURCE.replace('"web"', '"code"')
    several = text.replace("[[sources]]", others + "[[sources]]")
    assert refused(several) == [f"corpus/mine.toml: sources.2{fault} (in the entry named 'web')"]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("", ": give either 'path' or 'dataset'"),
        ('path = "a.jsonl"\ndataset = "a"', ": give either 'path' or 'dataset'"),
        ('path = "a.jsonl"\nsplit = "test"', ": 'split' is of a 'dataset', and a 'path' is given"),
        ('path = "a.jsonl"\nrevision = "v1"',
         ": 'revision' is of a 'dataset', and a 'path' is given"),
        ('dataset = ""', ".dataset: got ''; it must not be empty"),
        ('path = "a.jsonl"\ninput = "{a} }"',
         ".input: got '{a} }'; '}' stands alone at character 5: a field is written {field},"
         " and braces themselves {{ and }}"),
        ('path = "a.jsonl"\ninput_output = "{input} {output}"',
         ": 'input_output' is only used with text_mode = 'input_output'"),
        ('path = "a.jsonl"\ntext_mode = "input_output"\ninput_output = "Q: {input}"',
         ".input_output: got 'Q: {input}'; a template with {input} and {output} is needed"),
        ('path = "a.jsonl"\nwhere = { a = 1 }\nvectors = "a.npy"',
         ": leave out 'where', or 'vectors', which are of all rows"),
        ('path = "a.jsonl"\nwhere = ["a"]', ".where: got ['a']; a table is needed"),
    ],
)  # fmt: skip
def test_faults_of_a_benchmark(lines: str, fault: str) -> None:
    text = f'{SHORT}[[benchmarks]]\nname = "quiz"\n{lines}\n{SOURCE}'
    assert refused(text) == [f"corpus/mine.toml: benchmarks.0{fault}"]


def test_conditions_on_nested_fields_have_dots() -> None:
    spellings = ("{ meta.site = 'a', meta.n = [1, 2] }", "{ 'meta.site' = 'a', 'meta.n' = [1, 2] }")
    manifests = [Manifest.parse(f"{WHOLE}where = {each}\n", "a") for each in spellings]
    assert manifests[0].sources[0].where == {"meta.site": "a", "meta.n": (1, 2)}
    assert manifests[0].hash == manifests[1].hash


def test_values_keep_their_kinds() -> None:
    where = Manifest.parse(WHOLE + "where = { a = [true, 1, 1.5, '1'] }\n", "a").sources[0].where
    assert [type(value) for value in where["a"]] == [bool, int, float, str]  # type: ignore[union-attr]


def test_keys_that_came_later_do_not_count_by_default() -> None:
    old = {"name", "path", "item", "input", "output", "text_mode", "vectors"}
    assert content_of(Benchmark(name="quiz", path="a")).keys() == old
    assert not content_of(Source(name="web", paths=("a",))).keys() & {"chat", "roles", "where"}
    spelled = WHOLE.replace(SOURCE, 'text_mode = "input_output"\n' + SOURCE)
    joined = spelled.replace(SOURCE, 'input_output = "{input}\\n{output}"\n' + SOURCE)
    assert Manifest.parse(joined, "a").hash == Manifest.parse(spelled, "a").hash
    for key in ('chat = "{content}"', 'roles = ["user"]', "where = { a = 1 }"):
        assert Manifest.parse(f"{WHOLE}{key}\n", "a").hash != Manifest.parse(WHOLE, "a").hash


def test_vectors_need_paths() -> None:
    text = SHORT + BENCHMARK + '[[sources]]\nname = "v"\nformat = "vectors"\n'
    assert Manifest.parse(text + 'paths = ["a.npy"]\n', "a").sources[0].format == "vectors"
    assert "needs 'paths'" in refused(text + 'dataset = "a"\n')[0]


def test_an_entry_without_a_name_is_reported_by_its_number() -> None:
    text = SHORT + BENCHMARK + SOURCE + '[[sources]]\npaths = "a"\n'
    assert refused(text, "a") == [
        "a: sources.1.name: is missing and has no default",
        "a: sources.1.paths: got 'a'; a list is needed, such as [\"…\"]",
    ]


def test_all_faults_are_reported_at_once() -> None:
    text = "sed = 1\n" + SHORT + BENCHMARK + 'path2 = ""\n' + SOURCE + "share = 2.0\n"
    assert [fault.split(": ")[1] for fault in refused(text)] == [
        "benchmarks.0.path2",
        "sources.0.share",
        "sed",
    ]


def test_hostile_values_are_shown_on_one_line() -> None:
    name = '"two\\nlines\\u001b[31m' + "x" * 4000 + '"'
    text = SHORT + BENCHMARK + SOURCE.replace('"web"', name) * 2
    (fault,) = refused(text)
    assert fault.isprintable()
    assert len(fault) < 300
    (fault,) = refused(text.replace("[[sources]]", "[[sources]]\nshare = 2.0", 1))
    assert fault.isprintable()
    assert len(fault) < 300


AT = '[embedding]\nmodel = "m"\nendpoint = "http://x:1/v1"\nmax_tokens = 9\n'


def test_where_a_model_is_served_does_not_count_but_that_it_is() -> None:
    hashes = {
        Manifest.parse(MADE + AT + more, "a").hash
        for more in (
            "", "concurrency = 3", 'api_key_env = "K"', "timeout = 1.5", "retries = 0",
            "request_texts = 3", "request_tokens = 3", "max_tokens_total = 3",
            'tokenizer = "minilm"',
        )
    } | {Manifest.parse(MADE + AT.replace("x:1", "y:2"), "a").hash}  # fmt: skip
    assert len(hashes) == 1
    others = {
        Manifest.parse(MADE + text, "a").hash
        for text in (
            AT.replace('endpoint = "http://x:1/v1"\n', ""), AT + 'tokenizer = "t"',
            AT + "dims = 3", AT.replace('"m"', '"n"'), AT + 'query_prompt = "q"',
        )
    }  # fmt: skip
    assert len(hashes | others) == 6


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (AT.replace("http:", "ftp:"), "endpoint: an address that begins with http:// or https://"),
        (AT.replace("x:1/v1", ""), "endpoint: an address that begins with http:// or https://"),
        (AT.replace("x:1", "x:y"), "endpoint: an address that begins with http:// or https://"),
        (AT.replace("x:1", "[x"), "endpoint: an address that begins with http:// or https://"),
        (AT.replace("x:1", "me:secret@x"), "endpoint: it has a name, a password or a query in it"),
        (AT.replace("v1", "v1?key=secret"), "endpoint: it has a name, a password or a query in"),
        (AT.replace("max_tokens = 9", ""), "max_tokens: is needed with an endpoint"),
        (AT.replace('model = "m"', ""), "model: name the model at the endpoint"),
        (AT + 'precision = "fp16"\nbatch_tokens = 3', "precision, batch_tokens: are of a model"),
        (AT + 'revision = "r"', "revision: are of a model that is loaded here, and there is an e"),
        ("[embedding]\ntimeout = 3.0\nretries = 1", "timeout, retries: are of an endpoint, and n"),
        ('[embedding]\ntokenizer = "minilm"', "tokenizer: are of an endpoint, and none is given"),
    ],
)
def test_settings_of_an_endpoint_that_cannot_be(text: str, fault: str) -> None:
    [found] = refused(MADE + text)
    assert found.startswith(f"corpus/mine.toml: embedding: {fault}")
    assert "secret" not in found


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("timeout = 0.0", "embedding.timeout: got 0.0; allowed is 0.001 or more"),
        ("timeout = nan", "embedding.timeout: got nan; "),
        ("retries = -1", "embedding.retries: got -1; allowed is 0 or more"),
        ("concurrency = 0", "embedding.concurrency: got 0; allowed is 1 or more"),
        ("max_tokens_total = 0", "embedding.max_tokens_total: got 0; allowed is 1 or more"),
        ("endpoint = 3", "embedding.endpoint: got 3; a text in quotes is needed"),
    ],
)
def test_numbers_of_an_endpoint_that_cannot_be(line: str, fault: str) -> None:
    [found] = refused(MADE + (AT if "endpoint" not in line else "[embedding]\n") + line)
    assert found.startswith(f"corpus/mine.toml: {fault}")
