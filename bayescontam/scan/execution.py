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
    """Where the tasks of a scan run.

    Attributes
    ----------
    engine : {"local", "ray"}, default "local"
        Worker processes of this machine, or actors of a Ray cluster.
    jobs : int, optional
        Workers. Default: one for each core or, on a GPU, one (with Ray, one for each GPU).
    address : str, optional
        Ray cluster; default: one is started on this machine.
    device : {"auto", "cpu", "cuda"}, default "auto"
        Where embedding and search run; ``"auto"`` is a GPU where this machine has one.
    skip_unreadable : bool, default false
        Whether files that cannot be read are counted; otherwise they stop the scan.
    progress : bool, default false
        Whether to show progress bars.
    """

    engine: Literal["local", "ray"] = "local"
    jobs: int | None = None
    address: str | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    skip_unreadable: bool = False
    progress: bool = False

    def connected(self) -> contextlib.AbstractContextManager[None]:
        """Keep one connection to Ray inside the block, if Ray it is."""
        return connected(self.engine, self.address, self.jobs)

    def torch_device(self) -> str:
        """Return the device that Torch is to use.

        Raises
        ------
        UsageError
            If a GPU is requested and this machine has none. Those of a Ray cluster may.
        """
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
        """Do tasks and give their names and results as they come.

        Parameters
        ----------
        title, unit : str
            What is done, and what `sizes` count, for the progress bar.
        stage : callable
            See `bayescontam.execute.run_tasks`.
        tasks : mapping of str to object
        sizes : mapping of str to float
            Of the tasks, and perhaps of others.
        on_gpu : bool, default false
            Whether each worker needs a GPU.
        """
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
