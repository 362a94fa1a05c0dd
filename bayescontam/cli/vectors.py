"""Commands ``vectors …``: folders of vectors that scans stored."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import Quiet, examples
from bayescontam.cli.terminal import (
    print_lines,
    print_list,
    print_table,
    quoted,
    resumable,
    written_at,
)
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    from bayescontam.scan.stored_vectors import StoredVectors

EXAMPLES = examples(
    "bayescontam vectors show scan/vectors",
    "bayescontam vectors add scan/vectors more/vectors --out all",
    then="Vectors are stored by: bayescontam scan … --keep-vectors",
)
app = Typer(
    help="Vectors that scans stored: show what they are of, and join those of several corpora.",
    no_args_is_help=True,
)


@app.command(
    "add",
    epilog=examples(
        "bayescontam vectors add web/vectors chats/vectors --out all",
        "bayescontam vectors add scan/vectors more/vectors --out all --rename 2:corpus=chats",
        then="A new corpus first needs vectors of its own: bayescontam scan … --keep-vectors",
    ),
)
def add(
    vectors: Annotated[
        list[Path], Argument(help="Folders of vectors that scans stored, by one embedder.")
    ],
    out: Annotated[Path, Option("--out", "-o", help="Folder to make; holds the corpora of all.")],
    rename: Annotated[
        list[str] | None,
        Option(
            metavar="OLD=NEW",
            help="New name of a source; 2:OLD is that of the second folder. May be repeated.",
        ),
    ] = None,
    replace: Annotated[
        bool, Option("--replace", help="Replace a folder that was joined of other vectors.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Join folders of stored vectors to one, by links where the file system has them."""
    names = _names(rename or ())
    with stage(not quiet, "reading the vectors"):
        from bayescontam.scan.joining import add_vectors
        from bayescontam.scan.stored_vectors import ABOUT
    record = out.expanduser() / ABOUT
    before = written_at(record)
    with resumable("finished files"):
        joined = add_vectors(vectors, out, rename=names, replace=replace, progress=not quiet)
    if quiet:
        return
    _print_sources(joined)
    made = f"Wrote the vectors to {quoted(out)}"
    if written_at(record) == before:
        made = f"Read the joined vectors in {quoted(out)}, nothing was joined again"
    print_lines(
        [
            f"{made}. Next: bayescontam scan --benchmark FILE --vectors {quoted(out)} --out FOLDER",
            f"For many searches: bayescontam index {quoted(out)} --out INDEX",
        ]
    )


@app.command("show", epilog=examples("bayescontam vectors show scan/vectors"))
def show(
    vectors: Annotated[Path, Argument(help="Folder of vectors that a scan stored.")],
) -> None:
    """Show what stored vectors are of: embedder, precision, size, and chunks by source."""
    from bayescontam.scan.stored_vectors import StoredVectors, megabytes

    stored = StoredVectors.load(vectors)
    about, parts = stored.about, stored.about["parts"]
    texts, size = (sum(part[name] for part in parts) for name in ("vectors", "bytes"))
    print_list(
        [
            ("Embedder", printable(str(about["embedder"].get("model")))),
            ("Dimensions", f"{about['embedder'].get('dims')}, in {about['precision']}"),
            ("Vectors", f"{texts:,} in {len(parts):,} parts, {megabytes(size)}"),
            ("Shortest text", f"{about['min_tokens']:,} tokens"),
        ]
    )
    _print_sources(stored)


def _names(given: Sequence[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for each in given:
        old, sign, new = each.partition("=")
        if not (old and sign and new):
            raise UsageError(
                f"--rename: got '{printable(each, 60)}'; OLD=NEW is needed, such as 2:corpus=chats"
            )
        if old in names:
            raise UsageError(f"--rename: '{printable(old, 60)}' stands twice; give it one name")
        names[old] = new
    return names


def _print_sources(stored: "StoredVectors") -> None:
    """Print the sources with their numbers of documents and chunks."""
    import pandas as pd

    table = pd.DataFrame(stored.about["strata"]).reindex(
        columns=["source", "stratum", "documents", "sampled", "chunks"]
    )
    grouped = table.groupby("source", sort=False)
    counts = grouped[["documents", "sampled", "chunks"]].sum().astype(int)
    counts.insert(0, "strata", grouped["stratum"].nunique())
    print_table(counts.reset_index(), see_all="vectors.json")
