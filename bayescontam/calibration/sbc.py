"""SBC: whether the truth's rank among draws is uniform, for every quantity of a study."""

from typing import Any

import numpy as np
import pandas as pd

from bayescontam._types import FloatArray
from bayescontam.calibration.coverage import constant
from bayescontam.calibration.uniformity import Uniformity, uniformity
from bayescontam.inference.checks import Outcome
from bayescontam.seeds import stream

UNIT = ["cell", "estimator", "quantity", "where"]
FAMILY = ["estimator"]
COLUMNS = (
    *UNIT, "p_value", "p_adjusted", "n", "n_failed", "n_without", "p_without_failures",
    "statistic", "p_ecdf", "shift", "p_shift", "spread", "p_spread", "outcome", "sentence",
)  # fmt: skip
"""Columns of the table, in order."""
FAILED_BELOW, CAUTION_BELOW = 0.01, 0.05
"""Adjusted p-values below which a quantity fails, or is to be watched."""
MOST_WITHOUT = 0.01
"""Share of fits without draws, and so without a rank, that a test of ranks bears."""
LEAST = 10
"""Fewest ranks that are tested: fewer can show nothing but the grossest faults."""


def sbc_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return which quantities of a study have ranks that are not uniform.

    If truths are drawn from the prior and data from the model, the truth's rank among
    independent posterior draws is uniform for every quantity [1]_. All fits count, failed
    ones too: to leave them out is to choose data sets. A fit without draws has no rank: it is
    counted in ``n_without``, and a quantity that lacks more than 1 % of its ranks has not passed.
    Second fits of audits do not count, nor constants, nor estimators without draws.

    .. [1] Talts, Betancourt, Simpson, Vehtari & Gelman (2018). Validating Bayesian inference
       algorithms with simulation-based calibration. arXiv:1804.06788
    """
    used = ranked(rows)
    lacking = _without_ranks(rows)
    groups = used.groupby(UNIT, sort=False, observed=True)
    found = [_row(dict(zip(UNIT, key, strict=True)), part) for key, part in groups]
    known = {tuple(row[name] for name in UNIT) for row in found}
    never = [key for key in lacking.index if key not in known]
    found += [_row(dict(zip(UNIT, key, strict=True)), used[:0]) for key in never]
    if not found:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in COLUMNS})
    table = pd.DataFrame(found)
    table["p_adjusted"] = table.groupby(FAMILY)["p_value"].transform(holm)
    at = pd.MultiIndex.from_frame(table[UNIT])
    table["n_without"] = lacking.reindex(at, fill_value=0).to_numpy()
    table["outcome"] = [_outcome(row).value for row in table.to_dict("records")]
    table["sentence"] = [_sentence(row) for row in table.to_dict("records")]
    order = table.sort_values(["p_adjusted", "p_value", *UNIT], kind="stable")
    return order[list(COLUMNS)].reset_index(drop=True)


def ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that count, with the column ``u``: ranks spread over (0, 1)."""
    counts = ~rows["audit"] & (rows["ranks"] > 0) & (rows["rank"] >= 0)
    used = rows[counts.to_numpy() & ~constant(rows)].sort_values([*UNIT, "replicate"])
    v = np.empty(len(used))
    groups: dict[Any, Any] = used.groupby(UNIT, sort=False, observed=True).indices
    for key, index in groups.items():
        v[index] = stream(0, "sbc", *map(str, key)).random(len(index))
    return used.assign(u=(used["rank"] + v) / (used["ranks"] + 1))


def _without_ranks(rows: pd.DataFrame) -> "pd.Series[int]":
    """Return in how many fits with draws a quantity has no rank, by its keys."""
    lacking = rows[~rows["audit"] & (rows["ranks"] == 0) & (rows["engine"] != "bootstrap")]
    return lacking.groupby(UNIT, observed=True).size()


def holm(p_values: "pd.Series[float]") -> "pd.Series[float]":
    """Return p-values adjusted by Holm's method; NaN stays and does not count.

    >>> import pandas as pd
    >>> holm(pd.Series([0.01, 0.04, 0.03, float("nan")])).tolist()
    [0.03, 0.06, 0.06, nan]
    """
    ordered = p_values.dropna().sort_values()
    steps = ordered * np.arange(len(ordered), 0, -1)
    return steps.cummax().clip(upper=1.0).reindex(p_values.index)


def _row(key: dict[str, Any], part: pd.DataFrame) -> dict[str, Any]:
    failed = (part["status"] == "failed").to_numpy()
    u = part["u"].to_numpy()
    tests = _tests(u)
    without = _tests(u[~failed]) if failed.any() else tests
    return {
        **key,
        "p_value": tests.p_value,
        "n": len(u),
        "n_failed": int(failed.sum()),
        "p_without_failures": without.p_value,
        "statistic": tests.gamma,
        "p_ecdf": tests.p_ecdf,
        "shift": tests.shift,
        "p_shift": tests.p_shift,
        "spread": tests.spread,
        "p_spread": tests.p_spread,
    }


def _tests(u: FloatArray) -> Uniformity:
    return uniformity(u) if len(u) >= LEAST else Uniformity(*[float("nan")] * 7)


def _outcome(row: dict[Any, Any]) -> Outcome:
    if row["p_adjusted"] < FAILED_BELOW:
        return Outcome.FAILED
    # A quantity that was not tested has not passed.
    tested = row["p_adjusted"] >= CAUTION_BELOW and not _lacks_ranks(row)
    return Outcome.PASSED if tested else Outcome.CAUTION


def _lacks_ranks(row: dict[Any, Any]) -> bool:
    return bool(row["n_without"] > MOST_WITHOUT * (row["n"] + row["n_without"]))


def _sentence(row: dict[Any, Any]) -> str:
    """Return what is wrong with a quantity, and by how much."""
    if row["n"] < LEAST:
        return f"Too few ranks to be tested: {row['n']}; it needs {LEAST}."
    if row["outcome"] == Outcome.PASSED.value:
        return "No departure from uniform ranks found."
    if _lacks_ranks(row) and not row["p_adjusted"] < CAUTION_BELOW:
        return (
            f"{row['n_without']} fits have no rank, since they drew nothing or it is undefined in"
            " some draws: ranks of the others decide little."
        )
    parts = []
    if row["p_spread"] < CAUTION_BELOW:
        narrow = row["spread"] > 1
        factor = row["spread"] if narrow else 1 / row["spread"]
        parts.append(
            f"intervals too {'narrow' if narrow else 'wide'}, by a factor of about {factor:.2g}"
        )
    if row["p_shift"] < CAUTION_BELOW:
        side = "low" if row["shift"] > 0 else "high"
        parts.append(f"estimates too {side}, by about {abs(row['shift']):.2g} posterior sd")
    if not parts:
        parts = ["ranks are not uniform in some other way: see the picture"]
    text = "; ".join(parts)
    doubt = " Perhaps by chance." if row["outcome"] == Outcome.CAUTION.value else ""
    failures = ""
    if row["n_failed"] and row["p_without_failures"] > CAUTION_BELOW:
        failures = f" Not so without the {row['n_failed']} failed fits."
    return f"{text[0].upper()}{text[1:]}.{doubt}{failures}"
