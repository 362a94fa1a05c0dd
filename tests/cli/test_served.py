"""Quick scans and ``find`` with an embedder at an endpoint."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bayescontam.scan.results import Scan
from tests.cli.conftest import Done
from tests.support.corpora import manifest, tables_of, text, write_items, write_records
from tests.support.embedding_server import hashed
from tests.support.endpoints import server, short_waits
from tests.support.llm_server import Server, fault

__all__ = ["server", "short_waits"]

pytest.importorskip("openai")

Run = Callable[..., Done]
HERE = ("--jobs", "1", "--device", "cpu")
QUICK = ("--benchmark", "items.jsonl", *HERE)
CORPUS = (
    "--corpus",
    "good.jsonl",
    "--min-tokens",
    "1",
    "--keep-vectors",
    "--vector-precision",
    "fp32",
)
LENGTH = ("--max-tokens", "2048", "--tokenizer", "hashing")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> tuple[str, ...]:
    """Work in a folder with items and a corpus; return options of the embedder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "secret-7")
    server.behave = hashed
    write_items(tmp_path / "items.jsonl", 5)
    rng = random.Random(1)
    write_records(tmp_path / "good.jsonl", [{"id": f"d{i}", "text": text(rng)} for i in range(40)])
    return "--endpoint", server.base_url, "--api-key-env", "MY_KEY"


def test_a_quick_scan_and_its_vectors(run: Run, there: tuple[str, ...], server: Server) -> None:
    served = run("scan", *QUICK, *CORPUS, "--embedder", "hashing", *LENGTH, *there, "--out", "a")
    assert (served.status, "secret-7" in served.out + served.err) == (0, False), served.err
    local = run("scan", *QUICK, *CORPUS, "--embedder", "hashing", "--out", "b")
    assert local.status == 0
    assert tables_of(Path("a")) == tables_of(Path("b"))
    written = Path("a/manifest.toml").read_text("utf-8")
    assert f'endpoint = "{server.base_url}"' in written
    assert 'api_key_env = "MY_KEY"' in written
    again = run("scan", *QUICK, "--vectors", "a/vectors", *there, "--out", "c")
    assert again.status == 0, again.err
    assert Scan.load("c").matches.equals(Scan.load("a").matches)
    found = run("find", "a/vectors", "w1 w2 w3", "-k", "2", *there, "--device", "cpu")
    assert found.status == 0, found.err
    assert len(found.out.splitlines()) >= 2
    assert all(r.headers["authorization"] == "Bearer secret-7" for r in server.requests)
    for command in (("scan", *QUICK, "--vectors", "a/vectors", "--out", "d"),
                    ("find", "a/vectors", "w1", "--device", "cpu")):  # fmt: skip
        refused = run(*command)
        assert refused.status == 2
        assert "give the address where it is served now (--endpoint)" in refused.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--embedder", "m"), "embedding: max_tokens: is needed with an endpoint"),
        (LENGTH, "embedding: model: name the model at the endpoint"),
    ],
)
def test_what_an_endpoint_needs(
    run: Run, there: tuple[str, ...], options: tuple[str, ...], message: str
) -> None:
    done = run("scan", *QUICK, "--corpus", "good.jsonl", *options, *there, "--out", "a")
    assert done.status == 2
    assert message in done.err


def test_failures_say_how_to_resume(run: Run, there: tuple[str, ...], server: Server) -> None:
    command = ("scan", *QUICK, *CORPUS, "--embedder", "hashing", *LENGTH, *there, "--out", "a")
    server.script(fault(404, "The model `hashing` does not exist."))
    done = run(*command)
    assert done.status == 2
    assert f"model 'hashing' at {server.base_url}: " in done.err
    assert "`hashing` does not exist" in done.err
    server.script(fault(500, "down"))
    done = run(*command)
    assert done.status == 2
    assert "in 6 tries, the last ended with status 500" in done.err
    assert "Traceback" not in done.err
    server.behave = hashed
    assert run(*command).status == 0


def test_a_manifest_in_words_names_where_its_model_is_served(run: Run, tmp_path: Path) -> None:
    made = manifest(
        "paths = ['x']", model="big", embedding="endpoint = 'http://h:1/v1'\nmax_tokens = 9"
    )
    (tmp_path / "m.toml").write_text(made.text)
    done = run("corpora", "show", str(tmp_path / "m.toml"))
    assert "Embedder: big, served at http://h:1/v1." in done.out
