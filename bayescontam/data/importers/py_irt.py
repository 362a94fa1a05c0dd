"""Input of py-irt (JSON Lines of subjects) to responses."""

from pathlib import Path
from typing import Unpack

from bayescontam._text import printable
from bayescontam.data.importers.base import Paths, number, objects
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import Run

_ODD = "give the value from which a response is correct (threshold, --threshold)"
_ENDINGS = (".jsonlines", ".jsonl", ".jsonlines.gz", ".jsonl.gz")


def import_py_irt(
    paths: Paths,
    *,
    benchmark: str,
    threshold: float | None = None,
    **options: Unpack[LogOptions],
) -> Imported:
    """Read the input of py-irt into a table of responses.

    Each line is a subject (the model) with its responses by item. Items that a subject lacks are
    missing, not incorrect.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``*.jsonlines`` or ``*.jsonl``, or folders that hold them.
    benchmark : str
        Name of the benchmark.
    threshold, **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or lines cannot be used.

    References
    ----------
    https://github.com/nd-ball/py-irt

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "r.jsonlines")
    ...     _ = file.write_text('{"subject_id": "a", "responses": {"q1": 1, "q3": 0}}')
    ...     found = import_py_irt(file, benchmark="quiz")
    >>> found.frame[["item", "n_correct"]].to_numpy().tolist()
    [['q1', 1], ['q3', 0]]
    """
    importing = Importing(paths, options)
    files = importing.files(
        lambda folder: (f for f in folder.rglob("*.json*") if f.name.endswith(_ENDINGS)),
        "holds no *.jsonlines or *.jsonl; check the folder",
    )
    logs = [log for file in importing.each(files) for log in _logs(file, benchmark, importing)]
    return importing.table_of(logs, "py-irt", threshold=threshold, unit="response", odd=_ODD)


def _logs(file: Path, benchmark: str, importing: Importing) -> list[Log]:
    left_out, source = importing.left_out, str(file)
    logs: dict[str, Log] = {}
    for place, row in objects(file, left_out, unique=True):
        with importing.row(file, place):
            subject, responses = row.get("subject_id"), row.get("responses")
            if not isinstance(subject, str) or not isinstance(responses, dict):
                raise TypeError(
                    "has no text 'subject_id' and no object 'responses'; is this of py-irt?"
                )
            if subject in logs:
                raise ValueError(f"subject '{printable(subject, 60)}' again; give one line")
            extra = importing.extra.values(row)
            trials = []
            for item, value in responses.items():
                try:
                    trials.append(Trial(item, {"response": number(value)}, extra=extra))
                except TypeError as error:
                    where = f"{place}, item '{printable(item, 60)}'"
                    problem = f"the response {error}; allowed are 0, 1, true, false and null"
                    left_out.broken(source, where, problem)
            logs[subject] = Log(Run(subject, benchmark, source), trials)
    return list(logs.values())
