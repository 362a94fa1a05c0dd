import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from bayescontam.calibration.quantities import label_of
from bayescontam.calibration.storage import BOUNDS, intervals
from bayescontam.errors import DataError, FitError, UsageError
from bayescontam.inference import bootstrap
from bayescontam.inference.bootstrap import QUANTITIES, regressions, resample


def answers(items: int, seed: int, trials: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    contamination = rng.uniform(0.1, 0.7, items)
    return pd.DataFrame(
        {
            "model": "A", "benchmark": "quiz", "item": [f"i{n}" for n in range(items)],
            "n_correct": rng.binomial(trials, 0.35 + 0.3 * contamination), "n_trials": trials,
            "contamination": contamination,
        }
    )  # fmt: skip


def bootstrap_rows(frame: pd.DataFrame, rng: np.random.Generator, **options: float) -> pd.DataFrame:
    """Summarise resamples as rows of a study do."""
    return pd.DataFrame(
        [
            {"quantity": name, "where": where, "mean": values.mean(), "sd": values.std(ddof=1),
             **intervals(values)}
            for (name, *pair), values in resample(frame, rng, **options).items()  # type: ignore[arg-type]
            for where in [label_of(pair)]
        ]
    )  # fmt: skip


def arrays(frame: pd.DataFrame) -> list[np.ndarray]:
    return [frame[name].to_numpy(float) for name in ("n_correct", "n_trials", "contamination")]


def alone(frame: pd.DataFrame, penalty: float) -> tuple[float, float]:
    """Fit one regression by a general optimiser, to items that are written out."""
    k, n, d = arrays(frame)

    def loss(at: np.ndarray) -> float:
        eta = at[0] + at[1] * d
        return float((n * np.logaddexp(0, eta) - k * eta).sum() + penalty * at[1] ** 2 / 2)

    found = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12,
                                                                      "maxiter": 5000})  # fmt: skip
    return float(found.x[0]), float(found.x[1])


