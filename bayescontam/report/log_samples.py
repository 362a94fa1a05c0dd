"""Where in the logs the answers to items are: as text, and as links where the logs are served."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.errors import UsageError
from bayescontam.inference.result import Fit
from bayescontam.report.format import in_file

MOST_ITEMS = 50
"""Items of which the page has samples, the first of each of its tables."""
MOST_MODELS = 12
"""Models of an item, half of them such as missed it and half such as solved it."""
_OF_INSPECT = re.compile(r"sample (?P<id>.+), epoch (?P<epoch>\d+)", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive


@dataclass(frozen=True)
class LogAddress:
    """Where the logs of a fit are for the reader of its page."""

    base: str  # escaped, without a slash at its end
    served: bool  # whether it is the address of a server, which may be Inspect View

    @classmethod
    def of(
        cls, given: str | os.PathLike[str], page: str | os.PathLike[str], files: Iterable[str]
    ) -> "LogAddress":
        """Return the address of a server, or the way from a page to a folder that holds logs."""
        text = os.fspath(given)
        if _SCHEME.match(text):
            # As it stands in a browser: what follows "#" is a place in Inspect View.
            text = re.sub(r"/(index\.html?)?$", "", text.partition("#")[0])
            parts = urlsplit(text)
            if parts.scheme not in ("http", "https") or not parts.netloc:
                raise UsageError(
                    f"logs: got {printable(os.fspath(given))}; allowed is a folder, or an address"
                    " such as http://127.0.0.1:7575 (--logs)"
                )
            return cls(quote(text, safe="/:?=&%@+,;~!$'()*[]"), True)
        folder, names = Path(text), list(files)
        if not any((folder / name).is_file() for name in names):
            raise UsageError(
                f"logs: {printable(text)}: holds none of the fit's logs, such as"
                f" {join_list(names, 1)}; give the folder that was imported, or the address where"
                " it is served (--logs)"
            )
        # By its place beside the page: no place on this machine is written into it.
        way = os.path.relpath(folder.resolve(), Path(page).resolve().parent)
        return cls(quote(Path(way).as_posix()), False)

    def link(self, file: str, sample: str) -> str:
        """Return the address of a sample; of its log, where a sample has none of its own."""
        name = quote(file)
        found = _OF_INSPECT.fullmatch(sample)
        if found and self.served:
            place = f"{name}/samples/sample/{quote(found['id'], safe='')}/{found['epoch']}"
            return f"{self.base}{'' if '?' in self.base else '/'}#/logs/{place}"
        return f"{self.base}/{name}"


def log_address(
    fit: Fit, logs: str | os.PathLike[str] | None, page: str | os.PathLike[str]
) -> LogAddress | None:
    """Return where the logs of a fit are, if that is stated."""
    if logs is None:
        return None
    data = fit.data["constant_data"]
    if "log_file" not in data.coords:
        raise UsageError(
            "logs: the fit holds no names of logs; import them with this version (bayescontam"
            " import inspect or lm-eval), fit again, or leave the logs out (--logs)"
        )
    return LogAddress.of(logs, page, filter(None, map(str, data["log_file"].to_numpy())))


def samples_section(
    fit: Fit, listed: Iterable[Sequence[dict[str, Any]] | None], address: LogAddress | None = None
) -> dict[str, Any] | None:
    """Return where the answers to the items of a page's tables are; None if that is not known."""
    # In turn, so that each table has some where there are many.
    labels = zip_longest(*([row["label"] for row in rows] for rows in listed if rows))
    items = list(dict.fromkeys(name for names in labels for name in names if name is not None))
    shown = fit.samples(items[:MOST_ITEMS])
    if shown.empty:
        return None
    accuracy = fit.raw_accuracy().to_series().rename("accuracy")
    shown = shown.join(accuracy, on=["model", "benchmark"])
    by_item = dict(iter(shown.groupby("item", sort=False)))
    rows: list[dict[str, Any]] = []
    anchors: dict[str, str] = {}
    cut = False
    for number, item in enumerate(name for name in items if name in by_item):
        chosen = _surprising(by_item[item])
        cut |= len(chosen) < len(by_item[item])
        anchors[item] = f"sample-{number}"
        for place, row in enumerate(chosen.to_dict("records")):
            file, sample = str(row["log_file"]), str(row["log_sample"])
            rows.append(
                {
                    "anchor": "" if place else anchors[item],
                    "item": printable(item, 60),
                    "benchmark": row["benchmark"],
                    "model": row["model"],
                    "share": row["n_correct"] / row["n_trials"],
                    "words": _words(row["n_correct"], row["n_trials"]),
                    "sample": printable(sample, 120) or "log",
                    "file": printable(file, 300),
                    "link": "" if address is None else address.link(file, sample),
                }
            )
    return {
        "rows": rows,
        "anchors": anchors,
        "items": min(len(items), MOST_ITEMS),
        "of": len(items),
        "file": in_file("samples"),
        "cut": cut,
        "linked": address is not None,
        "inspect": bool(shown["log_sample"].str.fullmatch(_OF_INSPECT).any()),
        "repeated": bool((shown["n_trials"] > 1).any()),
    }


def _surprising(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers to an item that the page has: the able that miss it, the weak that don't.

    Those who missed it come first, the ablest of them on top.
    """
    wrong = (answers["n_correct"] / answers["n_trials"]) < 0.5
    missed = answers[wrong].sort_values("accuracy", ascending=False, kind="stable")
    solved = answers[~wrong].sort_values("accuracy", kind="stable")
    half = MOST_MODELS // 2
    count = max(half, MOST_MODELS - len(solved)), max(half, MOST_MODELS - len(missed))
    return pd.concat([missed.head(count[0]), solved.head(count[1])])


def _words(correct: int, trials: int) -> str:
    if trials == 1:
        return "solved" if correct else "missed"
    return f"{correct} of {trials} solved"
