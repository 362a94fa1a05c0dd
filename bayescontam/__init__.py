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
    from bayescontam.calibration.results import StudyResults
    from bayescontam.calibration.runner import StudyRun, run_study
    from bayescontam.data.covariates import Covariates, read_covariates
    from bayescontam.data.dates import Dates
    from bayescontam.data.importers.evalplus import import_evalplus
    from bayescontam.data.importers.every_eval_ever import import_every_eval_ever
    from bayescontam.data.importers.helm import import_helm
    from bayescontam.data.importers.inspect_ai import import_inspect
    from bayescontam.data.importers.lighteval import import_lighteval
    from bayescontam.data.importers.livecodebench import import_livecodebench
    from bayescontam.data.importers.lm_eval import import_lm_eval
    from bayescontam.data.importers.logs import Imported, LogOptions
    from bayescontam.data.importers.matrix import import_matrix
    from bayescontam.data.importers.opencompass import import_opencompass
    from bayescontam.data.importers.py_irt import import_py_irt
    from bayescontam.data.importers.swe_bench import import_swe_bench
    from bayescontam.data.judgements import Judgements, read_judgements
    from bayescontam.data.responses import Responses, read_responses
    from bayescontam.errors import (
        BayescontamError,
        DataError,
        FitError,
        MissingExtraError,
        SpecError,
        TaskError,
        UsageError,
    )
    from bayescontam.evidence.covariates import (
        contamination_covariates,
        duplicate_curve,
        weigh_scan,
    )
    from bayescontam.evidence.curve import Curve
    from bayescontam.evidence.prevalence import prevalence, prevalence_by
    from bayescontam.inference.checks import Check, Outcome, Thresholds
    from bayescontam.inference.compare import compare
    from bayescontam.inference.pipeline import fit
    from bayescontam.inference.ranking import Ranking, rank_models
    from bayescontam.inference.result import Fit
    from bayescontam.model.build import build_model
    from bayescontam.published.findings import Findings
    from bayescontam.published.study import run_reproduction
    from bayescontam.scan.results import Scan
    from bayescontam.scan.run import run_scan
    from bayescontam.specs.corpus import Manifest
    from bayescontam.specs.curve import CurveSpec
    from bayescontam.specs.model import ModelSpec
    from bayescontam.specs.registry import load_curve, load_manifest, load_spec, load_study
    from bayescontam.specs.study import ReproductionSpec, StudySpec
    from bayescontam.updating.update import Update, update


_MODULE_OF = {
    "Check": "inference.checks",
    "Fit": "inference.result",
    "Outcome": "inference.checks",
    "Thresholds": "inference.checks",
    "build_model": "model.build",
    "compare": "inference.compare",
    "fit": "inference.pipeline",
    "StudyResults": "calibration.results",
    "StudyRun": "calibration.runner",
    "run_study": "calibration.runner",
    "Covariates": "data.covariates",
    "read_covariates": "data.covariates",
    "Dates": "data.dates",
    "BayescontamError": "errors",
    "DataError": "errors",
    "FitError": "errors",
    "MissingExtraError": "errors",
    "SpecError": "errors",
    "TaskError": "errors",
    "UsageError": "errors",
    "prevalence": "evidence.prevalence",
    "prevalence_by": "evidence.prevalence",
    "import_every_eval_ever": "data.importers.every_eval_ever",
    "Imported": "data.importers.logs",
    "import_inspect": "data.importers.inspect_ai",
    "import_lm_eval": "data.importers.lm_eval",
    "LogOptions": "data.importers.logs",
    "import_matrix": "data.importers.matrix",
    "import_swe_bench": "data.importers.swe_bench",
    "import_py_irt": "data.importers.py_irt",
    "import_opencompass": "data.importers.opencompass",
    "import_livecodebench": "data.importers.livecodebench",
    "import_lighteval": "data.importers.lighteval",
    "import_helm": "data.importers.helm",
    "import_evalplus": "data.importers.evalplus",
    "Ranking": "inference.ranking",
    "rank_models": "inference.ranking",
    "Judgements": "data.judgements",
    "read_judgements": "data.judgements",
    "Findings": "published.findings",
    "run_reproduction": "published.study",
    "Responses": "data.responses",
    "read_responses": "data.responses",
    "Scan": "scan.results",
    "run_scan": "scan.run",
    "ReproductionSpec": "specs.study",
    "load_curve": "specs.registry",
    "load_manifest": "specs.registry",
    "load_spec": "specs.registry",
    "load_study": "specs.registry",
    "Manifest": "specs.corpus",
    "CurveSpec": "specs.curve",
    "ModelSpec": "specs.model",
    "StudySpec": "specs.study",
    "Update": "updating.update",
    "update": "updating.update",
    "Curve": "evidence.curve",
    "contamination_covariates": "evidence.covariates",
    "duplicate_curve": "evidence.covariates",
    "weigh_scan": "evidence.covariates",
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
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bayescontam' has no attribute '{name}'")
    return getattr(importlib.import_module(f"bayescontam.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