def test_items_count_alike_however_many_trials_they_have() -> None:
    frame = answers(200, 3, 4).assign(n_correct=lambda t: 2 * (t["n_correct"] // 2))
    share = frame["n_correct"] / 4
    n = np.where(share.rank(method="first") <= 100, 6, 2)  # more where answers are wrong
    uneven = frame.assign(n_trials=n, n_correct=(share * n).round().astype(int))
    assert n.mean() == 4
    assert (uneven["n_correct"] / n == share).all()
    even, other = (
        bootstrap_rows(table, np.random.default_rng(5), resamples=50).set_index("quantity")
        for table in (frame, uneven)
    )
    np.testing.assert_allclose(other["mean"], even["mean"], rtol=1e-6)
    assert other.loc["accuracy", "mean"] == pytest.approx(share.mean(), abs=0.02)


@pytest.mark.parametrize(("trials", "penalty"), [(1, 1.0), (4, 1.0), (1, 20.0)])
def test_every_regression_is_that_of_a_general_optimiser(trials: int, penalty: float) -> None:
    frame = answers(60, 1, trials)
    weights = np.random.default_rng(2).multinomial(60, np.full(60, 1 / 60), size=8).astype(float)
    intercept, slope = regressions(*arrays(frame), weights, penalty)
    for row in range(8):
        written_out = frame.loc[np.repeat(np.arange(60), weights[row].astype(int))]
        expected = alone(written_out, penalty)
        assert (intercept[row], slope[row]) == pytest.approx(expected, abs=2e-5)


def test_steps_are_halved_where_they_would_raise_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    # Few items are contaminated, and nearly all wrong: of their log-odds little is known.
    frame = answers(54, 5).assign(contamination=0.0)
    frame.loc[:3, "contamination"] = 1.0
    frame["n_correct"] = np.r_[np.zeros(4), np.ones(48), np.zeros(2)]
    weights = np.random.default_rng(6).multinomial(54, np.full(54, 1 / 54), size=20).astype(float)
    intercept, slope = regressions(*arrays(frame), weights, 1e-4)
    d, k, n = frame["contamination"].to_numpy(), frame["n_correct"].to_numpy(), weights
    wrong = k - expit(intercept[:, None] + slope[:, None] * d)
    assert (n * wrong).sum(axis=1) == pytest.approx(0, abs=1e-4)
    assert (n * wrong) @ d == pytest.approx(1e-4 * slope, abs=1e-4)
    # Whether each step is asked about changes nothing; if none were, some would not arrive.
    monkeypatch.setattr(bootstrap, "_SURE", 0.0)
    np.testing.assert_array_equal(regressions(*arrays(frame), weights, 1e-4), (intercept, slope))
    monkeypatch.setattr(bootstrap, "_SURE", np.inf)
    with pytest.raises(FitError), np.errstate(all="ignore"):
        regressions(*arrays(frame), weights, 1e-4)


def test_steps_of_the_stated_length_cannot_raise_the_loss() -> None:
    def least_fall(change: float) -> float:
        return 1 - (np.exp(change) - 1 - change) / change**2

    assert least_fall(bootstrap._SURE) > 0 > least_fall(1.8)
    rng, long = np.random.default_rng(7), 0
    for _ in range(300):
        x = rng.normal(0, 10 ** rng.uniform(-1, 1), 30)
        trials = rng.poisson(1, (20, 30)).astype(float)
        k = rng.binomial(1, 0.5, 30)
        right = trials @ np.stack([k, k * x], axis=1)
        problem = bootstrap._NewtonLogistic(right, trials, x, 10 ** rng.uniform(-4, 0))
        at = rng.normal(0, [2.0, 0.5], (20, 2))
        step, _ = problem.step(at)
        change = np.abs(step[:, :1] + step[:, 1:] * x).max(axis=1)
        sure = change <= bootstrap._SURE
        long += int((change[sure] > 1).sum())
        assert (problem.loss(at + step) <= problem.loss(at) + 1e-12)[sure].all()
    assert long > 100


def test_every_regression_is_that_of_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    frame = answers(200, 3)
    k, n, d = arrays(frame)
    weights = (
        np.random.default_rng(4).multinomial(200, np.full(200, 1 / 200), size=30).astype(float)
    )
    intercept, slope = regressions(k, n, d, weights, 1.0)
    for row in range(30):
        one = linear.LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)
        one.fit(d[:, None], k, sample_weight=weights[row])
        expected = one.intercept_[0], one.coef_[0, 0]
        assert (intercept[row], slope[row]) == pytest.approx(expected, abs=1e-5)


def test_rows_are_what_resamples_say_one_by_one() -> None:
    frame = answers(40, 5)
    rows = bootstrap_rows(frame, np.random.default_rng(6), resamples=30).set_index("quantity")
    weights = np.random.default_rng(6).multinomial(40, np.full(40, 1 / 40), size=30)
    reported = []
    for w in weights:
        drawn = frame.loc[np.repeat(np.arange(40), w)]
        a, b = alone(drawn, 1.0)
        at_smallest = drawn.assign(contamination=drawn["contamination"].min())
        genuine = expit(a + b * at_smallest["contamination"]).mean()
        accuracy = drawn["n_correct"].mean()
        over = max(accuracy - genuine, 0.0)
        reported.append((accuracy, genuine, over, over / accuracy, b))
    expected = pd.DataFrame(reported, columns=list(QUANTITIES))
    assert (expected["overfitting_direct"] == 0).any()  # the clipping is met
    for name in QUANTITIES:
        assert rows.loc[name, "mean"] == pytest.approx(expected[name].mean(), abs=1e-5)
        assert rows.loc[name, "sd"] == pytest.approx(expected[name].std(), abs=1e-5)
        for level in (50, 80, 90, 95):
            ends = np.percentile(expected[name], [50 - level / 2, 50 + level / 2])
            found = rows.loc[name, [f"low_{level}", f"high_{level}"]].tolist()
            assert found == pytest.approx(ends.tolist(), abs=1e-5)


def test_every_pair_of_model_and_benchmark_has_its_rows() -> None:
    second = answers(30, 8).assign(model="B", benchmark="exam")
    frame = pd.concat([answers(30, 7), second], ignore_index=True)
    rows = bootstrap_rows(frame, np.random.default_rng(1), resamples=20)
    assert rows["where"].tolist() == ["A | quiz"] * 5 + ["B | exam"] * 5
    assert rows["quantity"].tolist() == list(QUANTITIES) * 2
    assert rows.set_index(["where", "quantity"]).loc[("B | exam", "accuracy"), "mean"] == (
        pytest.approx(second["n_correct"].mean(), abs=0.1)
    )


def test_blocks_of_resamples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = answers(30, 9)
    whole = bootstrap_rows(frame, np.random.default_rng(1), resamples=50)
    monkeypatch.setattr(bootstrap, "_BLOCK", 30 * 7)
    parts = bootstrap_rows(frame, np.random.default_rng(1), resamples=50)
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-9)


