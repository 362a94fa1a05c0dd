"""Command ``demo``: the main jobs on published figures and a made-up corpus."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from bayescontam.cli.options import Quiet
from bayescontam.cli.terminal import print_headline, print_lines
from bayescontam.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.inference.result import Fit
    from bayescontam.report.evidence import Evidence
    from bayescontam.scan.results import Scan


EXAMPLE = "Example: bayescontam demo --out demo"
SEED = 1
PATIENCE = 10.0
"""Seconds that a scan which is no longer wanted has to end by itself."""
_HALVES = (
    "Each model was finetuned on duplicates of one half of a benchmark's items (contamination 1)"
    " and not on those of the other (contamination 0). The model 'not finetuned' is the base of"
    " all: the clean twin. TrueDetective, ARC Challenge and HumanEval are controls that none of"
    " them was exposed to. Overfitting is the total effect: what the score would lose had the"
    " benchmark not been in the training data."
)
_SOLVERS = (
    "Accuracies of three programs and of people by concept, as printed. Nothing is known of"
    " contamination here."
)


def demo(
    out: Annotated[Path, Option("--out", "-o", help="Folder to write into.")] = Path("demo"),
    quiet: Quiet = False,
) -> None:
    """Run the main jobs and write their reports.

    First on figures printed in two papers: models finetuned on duplicates of half of a
    benchmark, with the model before finetuning as their clean twin, and four solvers on the
    concepts of ConceptARC. Then from a corpus to genuine ability: a made-up corpus is scanned, its
    matches are weighed, and responses are fitted.
    """
    from bayescontam._files import make_folder
    from bayescontam._progress import stage

    make_folder(out)
    command = f"bayescontam demo --out {out}"
    with _scanning(out) as scanned:
        _fit_printed_figures(out, quiet, command)
        _print(quiet, "", "From a corpus to genuine ability: a made-up corpus is scanned")
        with stage(not quiet, "scanning, begun beside the fits"):
            scanned()
    if scan := _scan_made_up_corpus(out, quiet, command):
        _fit_scanned(scan, out, quiet, command)


@contextmanager
def _scanning(out: Path) -> Iterator[Callable[[], object]]:
    """Scan in a process of its own: a fit leaves one core idle while its model is compiled.

    What is yielded waits for it. What it could not do, `run_scan` does or reports.
    """
    from bayescontam.scan.synthetic import MANIFEST

    # -P: a file of the current folder may have the name of a module.
    command = [sys.executable, "-P", "-m", "bayescontam", "scan", MANIFEST, "--quiet"]
    none = subprocess.DEVNULL
    beside = subprocess.Popen(
        [*command, "--out", str(out / "scan")],
        stdin=none,
        stdout=none,
        stderr=none,
        # Of its own, so that Ctrl-C reaches it once: from here.
        process_group=0 if os.name == "posix" else None,
    )
    try:
        yield beside.wait
    finally:
        beside.terminate()  # where a fit failed or was interrupted; else it has ended
        try:
            beside.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            beside.kill()
            beside.wait()


def _fit_printed_figures(out: Path, quiet: bool, command: str) -> None:
    from bayescontam.data.published_tables import (
        conceptarc,
        concepts_of_counts,
        duplicate_finetuning,
        twins_of_counts,
    )
    from bayescontam.inference import pipeline

    halves = "Finetuned on duplicates of half of a benchmark"
    solvers = "Four solvers on the concepts of ConceptARC"
    jobs = {
        "report": (halves, _HALVES, duplicate_finetuning(), twins_of_counts()),
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
        fitted.to_netcdf(out / f"{name}.nc")
        fitted.report(out / f"{name}.html", title=title, note=note)
        _show(fitted, out / f"{name}.html", quiet)


def _scan_made_up_corpus(out: Path, quiet: bool, command: str) -> "Scan | None":
    """Scan, or take a finished scan as it is; None where the extra is not installed."""
    from bayescontam.scan.run import run_scan
    from bayescontam.scan.synthetic import MANIFEST

    try:
        return run_scan(MANIFEST, out / "scan", progress=not quiet, command=command)
    except MissingExtraError as error:
        print(f"Left out: the scan and what is made of it. {error}", file=sys.stderr)
        return None


def _fit_scanned(scan: "Scan", out: Path, quiet: bool, command: str) -> None:
    """Go from matches to genuine ability; judgements and responses are simulated."""
    from bayescontam.data.covariates import Covariates
    from bayescontam.data.tables import write_table
    from bayescontam.inference import pipeline
    from bayescontam.report.fit_page import write_report
    from bayescontam.scan.synthetic import read_truth, simulated_responses

    truth = read_truth(scan.folder)
    evidence = _weigh(scan, truth, out, quiet, command)
    responses = simulated_responses(truth, SEED)
    write_table(out / "responses.parquet", responses.frame)
    fitted = pipeline.fit(
        responses,
        "latent_duplicate",
        covariates=Covariates.from_frame(evidence.items, source="covariates.parquet"),
        seed=SEED,
        progress=not quiet,
        command=command,
    )
    fitted.to_netcdf(out / "fit.nc")
    write_report(fitted, out / "fit.html", evidence=evidence)
    _show(fitted, out / "fit.html", quiet)


def _weigh(scan: "Scan", truth: "pd.DataFrame", out: Path, quiet: bool, command: str) -> "Evidence":
    """Go from matches and simulated judgements to covariates."""
    from bayescontam.data.judgements import write_judgements
    from bayescontam.data.tables import write_table
    from bayescontam.evidence.curve import fit_curve
    from bayescontam.evidence.prevalence import prevalence
    from bayescontam.report.curve_page import write_curve_report
    from bayescontam.report.evidence import gather
    from bayescontam.report.scan_page import write_scan_report
    from bayescontam.scan.synthetic import simulated_judgements

    _print(quiet, "Judgements are simulated from the known truth; so are the models' responses.")
    judgements = simulated_judgements(scan, truth, SEED)
    write_judgements(out / "judgements.csv", judgements)
    curve = fit_curve(scan, judgements, seed=SEED, progress=not quiet, command=command)
    curve.to_netcdf(out / "curve.nc")
    write_curve_report(curve, out / "curve.html")
    evidence = gather(scan, curve, progress=not quiet)
    write_table(out / "covariates.parquet", evidence.items)
    write_scan_report(scan, out / "scan.html", evidence=evidence)
    found, known = prevalence(evidence.weighed).iloc[0], int((truth["n_duplicates"] > 0).sum())
    interval = f"{found['n_mean']:.0f} [{found['n_low']:.0f}, {found['n_high']:.0f}]"
    _print(
        quiet,
        f"Items with a duplicate: {interval} of {len(truth)}; in truth {known}.",
        f"Wrote {out / 'scan.html'} and {out / 'curve.html'}.",
    )
    return evidence


def _show(fitted: "Fit", page: Path, quiet: bool) -> None:
    from bayescontam.inference.findings import verdict_line
    from bayescontam.inference.tables import headline

    if not quiet:
        estimands = fitted.estimands()
        print_headline(headline(fitted, estimands))
        _print(quiet, verdict_line(fitted, estimands=estimands), f"Wrote {page}.")


def _print(quiet: bool, *lines: str) -> None:
    if not quiet:
        print_lines(lines)
