"""The same hierarchical model fitted by this package, by plain PyMC and by Bambi."""

import time
from collections.abc import Callable

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from tests.support.simulated_responses import simulate

ESTIMANDS = (
    "accuracy",
    "genuine_ability_direct",
    "overfitting_direct",
    "overfitting_fraction_direct",
)
DRAWS = {"draws": 1000, "tune": 600, "chains": 4, "cores": 2}


def data() -> pd.DataFrame:
    """Return the 6,400 responses with integer codes and centred contamination."""
    frame = simulate(seed=1).responses.rename(columns={"n_correct": "correct"})
    for name in ("model", "benchmark", "item"):
        frame[f"{name}_code"] = pd.factorize(frame[name])[0]
    mean = frame.groupby("benchmark")["contamination"].transform("mean")
    return frame.assign(dose=frame["contamination"] - mean)


def smallest_ess(eta: Callable[[float | None], np.ndarray], frame: pd.DataFrame, shape) -> float:
    """Return the smallest bulk ESS over the estimands of all cells.

    `eta` gives log-odds (draw, response) at a contamination, or at the observed one.
    """
    cell = frame["model_code"].to_numpy() * 2 + frame["benchmark_code"].to_numpy()
    order = np.argsort(cell, kind="stable")
    starts = np.searchsorted(cell[order], np.arange(16))
    lowest = frame.groupby("benchmark")["contamination"].transform("min").to_numpy()
    means = []
    for level in (None, lowest):
        p = 1 / (1 + np.exp(-eta(level)))
        means.append(np.add.reduceat(p[:, order], starts, axis=1) / np.diff([*starts, len(cell)]))
    accuracy, genuine = means
    over = accuracy - genuine
    draws = np.concatenate([accuracy, genuine, over, over / accuracy], axis=1)
    draws = draws.reshape(*shape, -1)
    return float(az.ess(xr.Dataset({"x": (("chain", "draw", "cell"), draws)}))["x"].min())


def ours() -> dict[str, float]:
    """Fit with this package: its model, its default sampler."""
    from bayescontam.data.responses import Responses
    from bayescontam.inference.batched import labelled
    from bayescontam.inference.compiling import compile_model
    from bayescontam.inference.estimands import estimands
    from bayescontam.inference.posterior import stack_draws
    from bayescontam.model.build import build
    from bayescontam.specs.registry import load_model

    frame = simulate(seed=1).responses
    started = time.perf_counter()
    built = build(load_model("hierarchical"), Responses.from_frame(frame))
    model = compile_model(built.model)
    compiled = time.perf_counter()
    variables, _ = model.sample(seed=1, target_accept=0.9, **DRAWS)
    sampled = time.perf_counter()
    posterior = labelled(built.model, variables)
    result = estimands(stack_draws(posterior, built.design), built, (4, 1000), "min_observed")
    chosen = result["estimands"][list(ESTIMANDS)]
    ess = float(az.ess(chosen).to_array().min())
    return {"compile": compiled - started, "sample": sampled - compiled, "ess": ess}


def plain() -> dict[str, float]:
    """Fit the model as one would write it: two-index gathers, Binomial of logits."""
    frame = data()
    m, b, i = (frame[f"{name}_code"].to_numpy() for name in ("model", "benchmark", "item"))
    d = frame["dose"].to_numpy()
    of_item = frame.groupby("item_code")["benchmark_code"].first().to_numpy()
    started = time.perf_counter()
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1.5, shape=2)
        a = pm.ZeroSumNormal("a", 1, shape=8)
        center = mu + (pm.HalfNormal("sigma_a", 1) * a)[:, None]
        theta = pm.Normal("theta", center, pm.HalfNormal("sigma_theta", 1), shape=(8, 2))
        u = pm.HalfNormal("sigma_bm", 0.5) * pm.Normal("u", 0, 1, shape=8)
        w = pm.HalfNormal("sigma_bmb", 0.5) * pm.Normal("w", 0, 1, shape=(8, 2))
        beta = pm.Deterministic("beta", pm.Normal("beta_bar", 0, 2) + u[:, None] + w)
        spread = pm.HalfNormal("sigma_delta", 1, shape=2)
        delta = pm.Deterministic("delta", spread[of_item] * pm.Normal("z", 0, 1, shape=800))
        eta = theta[m, b] + beta[m, b] * d - delta[i]
        pm.Binomial("correct", n=1, logit_p=eta, observed=frame["correct"].to_numpy())
    tree, compiled, sampled = _nutpie(model)  # PyMC's default sampler where it is installed
    post = {k: tree["posterior"][k].to_numpy() for k in ("theta", "beta", "delta")}
    flat = {k: v.reshape(4000, *v.shape[2:]) for k, v in post.items()}

    def log_odds(level):
        dose = d if level is None else d + level - frame["contamination"].to_numpy()
        return flat["theta"][:, m, b] + flat["beta"][:, m, b] * dose - flat["delta"][:, i]

    ess = smallest_ess(log_odds, frame, (4, 1000))
    return {"compile": compiled - started, "sample": sampled - compiled, "ess": ess}


def bambi() -> dict[str, float]:
    """Fit Bambi's nearest formula with nutpie."""
    import bambi as bmb

    frame = data()
    frame["cell"] = frame["model"] + frame["benchmark"]
    started = time.perf_counter()
    formula = "correct ~ 0 + benchmark + dose + (1 + dose | model) + (1 + dose | cell) + (1 | item)"
    model = bmb.Model(formula, frame, family="bernoulli")
    model.build()
    tree, compiled, sampled = _nutpie(model.backend.model)
    post = tree["posterior"]

    def of(name: str) -> np.ndarray:
        values = post[name].to_numpy()
        return values.reshape(4000, *values.shape[2:])

    names = {"model": "model", "cell": "cell", "item": "item"}
    code = {
        k: pd.Index(post[f"1|{k}"][f"{k}__factor_dim"].to_numpy()).get_indexer(frame[v])
        for k, v in names.items()
    }

    def log_odds(level):
        d = frame["dose"].to_numpy()
        dose = d if level is None else d + level - frame["contamination"].to_numpy()
        intercept = of("benchmark")[:, frame["benchmark_code"].to_numpy()]
        slope = of("dose")[:, None]
        for k in ("model", "cell"):
            intercept = intercept + of(f"1|{k}")[:, code[k]]
            slope = slope + of(f"dose|{k}")[:, code[k]]
        return intercept + of("1|item")[:, code["item"]] + slope * dose

    ess = smallest_ess(log_odds, frame, (4, 1000))
    return {"compile": compiled - started, "sample": sampled - compiled, "ess": ess}


def _nutpie(model: pm.Model, **options):
    """Sample with nutpie, which PyMC uses by default; return the tree and two times."""
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    ready = time.perf_counter()
    tree = nutpie.sample(compiled, seed=1, progress_bar=False, **DRAWS, **options)
    return tree, ready, time.perf_counter()


CONTESTANTS = {"bayescontam": ours, "plain PyMC": plain, "Bambi": bambi}
