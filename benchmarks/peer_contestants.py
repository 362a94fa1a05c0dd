"""One-parameter models of 50,000 real responses: by this package, by Bambi and by py-irt."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import xarray as xr

from tests.support.real_data import shared

RESPONSES, DRAWS = 50_000, {"draws": 500, "tune": 500, "chains": 2, "cores": 2}
EPOCHS = 2000
"""Default of py-irt's command line."""


def data() -> pd.DataFrame:
    """Return the same share of the items of every benchmark, answered by all 12 models."""
    table = pd.read_parquet(shared("llm_benchmarks.parquet"))
    for name in ("model", "benchmark", "item"):
        table[name] = table[name].astype(str)
    items = table[["benchmark", "item"]].drop_duplicates()
    wanted = RESPONSES // table["model"].nunique()
    kept = items.iloc[np.linspace(0, len(items) - 1, wanted).astype(int)]
    return table.merge(kept)


def ours(difficulties: str) -> dict:
    """Fit abilities by benchmark with this package."""
    from bayescontam.data.responses import Responses
    from bayescontam.inference.compiling import compile_model
    from bayescontam.model.build import build
    from bayescontam.specs.registry import load_model
    from tests.support.given_fits import changed

    responses = Responses.from_frame(data())
    spec = changed(load_model("concepts"), ability={"by": "benchmark"})
    started = time.perf_counter()
    built = build(spec, responses, difficulties)
    model = compile_model(built.model)
    compiled = time.perf_counter()
    variables, _ = model.sample(seed=1, target_accept=0.9, **DRAWS)
    sampled = time.perf_counter()
    theta = variables["theta"]
    means = pd.Series(theta.mean(axis=(0, 1, 3)), built.design.models)
    share = np.bincount(built.design.benchmark_of_item) / len(built.design.items)
    by_items = pd.Series(theta.mean(axis=(0, 1)) @ share, built.design.models).to_dict()
    result = _result(theta, means, compiled - started, sampled - compiled)
    return result | {"ability by items": by_items}


def bambi() -> dict:
    """Fit Bambi's nearest formula."""
    import bambi as bmb

    frame = data()
    frame["cell"] = frame["model"] + "/" + frame["benchmark"]
    frame["unit"] = frame["benchmark"] + "/" + frame["item"]
    started = time.perf_counter()
    formula = "correct ~ 0 + benchmark + (1 | model) + (1 | cell) + (1 | unit)"
    model = bmb.Model(formula, frame, family="bernoulli")
    model.build()
    tree, compiled, sampled = _nutpie(model.backend.model)
    post = tree["posterior"]
    benchmarks = post["benchmark"]["benchmark_dim"].to_numpy()
    models = post["1|model"]["model__factor_dim"].to_numpy()
    cells = [f"{m}/{b}" for m in models for b in benchmarks]
    cell = post["1|cell"].sel(cell__factor_dim=cells).to_numpy()
    level = post["benchmark"].to_numpy()[:, :, None, :] + post["1|model"].to_numpy()[..., None]
    theta = level + cell.reshape(level.shape)
    means = pd.Series(theta.mean(axis=(0, 1, 3)), models)
    return _result(theta, means, compiled - started, sampled - compiled)


def py_irt() -> dict | None:
    """Fit the 1PL model of py-irt, which has no build for our Python: in one of its own.

    ``BAYESCONTAM_PY_IRT`` is the path of its command.
    """
    command = os.environ.get("BAYESCONTAM_PY_IRT")
    if not command:
        return None
    table = data()
    table["unit"] = table["benchmark"] + "/" + table["item"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "responses.jsonlines"
        lines = [
            json.dumps({"subject_id": m, "responses": g.set_index("unit")["correct"].to_dict()})
            for m, g in table.groupby("model")
        ]
        path.write_text("\n".join(lines) + "\n")
        started = time.perf_counter()
        subprocess.run(
            [command, "train", "1pl", str(path), folder, "--epochs", str(EPOCHS), "--device", "cpu"],  # noqa: E501
            check=True, capture_output=True, timeout=3000,
        )  # fmt: skip
        taken = time.perf_counter() - started
        reported = json.loads((Path(folder) / "best_parameters.json").read_text())
    names = [reported["subject_ids"][str(k)] for k in range(len(reported["ability"]))]
    return {"seconds": taken, "ability": dict(zip(names, reported["ability"], strict=True))}


def _result(theta: np.ndarray, means: pd.Series, compiled: float, sampled: float) -> dict:
    """Return times, the smallest bulk ESS of (model, benchmark) and the mean abilities."""
    cells = theta.reshape(*theta.shape[:2], -1)
    ess = az.ess(xr.Dataset({"x": (("chain", "draw", "cell"), cells)}))["x"]
    return {
        "compile": compiled, "sample": sampled, "ess": float(ess.min()), "ability": means.to_dict()
    }  # fmt: skip


def _nutpie(model, **options):
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    ready = time.perf_counter()
    tree = nutpie.sample(compiled, seed=1, progress_bar=False, **DRAWS, **options)
    return tree, ready, time.perf_counter()


CONTESTANTS: dict[str, Callable[[], dict | None]] = {
    "marginalised": lambda: ours("marginalised"),
    "sampled": lambda: ours("sampled"),
    "Bambi": bambi,
    "py-irt": py_irt,
}
