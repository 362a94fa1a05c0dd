"""The tables of responses that the stored fits and densities are of, and how they were drawn."""

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
TABLES = HERE / "tables"
MODELS, BENCHMARKS, ITEMS = 4, 2, 8


def table_of(name: str) -> pd.DataFrame:
    """Return one of the tables."""
    return pd.read_csv(TABLES / f"{name}.csv")


def imputed_table() -> pd.DataFrame:
    """Return the table of single trials, with two factors that move contaminations together."""
    table = table_of("single")
    number = table["item"].str[-1].astype(int)
    return table.assign(shared_1=0.6 * (number % 2), shared_2=np.where(number < 4, 0.5, -0.3))


def draw_tables() -> dict[str, pd.DataFrame]:
    """Draw all tables: of single trials, of repeated ones, and of doses that differ by model."""
    single = _draw(seed=1, trials=(1,))
    varied = _draw(seed=2, trials=(1,))
    reached = np.linspace(0.1, 1.0, MODELS * BENCHMARKS).reshape(MODELS, BENCHMARKS)
    pair = varied["model"].factorize()[0], varied["benchmark"].factorize()[0]
    varied["contamination"] = (varied["contamination"] * reached[pair]).round(3)
    repeated = _draw(seed=3, trials=(1, 4))
    unanswered = (repeated["model"] == "ada") & (repeated["item"] == "quiz 2")
    return {"single": single, "repeated": repeated[~unanswered], "varied": varied}


def _draw(seed: int, trials: tuple[int, ...]) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    m, b, i = np.indices((MODELS, BENCHMARKS, ITEMS)).reshape(3, -1)
    dose = rng.beta(1, 1.5, (BENCHMARKS, ITEMS)).clip(0.02, 0.98)[b, i]
    count = np.array(trials)[i % len(trials)]
    share = 0.25 + 0.1 * m + 0.35 * dose
    names = np.array(["ada", "bo", "cy", "di"]), np.array(["quiz", "code"])
    return pd.DataFrame(
        {
            "model": names[0][m],
            "benchmark": names[1][b],
            "item": [f"{names[1][k]} {j}" for k, j in zip(b, i, strict=True)],
            "n_correct": rng.binomial(count, share),
            "n_trials": count,
            "contamination": dose.round(3),
            "contamination_sd": (0.5 * np.sqrt(dose * (1 - dose))).round(3),
            "p_duplicate": dose.round(3),
            "p_duplicate_sd": (0.3 * np.sqrt(dose * (1 - dose))).round(3),
            "clean": (m == 0).astype(int),
            "concept": [f"concept {1 + k % 3}" for k in i],
            "guess": np.array([0.25, 0.1])[i % 2],
        }
    )
