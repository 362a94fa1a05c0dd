"""Command ``demo``: the main jobs on published figures and a made-up corpus."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pandas as pd
import typer

from bayescontam.cli.options import Quiet
from bayescontam.data.responses import Responses
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.registry import load_spec, shipped_folder

if TYPE_CHECKING:
    from bayescontam.inference.result import Fit
    from bayescontam.report.matches import Evidence
    from bayescontam.scan.run import Scan


EXAMPLE = "Example: bayescontam demo --out demo"
SEED = 1
_HALVES = (
    "Each model was finetuned on duplicates of one half of a benchmark (contamination 1) and not"
    " on those of the other (contamination 0); the model 'not finetuned' met neither. Overfitting"
    " is what the items of the seen half gain beyond the other half. What finetuning did for both"
    " halves is in genuine ability: compare it with that of 'not finetuned'."
)
_SOLVERS = (
    "Accuracies of three programs and of people by concept, as printed. Nothing is known of"
    " contamination here."
)

ITEMS_OF_CONCEPT = 30
ITEMS = {
    ("MuSR", "all"): 250, ("MuSR", "half"): 125,
    ("ZebraLogic", "all"): 1000, ("ZebraLogic", "half"): 500,
    ("MBPP", "all"): 210, ("MBPP", "half"): 210,
}  # fmt: skip
"""Items behind each printed accuracy; MBPP's standard errors amount to about 210 for both."""


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write into.")] = Path("demo"),
    quiet: Quiet = False,
) -> None:
    """Run the main jobs and write their reports.

    First on figures printed in two papers: models finetuned on duplicates of half of a
    benchmark, and four solvers on the concepts of ConceptARC. Then from a corpus to genuine
    ability: a made-up corpus is scanned, its matches are weighed, and responses are fitted.
    """
    from bayescontam.cli.terminal import calm
    from bayescontam.errors import UsageError

    calm()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out: {out}: cannot be made ({error.strerror})") from error
    command = f"bayescontam demo --out {out}"
    _fit_printed_figures(out, quiet, command)
    if scan := _scan_made_up_corpus(out, quiet, command):
        _fit_scanned(scan, out, quiet, command)


def _fit_printed_figures(out: Path, quiet: bool, command: str) -> None:
    from bayescontam.inference import pipeline
    from bayescontam.specs.registry import load_spec

    halves = "Finetuned on duplicates of half of a benchmark"
    solvers = "Four solvers on the concepts of ConceptARC"
    jobs = {
        "report": (halves, _HALVES, duplicate_finetuning(), load_spec("aggregated")),
        "conceptarc": (solvers, _SOLVERS, conceptarc(), concepts_of_counts()),
    }
    for name, (title, note, responses, model) in jobs.items():
        _print(quiet, "", title)
        # With three benchmarks the spread over benchmarks has a long tail: small steps.
        fitted = pipeline.fit(
            responses,
            model,
            seed=SEED,
            target_accept=0.95,
            progress=not quiet,
            command=command,
        )
        fitted.save(out / f"{name}.nc")
        fitted.report(out / f"{name}.html", title=title, note=note)
        _show(fitted, out / f"{name}.html", quiet)


def _scan_made_up_corpus(out: Path, quiet: bool, command: str) -> "Scan | None":
    """Scan, or take a finished scan as it is; None where the extra is not installed."""
    from bayescontam.errors import MissingExtraError
    from bayescontam.evidence.demo import MANIFEST
    from bayescontam.scan.run import run_scan

    _print(quiet, "", "From a corpus to genuine ability: a made-up corpus is scanned")
    try:
        return run_scan(MANIFEST, out / "scan", progress=not quiet, command=command)
    except MissingExtraError as error:
        typer.echo(f"Left out: the scan and what is made of it. {error}", err=True)
        return None


def _fit_scanned(scan: "Scan", out: Path, quiet: bool, command: str) -> None:
    """Go from matches to genuine ability; judgements and responses are simulated."""
    from bayescontam.data.covariates import Covariates
    from bayescontam.evidence.demo import read_truth, simulated_responses
    from bayescontam.inference import pipeline
    from bayescontam.report.fit_page import write_report

    truth = read_truth(scan.folder)
    evidence = _weigh(scan, truth, out, quiet, command)
    responses = simulated_responses(truth, SEED)
    _write_table(out / "responses.parquet", responses.frame)
    fitted = pipeline.fit(
        responses,
        "latent_duplicate",
        covariates=Covariates.from_frame(evidence.items, source="covariates.parquet"),
        seed=SEED,
        progress=not quiet,
        command=command,
    )
    fitted.save(out / "fit.nc")
    write_report(fitted, out / "fit.html", evidence=evidence)
    _show(fitted, out / "fit.html", quiet)


