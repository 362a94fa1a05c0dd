"""Options that choose pairs to judge, and files of judgements."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from bayescontam._text import printable
from bayescontam.cli.terminal import print_lines, print_table
from bayescontam.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from bayescontam.data.judgements import Judgements
    from bayescontam.scan.results import Scan

PAIRS = 200
in_choice = partial(Option, rich_help_panel="Which pairs")
in_passes = partial(Option, rich_help_panel="Pairs that were judged before")
in_active = partial(Option, rich_help_panel="Pairs that inform most")

Pairs = Annotated[
    int | None,
    in_choice(
        help=f"Pairs, spread over all cosines; default: {PAIRS}. With --of: at random, default"
        " all. With --curve: the most informative."
    ),
]
PerItem = Annotated[int | None, in_choice(help="Instead: best matches of each item.")]
OnlyBenchmarks = Annotated[
    list[str] | None, in_choice("--benchmark", help="Only this benchmark; may be repeated.")
]
Seed = Annotated[
    int | None,
    in_choice(help="Seed of the choice; a smaller number is a part of it; default: 1."),
]
Of = Annotated[
    list[Path] | None,
    in_passes(help="Judgements (.csv or .parquet) of pairs to judge again; may be repeated."),
]
Said = Annotated[
    str | None,
    in_passes(
        help="What they were called by any judge, with commas between: duplicate, not-duplicate,"
        " kind=KIND, disagree (two judges do), unsure (no verdict, or confidence below 0.7;"
        " unsure=0.9: below that). Default: anything."
    ),
]
OfJudge = Annotated[str | None, in_passes(help="Only by this judge.")]
Strata = Annotated[
    str | None,
    in_passes(help="Equal parts of --pairs from each: of verdict, kind, benchmark, with commas."),
]
ByCurve = Annotated[
    Path | None,
    in_active(
        "--curve",
        help="A curve (.nc), fitted to all verdicts so far: choose the pairs that are expected to"
        " narrow the interval of prevalence most.",
    ),
]
ForItem = Annotated[
    str | None, in_active("--item", help="Not of prevalence: whether this item has a duplicate.")
]


def chosen_pairs(
    scan: "Scan",
    *,
    pairs: int | None,
    per_item: int | None,
    benchmark: list[str] | None,
    seed: int,
    of: list[Path] | None,
    said: str | None,
    of_judge: str | None,
    strata: str | None,
    curve: Path | None,
    item: str | None,
    judge: str | None = None,
    quiet: bool = False,
) -> "pd.DataFrame":
    """Return the pairs that the options request; print which of several strata they are."""
    needs = {"--of": {"--said": said, "--of-judge": of_judge, "--strata": strata}}
    needs["--curve"] = {"--item": item}
    given = {"--of": of, "--curve": curve}
    for needed, options in needs.items():
        for option, value in options.items():
            if value is not None and not given[needed]:
                raise UsageError(f"{option}: needs {needed}")
    if pairs is not None and per_item is not None:
        raise UsageError("--pairs and --per-item: give one; a choice is made by one of the two")
    if curve is not None and (of or per_item is not None):
        raise UsageError("--curve: chooses by itself; leave out --of and --per-item")
    if strata is not None and pairs is None:
        raise UsageError("--strata: needs --pairs, the number that is shared among them")
    from bayescontam.evidence.choice import choose_judged, choose_pairs, top_pairs

    benchmarks = benchmark or None
    if curve is not None:
        from bayescontam.evidence.active import informative_pairs

        found = informative_pairs(
            scan, curve, PAIRS if pairs is None else pairs, item=item, judge=judge,
            benchmarks=benchmarks, progress=not quiet,
        )  # fmt: skip
        if not quiet:
            print_table(found.expected, whole=True)
        return found.pairs
    if of:
        earlier = read_all(of, quiet)
        assert earlier is not None  # one file at least
        again = choose_judged(
            scan, earlier, _words(said), judge=of_judge, count=pairs, per_item=per_item,
            strata=_words(strata), seed=seed, benchmarks=benchmarks,
        )  # fmt: skip
        if not quiet:
            print_table(again.strata, whole=True)
        return again.pairs
    if per_item is not None:
        return top_pairs(scan, per_item, benchmarks=benchmarks)
    return choose_pairs(scan, PAIRS if pairs is None else pairs, seed, benchmarks=benchmarks)


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def read_all(paths: Sequence[Path] | None, quiet: bool) -> "Judgements | None":
    """Return the judgements of all files, joined; print what was changed on the way in."""
    from bayescontam.data.judgements import read_judgements

    if not paths:
        return None
    read = [(path, read_judgements(path)) for path in paths]
    if not quiet:
        print_lines(
            f"{printable(path)}: {printable(note, 400)}" for path, one in read for note in one.notes
        )
    first, *others = (one for _, one in read)
    return first.merged(*others)
