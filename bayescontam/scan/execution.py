"""Execution: where the tasks of a scan run."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bayescontam.errors import UsageError
from bayescontam.execute import connected, run_tasks
from bayescontam.optional import require
from bayescontam.progress import progress_bar


@dataclass(frozen=True)
class Execution:
    """Where the tasks of a scan run."""

    # worker processes of this machine, or actors of a Ray cluster
    engine: Literal["local", "ray"] = "local"
    # workers. Default: one for each core or, on a GPU, one (with Ray, one for each GPU).
    jobs: int | None = None
    address: str | None = None  # ray cluster; default: one is started on this machine
    # where embedding and search run; `"auto"` is a GPU where this machine has one
    device: Literal["auto", "cpu", "cuda"] = "auto"
    # whether files that cannot be read are counted; otherwise they stop the scan
    skip_unreadable: bool = False
    progress: bool = False  # whether to show progress bars

    def connected(self) -> contextlib.AbstractContextManager[None]:
        """Keep one connection to Ray inside the block, if Ray it is."""
        return connected(self.engine, self.address, self.jobs)

    def torch_device(self) -> str:
        """Return the device that Torch is to use."""
        if self.device == "cpu":
            return "cpu"
        if self.device == "cuda" and self.engine == "ray":
            return "cuda"
        if require("torch", "scan").cuda.is_available():
            return "cuda"
        if self.device == "cuda":
            raise UsageError("device is 'cuda', but Torch finds no GPU here; choose 'cpu'")
        return "cpu"

    def _jobs(self, on_gpu: bool) -> int | None:
        """Return the number of workers: on GPUs one here, and as many as there are with Ray."""
        if not on_gpu:
            return self.jobs
        return 1 if self.engine == "local" else None

    def run(
        self,
        title: str,
        stage: Callable[[], Callable[[Any], Any]],
        tasks: Mapping[str, Any],
        sizes: Mapping[str, float],
        unit: str,
        *,
        on_gpu: bool = False,
    ) -> Iterator[tuple[str, Any]]:
        """Do tasks and give their names and results as they come."""
        done = run_tasks(
            stage,
            tasks,
            engine=self.engine,
            jobs=self._jobs(on_gpu),
            address=self.address,
            gpus=int(on_gpu and self.engine == "ray"),
        )
        total = sum(sizes[key] for key in tasks)
        with (
            progress_bar(self.progress, title, total, unit) as advance,
            contextlib.closing(done) as results,
        ):
            for key, result in results:
                yield key, result
                advance(sizes[key])
