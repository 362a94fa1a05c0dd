"""Command ``concepts``: what ARC tasks need, by predicates on their demonstrations."""

from pathlib import Path
from typing import Annotated

from typer import Option

from bayescontam._text import printable
from bayescontam.cli.options import ArcTasks, Quiet, check_file, examples
from bayescontam.cli.terminal import print_lines, print_table

EXAMPLES = examples(
    "bayescontam concepts arc-agi-1-evaluation --out concepts.csv",
    "bayescontam concepts my-tasks -o concepts.parquet",
)


def concepts(
    tasks: ArcTasks,
    out: Annotated[Path, Option("--out", "-o", help="Table to write: .parquet or .csv.")],
    quiet: Quiet = False,
) -> None:
    """Detect which concepts ARC tasks need, and write a table of task and concept."""
    import pandas as pd

    from bayescontam.data.tables import check_table_ending, write_table

    check_table_ending(out, "concepts")
    check_file(out, [])
    from bayescontam.arc.concepts import detect_concepts

    found = detect_concepts(tasks)
    write_table(out, found)
    if quiet:
        return
    counts = found["concept"].value_counts()
    table = pd.DataFrame({"concept": counts.index, "tasks": counts.to_numpy()})
    print_table(table.assign(share=table["tasks"] / found["task"].nunique()), whole=True)
    print_lines([f"Wrote the concepts of {found['task'].nunique():,} tasks to {printable(out)}"])
