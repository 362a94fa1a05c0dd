# The public names and where each comes from. This list is all there is: `bayescontam/__init__.py`
# loads a name from here when it is first used, and type checkers read it.
from .calibration.results import StudyResults as StudyResults
from .calibration.runner import (
    StudyRun as StudyRun,
    run_study as run_study,
)
from .data.covariates import (
    Covariates as Covariates,
    read_covariates as read_covariates,
)
from .data.dates import Dates as Dates
from .data.imputations import read_imputations as read_imputations
from .arc.answering import (
    ArcAnswers as ArcAnswers,
    answer_arc as answer_arc,
)
from .arc.concepts import detect_concepts as detect_concepts
from .arc.exposures import (
    impute_contamination as impute_contamination,
    read_exposures as read_exposures,
)
from .arc.solver import solve_arc as solve_arc
from .data.importers.arc import (
    ArcTasks as ArcTasks,
    load_tasks as load_tasks,
)
from .data.importers.arc_people import ImportedPeople as ImportedPeople
from .data.importers.arc_people import import_arc_people as import_arc_people
from .data.importers.arc_predictions import import_arc_predictions as import_arc_predictions
from .data.importers.arc_replies import (
    Reply as Reply,
    read_reply as read_reply,
)
from .data.importers.evalplus import import_evalplus as import_evalplus
from .data.importers.every_eval_ever import import_every_eval_ever as import_every_eval_ever
from .data.importers.helm import import_helm as import_helm
from .data.importers.inspect_ai import import_inspect as import_inspect
from .data.importers.lighteval import import_lighteval as import_lighteval
from .data.importers.livecodebench import import_livecodebench as import_livecodebench
from .data.importers.lm_eval import import_lm_eval as import_lm_eval
from .data.importers.logs import (
    Imported as Imported,
    LogOptions as LogOptions,
)
from .data.importers.matrix import (
    import_matrix as import_matrix,
    import_py_irt as import_py_irt,
)
from .data.importers.opencompass import import_opencompass as import_opencompass
from .data.importers.swe_bench import import_swe_bench as import_swe_bench
from .data.judgements import (
    Judgements as Judgements,
    read_judgements as read_judgements,
)
from .data.model_scores import (
    ModelScores as ModelScores,
    read_scores as read_scores,
)
from .data.parts import split_responses as split_responses
from .data.responses import (
    Responses as Responses,
    read_responses as read_responses,
)
from .duplicates.make import (
    Made as Made,
    check_duplicates as check_duplicates,
    make_duplicates as make_duplicates,
)
from .duplicates.new import new_items as new_items
from .duplicates.planting import (
    plant_duplicates as plant_duplicates,
)
from .duplicates.recall import (
    Recalled as Recalled,
    recall as recall,
)
from .endpoint import Endpoint as Endpoint
from .errors import (
    BayescontamError as BayescontamError,
    DataError as DataError,
    FitError as FitError,
    MissingExtraError as MissingExtraError,
    SpecError as SpecError,
    TaskError as TaskError,
    UsageError as UsageError,
)
from .evidence.active import (
    InformativePairs as InformativePairs,
    informative_pairs as informative_pairs,
)
from .evidence.cleaning import write_clean as write_clean
from .evidence.covariates import (
    contamination_covariates as contamination_covariates,
    item_contamination as item_contamination,
)
from .evidence.curve import (
    Curve as Curve,
    fit_curve as fit_curve,
)
from .evidence.model_evidence import (
    ModelEvidence as ModelEvidence,
    model_evidence as model_evidence,
)
from .evidence.prevalence import (
    prevalence as prevalence,
    prevalence_by as prevalence_by,
)
from .evidence.rate import duplicate_rate as duplicate_rate
from .evidence.trained_judge import (
    TrainedJudge as TrainedJudge,
    train_judge as train_judge,
)
from .evidence.trend import prevalence_trend as prevalence_trend
from .evidence.verbatim import verbatim_judgements as verbatim_judgements
from .inference.checks import (
    Check as Check,
    Outcome as Outcome,
    Thresholds as Thresholds,
)
from .inference.crossval import compare as compare
from .inference.equivalence import (
    Against as Against,
    MarginVerdict as MarginVerdict,
    compare_against as compare_against,
    margin_verdict as margin_verdict,
)
from .inference.many import (
    Fits as Fits,
    fit_many as fit_many,
)
from .inference.mastery import (
    Mastery as Mastery,
    concept_mastery as concept_mastery,
)
from .inference.pipeline import fit as fit
from .inference.prior_predictive import prior_predictive as prior_predictive
from .inference.ranking import (
    Ranking as Ranking,
    rank_models as rank_models,
)
from .inference.result import Fit as Fit
from .inference.reusable import CompiledModels as CompiledModels
from .lab.answering import answer_lab as answer_lab
from .lab.mix import (
    Mixed as Mixed,
    make_mixes as make_mixes,
)
from .lab.near import near_texts as near_texts
from .lab.traces import (
    Traces as Traces,
    write_traces as write_traces,
)
from .lab.training_runs import train_lab as train_lab
from .lab.truth import lab_truth as lab_truth
from .model.build import build_model as build_model
from .power.advice import (
    Advice as Advice,
    advise as advise,
)
from .power.power import (
    PowerAnalysis as PowerAnalysis,
    power_analysis as power_analysis,
)
from .power.totals import (
    TwinSizes as TwinSizes,
    twin_power_analysis as twin_power_analysis,
)
from .power.scenario import (
    Assumptions as Assumptions,
    SampleSizes as SampleSizes,
)
from .published.findings import Findings as Findings
from .published.study import run_reproduction as run_reproduction
from .scan.clean import CleanCorpus as CleanCorpus
from .scan.concept_counts import count_exposures as count_exposures
from .scan.find import find_nearest as find_nearest
from .scan.index_build import build_index as build_index
from .scan.joining import add_vectors as add_vectors
from .scan.results import Scan as Scan
from .scan.run import run_scan as run_scan
from .scan.stored_vectors import StoredVectors as StoredVectors
from .scan.vector_index import VectorIndex as VectorIndex
from .specs.corpus import Manifest as Manifest
from .specs.curve import CurveSpec as CurveSpec
from .specs.lab import LabSpec as LabSpec
from .specs.model import ModelSpec as ModelSpec
from .specs.recipe import Recipe as Recipe
from .specs.registry import (
    load_curve as load_curve,
    load_lab as load_lab,
    load_manifest as load_manifest,
    load_model as load_model,
    load_recipe as load_recipe,
    load_study as load_study,
)
from .specs.study import (
    ReproductionSpec as ReproductionSpec,
    StudySpec as StudySpec,
)
from .updating.update import (
    Update as Update,
    update as update,
)

load_spec = load_model  # deprecated, as the two below
duplicate_curve = fit_curve
weigh_scan = item_contamination
__version__: str
