"""How much of a benchmark score is genuine ability, and how much is contamination.

Everything here is loaded when it is first used, so that importing the package costs
nothing.

Examples
--------
>>> import bayescontam
>>> bayescontam.load_spec("single").ability.pooling
'none'
"""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescontam.api import build_model, compare, fit
    from bayescontam.calibration.results import StudyResults
    from bayescontam.calibration.run import StudyRun, run_study
    from bayescontam.covariates import Covariates, read_covariates
    from bayescontam.dates import Dates
    from bayescontam.errors import (
        BayescontamError,
        DataError,
        FitError,
        MissingExtraError,
        SpecError,
        TaskError,
        UsageError,
    )
    from bayescontam.evidence.duplicates import Curve
    from bayescontam.evidence.prevalence import prevalence, prevalence_by
    from bayescontam.importers.evalplus import import_evalplus
    from bayescontam.importers.every_eval_ever import import_every_eval_ever
    from bayescontam.importers.helm import import_helm
    from bayescontam.importers.imported import Imported
    from bayescontam.importers.inspect_ai import import_inspect
    from bayescontam.importers.lighteval import import_lighteval
    from bayescontam.importers.livecodebench import import_livecodebench
    from bayescontam.importers.lm_eval import import_lm_eval
    from bayescontam.importers.logs import LogOptions
    from bayescontam.importers.matrix import import_matrix
    from bayescontam.importers.opencompass import import_opencompass
    from bayescontam.importers.py_irt import import_py_irt
    from bayescontam.importers.swe_bench import import_swe_bench
    from bayescontam.inference.checks import Check, Outcome, Thresholds
    from bayescontam.inference.fitted import Fit
    from bayescontam.inference.ranking import Ranking, rank_models
    from bayescontam.judgements import Judgements, read_judgements
    from bayescontam.reproduction.findings import Findings
    from bayescontam.reproduction.run import run_reproduction
    from bayescontam.responses import Responses, read_responses
    from bayescontam.scan.results import Scan
    from bayescontam.scanning import run_scan
    from bayescontam.specs.catalogue import load_curve, load_manifest, load_spec, load_study
    from bayescontam.specs.corpus import Manifest
    from bayescontam.specs.curve import CurveSpec
    from bayescontam.specs.model import ModelSpec
    from bayescontam.specs.reproduction import ReproductionSpec
    from bayescontam.specs.study import StudySpec
    from bayescontam.updating import Update, update
    from bayescontam.weighing import contamination_covariates, duplicate_curve, weigh_scan

_HOMES = {
    "Check": "inference.checks",
    "Fit": "inference.fitted",
    "Outcome": "inference.checks",
    "Thresholds": "inference.checks",
    "build_model": "api",
    "compare": "api",
    "fit": "api",
    "StudyResults": "calibration.results",
    "StudyRun": "calibration.run",
    "run_study": "calibration.run",
    "Covariates": "covariates",
    "read_covariates": "covariates",
    "Dates": "dates",
    "BayescontamError": "errors",
    "DataError": "errors",
    "FitError": "errors",
    "MissingExtraError": "errors",
    "SpecError": "errors",
    "TaskError": "errors",
    "UsageError": "errors",
    "prevalence": "evidence.prevalence",
    "prevalence_by": "evidence.prevalence",
    "import_every_eval_ever": "importers.every_eval_ever",
    "Imported": "importers.imported",
    "import_inspect": "importers.inspect_ai",
    "import_lm_eval": "importers.lm_eval",
    "LogOptions": "importers.logs",
    "import_matrix": "importers.matrix",
    "import_swe_bench": "importers.swe_bench",
    "import_py_irt": "importers.py_irt",
    "import_opencompass": "importers.opencompass",
    "import_livecodebench": "importers.livecodebench",
    "import_lighteval": "importers.lighteval",
    "import_helm": "importers.helm",
    "import_evalplus": "importers.evalplus",
    "Ranking": "inference.ranking",
    "rank_models": "inference.ranking",
    "Judgements": "judgements",
    "read_judgements": "judgements",
    "Findings": "reproduction.findings",
    "run_reproduction": "reproduction.run",
    "Responses": "responses",
    "read_responses": "responses",
    "Scan": "scan.results",
    "run_scan": "scanning",
    "ReproductionSpec": "specs.reproduction",
    "load_curve": "specs.catalogue",
    "load_manifest": "specs.catalogue",
    "load_spec": "specs.catalogue",
    "load_study": "specs.catalogue",
    "Manifest": "specs.corpus",
    "CurveSpec": "specs.curve",
    "ModelSpec": "specs.model",
    "StudySpec": "specs.study",
    "Update": "updating",
    "update": "updating",
    "Curve": "evidence.duplicates",
    "contamination_covariates": "weighing",
    "duplicate_curve": "weighing",
    "weigh_scan": "weighing",
}

__all__ = [
    "BayescontamError",
    "Check",
    "Covariates",
    "Curve",
    "CurveSpec",
    "DataError",
    "Dates",
    "Findings",
    "Fit",
    "FitError",
    "Imported",
    "Judgements",
    "LogOptions",
    "Manifest",
    "MissingExtraError",
    "ModelSpec",
    "Outcome",
    "Ranking",
    "ReproductionSpec",
    "Responses",
    "Scan",
    "SpecError",
    "StudyResults",
    "StudyRun",
    "StudySpec",
    "TaskError",
    "Thresholds",
    "Update",
    "UsageError",
    "build_model",
    "compare",
    "contamination_covariates",
    "duplicate_curve",
    "fit",
    "import_evalplus",
    "import_every_eval_ever",
    "import_helm",
    "import_inspect",
    "import_lighteval",
    "import_livecodebench",
    "import_lm_eval",
    "import_matrix",
    "import_opencompass",
    "import_py_irt",
    "import_swe_bench",
    "load_curve",
    "load_manifest",
    "load_spec",
    "load_study",
    "prevalence",
    "prevalence_by",
    "rank_models",
    "read_covariates",
    "read_judgements",
    "read_responses",
    "run_reproduction",
    "run_scan",
    "run_study",
    "update",
    "weigh_scan",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("bayescontam")
    if name not in _HOMES:
        raise AttributeError(f"module 'bayescontam' has no attribute '{name}'")
    return getattr(importlib.import_module(f"bayescontam.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
