"""A judge that learns from judgements which pairs are duplicates, and then costs nothing a pair."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bayescontam._files import make_folder, write_text
from bayescontam._optional import require
from bayescontam._progress import stage
from bayescontam._random import check_seed
from bayescontam._text import join_list, printable
from bayescontam._types import FloatArray, IntArray
from bayescontam.data.judgements import MODEL, PAIR, RULE, TRAINED, Judgements
from bayescontam.errors import DataError, Fault, UsageError
from bayescontam.evidence.choice import all_pairs
from bayescontam.evidence.judge_features import COSINE, FEATURES, pair_features
from bayescontam.evidence.judge_validation import validation
from bayescontam.evidence.pairs import positions_in_scan, scan_pairs
from bayescontam.scan.results import Scan

FOLDS = 5
"""Parts of the items; each is judged by what the others taught."""
LEAST = 10
"""Verdicts of each sort that a judge needs to learn from, on at least `FOLDS` items each."""
FORMAT = 1
"""Version of the file of a judge; to be raised when an earlier one must not be read."""
FILE, VALIDATION = "judge.json", "validation.json"
_PENALTIES = (0.01, 0.1, 1.0, 10.0)
"""Inverse strengths of the penalty, of which the best on inner folds is used."""
_KEYS, _ITEM = list(PAIR), ["benchmark", "item"]
_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Scorer(BaseModel):
    """A calibrated logistic regression.

    It is linear so that it can be stored as numbers and read back exactly: a file of a judge
    is never a program, as a pickle would be.
    """

    model_config = _STRICT

    # centre, scale, weights: of each feature
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    # logit of the probability = slope × score + offset
    slope: float
    offset: float
    threshold: float = Field(ge=0, le=1)  # probability from which the verdict is 1

    @classmethod
    def fit(
        cls,
        x: FloatArray,
        y: IntArray,
        groups: IntArray,
        seed: int,
        penalties: Sequence[float] = _PENALTIES,
    ) -> Self:
        """Fit to features (pair, feature); calibration and threshold come from inner folds."""
        centre, scale = x.mean(axis=0), x.std(axis=0)
        scale[scale < 1e-9] = 1.0
        scaled = (x - centre) / scale
        splits = _splits(y, groups, seed)
        best: tuple[float, Any] | None = None
        for penalty in penalties:
            # Weights of classes: else a few duplicates among many others hardly count.
            model = _regression(C=penalty, class_weight="balanced")
            scores = np.empty(len(y))
            for train, test in splits:
                scores[test] = model.fit(scaled[train], y[train]).decision_function(scaled[test])
            slope, offset = _platt(scores, y)
            p = _expit(slope * scores + offset)
            loss = -np.log(np.where(y == 1, p, 1 - p)).mean()
            if best is None or loss < best[0]:
                best = loss, (penalty, slope, offset, p)
        assert best is not None  # there is a penalty
        penalty, slope, offset, p = best[1]
        model = _regression(C=penalty, class_weight="balanced").fit(scaled, y)
        return cls(
            centre=tuple(centre.tolist()),
            scale=tuple(scale.tolist()),
            weights=tuple(model.coef_[0].tolist()),
            intercept=float(model.intercept_[0]),
            slope=slope,
            offset=offset,
            threshold=_best_threshold(p, y),
        )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if len({len(self.centre), len(self.scale), len(self.weights)}) > 1:
            raise ValueError("centre, scale and weights differ in length")
        return self

    def probability(self, x: FloatArray) -> FloatArray:
        """Return the probability that pairs with these features are duplicates."""
        scores = (x - self.centre) / self.scale @ np.array(self.weights) + self.intercept
        return _expit(self.slope * scores + self.offset)


def _regression(**options: Any) -> Any:
    # Newton's method, which with a few features is faster and more exact than the default.
    kind = require("sklearn.linear_model", "scan").LogisticRegression
    return kind(solver="newton-cholesky", max_iter=1_000, **options)


def _expit(x: FloatArray) -> FloatArray:
    from scipy.special import expit

    # Never quite 0 or 1, whose logarithm of the other side is infinite.
    return np.clip(expit(x), 1e-9, 1 - 1e-9)


def _splits(y: IntArray, groups: IntArray, seed: int) -> list[tuple[IntArray, IntArray]]:
    """Return rows to learn from and rows held out, by items, with both verdicts in each part."""
    fewest = min(len(np.unique(groups[y == value])) for value in (0, 1))
    kind = require("sklearn.model_selection", "scan").StratifiedGroupKFold
    for parts in range(min(FOLDS, fewest), 1, -1):
        splits = list(kind(parts, shuffle=True, random_state=seed % 2**32).split(y, y, groups))
        if all(len(np.unique(y[train])) == 2 and len(test) for train, test in splits):
            return splits
    raise DataError(
        [Fault("judgements", "duplicates, or pairs that are none, stand in too few items")],
        "Judge pairs of more items.",
    )


def _platt(scores: FloatArray, y: IntArray) -> tuple[float, float]:
    """Return slope and offset of the log-odds of a duplicate on held-out scores.

    .. [1] Platt (1999), Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods. In Advances in large margin classifiers, MIT Press.
    """
    # Platt's targets, not quite 1 and 0: where all scores are in order the slope stays finite.
    n1 = int(y.sum())
    target = np.where(y == 1, (n1 + 1) / (n1 + 2), 1 / (len(y) - n1 + 2))
    unit = float(scores.std()) or 1.0
    model = _regression(C=np.inf).fit(
        np.tile(scores / unit, 2)[:, None],
        np.repeat([1, 0], len(y)),
        sample_weight=np.concatenate([target, 1 - target]),
    )
    return float(model.coef_[0, 0]) / unit, float(model.intercept_[0])


def _best_threshold(p: FloatArray, y: IntArray) -> float:
    """Return the probability from which verdicts of 1 have the highest F1."""
    curve = require("sklearn.metrics", "scan").precision_recall_curve
    precision, recall, thresholds = curve(y, p)
    with np.errstate(invalid="ignore"):
        f1 = np.nan_to_num(2 * precision * recall / (precision + recall))[:-1]
    at = int(f1.argmax())
    # Halfway to the next lower probability: pairs just below the last duplicate are like it.
    lower = thresholds[at - 1] if at else thresholds[at]
    return float((thresholds[at] + lower) / 2)


class TrainedJudge(BaseModel):
    """A judge that learnt from judgements; made by `train_judge` or `TrainedJudge.from_pairs`.

    It is a logistic regression on the cosine and on lexical scores of a pair (n-grams, Jaccard,
    ROUGE-L, the share of the item's rare words and of its numbers that the chunk has), with weights
    of classes and a penalty chosen on inner folds, calibrated by Platt's method [1]_ on held-out
    scores. The threshold of its verdicts has the highest F1 on these.

    It never judges what it learnt from: the items of the judgements are divided into 5 folds,
    and a pair of such an item is judged by the regression that did not see the item.

    Attributes
    ----------
    name : str
        Name without ``trained:``.
    embedder : str or None
        Model whose cosines it learnt from; None if not known.
    report : dict
        Held-out counts, metrics with intervals, and reliability; see ``validation.json``.

    References
    ----------
    .. [1] Platt (1999), Probabilistic outputs for support vector machines and comparisons to
       regularized likelihood methods. In Advances in large margin classifiers, MIT Press.

    Examples
    --------
    >>> import bayescontam
    >>> bayescontam.TrainedJudge.load("no-such-folder")
    Traceback (most recent call last):
        ...
    bayescontam.errors.UsageError: no-such-folder: holds no trained judge (no judge.json); make one with 'bayescontam judge train'
    """  # noqa: E501

    model_config = _STRICT

    judge_format: int = Field(ge=FORMAT, le=FORMAT)
    name: str
    embedder: str | None
    features: tuple[str, ...]
    seed: int
    whole: Scorer  # learnt from all items
    folds: tuple[Scorer, ...]  # each without the items of its fold
    items: tuple[tuple[str, str, int], ...]  # benchmark, item, fold
    report: dict[str, Any]

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.features != FEATURES:
            raise ValueError("the features are not those of this version of bayescontam")
        if any(len(each.weights) != len(FEATURES) for each in (self.whole, *self.folds)):
            raise ValueError("a scorer has not as many weights as there are features")
        if not all(0 <= fold < len(self.folds) for _, _, fold in self.items):
            raise ValueError("an item has a fold that does not exist")
        return self

    @property
    def judge(self) -> str:
        """Name in judgements: ``trained:NAME``."""
        return f"{TRAINED}{self.name}"

    @classmethod
    def from_pairs(
        cls,
        pairs: pd.DataFrame,
        *,
        name: str,
        seed: int = 1,
        items: Sequence[str] | None = None,
        embedder: str | None = None,
        progress: bool = False,
    ) -> Self:
        """Train a judge on judged pairs of texts, without a scan.

        Parameters
        ----------
        pairs : pandas.DataFrame
            ``benchmark``, ``item``, ``text`` (of the item), ``chunk_text``, ``cosine``,
            ``is_duplicate`` (1 or 0); ``best`` is the highest cosine of the item, by default
            that of its pairs here. At least 10 pairs of each verdict, on 5 items or more.
        name : str
            Name of the judge, without ``trained:``.
        seed : int, default 1
            Seed of the folds and of the intervals.
        items : sequence of str, optional
            Texts of all items, by which rare words are known; default: those of the pairs.
        embedder : str, optional
            Model that the cosines are of.
        progress : bool, default False
            Whether to show progress.

        Returns
        -------
        TrainedJudge

        Raises
        ------
        UsageError
            If the name is blank or begins with ``trained:``.
        DataError
            If columns are absent, a verdict is neither 1 nor 0, or there are too few of either.
        """
        if not name.strip() or name.startswith(TRAINED):
            raise UsageError(
                f"name: got '{printable(name)}'; allowed is a name that is not blank, without "
                f"'{TRAINED}', which is added to it"
            )
        check_seed(seed)
        _check(pairs, ["is_duplicate"])
        y = _verdicts(pairs)
        pairs = pairs.reset_index(drop=True)
        texts = pairs["text"].unique().tolist() if items is None else list(items)
        features = pair_features(_with_best(pairs), texts, progress=progress)
        x = features.to_numpy(float)
        at = [FEATURES.index(column) for column in COSINE]
        numbers = pairs.groupby(_ITEM, sort=False).ngroup()
        groups: IntArray = np.asarray(numbers, dtype=np.int64)
        fold = np.full(len(y), -1)
        folds, held_out = [], pairs[_ITEM].assign(judged=y, fold=0)
        with stage(progress, "training"):
            for number, (train, test) in enumerate(_splits(y, groups, seed)):
                fold[test] = number
                own_y, own_groups = y[train], groups[train]
                learnt = Scorer.fit(x[train], own_y, own_groups, seed)
                alone = Scorer.fit(x[np.ix_(train, at)], own_y, own_groups, seed, (1.0,))
                folds.append(learnt)
                for own, scorer, seen in (("judge", learnt, x[test]), ("c", alone, x[test][:, at])):
                    p = scorer.probability(seen)
                    held_out.loc[test, [f"p_{own}"]] = p
                    held_out.loc[test, [f"v_{own}"]] = (p >= scorer.threshold).astype(float)
            whole = Scorer.fit(x, y, groups, seed)
            methods = {"judge": ("p_judge", "v_judge"), "cosine alone": ("p_c", "v_c")}
            report = validation(held_out, methods, seed=seed)
        known = pairs[_ITEM].assign(fold=fold).drop_duplicates(_ITEM)
        return cls(
            judge_format=FORMAT,
            name=name,
            embedder=embedder,
            features=FEATURES,
            seed=seed,
            whole=whole,
            folds=tuple(folds),
            items=tuple(known.itertuples(index=False, name=None)),
            report={"judge": f"{TRAINED}{name}"} | report,
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a judge from its folder.

        Raises
        ------
        UsageError
            If there is none.
        DataError
            If its file is damaged, or of another version.
        """
        path = Path(folder, FILE)
        try:
            content = path.read_bytes()
        except OSError as error:
            why = "no judge.json" if isinstance(error, FileNotFoundError) else error.strerror
            raise UsageError(
                f"{printable(os.fspath(folder))}: holds no trained judge ({why}); make one with "
                "'bayescontam judge train'"
            ) from error
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            problem = f"is no trained judge of this version ({printable(place)}: {first['msg']})"
            raise DataError(
                [Fault(str(path), problem)], "Train it again: bayescontam judge train."
            ) from error

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the judge to a new folder: ``judge.json`` and ``validation.json``.

        Raises
        ------
        UsageError
            If the folder holds a judge already, or cannot be written.
        """
        check_free(folder)
        path = make_folder(folder)
        report = json.dumps(self.report, indent=1, ensure_ascii=False)
        write_text(path / VALIDATION, report + "\n")
        # Last: a folder without it holds no judge.
        write_text(path / FILE, self.model_dump_json(indent=1) + "\n")

    def probabilities(
        self, pairs: pd.DataFrame, *, items: Sequence[str] | None = None, progress: bool = False
    ) -> pd.DataFrame:
        """Return the probability that each pair is a duplicate, and the verdict.

        Parameters
        ----------
        pairs : pandas.DataFrame
            As for `from_pairs`, without ``is_duplicate``.
        items : sequence of str, optional
            Texts of all items; default: those of the pairs.
        progress : bool, default False
            Whether to show progress.

        Returns
        -------
        pandas.DataFrame
            ``p`` (0 to 1), ``verdict`` (1 or 0), ``fold`` (whose regression judged, which did not
            see the item; -1 of an item that it did not learn from), in the order of `pairs`.

        Raises
        ------
        DataError
            If columns are absent.
        """
        _check(pairs, [])
        pairs = pairs.reset_index(drop=True)
        texts = pairs["text"].unique().tolist() if items is None else list(items)
        x = pair_features(_with_best(pairs), texts, progress=progress).to_numpy(float)
        known = {(benchmark, item): fold for benchmark, item, fold in self.items}
        names = zip(pairs["benchmark"], pairs["item"], strict=True)
        fold = np.array([known.get(each, -1) for each in names], int)
        p, verdict = np.empty(len(x)), np.empty(len(x), int)
        for number in np.unique(fold).tolist():
            rows = fold == number
            scorer = self.whole if number < 0 else self.folds[number]
            p[rows] = scorer.probability(x[rows])
            verdict[rows] = p[rows] >= scorer.threshold
        return pd.DataFrame({"p": p, "verdict": verdict, "fold": fold})

    def apply(
        self, scan: Scan, pairs: pd.DataFrame | None = None, *, progress: bool = False
    ) -> Judgements:
        """Judge pairs of a scan.

        Parameters
        ----------
        scan : Scan
        pairs : pandas.DataFrame, optional
            Pairs of the scan with their texts; default: all whose texts it holds, of each
            document the nearest chunk.
        progress : bool, default False
            Whether to show progress.

        Returns
        -------
        Judgements
            Of the judge ``trained:NAME``; ``confidence`` is the calibrated probability of the
            verdict, which of pairs near the threshold may be below 1/2.

        Raises
        ------
        UsageError
            If the scan is of another embedder, whose cosines mean something else.
        DataError
            If the scan holds no texts.
        """
        here = _embedder(scan)
        if self.embedder is not None and here != self.embedder:
            raise UsageError(
                f"{printable(str(scan.folder))}: has cosines of '{printable(str(here))}', but "
                f"{self.judge} learnt from those of '{printable(self.embedder)}'; train a judge on "
                "judgements of this scan"
            )
        chosen = all_pairs(scan) if pairs is None else pairs
        found = self.probabilities(
            _with_best(chosen, scan), items=scan.items["text"].tolist(), progress=progress
        )
        verdict = found["verdict"]
        table = chosen[_KEYS].reset_index(drop=True)
        table = table.assign(
            judge=self.judge,
            is_duplicate=verdict,
            confidence=found["p"].where(verdict == 1, 1 - found["p"]).round(6),
        )
        return Judgements.from_frame(table, source=self.judge)


def check_free(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that holds a judge, as verdicts of it may have been used."""
    if Path(folder, FILE).exists():
        raise UsageError(
            f"{printable(os.fspath(folder))}: holds a trained judge; give another name, or remove "
            "it"
        )


def train_judge(
    scan: Scan, judgements: Judgements, *, name: str, seed: int = 1, progress: bool = False
) -> TrainedJudge:
    """Train a judge on the judgements of some pairs of a scan.

    A pair with verdicts of people has the verdict of their majority, any other that of the
    majority of language models; pairs with as many verdicts for as against are left out. Verdicts
    of rules and of trained judges teach nothing: a rule finds one kind of duplicates only.

    Parameters
    ----------
    scan : Scan
    judgements : Judgements
        Of pairs of this scan: at least 10 duplicates and 10 that are none, on 5 items or more
        each. A few hundred pairs spread over all cosines serve well.
    name : str
        Name of the judge, without ``trained:``.
    seed : int, default 1
        Seed of the folds and of the intervals: the same seed gives the same judge.
    progress : bool, default False
        Whether to show progress.

    Returns
    -------
    TrainedJudge
        With its held-out validation in ``report``.

    Raises
    ------
    UsageError
        If the name is blank.
    DataError
        If there are too few verdicts, or judgements of pairs that the scan lacks.

    Examples
    --------
    >>> import bayescontam
    >>> scan = bayescontam.Scan.load("scan")  # doctest: +SKIP
    >>> judged = bayescontam.read_judgements("judgements.csv")  # doctest: +SKIP
    >>> bayescontam.train_judge(scan, judged, name="small").save("small-judge")  # doctest: +SKIP
    """
    judged = resolved(positions_in_scan(judgements, scan))
    pairs = all_pairs(scan, further=True).drop_duplicates(_KEYS)
    pairs = judged.merge(pairs, on=_KEYS, how="inner")
    if len(judged) and pairs.empty:
        problem = "holds no texts of the judged pairs (vectors without texts?)"
        raise DataError([Fault(str(scan.folder), problem)])
    return TrainedJudge.from_pairs(
        _with_best(pairs, scan),
        name=name,
        seed=seed,
        items=scan.items["text"].tolist(),
        embedder=_embedder(scan),
        progress=progress,
    )


def resolved(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one verdict a pair: that of most people, else of most models; without draws."""
    frame = judged[judged["is_duplicate"].notna()]
    names = frame["judge"].astype(str)
    frame = frame[~names.str.startswith((RULE, TRAINED))]
    frame = frame.assign(person=~frame["judge"].astype(str).str.startswith(MODEL))
    by_pair = frame.groupby(_KEYS, sort=False, observed=True)
    frame = frame[frame["person"] | ~by_pair["person"].transform("any")]
    share = frame.astype({"is_duplicate": float}).groupby(_KEYS, sort=False, observed=True)
    mean = share["is_duplicate"].mean().reset_index()
    mean = mean[mean["is_duplicate"] != 0.5]
    return mean.assign(is_duplicate=(mean["is_duplicate"] > 0.5).astype(int))


def _embedder(scan: Scan) -> str | None:
    """Return the model whose cosines a scan has."""
    model = (scan.record.get("embedder") or {}).get("model")
    return None if model is None else str(model)


def _with_best(pairs: pd.DataFrame, scan: Scan | None = None) -> pd.DataFrame:
    """Return pairs with the highest cosine of their items, in the scan or among the pairs."""
    if scan is None and "best" in pairs.columns:
        return pairs
    table = pairs if scan is None else scan_pairs(scan)
    best = table.groupby(_ITEM, sort=False, observed=True)["cosine"].max().rename("best")
    return pairs.drop(columns="best", errors="ignore").merge(
        best.reset_index(), on=_ITEM, how="left", validate="many_to_one"
    )


def _check(pairs: pd.DataFrame, more: list[str]) -> None:
    needed = [*_ITEM, "text", "chunk_text", "cosine", *more]
    if absent := [name for name in needed if name not in pairs.columns]:
        raise DataError(
            [Fault("pairs", f"lacks {join_list(absent)}; needed are {join_list(needed)}")]
        )
    if not np.isfinite(pairs["cosine"].to_numpy(float)).all():
        raise DataError([Fault("pairs", "some have no cosine; fill them in or leave them out")])


def _verdicts(pairs: pd.DataFrame) -> IntArray:
    """Return the verdicts to learn from, if there are enough of both."""
    given = pairs["is_duplicate"]
    if not given.isin([0, 1]).all():
        problem = "some verdicts are neither 1 nor 0; leave unjudged pairs out"
        raise DataError([Fault("pairs", problem, column="is_duplicate")])
    y: IntArray = given.to_numpy(int)
    faults = []
    for value, what in ((1, "duplicates"), (0, "pairs that are none")):
        rows = pairs[y == value]
        count, items = len(rows), len(rows.drop_duplicates(_ITEM))
        if count < LEAST or items < FOLDS:
            problem = (
                f"{count:,} {what} on {items:,} items; needed are at least {LEAST} on {FOLDS} "
                "items, by people or language models"
            )
            faults.append(Fault("judgements", problem))
    if faults:
        raise DataError(faults, "Judge more pairs, spread over all cosines, and train again.")
    return y
