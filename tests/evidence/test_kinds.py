"""Kinds of duplicates and rules: the model against sums over all states, and what follows."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy.special import expit

import bayescontam
from bayescontam.data.held_out import read_validations
from bayescontam.errors import DataError, UsageError
from bayescontam.evidence.covariates import covariates_table, item_contamination
from bayescontam.evidence.curve import FORMAT, Curve, fit_judged_curve
from bayescontam.evidence.curve_checks import evidence_checks
from bayescontam.evidence.curve_model import build_curve
from bayescontam.evidence.judged_documents import by_document, likelihoods
from bayescontam.evidence.kinds import KINDS, check_kinds, kind_words, opinions, split_of
from bayescontam.evidence.predictor import separated
from bayescontam.evidence.prevalence import prevalence
from bayescontam.evidence.verdicts import make_verdicts
from bayescontam.inference.checks import Outcome
from bayescontam.report.curve_page import render_curve
from bayescontam.specs.curve import CurveSpec, Shape
from tests.support.made_curve import from_prior
from tests.support.made_evidence import judged, make_scan, match

SPEC = CurveSpec(summary="straight", shape=Shape(form="logistic", item_effect=False, crowding=0.0))
TWO = ("equivalent", "subset")


def said(document: str, called: int, judge: str, kind: str = "", item: str = "q1") -> Any:
    cosine = {"a": 0.92, "b": 0.81, "c": 0.66, "d": 0.9}[document]
    lead = {"lead": 0, "lead_cosine": cosine, "place": 1.0}
    own = {"cosine": cosine, "best": 0.92 if item == "q1" else cosine, "kind": kind}
    return judged(item, document, called, judge) | own | lead


ROWS = [
    said("a", 1, "Ada", "exact"),
    said("a", 1, "llm:m", "equivalent"),
    said("a", 1, "rule:verbatim", "exact"),
    said("b", 1, "llm:m", "subset"),
    said("b", 0, "rule:verbatim"),
    said("c", 0, "llm:m", "related"),
    said("d", 1, "Ada", item="q2"),
    said("d", 1, "llm:m", "superset", item="q2"),
    said("d", 0, "rule:verbatim", item="q2"),
]
TRUTH: dict[str, Any] = {
    "threshold_bar": 0.63, "steepness_bar": 14.0, "threshold_open_bar": 0.7,
    "steepness_open_bar": 17.0, "sensitivity": np.array([0.96, 0.83, 0.9]),
    "specificity": np.array([0.99, 0.9, 0.97]), "threshold_exact_bar": 0.88,
    "steepness_exact": 20.0, "chosen_bar": 0.4, "chosen_slope": -3.0,
    "naming": np.array([0.9, 0.8]),
}  # fmt: skip
JUDGES = ["Ada", "llm:m", "rule:verbatim"]


def frame(rows: Any = ROWS) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def shares(cosine: float, classes: int, values: dict[str, Any] = TRUTH) -> np.ndarray:
    """Return the shares of the classes of kinds at a cosine."""
    exact = expit(values["steepness_exact"] * (cosine - values["threshold_exact_bar"]))
    chosen = expit(values["chosen_bar"] + values["chosen_slope"] * (cosine - 0.7))
    rest = [1 - exact] if classes == 2 else [(1 - exact) * chosen, (1 - exact) * (1 - chosen)]
    return np.array([exact, *rest])


def likelihood(row: Any, true: int, kind: int, classes: Any, values: dict[str, Any]) -> float:
    """Return the probability of one verdict, of a document that is one or not, and of a class."""
    j = JUDGES.index(row["judge"])
    hit, clear = values["sensitivity"][j], values["specificity"][j]
    rule = row["judge"].startswith("rule:")
    p = hit if true and (kind == 0 or not rule) else 1 - clear
    result = p if row["is_duplicate"] else 1 - p
    if row["is_duplicate"] and row["kind"] and not rule:
        named = next(k for k, names in enumerate(classes) if row["kind"] in names)
        right = values["naming"][j]
        result *= right if named == kind else (1 - right) / (len(classes) - 1)
    return float(result)


def by_hand(kinds: tuple[str, ...], values: dict[str, Any], rows: Any = ROWS) -> float:
    """Sum over open or closed items, and over state and class of every document."""
    classes = split_of(kinds, rules=True).classes
    total = 0.0
    for _, item in frame(rows).groupby("item"):
        opened = expit(
            values["steepness_open_bar"] * (item["best"].iloc[0] - values["threshold_open_bar"])
        )
        whole = {True: 1.0, False: 1.0}
        for _, part in item.groupby("document"):
            cosine = part["cosine"].iloc[0]
            p = expit(values["steepness_bar"] * (cosine - values["threshold_bar"]))
            share = shares(cosine, len(classes), values)
            sums = [
                sum(
                    share[z]
                    * np.prod(
                        [likelihood(r, d, z, classes, values) for r in part.to_dict("records")]
                    )
                    for z in range(len(classes))
                )
                for d in (0, 1)
            ]
            whole[True] *= p * sums[1] + (1 - p) * sums[0]
            whole[False] *= sums[0]
        total += np.log(opened * whole[True] + (1 - opened) * whole[False])
    return float(total)


@pytest.mark.parametrize("kinds", [(), ("exact",), KINDS[1:], TWO, ("exact", "superset")], ids=str)
def test_the_density_is_the_sum_over_states_and_classes(kinds: tuple[str, ...]) -> None:
    verdicts = make_verdicts(frame(), ["quiz"], ["web"], kinds)
    built = build_curve(SPEC, verdicts)
    names = {variable.name for variable in built.model.free_RVs}
    assert ("chosen_slope" in names) is (len(verdicts.split) == 3)
    fixed = pm.do(built.model, {name: TRUTH[name] for name in names})
    found = float(fixed.compile_logp(mode="FAST_COMPILE")({}))
    assert found == pytest.approx(by_hand(kinds, TRUTH), abs=1e-4)


def posterior(kinds: tuple[str, ...]) -> Curve:
    """Return a curve whose draws are all `TRUTH`."""
    values = {
        "threshold": ("benchmark", [0.63]), "steepness": ("benchmark", [14.0]),
        "threshold_open": ("benchmark", [0.7]), "steepness_open": ("benchmark", [17.0]),
        "source_shift": ("source", [0.0]), "threshold_exact": ("benchmark", [0.88]),
        "chosen": ("benchmark", [0.4]), "sensitivity": ("judge", TRUTH["sensitivity"]),
        "specificity": ("judge", TRUTH["specificity"]), "naming": ("namer", TRUTH["naming"]),
    }  # fmt: skip
    data: dict[str, Any] = {
        name: (("chain", "draw", dim), np.tile(np.asarray(x, float), (1, 2, 1)))
        for name, (dim, x) in values.items()
    }
    data |= {
        name: (("chain", "draw"), np.full((1, 2), TRUTH[name]))
        for name in ("steepness_exact", "chosen_slope")
    }
    record = {
        "curve_format": FORMAT, "seed": 1, "level": 0.95, "checks": [], "labels": {},
        "spec": {"name": "made", "hash": SPEC.hash, "content": SPEC.model_dump()},
        "benchmarks": ["quiz"], "sources": ["web"], "judges": JUDGES, "kinds": list(kinds),
        "namers": JUDGES[:2], "validated": {},
    }  # fmt: skip
    stored = {"json": json.dumps(record), "judged": json.dumps(frame().to_dict("list"))}
    groups = {"posterior": xr.Dataset(data), "record": xr.Dataset(stored)}
    return Curve(xr.DataTree.from_dict(groups))


@pytest.mark.parametrize("kinds", [(), ("exact",), KINDS[1:], TWO], ids=str)
def test_verdicts_on_documents_weigh_as_in_the_model(kinds: tuple[str, ...]) -> None:
    curve = posterior(kinds)
    documents = by_document(curve.judged, kinds)
    found, counted = likelihoods(curve, curve.judged, documents, 2)
    split = split_of(kinds, rules=True)
    for row in documents.to_dict("records"):
        part = [r for r in ROWS if (r["item"], r["document"]) == (row["item"], row["document"])]
        share = shares(part[0]["cosine"], len(split))
        of = np.array(
            [
                [
                    share[z] * np.prod([likelihood(r, d, z, split.classes, TRUTH) for r in part])
                    for z in range(len(split))
                ]
                for d in (1, 0)
            ]
        )
        at = row["verdict"]
        np.testing.assert_allclose(np.exp(found[:, 0, at]), of.sum(axis=1), rtol=1e-9)
        if counted is not None:
            wanted = of[0][list(split.chosen)].sum() / of[0].sum()
            assert counted[0, at] == pytest.approx(wanted)
    assert (counted is None) is (kinds == ())


def test_prevalence_is_of_the_chosen_kinds(tmp_path: Path) -> None:
    """Of an item with one judged document and one that is not, against the sum over states."""
    rows = [match("q2", 0.9, "d"), match("q2", 0.8, "e")]
    scan = make_scan(tmp_path, rows)
    curve = posterior(TWO)
    weighed = item_contamination(scan, curve, draws=2)
    part = [row for row in ROWS if row["item"] == "q2"]
    split = split_of(TWO, rules=True)
    opened = expit(17.0 * (0.9 - 0.7))
    none = total = 0.0
    for open_, d, e, z, y in product([0, 1], [0, 1], [0, 1], range(3), range(3)):
        p = opened if open_ else 1 - opened
        for state, cosine in ((d, 0.9), (e, 0.8)):
            q = expit(14.0 * (cosine - 0.63)) if open_ else 0.0
            p *= q if state else 1 - q
        p *= shares(0.9, 3)[z] * shares(0.8, 3)[y]
        p *= np.prod([likelihood(row, d, z, split.classes, TRUTH) for row in part])
        total += p
        if not (d and split.chosen[z]) and not (e and split.chosen[y]):
            none += p
    np.testing.assert_allclose(weighed.none_scanned[:, 0], none / total, atol=1e-6)
    assert weighed.chosen == TWO
    assert set(weighed.kinds) <= set(TWO)
    assert set(prevalence(weighed)["of_kinds"]) == {"equivalent, subset"}
    table = covariates_table(weighed, scan, curve)
    assert table["of_kinds"].tolist() == ["equivalent, subset"]
    # "superset" is none of the kinds, and Ada named none: one verdict is left.
    assert table[["judged", "judged_duplicates"]].to_numpy().tolist() == [[1, 0]]


def test_what_leaves_a_pair_open_is_no_opinion() -> None:
    every = opinions(frame(), ())
    assert every["judge"].tolist().count("rule:verbatim") == 1
    assert len(every) == len(ROWS) - 2
    exact = opinions(frame(), ("exact",))
    assert exact["is_duplicate"].tolist() == [1, 0, 1, 0, 0, 0, 0, 0]
    assert len(exact) == len(ROWS) - 1  # Ada, who named no kind
    two = opinions(frame(), TWO)
    assert two["is_duplicate"].tolist() == [0, 1, 0, 1, 0, 0]


def test_kinds_are_checked_and_put_in_order() -> None:
    assert check_kinds(["subset", "exact", "subset"]) == ("exact", "subset")
    assert kind_words(("exact",)) == " of the kind exact"
    with pytest.raises(UsageError, match=r"kind 'unrelated'.*allowed|did you mean"):
        check_kinds(["unrelated"])
    with pytest.raises(UsageError, match="did you mean 'exact'"):
        check_kinds(["exakt"])


def checks(*rows: Any, kinds: tuple[str, ...] = (), validated: Any = ()) -> dict[str, Any]:
    outcomes, predictor = separated(frame(rows))
    verdicts = make_verdicts(outcomes, ["quiz"], ["web"], kinds)
    return {check.name: check for check in evidence_checks(verdicts, validated, predictor)}


def test_what_judges_that_scale_can_show_is_said() -> None:
    rule, trained = said("a", 1, "rule:verbatim", "exact"), said("a", 1, "trained:t")
    ada = said("a", 1, "Ada", "exact")
    assert checks(rule)["Rules"].outcome is Outcome.CAUTION
    assert "Rules" not in checks(rule, kinds=("exact",))
    assert checks(rule, ada)["Rules"].outcome is Outcome.PASSED
    assert "Judges" not in checks(rule, ada)
    assert checks(trained)["Judge trained:t"].outcome is Outcome.CAUTION
    assert checks(trained, rule)["Judge trained:t"].outcome is Outcome.CAUTION
    known = checks(trained, validated=["trained:t"])["Judge trained:t"]
    assert known.outcome is Outcome.PASSED
    weight = checks(trained, said("b", 0, "trained:t"), rule)["Weight of trained judges"]
    assert (weight.outcome, weight.value) == (Outcome.FAILED, 2)
    weight = checks(trained, said("b", 0, "Ada"))["Weight of trained judges"]
    assert (weight.outcome, weight.value) == (Outcome.PASSED, 1)
    assert "Weight of trained judges" not in checks(rule, ada)


def read_by_ada(flagged: int, others: int, unread: int) -> list[Any]:
    """Return verdicts of a trained judge, of which Ada read some of either sort."""
    own = {"cosine": 0.7, "best": 0.9, "kind": ""}
    read = [*[1] * flagged, *[0] * others]
    rows = [
        judged("q", f"d{i}", called, judge) | own
        for i, called in enumerate(read)
        for judge in ("Ada", "trained:t")
    ]
    return rows + [judged("q", f"e{i}", 0, "trained:t") | own for i in range(unread)]


@pytest.mark.parametrize(
    ("flagged", "others", "outcome"),
    [(1, 30, Outcome.CAUTION), (30, 0, Outcome.CAUTION), (20, 25, Outcome.PASSED)],
)
def test_a_predictor_needs_pairs_of_either_verdict_that_others_read(
    flagged: int, others: int, outcome: Outcome
) -> None:
    found = checks(*read_by_ada(flagged, others, 500))
    check = found["Judge trained:t"]
    assert (check.outcome, check.value) == (outcome, min(flagged, others))
    # Its verdicts are no outcomes, which could outweigh those of others.
    assert "Weight of trained judges" not in found


def test_all_verdicts_of_a_predictor_are_needed() -> None:
    check = checks(*read_by_ada(40, 3, 0))["Judge trained:t"]
    assert check.outcome is Outcome.CAUTION
    assert "Give all of its verdicts" in check.sentence


def test_few_shared_pairs_do_not_outdo_a_validation() -> None:
    few, many = read_by_ada(10, 9, 50), read_by_ada(30, 30, 50)
    for rows, is_predictor in ((few, False), (many, True)):
        assert (separated(frame(rows), ["trained:t"])[1] is not None) is is_predictor
    outcomes, predictor = separated(frame(many), ["trained:t"])
    verdicts = make_verdicts(outcomes, ["quiz"], ["web"])
    found = {c.name: c for c in evidence_checks(verdicts, (), predictor, ["trained:t"])}
    assert "Its validation is not used" in found["Judge trained:t"].sentence


def test_what_kinds_judges_can_show_is_said() -> None:
    trained, ada = said("a", 1, "trained:t"), said("a", 1, "Ada", "exact")
    assert checks(trained, kinds=TWO)["Kinds"].outcome is Outcome.CAUTION
    kinds = checks(said("a", 1, "llm:m"), ada, kinds=TWO)["Kinds"]
    assert kinds.outcome is Outcome.PASSED
    assert "1 named none" in kinds.sentence


@pytest.fixture(scope="module")
def fitted() -> Curve:
    """Return a curve of two kinds, of a rule, Ada, and a trained judge with a validation."""
    rng = np.random.default_rng(3)
    rows: list[Any] = []
    for i in range(50):
        cosine = float(rng.uniform(0.5, 0.98))
        true = rng.random() < expit(20 * (cosine - 0.7))
        exact = rng.random() < expit(25 * (cosine - 0.88))
        kind = ("exact" if exact else "equivalent") if true else ""
        own = {"cosine": cosine, "best": cosine, "kind": ""}
        rows.append(judged(f"q{i}", "d", int(kind == "exact"), "rule:verbatim") | own)
        if i < 10:  # whose pairs nobody else reads
            rows.append(judged(f"q{i}", "d", int(true), "trained:t") | own)
        else:
            rows.append(judged(f"q{i}", "d", int(true), "Ada") | own | {"kind": kind})
    names = {"benchmarks": ["quiz"], "sources": ["web"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bayescontam.evidence.curve, "sample_model", from_prior)
        return fit_judged_curve(
            pd.DataFrame(rows), names, SPEC, kinds=TWO,
            validated={"trained:t": (45, 5, 245, 5)}, seed=1,
        )  # fmt: skip


def test_a_curve_of_chosen_kinds_is_stored_and_reported(fitted: Curve, tmp_path: Path) -> None:
    assert fitted.kinds == TWO
    assert fitted.validated == {"trained:t": (45, 5, 245, 5)}
    summary = fitted.summary().set_index(["quantity", "of"])["mean"]
    assert summary["naming"].index.tolist() == ["Ada"]
    assert {"threshold_exact", "steepness_exact", "chosen", "chosen_slope"} <= {
        quantity for quantity, _ in summary.index
    }
    bands = fitted.data["curves"].to_dataset()
    assert (bands["mean"] <= bands["any"] + 1e-9).all()
    assert float(bands["mean"].sel(cosine=1.0).item()) < 0.5 * float(bands["any"].max())
    assert {"Kinds", "Kinds by cosine", "Judge trained:t"} <= {c.name for c in fitted.checks()}
    fitted.to_netcdf(tmp_path / "curve.nc")
    again = Curve.from_netcdf(tmp_path / "curve.nc")
    assert (again.kinds, again.validated) == (TWO, fitted.validated)
    np.testing.assert_array_equal(again.naming_draws(5), fitted.naming_draws(5))
    page = render_curve(again)
    for words in (
        "of the kinds equivalent and subset", "a duplicate of any kind",
        "right in 45 of 50 duplicates", "find exact duplicates, and miss all others",
    ):  # fmt: skip
        assert words in page


def test_a_clean_corpus_needs_a_curve_of_all_kinds(fitted: Curve, tmp_path: Path) -> None:
    from bayescontam.evidence.cleaning import limits_of

    scan = make_scan(tmp_path, [match("q1", 0.9, "a")])
    with pytest.raises(UsageError, match="'equivalent', 'subset' only"):
        limits_of(scan, fitted, 0.5)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("[1", DataError, "is not JSON"),
        ("[1]", DataError, "no object with a 'judge'"),
        ('{"judge": "trained:t", "true_positive": 1}', DataError, "'false_negative'"),
        (
            '{"judge": "trained:t", "true_positive": 1, "false_negative": -1,'
            ' "true_negative": 3, "false_positive": 0.5}',
            UsageError, "four whole numbers, 0 or more",
        ),
    ],
)  # fmt: skip
def test_validations_that_cannot_be_used_are_refused(
    text: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "validation.json"
    path.write_text(text)
    with pytest.raises(error, match=words):
        read_validations([path])
    with pytest.raises(UsageError, match="cannot be read"):
        read_validations([tmp_path / "none.json"])


def test_validations_are_of_trained_judges_that_judged(tmp_path: Path) -> None:
    scan = make_scan(tmp_path, [match("q1", 0.9, "a"), match("q1", 0.8, "b")])
    given = frame([said("a", 1, "trained:t"), said("b", 0, "Ada")])
    for judge, words in (("Ada", "start with 'trained:'"), ("trained:u", "'trained:t'")):
        with pytest.raises(UsageError, match=words):
            bayescontam.fit_curve(scan, given, validated={judge: (1, 1, 1, 1)})
    with pytest.raises(UsageError, match="true_positive"):
        bayescontam.fit_curve(scan, given, validated={"trained:t": (1, 2, 3)})
