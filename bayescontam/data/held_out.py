"""Counts of a trained judge's verdicts on pairs of known truth from which it did not learn."""

import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from bayescontam._bounds import Bounds
from bayescontam._text import join_list, printable
from bayescontam.data.judgements import TRAINED, sort_of
from bayescontam.errors import DataError, Fault, UsageError

COUNTS = ("true_positive", "false_negative", "true_negative", "false_positive")
_FORM = '{"judge": "trained:NAME", ' + ", ".join(f'"{name}": …' for name in COUNTS) + "}"


def read_validations(
    paths: Iterable[str | os.PathLike[str]],
) -> dict[str, tuple[int, int, int, int]]:
    """Read the JSON files that ``judge train`` writes, for `fit_curve(validated=…)`.

    Parameters
    ----------
    paths : iterable of path-like
        Each holds one object: ``judge``, ``true_positive``, ``false_negative``,
        ``true_negative``, ``false_positive``; further keys are not read.

    Returns
    -------
    dict
        For each judge these four counts, in this order.

    Raises
    ------
    UsageError
        If there is no such file, or two are of one judge.
    DataError
        If a file holds something else.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = '''{"judge": "trained:small", "true_positive": 44, "false_negative": 6,
    ...             "true_negative": 248, "false_positive": 2}'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "validation.json")
    ...     _ = file.write_text(text)
    ...     read_validations([file])
    {'trained:small': (44, 6, 248, 2)}
    """
    found: dict[str, tuple[int, int, int, int]] = {}
    for path in paths:
        judge, counts = _read(os.fspath(path))
        if judge in found:
            raise UsageError(
                f"{printable(os.fspath(path))}: is a second validation of judge"
                f" '{printable(judge, 60)}'; give one, or add their counts"
            )
        found[judge] = counts
    return found


def _read(path: str) -> tuple[str, tuple[int, int, int, int]]:
    try:
        Bounds.current().check_record(pathlib.Path(path).stat().st_size, path, "the validation")
        content = json.loads(pathlib.Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        problem = f"is not JSON ({printable(str(error), 100)})"
        raise DataError([Fault(path, problem)], f"A validation is {_FORM}.") from error
    named = isinstance(content, dict) and isinstance(content.get("judge"), str)
    if not named or (lost := [name for name in COUNTS if name not in content]):
        problem = f"has no {join_list(lost)}" if named else "is no object with a 'judge'"
        raise DataError([Fault(path, problem)], f"A validation is {_FORM}.")
    judge, counts = content["judge"], tuple(content[name] for name in COUNTS)
    _check_counts(counts, f"{printable(path)}: validation")
    return judge, counts


def _check_counts(counts: Sequence[Any], where: str) -> None:
    whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in counts)
    if len(counts) != len(COUNTS) or not whole or min(counts) < 0:
        raise UsageError(
            f"{where}: got {printable(str(list(counts)), 100)}; allowed are four whole numbers, 0"
            f" or more: {', '.join(COUNTS)}"
        )


def check_validated(
    validated: Mapping[str, Sequence[int]], judges: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """Return counts of held-out verdicts by judge, or raise a `UsageError`."""
    for judge, counts in validated.items():
        where = f"validation of judge '{printable(str(judge), 60)}'"
        if sort_of(str(judge)) != "trained":
            raise UsageError(
                f"{where}: only judges whose names start with '{TRAINED}' have one; the errors of"
                " others are learnt from pairs that several judged"
            )
        if judge not in judges:
            known = [name for name in judges if sort_of(name) == "trained"]
            raise UsageError(
                f"{where}: it judged none of these pairs; trained judges of the judgements:"
                f" {join_list(known) if known else 'none'}"
            )
        _check_counts(counts, where)
    return {judge: tuple(int(n) for n in counts) for judge, counts in validated.items()}
