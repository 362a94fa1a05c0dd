"""From scores of how well a model knows an item's text to P(contaminated)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import mannwhitneyu

from bayescontam._progress import stage
from bayescontam._random import check_seed, fresh_seed, stream
from bayescontam._text import join_list, printable
from bayescontam._types import BoolArray, FloatArray
from bayescontam.data.covariates import Covariates
from bayescontam.data.model_scores import ModelScores, read_scores
from bayescontam.data.responses import Path
from bayescontam.data.validation import check_choice, check_level
from bayescontam.errors import DataError, Fault
from bayescontam.evidence.seen_model import (
    FEWEST_CONTROLS,
    Levels,
    are_shared,
    build_seen,
    make_levels,
)
from bayescontam.inference.checks import Check, Outcome, Thresholds, make_check, sampling_checks
from bayescontam.inference.convergence import convergence
from bayescontam.inference.posterior import spaced
from bayescontam.inference.sampling import Sampling, sample_model
from bayescontam.inference.summary import LEVEL, describe
from bayescontam.parallel import usable_cores

type WithoutControls = Literal["error", "drop", "borrow"]
"""What becomes of models that have too few controls."""

TARGET_ACCEPT = 0.98
"""A few items with a large shift and many with a small one fit alike: a curved ridge, which needs
small steps."""
WIDE = 0.5
"""Width of the interval of a share from which on the data hardly narrow it."""
DIFFERENT = 0.01
"""Probability below which, over all models, controls and other items are taken to differ."""
ALIKE = 0.2
"""Mean rank correlation between models from which on errors of their covariates are shared."""
_PARAMETERS = ("share", "shift", "separation")
ASSUMPTION = (
    "Assumed: controls have the scores that the other items would have had unseen. Where rewriting"
    " made texts less fluent, or newer items are harder to predict, P(contaminated) is too high;"
    " these scores cannot show it."
)
"""What results stand on, for everyone who reads them."""


@dataclass(frozen=True, eq=False)
class ModelEvidence:
    """P(contaminated) by model and item, from scores of the models themselves.

    Made by `model_evidence`.

    Attributes
    ----------
    scores : ModelScores
        The scores, of the models that were used.
    posterior : xarray.Dataset
        Draws, dims (chain, draw, …): ``share`` (of the items that are no controls, the share
        that was seen; dim model), ``shift`` (of seen scores, in standard deviations of clean
        ones), ``separation`` (P(a seen item scores above a clean one)), ``p_seen`` (dims model,
        level) and parameters.
    checks : tuple of Check
        Convergence, fit, and what the scores can show.
    levels : Levels
        The scores as they were counted.
    seed : int
        Reproduces the draws.
    """

    scores: ModelScores
    posterior: xr.Dataset
    checks: tuple[Check, ...]
    levels: Levels
    seed: int

    def __repr__(self) -> str:
        items = int(self.levels.others.sum())
        return f"<ModelEvidence of {len(self.levels.models)} models, {items:,} scores>"

    @cached_property
    def _drawn(self) -> FloatArray:
        """P(seen) of each model and level, dims (draw, model, level)."""
        drawn = self.posterior["p_seen"].to_numpy()
        return drawn.reshape(-1, *drawn.shape[2:])

    def summary(self, level: float = LEVEL) -> pd.DataFrame:
        """Return one row for each model that has other items than controls.

        Parameters
        ----------
        level : float, default 0.95
            Probability of the equal-tailed intervals.

        Returns
        -------
        pandas.DataFrame
            ``model``, ``items`` and ``controls`` (numbers), ``share`` (of the items that was
            seen; posterior mean) with ``share_low, share_high``, ``separation`` (probability
            that a seen item scores above a clean one) with its interval, ``above`` (the share of
            pairs of item and control of which the item scores higher, ties half; NaN without
            controls), and ``verdict``: ``separated``; ``wide`` (items and controls differ, but
            not so that the share is known); ``alike`` (they do not differ: nothing was shown,
            neither that items were seen nor that they were not); ``lower`` (items score below
            controls, which are no controls then); ``borrowed`` (too few controls of its own).

        Raises
        ------
        UsageError
            If `level` is none of an interval.
        """
        check_level(level)
        return summarise_evidence(self.posterior, self.levels, level)

    def covariates(self) -> Covariates:
        """Return covariates by model and item, for `fit`.

        Returns
        -------
        Covariates
            ``contamination`` and ``p_duplicate`` are P(contaminated), of controls 0;
            ``contamination_sd`` is the standard deviation of an event of that probability,
            ``p_duplicate_sd`` that of the probability over draws. Then ``score``, ``control``,
            ``controls_of_model`` and ``calibrated`` (``own``, or ``borrowed``), and ``verdict``
            as in `summary`.
        """
        frame, at = self.scores.frame, (self.levels.model, self.levels.level)
        control = frame["control"].to_numpy()
        p = np.where(control, 0.0, self._drawn.mean(axis=0)[at])
        verdicts = self.summary().set_index("model")["verdict"]
        controls = self.levels.controls.sum(axis=1)
        own = controls >= FEWEST_CONTROLS
        table = frame[["benchmark", "item", "model"]].assign(
            contamination=p,
            contamination_sd=np.sqrt(p * (1 - p)),
            p_duplicate=p,
            p_duplicate_sd=np.where(control, 0.0, self._drawn.std(axis=0)[at]),
            score=frame["score"],
            control=control.astype(np.int64),
            controls_of_model=controls[self.levels.model],
            calibrated=np.where(own, "own", "borrowed")[self.levels.model],
            verdict=frame["model"].map(verdicts).fillna(""),
        )
        return Covariates.from_frame(table, source="evidence of models")


def model_evidence(
    scores: ModelScores | pd.DataFrame | Path,
    *,
    without_controls: WithoutControls = "error",
    level: float = LEVEL,
    seed: int | None = None,
    draws: int = 1500,
    tune: int = 1500,
    chains: int = 4,
    cores: int | None = None,
    progress: bool = False,
) -> ModelEvidence:
    """Estimate by model and item how likely the item was seen, from scores of the model itself.

    Parameters
    ----------
    scores : ModelScores, pandas.DataFrame or path-like
        Scores with controls; see `ModelScores.from_frame`.
    without_controls : {"error", "drop", "borrow"}, default "error"
        What becomes of models with fewer than 20 controls: an error that names them; left out;
        or their clean scores are those of the models with controls, up to a spread between
        models. The last needs counts, since other scores differ in scale between models, and
        rests on the shape of scores alone.
    level : float, default 0.95
        Probability of intervals in checks.
    seed : int, optional
        Default: a fresh one, which the result records.
    draws, tune, chains : int
        Draws stored of each chain (1,500), draws before those (1,500), and chains (4).
    cores : int, optional
        Chains at the same time; default: as many as the machine has cores.
    progress : bool, default False
        Whether to show progress.

    Returns
    -------
    ModelEvidence
        Also when checks failed: look at its ``checks`` before you believe it.

    Raises
    ------
    DataError, UsageError
        If scores or an option cannot be used; before anything long is started.

    Notes
    -----
    Scores of controls show how a model scores items that it has not seen; those of the other
    items are a mixture of such and of higher ones, see `build_seen`. What identifies what: the
    controls the clean distribution; the part of the other items above it the product of the
    share that was seen and of the shift; only the shape of that part the share itself. Where
    items and controls hardly differ, a few items with a large shift and many with a small one
    fit alike, and P(contaminated) is unsure of every item. That rewritten items are like the
    originals but for having been seen is an assumption that the scores cannot check.

    Items of a model are independent given its parameters. That an item is easy to complete for
    all models is in the spread of clean scores, not in an effect of the item, so that errors of
    P(contaminated) are shared between models: the check "Shared errors" measures by how much.

    References
    ----------
    Benchmarking Benchmark Leakage (n-gram completion), arXiv 2404.18824. Detecting Pretraining
    Data (Min-K %), arXiv 2310.16789. Qin (1999), doi:10.1214/aos/1017938930.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.model_evidence("no-such-file.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: no-such-file.csv: no such file; check the path (from ...)
    """
    check_choice("without_controls", without_controls, WithoutControls)
    check_level(level)
    seed = fresh_seed() if seed is None else check_seed(seed)
    cores = min(chains, usable_cores()) if cores is None else cores
    sampling = Sampling(
        draws=draws, tune=tune, chains=chains, cores=cores, target_accept=TARGET_ACCEPT
    )
    if isinstance(scores, pd.DataFrame):
        scores = ModelScores.from_frame(scores)
    elif not isinstance(scores, ModelScores):
        scores = read_scores(scores)
    scores = _with_controls(scores, without_controls)
    levels = make_levels(scores, stream(seed, "ties"))
    with stage(progress, "building the model"):
        model = build_seen(levels)
    own = int(stream(seed, "evidence").integers(2**31))
    posterior, stats = sample_model(model, sampling, own, progress)
    limits = Thresholds()
    summary = summarise_evidence(posterior, levels, level)
    checks = (
        *sampling_checks(posterior, stats, _convergence(posterior, level), limits),
        _predictive_check(posterior, levels, limits, stream(seed, "replicates")),
        *_evidence_checks(summary),
        *_shared_errors(scores),
    )
    return ModelEvidence(scores, posterior, checks, levels, seed)


def _with_controls(scores: ModelScores, otherwise: WithoutControls) -> ModelScores:
    """Return the scores that are used, or say why they cannot be."""
    frame, source = scores.frame, scores.source
    controls = frame.groupby("model", sort=False)["control"].agg(["sum", "size"])
    few = controls[(controls["sum"] < FEWEST_CONTROLS) & (controls["sum"] < controls["size"])]
    need = f"at least {FEWEST_CONTROLS} are needed"
    if (controls["sum"] < FEWEST_CONTROLS).all():
        most = int(controls["sum"].max())
        problem = f"no model has enough controls: at most {most}, {need}"
        advice = (
            "Controls are items that the model cannot have seen: rewritten ones, or newer than its"
            " training cutoff. Score them in the same way, and give their rows control = 1."
        )
        raise DataError([Fault(source, problem, column="control")], advice)
    idle = controls.index[controls["sum"] == controls["size"]]
    if len(idle) == len(controls):
        problem = "all items of all models are controls; there is nothing to estimate"
        raise DataError([Fault(source, problem, column="control")])
    if not are_shared(scores) and len(idle):
        used = frame[~frame["model"].isin(idle)].reset_index(drop=True)
        note = f"left out, as all their items are controls: {join_list(idle)}"
        scores = replace(scores, frame=used, notes=(*scores.notes, note))
    if few.empty:
        return scores
    names = f"{join_list([f'{name} ({row})' for name, row in few['sum'].items()])}"
    choice = "leave these models out (without_controls='drop', --without-controls drop)"
    if otherwise == "error" or (otherwise == "borrow" and not are_shared(scores)):
        problem = f"too few controls of {names}; {need}"
        advice = f"Score controls for them too, or {choice}"
        if otherwise == "borrow":
            problem += "; scores of different models have no common scale, so none can be borrowed"
        elif are_shared(scores):
            advice += (
                ", or take the clean scores from the other models, which is much less certain"
                " (without_controls='borrow', --without-controls borrow)"
            )
        raise DataError([Fault(source, problem, column="control")], f"{advice}.")
    if otherwise == "borrow":
        return scores
    used = scores.frame[~scores.frame["model"].isin(few.index)].reset_index(drop=True)
    if used["control"].all():
        problem = (
            f"nothing to estimate: too few controls of {names}, and without these models only"
            f" controls remain; {need}"
        )
        advice = "Score controls for a model that has other items too."
        raise DataError([Fault(source, problem, column="control")], advice)
    note = f"left out for too few controls: {names}"
    return replace(scores, frame=used, notes=(*scores.notes, note))


def summarise_evidence(posterior: xr.Dataset, levels: Levels, level: float) -> pd.DataFrame:
    """Summarise draws by model; see `ModelEvidence.summary`."""
    parts: dict[str, FloatArray] = {}
    for name in ("share", "separation"):
        drawn = posterior[name].to_numpy().reshape(-1, len(levels.models))
        figures = describe(drawn, level)
        parts |= {
            name: figures["mean"],
            f"{name}_low": figures["ci_low"],
            f"{name}_high": figures["ci_high"],
        }
    items, controls = levels.others.sum(axis=1), levels.controls.sum(axis=1)
    table = pd.DataFrame({"model": levels.models, "items": items, "controls": controls} | parts)
    above, verdicts = [], []
    limit = DIFFERENT / max(1, int(((items > 0) & (controls > 0)).sum()))
    # Verdicts do not depend on the level that is printed.
    shares = describe(posterior["share"].to_numpy().reshape(-1, len(levels.models)), LEVEL)
    for number, width in enumerate(shares["ci_high"] - shares["ci_low"]):
        other, clean = (
            np.repeat(np.arange(len(levels.value)), counts[number])
            for counts in (levels.others, levels.controls)
        )
        verdict, share = "borrowed", np.nan
        if len(other) and len(clean):
            test = mannwhitneyu(other, clean, alternative="greater", method="asymptotic")
            share = test.statistic / (len(other) * len(clean))
            # Equal scores show no direction: the test has no p-value for them.
            p_higher = test.pvalue if np.ptp([*other, *clean]) else 0.5
            if len(clean) >= FEWEST_CONTROLS:
                wide = "wide" if width > WIDE else "separated"
                verdict = wide if p_higher < limit else "alike"
                verdict = "lower" if 1 - p_higher < limit else verdict
        above.append(share)
        verdicts.append(verdict)
    table = table.assign(above=above, verdict=verdicts)
    return table[table["items"] > 0].reset_index(drop=True)


def _convergence(posterior: xr.Dataset, level: float) -> pd.DataFrame:
    """Return figures of the draws of what users read."""
    parts = []
    for name in _PARAMETERS:
        cells = posterior[name].to_numpy()
        figures = describe(cells.reshape(-1, cells.shape[2]), level) | convergence(cells)
        parts.append(pd.DataFrame({"model": posterior["model"], "quantity": name} | figures))
    return pd.concat(parts, ignore_index=True)


def _predictive_check(
    posterior: xr.Dataset, levels: Levels, limits: Thresholds, rng: np.random.Generator
) -> Check:
    """Check that two components describe the scores of every model."""
    at = spaced(posterior.sizes["chain"] * posterior.sizes["draw"], 1000)
    scored = levels.others.any(axis=1)
    clean, seen, share = (
        values.reshape(-1, *values.shape[2:])[at][:, scored]
        for values in (posterior[name].to_numpy() for name in ("clean", "seen", "share"))
    )
    either = (1 - share[..., None]) * clean + share[..., None] * seen
    either /= either.sum(axis=-1, keepdims=True)
    counts = levels.others[scored]
    total = counts.sum(axis=1)
    expected = np.maximum(either * total[:, None], 1e-12)
    replicated = _misfit(rng.multinomial(total, either), expected)
    observed = _misfit(counts, expected)
    # The worst of the models is compared with the worst of a replicate: p-values of each, times
    # their number, could not be small if there are many. Misfits of models with more items or
    # levels are larger, hence the scale.
    center, scale = replicated.mean(axis=0), np.maximum(replicated.std(axis=0), 1e-12)
    observed, replicated = ((misfit - center) / scale for misfit in (observed, replicated))
    worse = replicated.max(axis=1) >= observed.max(axis=1)
    value = (worse.sum() + 1) / (len(worse) + 1)
    worst = levels.models[np.flatnonzero(scored)[observed.mean(axis=0).argmax()]]
    return make_check(
        "Scores by level", value >= limits.predictive, value, f"p ≥ {limits.predictive:g}",
        "A clean and a seen component describe the scores of every model.",
        f"The scores of {printable(worst, 60)} are no mixture of those of its controls"
        " and of higher ones: look at both, the controls may be of another kind than the items.",
        Outcome.FAILED,
    )  # fmt: skip


def _misfit(counts: np.ndarray, expected: FloatArray) -> FloatArray:
    """Return Freeman and Tukey's distance, which small expectations do not blow up."""
    distance: FloatArray = ((np.sqrt(counts) - np.sqrt(expected)) ** 2).sum(axis=-1)
    return distance


_FOUND = {
    "borrowed": "have no controls of their own: their clean scores are guessed from those of other"
    " models, so that a model that completes texts better looks like one that has seen them",
    "lower": "score below their controls: these are no controls then, or the direction is wrong"
    " (--lower-is-seen)",
    "alike": "score like their controls: neither that items were seen was shown, nor that they"
    " were not; P(contaminated) rests on the prior and on what other models show",
    "wide": "score above their controls, but components overlap: how many items were seen is"
    " hardly known",
}
"""What verdicts on models mean, after their names; the worst first."""


def _evidence_checks(summary: pd.DataFrame) -> Iterator[Check]:
    """Check by model what the scores can show."""
    for verdict, sentence in _FOUND.items():
        names = summary.loc[summary["verdict"] == verdict, "model"]
        if len(names):
            outcome = Outcome.FAILED if verdict == "lower" else Outcome.CAUTION
            text = f"{join_list(names)} {sentence}."
            yield Check(f"Controls: {verdict}", outcome, len(names), "", text)
    if len(summary) and (summary["verdict"] == "separated").all():
        text = "Items of all models score above their controls, and the share is known."
        yield Check("Controls", Outcome.PASSED, len(summary), "", text)


def _shared_errors(scores: ModelScores) -> Iterator[Check]:
    """Check whether models have high scores on the same items."""
    frame = scores.frame
    rows = frame[~frame["control"]]
    wide = rows.pivot(index=["benchmark", "item"], columns="model", values="score")
    wide = wide.loc[:, wide.nunique() > 1]
    if wide.shape[1] < 2:
        return
    pairs = wide.corr(method="spearman", min_periods=20).to_numpy()
    upper = pairs[np.triu_indices_from(pairs, 1)]
    known: BoolArray = ~np.isnan(upper)
    if not known.any():
        return
    value = float(upper[known].mean())
    yield make_check(
        "Shared errors", value < ALIKE, value, f"< {ALIKE:g}",
        "Different models have high scores on different items.",
        f"Scores of different models on the same items correlate ({value:.2f}): the same items"
        " were seen, or are easy to complete for all. As far as it is the latter, errors of"
        " P(contaminated) are shared between models, and a fit of several models is less certain"
        " than it states.",
    )  # fmt: skip
