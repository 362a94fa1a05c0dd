"""Tables, tasks and scans that published analyses make."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta

from bayescontam._files import atomic_path, write_text
from bayescontam._text import join_list
from bayescontam._types import FloatArray
from bayescontam.calibration.bootstrap import PENALTY, bootstrap_rows, regressions
from bayescontam.calibration.simulators import PUBLISHED, Corpus, compositions, contamination_of
from bayescontam.data.importers.arc import ArcTasks, membership, read_arc, read_concepts
from bayescontam.data.responses import Responses, read_responses
from bayescontam.errors import UsageError
from bayescontam.evidence.pairs import scan_pairs
from bayescontam.inference.result import Fit
from bayescontam.published.quantities import counted_exposures, documents_with, given_exposures
from bayescontam.published.study import Study
from bayescontam.scan.results import Scan
from bayescontam.scan.run import run_scan
from bayescontam.scan.synthetic import TRUTH
from bayescontam.specs.corpus import Manifest
from bayescontam.specs.registry import quick_manifest

QUANTITIES = ("accuracy", "genuine_ability", "overfitting", "overfitting_fraction", "slope")
PRINTED, METHOD = "published, its own tasks", "published method, our tasks"
"""Names of what is printed, and of the published method anew."""
CHUNK = 25
"""Tables that are stored together."""
GENERATED, TEXTS = "generated", "tasks and instructions"
Grid = NDArray[np.integer[Any]]
Random = np.random.Generator
COLOURS, LEAST, MOST = 10, 3, 6
"""Colours, and sides of the grids that tasks begin with."""
FEWEST_CONCEPTS, MOST_CONCEPTS = 2, 5
TRAIN, TEST = 3, 1
"""Pairs of a task."""
CONCEPTS_FILE = "concepts.csv"
GENERATED_TASKS, REAL = "generated tasks", "ConceptARC"
DRAWS = 4000
"""Draws of exposures that means and standard deviations come from."""


@dataclass(frozen=True)
class Generator:
    """The published generator: accuracy = genuine + boost × contamination."""

    # genuine, boost: accuracy at contamination 0, and how much more it is at contamination 1
    genuine: float
    boost: float
    tasks: int

    def contamination(self, corpus: Corpus, rng: np.random.Generator) -> FloatArray:
        """Draw contaminations of tasks from the exposures of their concepts, dims (task,)."""
        exposure = corpus.exposures(rng)
        return contamination_of(compositions(self.tasks, rng) @ exposure)

    def answered(
        self,
        contamination: FloatArray,
        rng: np.random.Generator,
        benchmark: str,
        model: str = "model",
    ) -> pd.DataFrame:
        """Return the table of responses to tasks of these contaminations."""
        accuracy = self.genuine + self.boost * contamination
        return pd.DataFrame(
            {
                "model": model,
                "benchmark": benchmark,
                "item": [f"{benchmark} {k + 1}" for k in range(len(contamination))],
                "correct": rng.binomial(1, accuracy),
                "contamination": contamination,
            }
        )

    def truth(self, contamination: FloatArray) -> dict[str, float]:
        """Return the true estimands, with the smallest contamination as the reference."""
        low = float(contamination.min())
        genuine = self.genuine + self.boost * low
        over = self.boost * (float(contamination.mean()) - low)
        return {
            "accuracy": genuine + over,
            "genuine_ability": genuine,
            "overfitting": over,
            "overfitting_fraction": over / (genuine + over),
        }


def published_method(frame: pd.DataFrame, rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Return what the published method reports of a table of single responses."""
    rows = bootstrap_rows(frame, rng, resamples=resamples)
    intervals = rows.set_index(["where", "quantity"])[["low_95", "high_95"]]
    parts = []
    for _, own in frame.groupby(["model", "benchmark"], sort=False):
        where = f"{own['model'].iloc[0]} | {own['benchmark'].iloc[0]}"
        found = intervals.loc[where].reset_index()
        parts.append(found.assign(where=where, mean=found["quantity"].map(_estimates(own))))
    table = pd.concat(parts, ignore_index=True)
    table = table.rename(columns={"low_95": "low", "high_95": "high"})
    return table[["where", "quantity", "mean", "low", "high"]]


