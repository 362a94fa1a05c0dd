"""LiveCodeBench: adjusted scores against accuracy on problems released later.

    python -m studies.livecodebench FILE --out FOLDER [--splits 20] [--estimators NAME ...]

FILE is a table of responses with ``released`` and ``model_cutoff``: contamination is 1 for
problems that were released on or before a model's cutoff. Problems after it are clean. In every
split half of these are held out of the responses of the models that were exposed to the others
(clean models' responses stay, so that difficulties are known), everything else is fitted, and the
models' accuracy on the problems held out is predicted. Finished splits are stored in FOLDER.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.inference.bootstrap import resample
from bayescontam.published.held_out import CELL, predict_clean_shares
from bayescontam.specs.study import SamplingSpec

SITES = ("livecodebench-leetcode", "livecodebench-atcoder")
"""CodeForces has 9 problems, too few to hold any out."""
NEEDED = (*CELL, "item", "n_correct", "n_trials", "contamination")
RAW, BOOTSTRAP = "raw", "bootstrap"
SPECS = ("anchored", "anchored_by_pair")
"""Model specs whose predictions are held against the truth."""
# Responses are held out at random, so that which ones a model lacks informs on nothing.
CHANGES: dict[str, dict[str, Any]] = {"difficulty": {"selection": "ignored"}}
"""What is changed in these model specs."""
ESTIMATORS = (RAW, BOOTSTRAP, *SPECS)
RESULTS, SETTINGS = "predictions.csv", "settings.json"
_Z = 1.96


def read_table(path: Path) -> pd.DataFrame:
    """Return the responses of both sites, with a column ``clean`` for models without exposure."""
    if not path.is_file():
        raise bc.UsageError(
            f"{path}: no such file; give the table of LiveCodeBench's responses, with columns"
            f" {', '.join(NEEDED)}"
        )
    table = pd.read_csv(path)
    if missing := [name for name in NEEDED if name not in table]:
        raise bc.UsageError(f"{path}: no column {missing[0]}; needed are {', '.join(NEEDED)}")
    table = table.loc[table["benchmark"].isin(SITES), list(NEEDED)].reset_index(drop=True)
    met = table.groupby("model")["contamination"].transform("max")
    table["clean"] = (met == 0).astype(int)
    if table["clean"].nunique() < 2:
        raise bc.UsageError(
            f"{path}: needs models that were exposed to problems and models that were not"
        )
    return table


def held_out(table: pd.DataFrame, split: int) -> "pd.Series[bool]":
    """Return which responses a split holds out: the same problems for all exposed models."""
    rng = np.random.default_rng([26, split])
    new = (table["clean"] == 0) & (table["contamination"] == 0)
    chosen: set[tuple[str, str]] = set()
    for site, own in table[new].groupby("benchmark", sort=True):
        items = np.unique(own["item"].astype(str))
        chosen |= {(str(site), item) for item in rng.permutation(items)[: len(items) // 2]}
    pairs = pd.MultiIndex.from_frame(table[["benchmark", "item"]].astype(str))
    return new & pairs.isin(list(chosen))


def raw_scores(known: pd.DataFrame) -> pd.DataFrame:
    """Return observed accuracies with the binomial interval of as many problems."""
    share = known["n_correct"] / known["n_trials"]
    cells = known.assign(share=share).groupby(CELL, sort=False)["share"]
    found = cells.agg(mean="mean", size="count").reset_index()
    found["sd"] = np.sqrt(found["mean"] * (1 - found["mean"]) / found["size"])
    return found.assign(low=found["mean"] - _Z * found["sd"], high=found["mean"] + _Z * found["sd"])


def bootstrap(known: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return genuine abilities by the bootstrap around a penalised logistic regression."""
    rows = []
    for cell, own in known.groupby(CELL, sort=False):
        model, benchmark = map(str, cell)
        draws = resample(own, rng)["genuine_ability_direct", model, benchmark]
        low, high = np.quantile(draws, [0.025, 0.975])
        figures = {"mean": draws.mean(), "sd": draws.std(), "low": low, "high": high}
        rows.append(dict(zip(CELL, cell, strict=True)) | figures)
    return pd.DataFrame(rows)


