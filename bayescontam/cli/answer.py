"""Commands ``answer …``: solvers answer the items of a benchmark."""

import json
from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from bayescontam._files import write_text
from bayescontam._text import printable
from bayescontam.cli.options import ArcTasks, Quiet, check_file, examples
from bayescontam.cli.terminal import print_lines

EXAMPLES = examples(
    "bayescontam answer arc-baseline arc-agi-1-evaluation --out baseline.json",
    then="Then: bayescontam import arc-predictions baseline.json --tasks arc-agi-1-evaluation"
    " --out responses.csv",
)
app = Typer(help="Have a solver answer the items of a benchmark.", no_args_is_help=True)


@app.command("arc-baseline", epilog=EXAMPLES)
def arc_baseline(
    tasks: ArcTasks,
    out: Annotated[Path, Option("--out", "-o", help="Submission to write (.json).")],
    guesses: Annotated[int, Option(help="Most attempts at a test input.", min=1)] = 3,
    jobs: Annotated[
        int | None,
        Option(help="Tasks at the same time; default: as many as there are cores.", min=1),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Solve ARC tasks by a search over small programs: a baseline that needs no network."""
    check_file(out, [])
    from bayescontam.arc.solver import solve_arc
    from bayescontam.data.importers.arc import load_tasks

    known = load_tasks(tasks)
    found = solve_arc(known, guesses=guesses, jobs=jobs, progress=not quiet)
    write_text(out, json.dumps(found) + "\n")
    if quiet:
        return
    answered = sum(bool(attempts) for tests in found.values() for attempts in tests)
    print_lines(
        [
            f"Programs were found for {answered:,} of {len(known.items):,} test inputs; whether"
            " they are right, importing shows.",
            f"Wrote {printable(out)}",
        ]
    )
