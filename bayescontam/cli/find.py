"""Command ``find``: the chunks of a corpus that are nearest to a text."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from bayescontam._progress import stage
from bayescontam._text import printable
from bayescontam.cli.options import Format, Quiet, examples
from bayescontam.cli.terminal import print_list, put_csv, put_json

EXAMPLES = examples(
    "bayescontam find scan/vectors 'Three houses stand in a row.'",
    "bayescontam find index 'Three houses stand in a row.'",
    "bayescontam find scan/vectors 'def solve(n):' -k 5 --format json",
    then="Vectors are stored by: bayescontam scan … --keep-vectors",
)
_SHOWN = 300
"""Characters of a text in the list."""


def find(
    vectors: Annotated[
        Path, Argument(help="Folder of vectors that a scan stored, or of an index of them.")
    ],
    text: Annotated[str, Argument(help="Text to search for.")],
    k: Annotated[int, Option("--k", "-k", help="How many chunks to report.")] = 20,
    device: Annotated[
        Literal["auto", "cpu", "cuda"], Option(help="auto is a GPU where there is one.")
    ] = "auto",
    endpoint: Annotated[
        str | None,
        Option(help="Address where the embedder is served, if it was served for the vectors."),
    ] = None,
    api_key_env: Annotated[
        str | None,
        Option(help="Environment variable with the endpoint's key; default: OPENAI_API_KEY."),
    ] = None,
    output: Format = "table",
    quiet: Quiet = False,
) -> None:
    """Find the chunks of a corpus that are nearest to a text, by stored vectors or an index."""
    with stage(not quiet, "loading the search"):
        from bayescontam.scan.find import find_nearest

    found = find_nearest(
        vectors, text, k, device=device, endpoint=endpoint, api_key_env=api_key_env,
        progress=not quiet,
    )  # fmt: skip
    if output == "csv":
        put_csv(found)
    elif output == "json":
        put_json(found)
    else:
        print_list((f"{row.cosine:.3f}", _entry(row)) for row in found.itertuples())


def _entry(row: Any) -> str:
    """Return where a chunk is, and how it begins."""
    copies = f", {row.copies:,} copies" if row.copies > 1 else ""
    place = (
        f"{printable(row.source, 60)}, {printable(row.document, 120)}, chunk {row.chunk}{copies}"
    )
    # On one line: programs and poems would be full of marks for line breaks.
    return f"{place}: {printable(' '.join(row.text.split()), _SHOWN)}"