def predict(table: pd.DataFrame, name: str, split: int, sampling: SamplingSpec) -> pd.DataFrame:
    """Return one estimator's predictions of one split, beside the truth."""
    out = held_out(table, split)
    pairs, rest = table[out], table[~out]
    exposed = rest[rest["clean"] == 0]
    if name == RAW:
        found = raw_scores(exposed)
    elif name == BOOTSTRAP:
        found = bootstrap(exposed, np.random.default_rng([27, split]))
    else:
        responses = bc.Responses.from_frame(rest, source="LiveCodeBench")
        found = predict_clean_shares(model_of(name), responses, pairs, 1000 + split, sampling)
    cells = pairs.groupby(CELL, sort=False)[["n_correct", "n_trials"]].sum()
    truth = (cells["n_correct"] / cells["n_trials"]).rename("truth").reset_index()
    return truth.merge(found, on=CELL).assign(estimator=name, split=split)


def model_of(name: str) -> bc.ModelSpec:
    """Return a shipped model spec with the changes of this study."""
    content = bc.load_model(name).model_dump()
    for block, values in CHANGES.items():
        content[block] |= values
    return bc.ModelSpec.model_validate(content)


def scores(found: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, standardised error and bias by estimator and site, clustered by model."""
    rows = []
    for name, every in found.groupby("estimator", sort=False):
        for site in ("both", *sorted(every["benchmark"].unique())):
            own = every if site == "both" else every[every["benchmark"] == site]
            error = own["mean"] - own["truth"]
            inside = (own["low"] <= own["truth"]) & (own["truth"] <= own["high"])
            rows.append(
                {
                    "estimator": name,
                    "site": site.removeprefix("livecodebench-"),
                    "splits": own["split"].nunique(),
                    "coverage": inside.mean(),
                    "coverage_se": _clustered(inside, own["model"]),
                    "rms_z": np.sqrt(((error / own["sd"]) ** 2).mean()),
                    "bias": error.mean(),
                    "bias_se": _clustered(error, own["model"]),
                    "rmse": np.sqrt((error**2).mean()),
                    "width": (own["high"] - own["low"]).mean(),
                }
            )
    return pd.DataFrame(rows)


def _clustered(values: "pd.Series[Any]", model: "pd.Series[str]") -> float:
    """Return the standard error of a mean whose values are independent between models alone."""
    means = values.astype(float).groupby(model.to_numpy()).mean()
    return float(means.std(ddof=1) / np.sqrt(len(means)))


def write_line(text: str) -> None:
    """Show what is done."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def run(
    path: Path,
    folder: Path,
    *,
    splits: int = 20,
    estimators: Sequence[str] = ESTIMATORS,
    sampling: SamplingSpec,
    report: Callable[[str], object] = write_line,
) -> pd.DataFrame:
    """Predict all splits that the folder does not have yet, and return the scores of all."""
    table = read_table(path)
    folder.mkdir(parents=True, exist_ok=True)
    _check_settings(folder / SETTINGS, sampling)
    stored = folder / RESULTS
    for name in estimators:
        for split in range(splits):
            if _is_done(stored, name, split):
                continue
            started = time.perf_counter()
            found = predict(table, name, split, sampling)
            before = [pd.read_csv(stored)] if stored.exists() else []
            part = stored.with_suffix(".part")  # so that an interrupted run leaves whole splits
            pd.concat([*before, found], ignore_index=True).to_csv(part, index=False)
            part.replace(stored)
            report(f"{name}, split {split + 1} of {splits}: {time.perf_counter() - started:.0f} s")
    found = pd.read_csv(stored)
    wanted = found["estimator"].isin(list(estimators)) & (found["split"] < splits)
    return scores(found[wanted])


def _check_settings(path: Path, sampling: SamplingSpec) -> None:
    """Refuse a folder whose splits were sampled in another way."""
    now = json.dumps({"sampling": sampling.model_dump(), "changes": CHANGES}, indent=1)
    if path.exists() and path.read_text() != now:
        raise bc.UsageError(f"{path.parent}: has splits of other settings; choose another folder")
    path.write_text(now)


def _is_done(stored: Path, name: str, split: int) -> bool:
    if not stored.exists():
        return False
    done = pd.read_csv(stored, usecols=["estimator", "split"])
    return bool(((done["estimator"] == name) & (done["split"] == split)).any())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.livecodebench")
    parser.add_argument("file", type=Path, help="table of responses (CSV)")
    parser.add_argument("--out", type=Path, required=True, help="folder for finished splits")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--estimators", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--draws", type=int, default=400, help="of each of two chains")
    parser.add_argument("--tune", type=int, default=400)
    given = parser.parse_args(arguments)
    sampling = SamplingSpec(draws=given.draws, tune=given.tune, chains=2)
    try:
        table = run(
            given.file,
            given.out,
            splits=given.splits,
            estimators=given.estimators,
            sampling=sampling,
        )
    except bc.BayescontamError as error:
        write_line(str(error))
        return 2
    sys.stdout.write(f"{table.to_string(index=False, float_format='{:.3f}'.format)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
