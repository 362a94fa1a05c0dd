"""The Python interface of evidence: what is refused, and what needs no judgements."""

from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest

import bayescontam
import bayescontam.evidence.curve
from bayescontam import BayescontamError, Curve, DataError, FitError, SpecError, UsageError
from bayescontam.evidence.covariates import FLOOR, covariates_table
from bayescontam.scan.results import Scan
from tests.support.made_evidence import judged, make_curve, make_draws, make_scan, match
from tests.support.planted_texts import assert_found, scan_texts

MATCHES = [match("q1", 0.9, "a"), match("q1", 0.7, "b"), match("q2", 0.5, "c")]
SAID = pd.DataFrame([judged("q1", "a", 1), judged("q2", "c", 0)])


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    return make_scan(tmp_path / "scan", MATCHES)


@pytest.fixture
def no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(*_: Any) -> NoReturn:
        pytest.fail("the sampler was started")

    monkeypatch.setattr(bayescontam.evidence.curve, "sample_model", sampled)


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (UsageError, r"^draws: got 3; at least 4 is needed$", {"draws": 3}),
        (UsageError, r"^level: got 2; allowed is 0\.5", {"level": 2}),
        (UsageError, r"^seed: got -1; allowed is 0 or more$", {"seed": -1}),
        (UsageError, r"^engine: got 'nutpy'; did you mean 'nutpie'\?$", {"engine": "nutpy"}),
        (SpecError, r"no such curve spec \(did you mean 'monotone'\?\)", {"spec": "monoton"}),
        (DataError, r"^no: holds no finished scan", {"scan": "no"}),
        (UsageError, r"^no\.csv: no such file", {"judgements": "no.csv"}),
        (DataError, r"document 'z', chunk 0 is no pair of this scan",
         {"judgements": pd.DataFrame([judged("q1", "z", 1)])}),
        (DataError, r"is_duplicate", {"judgements": SAID.assign(is_duplicate=2)}),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_sampling")
def test_faults_are_reported_before_sampling(
    scan: Scan, error: type[BayescontamError], message: str, options: dict[str, Any]
) -> None:
    with pytest.raises(error, match=message) as caught:
        bayescontam.fit_curve(**{"scan": scan, "judgements": SAID} | options)
    assert type(caught.value) is error


@pytest.mark.usefixtures("no_sampling")
def test_a_prior_weighs_a_scan_without_judgements(scan: Scan, tmp_path: Path) -> None:
    curve = bayescontam.fit_curve(scan.folder, seed=1)
    assert isinstance(curve, Curve)
    assert curve.record["seed"] == 1
    curve.to_netcdf(tmp_path / "curve.nc")
    covariates = bayescontam.contamination_covariates(scan.folder, tmp_path / "curve.nc", draws=50)
    table = covariates.frame.set_index("item")
    assert covariates.source == "scan scan"
    assert table.loc["q1", "contamination"] > 0.5 > table.loc["q2", "contamination"]
    weighed = bayescontam.item_contamination(scan, curve, draws=50)
    np.testing.assert_allclose(1 - weighed.none.mean(axis=0), table["contamination"])
    shares = bayescontam.prevalence(weighed)
    assert shares.loc[0, "n_mean"] == pytest.approx(table["contamination"].sum())


def test_options_reach_the_weighing(scan: Scan) -> None:
    curve = make_curve(make_draws(9))
    weighed = bayescontam.item_contamination(scan, curve, draws=4, floor=0.6)
    assert weighed.none.shape == (4, 2)
    assert (weighed.none[:, 1] == 1.0).all()
    default = bayescontam.contamination_covariates(scan, curve)
    wanted = covariates_table(bayescontam.item_contamination(scan, curve, floor=FLOOR), scan, curve)
    pd.testing.assert_frame_equal(default.frame, wanted)


def test_a_missing_curve_is_a_fit_error(scan: Scan) -> None:
    for function in (bayescontam.item_contamination, bayescontam.contamination_covariates):
        with pytest.raises(FitError, match="make a curve with: bayescontam curve"):
            function(scan, "no.nc")


@pytest.mark.slow
def test_planted_duplicates_are_found_without_a_judge(tmp_path: Path) -> None:
    """Of every third task; of all, and with judgements, ``benchmarks`` shows it."""
    texts = scan_texts(tmp_path, step=3)
    assert_found(texts, bayescontam.fit_curve(texts, seed=1), 0.97)
