"""Verb ``demo``: the main job on published figures."""

from pathlib import Path
from typing import Annotated

import typer

from bayescontam.cli.options import Quiet

EXAMPLE = "Example: bayescontam demo --out demo"
SEED = 1


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write into.")] = Path("demo"),
    quiet: Quiet = False,
) -> None:
    """Run the main job on figures printed in two papers, and write two reports.

    The first is of models finetuned on duplicates of half of a benchmark, the second of
    four solvers on the concepts of ConceptARC.
    """
    from bayescontam import api
    from bayescontam.cli.terminal import calm, print_lines
    from bayescontam.demo import conceptarc, concepts_of_counts, duplicate_finetuning
    from bayescontam.errors import UsageError
    from bayescontam.specs.catalogue import load_spec

    calm()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out: {out}: cannot be made ({error.strerror})") from error
    halves = "Finetuned on duplicates of half of a benchmark"
    solvers = "Four solvers on the concepts of ConceptARC"
    jobs = {
        "report": (halves, duplicate_finetuning(), load_spec("aggregated")),
        "conceptarc": (solvers, conceptarc(), concepts_of_counts()),
    }
    for name, (title, responses, model) in jobs.items():
        if not quiet:
            print_lines(["", title])
        command = f"bayescontam demo --out {out}"
        # With three benchmarks the spread over benchmarks has a long tail: small steps.
        fitted = api.fit(
            responses,
            model,
            seed=SEED,
            target_accept=0.95,
            progress=not quiet,
            command=command,
        )
        fitted.save(out / f"{name}.nc")
        fitted.report(out / f"{name}.html")
        if not quiet:
            _show(fitted, out / f"{name}.html")


def _show(fitted: "object", page: Path) -> None:
    from bayescontam.api import Fit
    from bayescontam.cli.terminal import print_headline, print_lines
    from bayescontam.report.tables import headline, verdict_line

    assert isinstance(fitted, Fit)
    print_headline(headline(fitted))
    print_lines([verdict_line(fitted), f"The report lies in {page}"])