def _estimates(own: pd.DataFrame) -> dict[str, float]:
    """Return the estimates from a table, which is one resample that holds each item once."""
    names = ("n_correct", "n_trials", "contamination")
    correct, trials, at = (own[name].to_numpy(dtype=float) for name in names)
    intercept, slope = regressions(correct, trials, at, np.ones((1, len(at))), PENALTY)
    accuracy = float(correct.sum() / trials.sum())
    genuine = float(1 / (1 + np.exp(-(intercept[0] + slope[0] * at.min()))))
    over = max(accuracy - genuine, 0.0)
    values = accuracy, genuine, over, over / accuracy if accuracy else 0.0, float(slope[0])
    return dict(zip(QUANTITIES, values, strict=True))


def over_tables(
    study: Study,
    name: str,
    inputs: Mapping[str, Any],
    make: Callable[[int], pd.DataFrame],
    tables: int,
    chunk: int = CHUNK,
) -> pd.DataFrame:
    """Return what `make` reports of each of many simulated tables, and keep it in the folder."""
    rows = []
    with study.bar(name, tables, "tables") as advance:
        for first in range(0, tables, chunk):
            numbers = range(first, min(first + chunk, tables))
            own = {**inputs, "first": first, "count": len(numbers)}
            rows.append(study.kept(f"{name}-{first}", own, partial(_tables, make, numbers)))
            advance(len(numbers))
    return pd.concat(rows, ignore_index=True)


def _tables(make: Callable[[int], pd.DataFrame], numbers: Iterable[int]) -> pd.DataFrame:
    return pd.concat([make(k).assign(table=k) for k in numbers], ignore_index=True)


