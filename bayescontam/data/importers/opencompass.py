"""Results of OpenCompass with details (``--dump-eval-details``) to responses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from bayescontam._text import join_list
from bayescontam.data.importers.base import Names, Paths, as_list
from bayescontam.data.importers.logs import Imported, Importing, Log, LogOptions, Trial
from bayescontam.data.importers.runs import Naming, Run, fingerprint, original_name
from bayescontam.data.jsonl import json_object

_DATE = re.compile(r"\d{8}_\d{6}")
_ODD = "give results whose verdict is true or false, or choose another one (metric, --metric)"


def import_opencompass(
    paths: Paths,
    *,
    metric: Names = (),
    model: Names = (),
    **options: Unpack[LogOptions],
) -> Imported:
    """Read results of OpenCompass into a table of responses.

    The benchmark is the file's name, the model its folder's (OpenCompass's abbreviations), the
    item the number of the sample. A number whose reference answer differs between models names
    no item, and is refused.

    Parameters
    ----------
    paths : path-like or sequence of path-like
        Files ``results/MODEL/DATASET.json``, or folders that hold them.
    metric : str or sequence of str, optional
        Verdict that counts, where details have others than ``correct``; needed where they have
        no ``correct``.
    model, **options
        See `LogOptions`.

    Returns
    -------
    Imported

    Raises
    ------
    UsageError, DataError
        If files are missing, a choice is needed or cannot be used, or results cannot be used.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> details = {"type": "GEN", "0": {"predictions": "18", "references": "18", "correct": True}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "results", "org-m", "gsm8k.json")
    ...     file.parent.mkdir(parents=True)
    ...     _ = file.write_text(json.dumps({"accuracy": 100.0, "details": details}))
    ...     found = import_opencompass(folder)
    >>> found.frame.to_dict("records")
    [{'model': 'org-m', 'benchmark': 'gsm8k', 'item': '0', 'n_correct': 1, 'n_trials': 1}]
    """
    importing = Importing(paths, options)
    files = importing.files(
        _results, "holds no results/MODEL/DATASET.json; give the folder that is --work-dir"
    )
    naming = Naming(model, "the folder does not name the model")
    logs = [
        Log(_run(file, naming), list(_trials(file, importing, as_list(metric))))
        for file in importing.each(files)
    ]
    naming.check()
    read = [log for log in logs if log.trials]
    return importing.table_of(
        read, "OpenCompass", metric=metric, unit="sample", hint="such as references", odd=_ODD
    )


def _results(folder: Path) -> Iterator[Path]:
    """Give the results in a folder, and not the predictions, configurations and summaries."""
    found = [file for file in folder.rglob("*.json*") if file.is_file()]
    inside = [file for file in found if file.resolve().parent.parent.name == "results"]
    yield from inside or [file for file in found if file.parent == folder]


def _run(file: Path, naming: Naming) -> Run:
    above = [parent.name for parent in file.resolve().parents]
    model, folder = naming.of(file, above[0], above[0] if above[1:2] == ["results"] else "")
    date = next((name for name in above if _DATE.fullmatch(name)), "")
    benchmark = original_name(file.name).partition(".json")[0]
    id_ = f"{date}/{folder}" if date else ""
    return Run(model, benchmark, str(file), id=id_, folder=folder)


def _trials(file: Path, importing: Importing, named: Sequence[str]) -> Iterator[Trial]:
    content = json_object(file, unique=True)
    details = content.get("details")
    if not isinstance(details, dict | list):
        importing.left_out.broken(
            str(file),
            "as results of OpenCompass",
            f"there are no 'details' of samples, only {join_list(map(str, content))}",
            advice="run OpenCompass with --dump-eval-details",
        )
        return
    for key, number, entry in _entries(details):
        place = f"sample {key}" + (f", answer {number}" if number else "")
        scores = _verdicts(entry, named) if isinstance(entry, dict) else {}
        if not scores:
            flags = _verdicts(entry, list(entry)) if isinstance(entry, dict) else ()
            others = f", only true or false in {join_list(flags)}" if flags else ""
            importing.left_out.broken(
                str(file),
                place,
                f"has no 'correct'{others}; this evaluator gives no verdict of samples",
                advice="import results whose details have 'correct' (true or false), or name "
                "another verdict (metric, --metric)",
            )
            continue
        reference = entry.get("references", entry.get("answer", entry.get("gold")))
        text = None if reference is None else fingerprint(reference)
        predictions = [entry.get(name) for name in ("origin_prediction", "predictions", "pred")]
        given = any(value is not None for value in predictions)
        answer = fingerprint(predictions) if given else None
        with importing.row(file, place):
            extra = importing.extra.values(entry)
            yield Trial(str(key), scores, number, answer, text, extra)


def _entries(details: dict[str, Any] | list[Any]) -> Iterator[tuple[str, str, Any]]:
    """Give the name of each sample, the number of an answer to it, and what is stored of that."""
    for key, entry in details.items() if isinstance(details, dict) else enumerate(details):
        if key == "type":
            continue
        # Evaluators of several answers list them, and name the sample beside them.
        answers = entry.get("predictions") if isinstance(entry, dict) else None
        if isinstance(answers, list) and answers and all(isinstance(a, dict) for a in answers):
            name = str(entry.get("example_abbr", key))
            for number, answer in enumerate(answers):
                yield name, str(number), answer
        else:
            yield str(key), "", entry


def _verdicts(entry: Mapping[str, Any], named: Sequence[str]) -> dict[str, Any]:
    """Return the verdicts of a sample: 'correct' or its like, and what is named."""
    found = {
        name: value for name, value in entry.items() if name == "correct" or isinstance(value, bool)
    }
    # What else is true or false may say that an answer was cut off: only the user can know.
    wanted = {name for name in found for text in named if f"={text}".endswith(f"={name}")}
    wanted |= {name for name in found if name.endswith("correct")}
    return {name: value for name, value in found.items() if name in wanted}
