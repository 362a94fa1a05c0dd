"""Draws from a model that was compiled for nutpie: all at once, or more of them by need."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from bayescontam._optional import arviz_without_pictures
from bayescontam.inference.batched import Expansion

with arviz_without_pictures():
    import nutpie
    from nutpie.compile_pymc import CompiledPyMCModel

STATISTICS = ("diverging", "energy", "depth", "n_steps")
"""Statistics of nutpie's draws that are read."""
WATCHED = 20
"""Milliseconds between looks at how far chains are."""
Sampled = tuple[dict[str, Any], dict[str, Any]]
"""Draws of variables and statistics of the sampler by name, dims (chain, draw, …)."""


@dataclass(frozen=True)
class CompiledModel:
    """A PyMC model whose density is compiled for nutpie."""

    density: CompiledPyMCModel  # of values alone, without what follows from them
    expansion: Expansion
    data: Mapping[str, Any] = field(default_factory=dict)  # that differ from the model's, by name

    def with_data(self, **data: Any) -> "CompiledModel":
        """Return this with other values of the model's data."""
        return replace(self, density=self.density.with_data(**data), data={**self.data, **data})

    def sample(self, draws: int, tune: int, **options: Any) -> Sampled:
        """Return draws of all variables and the sampler's statistics.

        `options` are those of ``nutpie.sample``. Raises a KeyboardInterrupt where that stopped
        early.
        """
        # Without labels, which would take as long as a short chain.
        trace: Any = nutpie.sample(
            self.density, draws=draws, tune=tune, progress_bar=False, return_raw_trace=True,
            **options,
        )  # fmt: skip
        return self._read(trace.get_arrow_trace(), draws, tune)

    @contextmanager
    def running(
        self, draws: int, tune: int, chains: int, **options: Any
    ) -> Iterator[Callable[..., Sampled]]:
        """Sample in the background, all chains at the same time, until the block ends.

        The block gets a function that waits for some draws of each chain and returns these, which
        are those that `sample` would. Chains stand still until it is called again.
        """
        latest: list[Any] = []
        whole = None  # once chains are at their end

        def watch(running: list[Any]) -> None:
            latest[:] = running

        def first(count: int, show: Callable[[list[Any]], None] = lambda _: None) -> Sampled:
            nonlocal whole
            trace, needed = whole, tune + count
            while trace is None:
                sampler.resume()
                while running := _is_running(sampler):
                    if _shortest(latest, chains) >= needed:
                        break
                    time.sleep(WATCHED / 1000)
                    show(latest)
                if not running:
                    whole = trace = sampler.wait().get_arrow_trace()
                    break
                sampler.pause()
                found = sampler.inspect().get_arrow_trace()
                # A draw may be counted before it is stored.
                trace = found if _rows(found) >= needed else None
            return self._read(trace, count, tune)

        sampler: Any = nutpie.sample(
            self.density, draws=draws, tune=tune, chains=chains, cores=chains, blocking=False,
            progress_bar=False, return_raw_trace=True, progress_callback=watch,
            progress_rate=WATCHED, **options,
        )  # fmt: skip
        try:
            yield first
        finally:
            sampler.cancel()

    def _read(self, trace: Any, draws: int, tune: int) -> Sampled:
        """Return the first draws of each chain after those of its tuning."""
        chains, statistics = trace
        if _rows(trace) < tune + draws:
            raise KeyboardInterrupt
        rows = slice(tune, tune + draws)
        values, found = (
            {name: np.stack([_column(chain, name)[rows] for chain in several]) for name in names}
            for several, names in ((chains, chains[0].column_names), (statistics, STATISTICS))
        )
        # What only the sampler needed has a name that ends in two underscores.
        plain = {name: each for name, each in values.items() if not name.endswith("__")}
        return plain | self.expansion.of(values, self.data), found


def _is_running(sampler: Any) -> bool:
    """Return whether chains are not all at their end; what failed in one is raised."""
    try:
        return not sampler.is_finished
    except TimeoutError:  # by which nutpie 0.16 reports it
        return True


def _shortest(running: list[Any], chains: int) -> int:
    """Return how many draws each chain has at least; none as long as one has not begun."""
    return min(chain.finished_draws for chain in running) if len(running) == chains else 0


def _rows(trace: Any) -> int:
    """Return how many draws are stored of each chain at least, its tuning included."""
    return min(chain.num_rows for several in trace for chain in several)


def _column(batch: Any, name: str) -> np.ndarray:
    """Return a column of a record batch, dims (draw, …)."""
    column = batch.column(name)
    shape = column.field.metadata.get(b"shape", b"").decode()
    values = pa.array(column)
    if hasattr(values, "flatten"):
        values = values.flatten()
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    return numbers.reshape(batch.num_rows, *(int(size) for size in shape.split(",") if size))