@pytest.mark.parametrize("score", [0, 1])
def test_a_score_without_errors_or_successes_has_no_overfitting(score: int) -> None:
    rows = bootstrap_rows(answers(20, 10).assign(n_correct=score), np.random.default_rng(1))
    reported = rows.set_index("quantity")
    for name, value in zip(QUANTITIES, (score, score, 0, 0, 0), strict=True):
        assert reported.loc[name, ["mean", *BOUNDS]].tolist() == [value] * 9


def test_a_resample_without_errors_is_one_however_many_trials_items_have() -> None:
    """All but one of 448 trials: shares of right trials are sums that are rounded."""
    rng = np.random.default_rng(0)
    trials = rng.choice([8, 9, 10], 50)
    right = trials.copy()
    right[0] -= 1
    frame = pd.DataFrame({
        "model": "m", "benchmark": "b", "item": [f"i{k}" for k in range(50)], "n_correct": right,
        "n_trials": trials, "contamination": np.linspace(0, 1, 50),
    })  # fmt: skip
    found = resample(frame, np.random.default_rng(0))
    genuine, slope = (found[name, "m", "b"] for name in ("genuine_ability_direct", "slope"))
    assert 0.3 < (genuine == 1).mean() < 0.43  # a third lack the item: (49 / 50) ** 50
    np.testing.assert_array_equal(slope == 0, genuine == 1)


def test_a_slope_without_contamination_is_zero() -> None:
    frame = answers(50, 11).assign(contamination=0.3)
    reported = bootstrap_rows(frame, np.random.default_rng(1)).set_index("quantity")
    assert reported.loc["slope", ["low_95", "high_95"]].tolist() == pytest.approx([0, 0], abs=1e-9)
    assert reported.loc["genuine_ability_direct", "mean"] == pytest.approx(
        reported.loc["accuracy", "mean"]
    )


def test_a_regression_that_does_not_converge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_STEPS", 1)
    with pytest.raises(FitError, match="20 of 20 regressions did not converge in 1 Newton steps"):
        bootstrap_rows(answers(30, 12), np.random.default_rng(1), resamples=20)


@pytest.mark.parametrize("option", [{"resamples": 1}, {"penalty": 0.0}, {"penalty": np.inf}])
def test_options_without_a_meaning_are_refused(option: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="two resamples or more and a finite penalty above 0"):
        bootstrap_rows(answers(5, 1), np.random.default_rng(1), **option)


def test_responses_without_contamination_are_refused() -> None:
    with pytest.raises(DataError, match="no column 'contamination'"):
        bootstrap_rows(answers(5, 1).drop(columns="contamination"), np.random.default_rng(1))


def test_pairs_whose_names_read_alike_are_two() -> None:
    one, other = answers(40, 1).assign(model="a | b", benchmark="c"), answers(40, 2)
    other = other.assign(model="a", benchmark="b | c", n_correct=0)
    found = resample(pd.concat([one, other]), np.random.default_rng(1), resamples=20)
    assert found["accuracy", "a | b", "c"].mean() > 0.3
    assert found["accuracy", "a", "b | c"].max() == 0
    assert len({label_of(pair) for _, *pair in found}) == 2
