"""Command ``index``: a FAISS index of stored vectors, for searches in seconds."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from bayescontam._progress import stage
from bayescontam.cli.options import Quiet, examples
from bayescontam.cli.terminal import print_lines, print_table, quoted, resumable, written_at
from bayescontam.errors import UsageError

EXAMPLES = examples(
    "bayescontam index scan/vectors --out index",
    "bayescontam index web/vectors chats/vectors --out index --kind ivf-sq8 --recall 0.99",
    then="Then: bayescontam scan --benchmark FILE --index index --out FOLDER",
)


def index(
    vectors: Annotated[
        list[Path], Argument(help="Folders of vectors that scans stored, by one embedder.")
    ],
    out: Annotated[Path, Option("--out", "-o", help="Folder of the index; made if need be.")],
    kind: Annotated[
        Literal["auto", "flat", "ivf-sq8", "ivf-pq"],
        Option(help="flat compares with all, the others with lists; auto chooses by size."),
    ] = "auto",
    recall: Annotated[
        float | None,
        Option(help="Share of the 100 nearest texts that a search is to find; default: 0.98."),
    ] = None,
    replace: Annotated[
        bool, Option("--replace", help="Replace the finished index of other vectors.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Build an index of stored vectors; resumes an interrupted one."""
    if kind == "flat" and recall is not None:
        raise UsageError(
            "--recall: decides how many lists are searched, and a flat index has none; leave it"
            " out, or choose another --kind"
        )
    with stage(not quiet, "loading FAISS"):
        import pandas as pd

        from bayescontam.scan.index_build import RECALL, build_index
        from bayescontam.scan.vector_index import ABOUT
    recall = RECALL if recall is None else recall
    before = written_at(out / ABOUT)
    with resumable("finished blocks"):
        built = build_index(
            vectors, out, kind=kind, recall=recall, replace=replace, progress=not quiet
        )
    if quiet:
        return
    about = built.about
    size = sum(about["sizes"].values()) / 1e6
    measured = about["recall"]["measured"][-1][1]
    row = {
        "kind": about["kind"], "texts": about["texts"], "chunks": about["occurrences"],
        "lists": about["lists"], "searched": about["probes"],
        f"recall@{about['recall']['k']}": measured, "MB": round(size, 1),
    }  # fmt: skip
    print_table(pd.DataFrame([row]), ["chunks", "lists"])
    lines = [
        f"{about['kind']}: {about['reason']}. Recall: share of the nearest texts that are found, of"
        f" {about['recall']['queries']} texts that trained no list.",
    ]
    if measured < recall:
        lines.append(f"The recall of {recall:g} is not reached: choose another --kind.")
    made = f"Wrote the index to {quoted(out)}"
    if written_at(out / ABOUT) == before:
        made = f"Read the finished index in {quoted(out)}, nothing was built again"
    lines.append(
        f"{made}. Next: bayescontam scan --benchmark FILE --index {quoted(out)} --out FOLDER"
    )
    print_lines(lines)
