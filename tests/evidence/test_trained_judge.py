"""A judge that learns from judgements: what it learns, on whom it judges, and how it is stored."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, log_loss, precision_score, recall_score

from bayescontam.data.judgements import PAIR, Judgements
from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.judge_features import FEATURES, pair_features
from bayescontam.evidence.judge_validation import METRICS, validation
from bayescontam.evidence.trained_judge import Scorer, TrainedJudge, resolved, train_judge
from bayescontam.scan.results import Scan
from tests.support.judged_texts import judged_pairs
from tests.support.made_evidence import make_scan, match


@pytest.fixture(scope="module")
def pairs() -> pd.DataFrame:
    return judged_pairs(error=0.03)


@pytest.fixture(scope="module")
def trained(pairs: pd.DataFrame) -> TrainedJudge:
    return TrainedJudge.from_pairs(pairs, name="small", seed=3, embedder="minilm")


@pytest.fixture(scope="module")
def scan(pairs: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """A scan that found these pairs, at least 12 matches an item, with their texts."""
    folder = tmp_path_factory.mktemp("learnt") / "scan"
    rows = [match(r.item, r.cosine, r.document) for r in pairs.itertuples()]
    found = make_scan(folder, rows)
    chunk = found.matches.set_index("document")["chunk_id"]
    texts = pd.DataFrame(
        {"chunk_id": chunk.loc[pairs["document"]].to_numpy(), "text": pairs["chunk_text"]}
    )
    texts.to_parquet(folder / "texts.parquet", index=False)
    text = pairs.drop_duplicates("item").set_index("item")["text"]
    items = found.items.assign(text=text.loc[found.items["item"]].to_numpy())
    items.to_parquet(folder / "items.parquet", index=False)
    record = found.record | {"embedder": {"model": "minilm"}}
    (folder / "scan.json").write_text(json.dumps(record))
    return Scan.load(folder)


def judgements(pairs: pd.DataFrame, judge: str = "Ada", **columns: Any) -> Judgements:
    table = pairs[[*PAIR, "is_duplicate"]].assign(judge=judge, **columns)
    return Judgements.from_frame(table)


def test_it_learns_more_than_the_cosine(trained: TrainedJudge) -> None:
    metrics = trained.report["metrics"]
    assert metrics["judge"]["f1"]["estimate"] > 0.85
    assert metrics["cosine alone"]["f1"]["estimate"] < 0.6
    assert trained.report["differences"]["judge - cosine alone"]["log_loss"]["high"] < -0.1


def test_probabilities_are_calibrated_on_other_items(trained: TrainedJudge) -> None:
    fresh = judged_pairs(items=200, seed=9, error=0.03).assign(benchmark="other")
    found = trained.probabilities(fresh)
    assert (found["fold"] == -1).all()
    assert found["p"].mean() == pytest.approx(fresh["is_duplicate"].mean(), abs=0.05)
    assert log_loss(fresh["is_duplicate"], found["p"]) < 0.3
    assert f1_score(fresh["truth"], found["verdict"]) > 0.9


def test_items_that_it_learnt_from_are_judged_by_folds_without_them(
    pairs: pd.DataFrame, trained: TrainedJudge
) -> None:
    found = trained.probabilities(pairs)
    assert set(found["fold"]) == set(range(5))
    assert found["fold"].groupby(pairs["item"]).nunique().max() == 1
    fold_of = dict(zip(pairs["item"], found["fold"], strict=True))
    # A pair that it never saw, of an item that it knows, and one of an item that it does not.
    more = pairs.iloc[[0, 0]].assign(item=["i0", "new"], document="unseen")
    again = trained.probabilities(pd.concat([pairs, more]))
    assert again["fold"].iloc[-2:].tolist() == [fold_of["i0"], -1]


def test_a_fold_has_learnt_nothing_from_its_items(
    pairs: pd.DataFrame, trained: TrainedJudge
) -> None:
    fold = trained.probabilities(pairs)["fold"].to_numpy()
    best = pairs.groupby("item")["cosine"].transform("max")
    x = pair_features(pairs.assign(best=best), pairs["text"].unique().tolist()).to_numpy(float)
    y, groups = pairs["is_duplicate"].to_numpy(int), pd.factorize(pairs["item"])[0]
    y = np.where(fold == 2, 1 - y, y)  # whatever was said of its own items
    rest = fold != 2
    assert Scorer.fit(x[rest], y[rest], groups[rest], seed=3) == trained.folds[2]


def test_the_report_is_of_held_out_verdicts(pairs: pd.DataFrame, trained: TrainedJudge) -> None:
    found = trained.probabilities(pairs)
    y, called, report = pairs["is_duplicate"], found["verdict"], trained.report
    figures = {name: report["metrics"]["judge"][name]["estimate"] for name in METRICS}
    assert figures == pytest.approx(
        {
            "accuracy": float((y == called).mean()),
            "precision": precision_score(y, called),
            "recall": recall_score(y, called),
            "f1": f1_score(y, called),
            "log_loss": log_loss(y, found["p"]),
        }
    )
    assert report["judge"] == "trained:small"
    assert report["true_positive"] == int(((y == 1) & (called == 1)).sum())
    assert report["false_negative"] == int(((y == 1) & (called == 0)).sum())
    assert report["true_negative"] == int(((y == 0) & (called == 0)).sum())
    assert report["false_positive"] == int(((y == 0) & (called == 1)).sum())
    assert sum(row["pairs"] for row in report["reliability"]) == report["pairs"] == len(pairs)
    assert report["items"] == 60


def test_intervals_are_those_of_a_bootstrap_of_items() -> None:
    rng = np.random.default_rng(4)
    items = np.repeat(np.arange(150), 4)
    truth = rng.random(600) < 0.3
    called = truth ^ (rng.random(150)[items] < 0.2)  # whole items are wrong
    table = pd.DataFrame({"benchmark": "b", "item": items, "judged": truth.astype(int)})
    table = table.assign(p=np.where(called, 0.8, 0.2), v=called.astype(int))
    found = validation(table, {"judge": ("p", "v")}, seed=1)["metrics"]["judge"]["accuracy"]
    share = float((truth == called).mean())
    sd = pd.Series(truth == called).groupby(items).mean().std() / np.sqrt(150)
    assert found["estimate"] == pytest.approx(share)
    assert found["low"] == pytest.approx(share - 1.96 * sd, abs=0.015)
    assert found["high"] == pytest.approx(share + 1.96 * sd, abs=0.015)


def test_verdicts_without_an_error_have_no_interval_of_width_zero() -> None:
    table = pd.DataFrame({"benchmark": "b", "item": range(30), "judged": [1] * 10 + [0] * 20})
    table = table.assign(p=np.where(table["judged"] == 1, 0.9, 0.1), v=table["judged"])
    found = validation(table, {"judge": ("p", "v")}, seed=1)
    recall = found["metrics"]["judge"]["recall"]
    assert (recall["estimate"], recall["high"]) == (1, 1)
    assert recall["low"] == pytest.approx(10 / (10 + 1.96**2), abs=1e-3)  # Wilson's, of 10 in 10
    assert found["metrics"]["judge"]["f1"]["low"] < 0.9
    assert found["reliability"][0]["duplicates"]["high"] > 0.1


def test_the_same_seed_gives_the_same_judge(pairs: pd.DataFrame, trained: TrainedJudge) -> None:
    again = TrainedJudge.from_pairs(pairs, name="small", seed=3, embedder="minilm")
    assert again == trained


def test_a_judge_is_stored_whole(tmp_path: Path, trained: TrainedJudge) -> None:
    trained.save(tmp_path / "judge")
    assert sorted(path.name for path in (tmp_path / "judge").iterdir()) == [
        "judge.json", "validation.json",
    ]  # fmt: skip
    assert TrainedJudge.load(tmp_path / "judge") == trained
    report = json.loads((tmp_path / "judge" / "validation.json").read_text())
    assert report == trained.report
    with pytest.raises(UsageError, match="judge: holds a trained judge; give another name"):
        trained.save(tmp_path / "judge")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"judge_format": 9}, "judge_format: Input should be less than or equal to 1"),
        ({"features": ["cosine"]}, "the features are not those of this version"),
        ({"items": [["b", "i", 5]]}, "an item has a fold that does not exist"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
        ({"folds": []}, "an item has a fold that does not exist"),
    ],
)
def test_damaged_files_are_refused(
    tmp_path: Path, trained: TrainedJudge, change: dict[str, Any], problem: str
) -> None:
    (tmp_path / "judge.json").write_text(json.dumps(trained.model_dump() | change))
    with pytest.raises(DataError) as caught:
        TrainedJudge.load(tmp_path)
    assert problem in str(caught.value)
    assert str(caught.value).endswith("Train it again: bayescontam judge train.")


def test_weights_that_do_not_fit_are_refused(tmp_path: Path, trained: TrainedJudge) -> None:
    text = trained.model_dump_json()
    for change in ({"weights": [1.0]}, {"scale": [1.0] * 3, "centre": [0.0] * 3}):
        content = json.loads(text)
        content["whole"] |= change
        (tmp_path / "judge.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match="centre, scale and weights differ in length"):
            TrainedJudge.load(tmp_path)
    (tmp_path / "judge.json").write_text("{")
    with pytest.raises(DataError, match="is no trained judge of this version"):
        TrainedJudge.load(tmp_path)


def test_from_a_scan(scan: Scan, pairs: pd.DataFrame) -> None:
    judge = train_judge(scan, judgements(pairs), name="small", seed=3)
    assert judge.embedder == "minilm"
    made = judge.apply(scan)
    assert len(made.frame) == len(pairs)
    assert set(made.frame["judge"]) == {"trained:small"}
    table = made.frame.merge(pairs, on=list(PAIR), suffixes=("", "_given"))
    assert f1_score(table["truth"], table["is_duplicate"].astype(int)) > 0.9
    # Confidence is the probability of the verdict.
    p = judge.probabilities(
        table.assign(best=table.groupby("item")["cosine"].transform("max")),
        items=scan.items["text"].tolist(),
    )
    expected = np.where(table["is_duplicate"] == 1, p["p"], 1 - p["p"])
    # The scan has the cosines in single precision.
    assert table["confidence"].to_numpy() == pytest.approx(expected, abs=1e-4)


def test_a_scan_of_another_embedder_is_refused(scan: Scan, trained: TrainedJudge) -> None:
    other = replace(scan, record=scan.record | {"embedder": {"model": "big"}})
    with pytest.raises(UsageError, match="has cosines of 'big', but trained:small learnt from"):
        trained.apply(other)


def test_people_count_first_then_the_majority_of_models(pairs: pd.DataFrame) -> None:
    def said(row: int, judge: str, verdict: int | None) -> dict[str, Any]:
        known = pairs.iloc[row][list(PAIR)].to_dict()
        return known | {"judge": judge, "is_duplicate": verdict}

    rows = [
        said(0, "Ada", 0), said(0, "llm:a", 1), said(0, "llm:b", 1),
        said(1, "llm:a", 1), said(1, "llm:b", 1), said(1, "llm:c", 0),
        said(2, "Ada", 1), said(2, "Bo", 0),
        said(3, "Ada", None), said(3, "llm:a", 1),
        said(4, "rule:verbatim", 1), said(4, "trained:x", 1),
        said(5, "rule:verbatim", 1), said(5, "llm:a", 0),
    ]  # fmt: skip
    found = resolved(Judgements.from_frame(pd.DataFrame(rows)).frame)
    verdicts = dict(zip(found["document"], found["is_duplicate"], strict=True))
    document = pairs["document"]
    assert verdicts == {document[0]: 0, document[1]: 1, document[3]: 1, document[5]: 0}


def test_too_few_verdicts_are_refused(pairs: pd.DataFrame) -> None:
    few = pd.concat([pairs[pairs["truth"] == 1].head(9), pairs[pairs["truth"] == 0].head(50)])
    with pytest.raises(DataError) as caught:
        TrainedJudge.from_pairs(few.assign(is_duplicate=few["truth"]), name="x")
    assert "9 duplicates on 9 items; needed are at least 10 on 5 items" in str(caught.value)
    one_item = pairs[pairs["truth"] == 0].head(40).assign(item="i0")
    table = pd.concat([one_item, pairs[pairs["truth"] == 1]])
    with pytest.raises(DataError, match="40 pairs that are none on 1 items"):
        TrainedJudge.from_pairs(table.assign(is_duplicate=table["truth"]), name="x")


def test_verdicts_of_rules_alone_teach_nothing(scan: Scan, pairs: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="0 duplicates on 0 items"):
        train_judge(scan, judgements(pairs, "rule:verbatim"), name="x")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"name": " "}, UsageError, "allowed is a name that is not blank"),
        ({"name": "trained:x"}, UsageError, "without 'trained:'"),
        ({"seed": -1}, UsageError, "seed: got -1; allowed is 0 or more"),
        ({"is_duplicate": np.nan}, DataError, "some verdicts are neither 1 nor 0"),
        ({"cosine": np.nan}, DataError, "some have no cosine"),
    ],
)
def test_input_that_cannot_be_used(
    pairs: pd.DataFrame, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    options = {key: change[key] for key in ("name", "seed") if key in change}
    columns = {key: value for key, value in change.items() if key not in options}
    with pytest.raises(error) as caught:
        TrainedJudge.from_pairs(pairs.assign(**columns), **({"name": "x"} | options))
    assert message in str(caught.value)
    with pytest.raises(DataError, match="pairs: lacks 'cosine'; needed are"):
        TrainedJudge.from_pairs(pairs.drop(columns="cosine"), name="x")


def test_features_by_hand() -> None:
    items = ["Ada has 20 apples", "Bo has 30 pears"]
    table = pd.DataFrame(
        {"text": [items[0]] * 2, "chunk_text": ["ada has 20 plums", "has"], "cosine": [0.8, 0.6]}
    ).assign(best=0.8)
    found = pair_features(table, items)
    assert list(found) == list(FEATURES)
    assert found["below_best"].tolist() == pytest.approx([0, 0.2])
    assert found["ngram_1"].tolist() == [pytest.approx(0.75), pytest.approx(0.25)]
    assert found["numbers"].tolist() == [1, 0]
    # "has" is in both items, the others in one.
    common, own = np.log(3 / 2), np.log(3)
    whole = common + 3 * own
    assert found["rare"].tolist() == pytest.approx([(common + 2 * own) / whole, common / whole])
    assert found["log_length"].tolist() == pytest.approx([0, np.log(2 / 5)])
    assert pair_features(table[:0], items).shape == (0, len(FEATURES))


@pytest.mark.parametrize("text", ["", "\0\u202e", "?!", "x" * 50_000, "深度学习"])
def test_any_text_has_finite_features(trained: TrainedJudge, text: str) -> None:
    table = pd.DataFrame({"benchmark": "b", "item": "i", "text": ["a few words", text]})
    table = table.assign(chunk_text=[text, "a few words"], cosine=0.5)
    assert trained.probabilities(table)["p"].between(0, 1).all()