def _weigh(scan: "Scan", truth: "pd.DataFrame", out: Path, quiet: bool, command: str) -> "Evidence":
    """Go from matches and simulated judgements to covariates."""
    from bayescontam.data.judgements import write_judgements
    from bayescontam.evidence.covariates import duplicate_curve
    from bayescontam.evidence.demo import simulated_judgements
    from bayescontam.evidence.prevalence import prevalence
    from bayescontam.report.curve_page import write_curve_report
    from bayescontam.report.matches import gather
    from bayescontam.report.scan_page import write_scan_report

    _print(quiet, "Judgements are simulated from the known truth; so are the models' responses.")
    judgements = simulated_judgements(scan, truth, SEED)
    write_judgements(out / "judgements.csv", judgements)
    curve = duplicate_curve(scan, judgements, seed=SEED, progress=not quiet, command=command)
    curve.save(out / "curve.nc")
    write_curve_report(curve, out / "curve.html")
    evidence = gather(scan, curve, progress=not quiet)
    _write_table(out / "covariates.parquet", evidence.items)
    write_scan_report(scan, out / "scan.html", evidence=evidence)
    found, known = prevalence(evidence.weighed).iloc[0], int((truth["n_duplicates"] > 0).sum())
    interval = f"{found['n_mean']:.0f} [{found['n_low']:.0f}, {found['n_high']:.0f}]"
    _print(
        quiet,
        f"Items with a duplicate: {interval} of {len(truth)}; in truth {known}.",
        f"Wrote {out / 'scan.html'} and {out / 'curve.html'}.",
    )
    return evidence


def _write_table(path: Path, table: "pd.DataFrame") -> None:
    from bayescontam._files import atomic_path

    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False)


def _show(fitted: "Fit", page: Path, quiet: bool) -> None:
    from bayescontam.cli.terminal import print_headline
    from bayescontam.report.fit_tables import headline, verdict_line

    if not quiet:
        print_headline(headline(fitted))
        _print(quiet, verdict_line(fitted), f"Wrote {page}.")


def _print(quiet: bool, *lines: str) -> None:
    from bayescontam.cli.terminal import print_lines

    if not quiet:
        print_lines(lines)


def duplicate_finetuning() -> Responses:
    """Return what models scored after finetuning on duplicates of half of a benchmark.

    A row is the seen or the unseen half, or all items for the model before finetuning.
    Its trials are its items: the printed standard errors of MuSR and ZebraLogic amount to
    twice as many, because they count generations of one item as if they were different
    items. Contamination is 1 for the half that was trained on.
    """
    printed = pd.read_csv(shipped_folder("studies") / "data" / "duplicate_finetuning.csv")
    duplicated = printed["training"].str.startswith(("exact", "semantic"))
    rows = printed[(duplicated | (printed["training"] == "none")) & (printed["split"] != "control")]
    halves = rows["split"].where(rows["split"] == "all", "half")
    keys = zip(rows["target"], halves, strict=True)
    trials = pd.Series([ITEMS[key] for key in keys], index=rows.index)
    table = pd.DataFrame(
        {
            "model": rows["training"].replace("none", "not finetuned"),
            "benchmark": rows["target"],
            "item": rows["split"],
            "n_correct": (rows["accuracy"] / 100 * trials).round().astype(int),
            "n_trials": trials,
            "contamination": (rows["split"] == "seen").astype(float),
        }
    )
    return Responses.from_frame(table, source="duplicate_finetuning.csv (printed figures)")


def concepts_of_counts() -> ModelSpec:
    """Return the model spec ``concepts`` for rows that count different items."""
    spec = load_spec("concepts")
    likelihood = spec.likelihood.model_copy(update={"trials": "items"})
    return spec.model_copy(update={"likelihood": likelihood})


def conceptarc() -> Responses:
    """Return the accuracies of ConceptARC's Table 1 as counts out of 30 items a concept."""
    printed = pd.read_csv(shipped_folder("studies") / "data" / "conceptarc_table1.csv")
    printed = printed.drop(columns="source")
    table = printed.melt("concept", var_name="model", value_name="accuracy")
    table["n_correct"] = np.rint(table.pop("accuracy") * ITEMS_OF_CONCEPT).astype(int)
    table = table.assign(n_trials=ITEMS_OF_CONCEPT, benchmark="ConceptARC", item=table["concept"])
    return Responses.from_frame(table, source="conceptarc_table1.csv (printed figures)")
