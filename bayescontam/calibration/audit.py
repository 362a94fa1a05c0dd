"""Audit: what a second engine estimates from the same tables."""

import numpy as np
import pandas as pd

from bayescontam.calibration.rows import KEYS

FAR = 4.0
"""Difference of two means, in Monte Carlo errors, that chance hardly ever reaches."""


def audits(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare the means of audited fits with those of the first engine."""
    # A truth that is taken in another way is held against the same estimate.
    plain = rows[~rows["quantity"].str.endswith("_nominal")]
    first, second = plain[~plain["audit"]], plain[plain["audit"]]
    pairs = second.merge(first, on=list(KEYS), suffixes=("_second", "_first"))
    pairs = pairs[(pairs["mcse_first"] > 0) & (pairs["mcse_second"] > 0)]
    # Not by the bulk ESS, which is one of ranks: the mean of a long tail is estimated worse.
    error = np.hypot(pairs["mcse_first"], pairs["mcse_second"])
    pairs = pairs.assign(z=(pairs["mean_second"] - pairs["mean_first"]) / error)
    return pd.DataFrame(
        [_row(str(name), part) for name, part in pairs.groupby("estimator", sort=True)],
        columns=["estimator", "engines", "fits", "quantities", "far", "largest", "of", "rms",
                 "rms_mc_se"],
    )  # fmt: skip


def _row(estimator: str, pairs: pd.DataFrame) -> dict[str, object]:
    worst = pairs.iloc[int(pairs["z"].abs().to_numpy().argmax())]
    rms = float(np.sqrt((pairs["z"] ** 2).mean()))
    return {
        "estimator": estimator,
        "engines": f"{worst['engine_first']}, {worst['engine_second']}",
        "fits": len(pairs.drop_duplicates(["cell", "replicate"])),
        "quantities": len(pairs),
        "far": float((pairs["z"].abs() > FAR).mean()),
        "largest": float(worst["z"]),
        "of": f"{worst['quantity']} {worst['where']}".strip(),
        "rms": rms,
        "rms_mc_se": _error_over_fits(pairs, rms),
    }


def _error_over_fits(pairs: pd.DataFrame, rms: float) -> float:
    """Return the standard error of a root mean square, whose squares come fit by fit."""
    beyond = (pairs["z"] ** 2 - rms**2).groupby([pairs["cell"], pairs["replicate"]]).sum()
    fits = len(beyond)
    if fits < 2 or rms == 0:
        return np.nan
    variance = fits / (fits - 1) * float((beyond**2).sum()) / len(pairs) ** 2
    return float(np.sqrt(variance) / (2 * rms))