def coverage(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the share of intervals that hold their truth, and its Monte Carlo error.

    Where all or none hold it, the error is that of one more that may not: the standard
    deviation of a Beta(n + 1, 1).
    """
    inside = (rows["low"] <= rows["truth"]) & (rows["truth"] <= rows["high"])
    share, count = float(inside.mean()), len(inside)
    if share in (0.0, 1.0):
        return share, float(beta(count + 1, 1).std())
    return share, float(np.sqrt(share * (1 - share) / count))


def fit_rows(fit: Fit, quantities: Iterable[str] = QUANTITIES) -> pd.DataFrame:
    """Return ``model, benchmark, quantity, mean, low, high, verdict`` of a fit's estimands."""
    table = fit.estimands().rename(columns={"ci_low": "low", "ci_high": "high"})
    names = ["model", "benchmark", "quantity", "mean", "low", "high", "verdict"]
    return table.loc[table["quantity"].isin(list(quantities)), names].reset_index(drop=True)


def estimate(rows: pd.DataFrame, quantity: str, **where: str) -> tuple[float, float, float]:
    """Return mean, low and high of a quantity in rows that have it once."""
    chosen = rows[rows["quantity"] == quantity]
    for name, value in where.items():
        chosen = chosen[chosen[name] == value]
    mean, low, high = chosen[["mean", "low", "high"]].iloc[0]
    return float(mean), float(low), float(high)


def percent(*values: float, unit: str = "%") -> str:
    """Return a share, or a share with its interval, in hundredths.

    >>> percent(0.096), percent(0.14, -0.084, 0.352, unit="points")
    ('9.6 %', '14.0 points [−8.4, 35.2]')
    """
    first, *ends = (f"{100 * value:.1f}".replace("-", "−") for value in values)
    return f"{first} {unit} [{', '.join(ends)}]" if ends else f"{first} {unit}"


def responses_of(frames: Sequence[pd.DataFrame]) -> Responses:
    """Return simulated tables as one table of responses."""
    return Responses.from_frame(pd.concat(frames, ignore_index=True), source="simulated")


@dataclass(frozen=True, eq=False)
class ScanWithTruth:
    """A scan whose truth is known."""

    name: str
    scan: Scan
    true: np.ndarray  # of each row of `scan.matches`: whether it is the first chunk of a duplicate
    pairs: pd.DataFrame  # distinct pairs of the scan, with `true`


def generated_scan(study: Study) -> ScanWithTruth:
    """Return the scan of a generated benchmark and corpus."""
    items, documents = study.settings["items"], study.settings["documents"]
    manifest = Manifest.parse(
        f'summary = "Generated"\nseed = {study.spec.seed}\n'
        f"[generated]\nitems = {items}\ndocuments = {documents}\n",
        "manifest.toml",
    )
    scan = _scanned(study, manifest, GENERATED)
    truth = pd.read_csv(
        scan.folder / "generated" / TRUTH, keep_default_na=False, dtype={"documents": str}
    )
    known = {
        (str(item), document)
        for item, documents in zip(truth["item"], truth["documents"], strict=True)
        for document in documents.split()
    }
    return searched_of(GENERATED, scan, lambda item, document: (item, document) in known)


def texts(study: Study, folder: Path) -> ScanWithTruth:
    """Return the scan of programming tasks, whose duplicates are named after them."""
    manifest = quick_manifest(
        str(folder / "benchmark.jsonl"),
        (str(folder / "corpus.jsonl"),),
        {"text_mode": "input_output", "stratum": "source"},
    )
    return searched_of(TEXTS, _scanned(study, manifest, "texts"), named_after)


def named_after(item: str, document: str) -> bool:
    """Return whether a document's name says that it is a duplicate of an item.

    >>> named_after("task-7", "dup-7-1"), named_after("task-7", "dup-70-1")
    (True, False)
    """
    parts = document.split("-")
    return parts[0] in ("dup", "exact") and parts[1:2] == [item.removeprefix("task-")]


def _scanned(study: Study, manifest: Manifest, name: str) -> Scan:
    """Return a scan; what was finished or begun in the study's folder is used."""
    out = study.folder / "scans" / name.replace(" ", "-")
    return run_scan(
        manifest, out, base=study.folder, device="cpu", progress=study.progress, replace=True
    )


def searched_of(name: str, scan: Scan, is_duplicate: Callable[[str, str], bool]) -> ScanWithTruth:
    """Return a scan with what is true of its matches."""
    pairs = scan_pairs(scan)
    return ScanWithTruth(
        name, scan, _true(scan.matches, is_duplicate), pairs.assign(true=_true(pairs, is_duplicate))
    )


def _true(table: pd.DataFrame, is_duplicate: Callable[[str, str], bool]) -> np.ndarray:
    named = [is_duplicate(*row) for row in table[["item", "document"]].itertuples(index=False)]
    # Of a document in several chunks, the one that is like the item holds the duplicate.
    first = ~table.duplicated(["benchmark", "item", "source", "document"]).to_numpy()
    return np.array(named, dtype=bool) & first


def _fallen(grid: Grid) -> Grid:
    """Let coloured cells of each column fall to its bottom."""
    order = np.argsort(grid != 0, axis=0, kind="stable")
    return np.take_along_axis(grid, order, axis=0)


CONCEPTS: dict[str, Callable[[Grid], Grid]] = {
    "mirror left and right": np.fliplr,
    "mirror top and bottom": np.flipud,
    "turn": np.rot90,
    "swap rows and columns": np.transpose,
    "fall": _fallen,
    "next colour": lambda grid: np.where(grid > 0, grid % (COLOURS - 1) + 1, 0),
    "frame": lambda grid: np.pad(grid, 1, constant_values=5),
    "shift right": lambda grid: np.roll(grid, 1, axis=1),
    "shift down": lambda grid: np.roll(grid, 1, axis=0),
    "first half": lambda grid: grid[:, : max(1, grid.shape[1] // 2)],
    "only largest colour": lambda grid: np.where(grid == grid.max(), grid, 0),
    "fill background": lambda grid: np.where(grid == 0, 8, grid),
}
"""What each concept does to a grid."""


def make_tasks(folder: Path, tasks: int, rng: Random) -> None:
    """Write ARC tasks, each a chain of 2 to 5 concepts, and which these are."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(tasks):
        name = f"made-{number + 1:04d}"
        size = int(rng.integers(FEWEST_CONCEPTS, MOST_CONCEPTS + 1))
        chosen = [str(c) for c in rng.choice(list(CONCEPTS), size, replace=False)]
        pairs = [_pair(chosen, rng) for _ in range(TRAIN + TEST)]
        content = {"train": pairs[:TRAIN], "test": pairs[TRAIN:]}
        write_text(folder / f"{name}.json", json.dumps(content))
        rows += [{"task": name, "concept": concept} for concept in chosen]
    with atomic_path(folder / CONCEPTS_FILE) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)


def _pair(chosen: list[str], rng: Random) -> dict[str, list[list[int]]]:
    shape = rng.integers(LEAST, MOST + 1, size=2)
    coloured = rng.random(shape) < 0.5
    grid = np.where(coloured, rng.integers(1, COLOURS, size=shape), 0)
    result = reduce(lambda so_far, concept: CONCEPTS[concept](so_far), chosen, grid)
    return {"input": grid.tolist(), "output": result.tolist()}


@dataclass(frozen=True, eq=False)
class ConceptBenchmark:
    """Responses of one benchmark, and contaminations of its items drawn from exposures."""

    name: str  # benchmark
    responses: Responses  # without contamination
    items: list[str]
    contamination: FloatArray  # dims (draw, item)
    # true values of the estimands, mean over models; empty where nobody knows them
    truth: dict[str, float]


def generated_benchmark(study: Study) -> ConceptBenchmark:
    """Return generated tasks answered by models that remember contaminated ones.

    The exposures that are given are means; the true ones lie around them as their standard
    deviation says, and answers follow from the true ones.
    """
    settings = study.settings
    # Of this size and seed: the folder may hold those of another run.
    folder = study.folder / f"tasks-{settings['tasks']}-{study.spec.seed}"
    if not (folder / CONCEPTS_FILE).exists():
        make_tasks(folder, settings["tasks"], study.stream("tasks"))
    tasks = read_arc(folder)
    share = shares(read_concepts(folder / CONCEPTS_FILE, tasks), tasks.tasks, list(CONCEPTS))
    rng = study.stream("exposures")
    mean = PUBLISHED.exposures(rng, (len(CONCEPTS),))
    sd = np.full(len(CONCEPTS), settings["exposure_sd"])
    true = contamination_of(given_exposures(mean, sd, 1, rng) @ share.T)[0]
    drawn = given_exposures(mean, sd, DRAWS, study.stream("draws"))
    p = settings["genuine"] + settings["boost"] * true
    responses = _answered(tasks, p, settings["models"], study.stream("answers"))
    over = settings["boost"] * (true.mean() - settings["reference"])
    at = settings["genuine"] + settings["boost"] * settings["reference"]
    return ConceptBenchmark(
        GENERATED_TASKS,
        responses,
        list(tasks.items["item"]),
        contamination_of(drawn @ share.T),
        {"genuine_ability": float(at), "overfitting": float(over)},
    )


def shares(concepts: pd.DataFrame, tasks: tuple[str, ...], known: list[str]) -> FloatArray:
    """Return the share of each known concept in a task, dims (task, concept)."""
    table = membership(concepts, tasks)
    if strange := [name for name in table.columns if name not in known]:
        raise UsageError(
            f"study: no exposure is known of the concepts {join_list(strange)}; known are"
            f" {join_list(known)}"
        )
    result: FloatArray = table.reindex(columns=known, fill_value=0.0).to_numpy()
    return result


def extrapolated(posed: ConceptBenchmark, reference: float) -> list[str]:
    """Return a note if the reference lies below all that is expected of a benchmark."""
    least = posed.contamination.mean(axis=0).min()
    if least <= reference:
        return []
    return [
        f"{posed.name}: the reference {reference:g} lies below all contaminations, which begin at"
        f" {least:.2f}; genuine ability and overfitting are extrapolated."
    ]


def diluted(posed: ConceptBenchmark) -> str:
    """Return a note on how far drawing exposures without the answers draws slopes towards 0.

    The covariance of a true contamination with a drawn one, both of the same distribution,
    is the variance of their expectation.
    """
    expected = posed.contamination.mean(axis=0).var()
    share = 1 - expected / posed.contamination.var(axis=1).mean()
    return (
        f"{posed.name}: contaminations that are drawn without regard to the answers draw slope and"
        f" overfitting towards 0, here by about {share:.0%}."
    )


def _answered(tasks: ArcTasks, p: FloatArray, models: int, rng: np.random.Generator) -> Responses:
    table = pd.concat(
        [
            pd.DataFrame(
                {
                    "model": f"simulated {number + 1}",
                    "benchmark": GENERATED_TASKS,
                    "item": tasks.items["item"],
                    "correct": (rng.random(len(p)) < p).astype(int),
                }
            )
            for number in range(models)
        ]
    )
    return Responses.from_frame(table, source="simulated answers")


def real(study: Study, answers: Path, corpus: Path) -> ConceptBenchmark:
    """Return ConceptARC's answers, with exposures counted in a sample of texts."""
    frame = read_responses(answers, where="not minimal").frame
    frame = frame[frame["model"].isin(study.settings["solvers"])].assign(benchmark=REAL)
    words: dict[str, list[str]] = study.settings["words"]
    counts = documents_with(corpus, words)
    exposure = counted_exposures(counts, study.settings["share"], DRAWS, study.stream("counted"))
    items = frame.drop_duplicates("item")[["item", "concept"]].rename(columns={"item": "task"})
    share = shares(items, tuple(items["task"]), list(words))
    table = frame.drop(columns=["minimal", "task", "concept"])
    return ConceptBenchmark(
        REAL,
        Responses.from_frame(table, source=answers.name),
        list(items["task"]),
        contamination_of(exposure @ share.T),
        {},
    )
