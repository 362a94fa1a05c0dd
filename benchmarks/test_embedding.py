"""Time to embed real texts with all-MiniLM-L6-v2, against ``SentenceTransformer.encode``.

Run by ``make bench-all``. Texts are chunks of 50 to 254 tokens of the shared corpus, which repeats
none of them; a second set repeats one text in ten, which is an assumption about corpora and no
measurement. Both contestants compute in fp32 and return vectors of unit length; encode has its
defaults. They take turns in one process, loading and a first call are not timed, and the best
of the rounds counts. The last row shares the texts out to as many processes of one thread as
the other has threads, as a scan does.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import perf_counter

import numpy as np
import pytest

from tests.support.real_data import shared

TEXTS = 200
ROUNDS = 2
CORES = min(2, os.cpu_count() or 1)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
from benchmarks.test_embedding import contest
print("RESULT" + json.dumps(contest(json.load(sys.stdin), int(sys.argv[1]))))
"""


def chunks() -> list[str]:
    """Return texts of mixed lengths, none twice."""
    import pandas as pd

    from bayescontam.scan.chunking import Chunker
    from bayescontam.scan.documents import Document
    from bayescontam.scan.embedders import load_embedder
    from bayescontam.specs.corpus import Chunking, Embedding

    embedder = load_embedder(Embedding(), "cpu")
    frame = pd.read_json(shared("texts/corpus.jsonl"), lines=True)
    documents = [Document(row.id, "", row.text) for row in frame.itertuples()]
    split = Chunker(embedder.count, Chunking(), embedder.max_tokens).split(documents)
    texts = sorted({chunk.text for chunks in split.chunks for chunk in chunks})
    return [texts[i] for i in np.random.default_rng(1).permutation(len(texts))[:TEXTS]]


def contest(texts: list[str], threads: int) -> dict[str, float]:
    """Return the best times of both, in turns, and the largest difference of cosines."""
    import torch

    from bayescontam.scan.embedders import load_embedder
    from bayescontam.specs.corpus import Embedding

    torch.set_num_threads(threads)
    ours = load_embedder(Embedding(), "cpu")
    small = load_embedder(Embedding(batch_tokens=1024), "cpu")
    theirs = ours._model
    contestants = {
        "encode": lambda some: theirs.encode(some, normalize_embeddings=True),
        "default": lambda some: ours.embed(some, "passage"),
        "1,024 tokens": lambda some: small.embed(some, "passage"),
    }
    times, vectors = dict.fromkeys(contestants, np.inf), {}
    for number in range(ROUNDS + 1):
        for name, embed in contestants.items():
            start = perf_counter()
            vectors[name] = embed(texts if number else texts[:16])
            if number:
                times[name] = min(times[name], perf_counter() - start)
    expected = vectors.pop("encode")
    expected = expected @ expected.T
    difference = max(float(np.abs(v @ v.T - expected).max()) for v in vectors.values())
    if threads > 1:
        times["processes"] = in_processes(texts, threads)
    return {**times, "difference": difference}


def in_processes(texts: list[str], processes: int) -> float:
    """Return the best time of processes of one thread that share the texts."""
    os.environ.update(ONE_THREAD)
    parts = [texts[i::processes] for i in range(processes)]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        # The longest part ends the round; a process that is ready waits for none.
        rounds = [list(pool.map(one_part, parts)) for _ in range(ROUNDS)]
    return min(max(times) for times in rounds)


def one_part(texts: list[str]) -> float:
    from bayescontam.scan.embedders import load_embedder
    from bayescontam.specs.corpus import Embedding

    embedder = load_embedder(Embedding(batch_tokens=1024), "cpu")
    embedder.embed(texts[:16], "passage")
    start = perf_counter()
    embedder.embed(texts, "passage")
    return perf_counter() - start


def run(texts: list[str], threads: int) -> dict[str, float]:
    """Hold the contest in a process of its own."""
    limits = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(threads)], input=json.dumps(texts),
        capture_output=True, text=True, check=False, env=os.environ | limits, timeout=3000,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, done.stderr[-2000:]
    return json.loads(lines[0].removeprefix("RESULT"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_time_to_embed_texts_of_mixed_length():
    distinct = chunks()
    repeated = distinct + distinct[: len(distinct) // 9]
    lines = [
        "",
        "| texts | threads | contestant | s | texts/s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name, texts in {"none twice": distinct, "one in ten repeats": repeated}.items():
        for threads in sorted({1, CORES}):
            result = run(texts, threads)
            assert result.pop("difference") < 1e-5
            # Guards against collapse, far from the goal, which is 1.3. Where others compute at
            # the same time, two threads wait for each other and their times say nothing.
            assert threads > 1 or result["1,024 tokens"] < 1.5 * result["encode"]
            for who, seconds in result.items():
                rate, ratio = len(texts) / seconds, result["encode"] / seconds
                lines.append(
                    f"| {name} | {threads} | {who} | {seconds:.1f} | {rate:.1f} | {ratio:.2f} |"
                )
    print("\n".join(lines))
