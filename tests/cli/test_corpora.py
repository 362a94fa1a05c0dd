"""Corpus manifests on the terminal."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bayescontam.specs.registry import load_manifest, shipped_manifests
from tests.cli.conftest import Done

Run = Callable[..., Done]

HOSTILE = "two\\nlines\\u001b[31m\\u202e" + "x" * 4000
FULL = f"""summary = "x"
[[benchmarks]]
name = "{HOSTILE}"
path = "{HOSTILE}"
vectors = "{HOSTILE}"
[[sources]]
name = "{HOSTILE}"
paths = ["{HOSTILE}", "b", "c", "d", "e"]
text = ["{HOSTILE}", "b"]
stratum = "{HOSTILE}"
share = 0.07
[[sources]]
name = "v"
paths = ["v.npy"]
format = "vectors"
[chunking]
max_tokens = 100
[embedding]
model = "{HOSTILE}"
query_prompt = "{HOSTILE}"
[lexical]
ngrams = []
jaccard = false
rouge_l = false
"""


def in_words(run: Run, given: object) -> list[str]:
    """Return the lines that show what a manifest means."""
    done = run("corpora", "show", given)
    assert (done.status, done.err) == (0, "")
    return [line.strip() for line in done.out.rpartition("# In words\n")[2].split("\n") if line]


def test_list_has_every_shipped_manifest(run: Run) -> None:
    done = run("corpora", "list")
    assert (done.status, done.err) == (0, "")
    shown = " ".join(done.out.split())  # lines are folded where COLUMNS is set
    for name in shipped_manifests():
        assert f"{name} {load_manifest(name).summary}" in shown


@pytest.mark.parametrize("name", shipped_manifests())
def test_a_copied_manifest_means_the_same(run: Run, tmp_path: Path, name: str) -> None:
    done = run("corpora", "show", name, "--toml")
    assert (done.status, done.err) == (0, "")
    copy = tmp_path / "mine.toml"
    copy.write_text(done.out, encoding="utf-8")
    assert load_manifest(copy).hash == load_manifest(name).hash
    assert load_manifest(copy).name == "mine"


@pytest.mark.parametrize("name", shipped_manifests())
def test_show_prints_the_file_and_its_meaning(run: Run, name: str) -> None:
    out = run("corpora", "show", name).out
    assert out.startswith(f"# {name} ({load_manifest(name).hash[:12]})\n\n")
    assert load_manifest(name).text in out
    assert "# In words\n" in out


def test_the_demo_in_words(run: Run) -> None:
    assert in_words(run, "offline-demo") == [
        "A benchmark of 120 items and a corpus of 1,500 documents are made: 20 % of the items stand"
        " in it word for word, 20 % in other words.",
        "Chunks: 50 to 2,048 tokens, or what the embedder can see if that is less; longer texts are"
        " split, shorter ones only counted.",
        "Embedder: all-MiniLM-L6-v2, which comes with the extra 'scan'.",
        "Stored for each item: its 100 best matches, how often each cosine occurs, and 100 matches"
        " drawn from the 0.1 % with the highest cosines.",
        "Lexical baselines of the matches: shared n-grams of 2, 3, 8, 13 words, Jaccard, ROUGE-L.",
        "Seed: 0. Relative paths start at the folder of the file.",
    ]


def test_a_search_by_source_in_words(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'summary = "x"\n[[benchmarks]]\nname = "quiz"\npath = "quiz.jsonl"\n'
        '[[sources]]\nname = "web"\npaths = ["web"]\n'
        '[[sources]]\nname = "chats"\npaths = ["chats"]\ntext_mode = "input_output"\n'
        'input_output = "user: {input} assistant: {output}"\n'
        '[[sources]]\nname = "ready"\npaths = ["v.npy"]\nformat = "vectors"\n'
        'text_mode = "output"\n[search]\nper = "source"\n'
    )
    lines = in_words(run, str(path))
    assert "Scanned: web, all of 'web'; text from 'text'." in lines
    assert (
        "Scanned: chats, all of 'chats'; text from 'text'; searched for questions with answers,"
        " joined as 'user: {input} assistant: {output}'." in lines
    )
    assert "Scanned: ready, the vectors of 'v.npy'; searched for answers." in lines
    [stored] = [line for line in lines if line.startswith("Stored for each item")]
    assert stored.startswith("Stored for each item in each source: its 100 best matches, how")


def test_olmo3_in_words(run: Run) -> None:
    lines = in_words(run, "olmo3")
    assert "Looked for: MBPP, questions with answers of mbpp.jsonl." in lines
    assert (
        "Looked for: CodeForces, questions of dataset open-r1/codeforces, default, split test;"
        " questions from '{description}\\n\\nInput: {input_format?}\\nOutput: {output_format?}'."
    ) in lines
    dataset = "dataset allenai/dolma3_mix-6T-1025-7B, split train"
    scanned = f"Scanned: dolma3, 1 % of each stratum (field source) of {dataset}; text from 'text'."
    assert scanned in lines
    assert sum(line.startswith("Scanned: dolci-") for line in lines) == 3
    assert "Chunks: 50 to 2,048 tokens; longer texts are split, shorter ones only counted." in lines
    embedder = "nvidia/llama-embed-nemotron-8b; in fp16; runs code that comes with the model"
    assert f"Embedder: {embedder}." in lines


def test_a_manifest_of_ones_own_in_words(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FULL, encoding="utf-8")
    lines = in_words(run, path)
    assert all(line.isprintable() and len(line) < 900 for line in lines)
    looked_for, scanned, vectors, chunks, embedder, _, lexical, _ = lines
    assert looked_for.startswith("Looked for: two\\nlines\\x1b[31m\\u202ex")
    assert ", questions of two" in looked_for
    assert ", embedded in two" in looked_for
    assert ", 7 % of each stratum (field two" in scanned
    assert "xx', 'b', 'c' and 2 more; text from 'two" in scanned
    assert vectors == "Scanned: v, the vectors of 'v.npy'."
    least = "half of the items' 5 % quantile, at most 50,"
    assert chunks.startswith(f"Chunks: {least} to 100 tokens; longer")
    assert "; items begin with 'two\\nlines\\x1b[31m" in embedder
    assert lexical == "Lexical baselines of the matches: none."


def test_data_sets_conditions_and_messages_in_words(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        """summary = "x"
[[benchmarks]]
name = "quiz"
dataset = "owner/quiz"
config = "main"
text_mode = "output"
input = "{a} {b}"
output = "{c}"
where = { level = ["hard", 3], kind = true }
[[sources]]
name = "chats"
paths = ["chats"]
text = "messages"
chat = "{role}: {content}"
roles = ["user"]
where = { meta.lang = "en" }
""",
        encoding="utf-8",
    )
    assert in_words(run, path)[:2] == [
        "Looked for: quiz, answers of dataset owner/quiz, main, split test where level is 'hard' or"
        " 3 and kind is true; answers from '{c}'.",
        "Scanned: chats, all of 'chats' where meta.lang is 'en'; text from 'messages', messages of"
        " 'user' as '{role}: {content}'.",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("olmo", "error: corpus manifest 'olmo': no such corpus manifest (did you mean 'olmo3'?)\n"
         "Name a shipped corpus manifest (bayescontam corpora list) or give a path to a .toml.\n"),
        ("no.toml", "error: no.toml: cannot be read (No such file or directory)\n"
         "Give the path of a TOML file, or a name without .toml for a spec that ships.\n"),
        ("key.toml", "error: key.toml: serch: unknown key (did you mean 'search'?)\n"),
        ("not.toml", "error: not.toml: is not TOML: "),
    ],
)  # fmt: skip
def test_what_cannot_be_shown(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, message: str
) -> None:
    (tmp_path / "key.toml").write_text('summary = "x"\n[generated]\n[serch]\n', encoding="utf-8")
    (tmp_path / "not.toml").write_text("a = = 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = run("corpora", "show", given)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(message)
    assert "Traceback" not in done.err
