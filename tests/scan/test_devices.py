"""Vectors on their way to a device, products there, and a GPU for each worker."""

import threading
from pathlib import Path

import numpy as np
import pytest

from bayescontam.scan import execution
from bayescontam.scan.execution import own_device
from bayescontam.scan.scores import Products
from bayescontam.scan.uploads import Uploads

torch = pytest.importorskip("torch")
EPS = 2.0**-24


def parts_of(dtype: str) -> list[np.ndarray]:
    """Return parts of many sizes, larger and smaller in turn, none of them alike."""
    rng = np.random.default_rng(5)
    sizes = [3, 4000, 1, 0, 2500, 4001, 7]
    return [rng.standard_normal((n, 33)).astype(dtype) for n in sizes]


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8"])
def test_parts_arrive_in_order(dtype):
    parts = parts_of(dtype)
    found = [each.numpy() for each in Uploads(torch, "cpu")(parts)]
    assert len(found) == len(parts)
    for part, there in zip(parts, found, strict=True):
        np.testing.assert_array_equal(part, there)


@pytest.mark.gpu
@pytest.mark.parametrize("pinned", [False, True])
def test_parts_arrive_whole_on_a_gpu(pinned):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    parts = parts_of("<f2") * 5
    if pinned:
        parts = [torch.from_numpy(part).pin_memory().numpy() for part in parts]
    uploads, busy = Uploads(torch, "cuda"), torch.ones(2000, 2000, device="cuda")
    found = []
    for there in uploads(parts):
        for _ in range(5):
            busy = busy @ busy * 1e-4  # so that the GPU is behind when rooms are used again
        found.append(there * 1)
    for part, there in zip(parts, found, strict=True):
        np.testing.assert_array_equal(part, there.cpu().numpy())
    # What breaks off in between leaves nothing behind that the next one meets.
    rows = uploads(parts)
    next(rows)
    rows.close()
    (again,) = uploads(parts[1:2])
    np.testing.assert_array_equal(parts[1], again.cpu().numpy())


def units(n: int, dims: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, dims), dtype=np.float32)
    x[0, : dims // 2] *= 1e-5  # some numbers are far smaller than others
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_halves_add_up_to_the_queries(half):
    queries = torch.from_numpy(units(20, 64, 1))
    parts = Products(torch, queries)._split(half)
    assert all(part.dtype == half for part in parts)
    whole = sum(part.double() for part in parts) / 1024
    assert (whole - queries.double()).abs().max() < 4 * EPS


@pytest.mark.gpu
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_a_gpu_multiplies_halves_with_whole_queries(half):
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    queries = torch.from_numpy(units(50, 4096, 1))
    vectors = torch.from_numpy(units(3000, 4096, 2)).to(half)
    expected = queries.double() @ vectors.double().T
    found = Products(torch, queries.cuda())(vectors.cuda())
    assert found.dtype == torch.float32
    assert (found.cpu().double() - expected).abs().max() < 1e-6


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(execution, "gpus_here", lambda: 2)
    monkeypatch.setattr(execution, "_LOCKS", [])


def test_workers_have_gpus_of_their_own(two_gpus, tmp_path: Path):
    # Two locks of one process exclude each other as those of two do.
    assert [own_device("cuda", tmp_path) for _ in range(2)] == ["cuda:0", "cuda:1"]
    assert own_device("cpu", tmp_path) == "cpu"
    assert own_device("cuda:1", tmp_path) == "cuda:1"


def test_a_worker_waits_for_the_gpu_of_one_that_ends(two_gpus, tmp_path: Path):
    for _ in range(2):
        own_device("cuda", tmp_path)
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(own_device("cuda", tmp_path)))
    waiting.start()
    waiting.join(0.3)
    assert not found
    execution._LOCKS[1].release()
    waiting.join(20)
    assert found == ["cuda:1"]


def test_the_only_gpu_is_used_without_a_lock(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(execution, "gpus_here", lambda: 1)
    assert [own_device("cuda", tmp_path) for _ in range(2)] == ["cuda", "cuda"]
    assert not list(tmp_path.iterdir())
