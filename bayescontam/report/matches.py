"""Matches and duplicates on a page: cards, the most contaminated items, and prevalence."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

from bayescontam._format import interval, level_text, number, percent
from bayescontam._text import join_list, printable
from bayescontam.data.judgements import PAIR, sort_of
from bayescontam.errors import UsageError
from bayescontam.evidence.covariates import (
    DRAWS,
    FLOOR,
    ItemContamination,
    covariates_table,
    item_contamination,
)
from bayescontam.evidence.curve_model import first_runs
from bayescontam.evidence.item_matches import ItemExposure, Matches
from bayescontam.evidence.kinds import kind_words
from bayescontam.evidence.prevalence import duplicate_numbers, prevalence, prevalence_by
from bayescontam.inference.checks import Outcome
from bayescontam.inference.result import Fit
from bayescontam.report.format import Names
from bayescontam.report.html import SHOWN, UNFOLDED, Excerpt, excerpt
from bayescontam.report.plots import (
    BLUE,
    GREY,
    Picture,
    band,
    finish,
    first_of,
    numbers,
    panels,
    plain_labels,
    style,
)
from bayescontam.scan.results import over_all

if TYPE_CHECKING:
    from bayescontam.evidence.curve import Curve
    from bayescontam.scan.results import Scan


LEVELS = (0.6, 0.7, 0.8, 0.9)
"""Cosines at which items are counted."""
FOUND = 0.8
"""Cosine from which on a match counts as found by cosine, where n-grams are compared."""
KEYS = ["benchmark", "item"]
FIRST, FURTHER, BESIDE = 25, 50, 3
"""Items that are shown at once, and further ones; matches beside each."""
_ITEM, _DOCUMENT, _STRATUM = 120, 80, 60
"""Longest names, in characters."""
Card = dict[Any, Any]
MOST_ITEMS = 50
"""Items that are listed as the most contaminated ones."""
_PAIR = list(PAIR)
_MODES = {
    "input": "the question only", "output": "the answer only",
    "input_output": "question and answer together",
}  # fmt: skip
"""What of an item is looked for, in words."""
_MOST_MODELS = 12
"""Models whose accuracies are reported beside the texts of an item."""
_OTHER = 0.005
"""Difference of contamination from which on a fit's covariates are other ones."""
_MOST_NAMED = 4
"""Benchmarks that the verdict line names."""
MOST_PANELS, MOST_GROUPS, MOST_ROWS = 9, 24, 200
"""Benchmarks and groups in one picture, and rows of a table."""


def lexical_columns(columns: Iterable[object]) -> list[str]:
    """Return which columns are lexical baselines: ROUGE-L, n-grams from the longest, Jaccard.

    >>> lexical_columns(["cosine", "ngram_2", "jaccard", "ngram_13", "rouge_l"])
    ['rouge_l', 'ngram_13', 'ngram_2', 'jaccard']
    """
    names = set(map(str, columns))
    ngrams = sorted(filter(_length, names), key=_length, reverse=True)
    return [name for name in ("rouge_l", *ngrams, "jaccard") if name in names]


def ngram_column(columns: Iterable[object]) -> str | None:
    """Return the column of n-grams that matches are judged by: n = 8, else the longest.

    >>> ngram_column(["ngram_2", "ngram_8", "ngram_13"])
    'ngram_8'
    >>> ngram_column(["jaccard"]) is None
    True
    """
    names = [name for name in lexical_columns(columns) if _length(name)]
    return "ngram_8" if "ngram_8" in names else next(iter(names), None)


def lexical_name(column: str) -> str:
    """Return the name of a lexical baseline as people read it.

    >>> lexical_name("ngram_8"), lexical_name("rouge_l")
    ('8-grams', 'ROUGE-L')
    """
    named = {"rouge_l": "ROUGE-L", "jaccard": "Jaccard"}
    return named.get(column) or f"{_length(column)}-grams"


def _length(column: str) -> int:
    """Return the length of the n-grams of a column; 0 for other columns."""
    stem, _, number = column.rpartition("_")
    return int(number) if stem == "ngram" and number.isdecimal() else 0


def best_matches(scan: "Scan") -> pd.DataFrame:
    """Return one row for each item: its best match."""
    matches = over_all(scan)
    items = scan.items.reindex(columns=[*KEYS, "text", "tokens", "cut"])
    first = matches.loc[matches["rank"] == 1, [*KEYS, "cosine", *lexical_columns(matches)]]
    table = items.merge(first, on=KEYS, how="left", validate="one_to_one")
    table["cut"] = table["cut"].astype("boolean").fillna(False).astype(bool)
    table["missed"] = False
    if ngram := ngram_column(matches):
        most = scan.matches.groupby(KEYS, sort=False, observed=True)[ngram].max()
        shared = table[KEYS].join(most.rename("most"), on=KEYS)["most"]
        table["missed"] = (table["cosine"] >= FOUND) & (shared == 0)
    return table


def headline(scan: "Scan", best: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each benchmark: how close the corpus comes to its items."""
    totals = scan.histogram.groupby("benchmark", observed=True)["count"].sum()
    tails = thresholds(scan).groupby("benchmark", observed=True)["threshold"]
    limits = tails.agg(tail_low="min", tail_median="median", tail_high="max")
    rows = []
    for benchmark, part in best.groupby("benchmark", sort=False, observed=True):
        cosines = part["cosine"]
        searched = float(totals.get(benchmark, 0)) / len(part)
        rows.append(
            {
                "benchmark": benchmark,
                "items": len(part),
                "cut": int(part["cut"].sum()),
                "chunks": (scan.record.get("search") or {}).get("chunks", searched),
                "low": cosines.quantile(0.05),
                "median": cosines.median(),
                "high": cosines.quantile(0.95),
                "top": cosines.max(),
                **{f"at_least_{level}": int((cosines >= level).sum()) for level in LEVELS},
                "missed": int(part["missed"].sum()),
            }
        )
    return pd.DataFrame(rows).join(limits, on="benchmark")


def thresholds(scan: "Scan") -> pd.DataFrame:
    """Return ``benchmark, item, threshold``: at which cosine the tail of each item starts.

    Of a scan by source an item has one for each.
    """
    once = [*KEYS, "source"] if scan.by_source else KEYS
    return scan.tail.drop_duplicates(once)[[*KEYS, "threshold"]]


def strata(scan: "Scan") -> pd.DataFrame:
    """Return one row for each stratum, those with most chunks first."""
    columns = ["source", "stratum", "documents", "sampled", "share", "chunks"]
    table = pd.DataFrame(scan.record.get("strata") or [], columns=columns)
    matches = over_all(scan)
    first = matches[matches["rank"] == 1]
    best = first.groupby(columns[:2], observed=True).size().rename("best")
    table = table.join(best, on=columns[:2]).fillna({"best": 0})
    return table.sort_values(["chunks", *columns[:2]], ascending=[False, True, True])


def cards(
    scan: "Scan", best: pd.DataFrame, evidence: "Evidence | None" = None
) -> tuple[list[Card], list[tuple[str, list[Card]]]]:
    """Return the items worth reading first beside their matches."""
    ordered = best.dropna(subset="cosine").sort_values("cosine", ascending=False, kind="stable")
    whole, most = FIRST, FIRST
    if evidence is not None:
        ordered = evidence.ranked()[KEYS].merge(ordered, on=KEYS)
        most = FIRST + FURTHER // 2
    later = ordered.iloc[most:]
    groups = list(later.groupby("benchmark", sort=False, observed=True))[:FURTHER]
    each = (FIRST + FURTHER - most) // max(len(groups), 1)
    first = item_cards(scan, ordered.iloc[:whole], UNFOLDED, evidence)
    first += item_cards(scan, ordered.iloc[whole:most], SHOWN, evidence)
    rest = [(str(name), item_cards(scan, part[:each], SHOWN, evidence)) for name, part in groups]
    return first, rest


def item_cards(
    scan: "Scan", rows: pd.DataFrame, unfolded: int, evidence: "Evidence | None" = None
) -> list[Card]:
    """Return items beside their matches."""
    if rows.empty:
        return []
    if evidence is None:
        ranked = over_all(scan)
        matches = ranked[ranked["rank"] <= BESIDE].merge(rows[KEYS], on=KEYS)
        matches, said, known = matches.sort_values("rank").assign(p=None), {}, {}
    else:
        matches = evidence.matches(rows).groupby(KEYS, observed=True).head(BESIDE)
        said = evidence.verdicts()
        known = evidence.items.set_index(KEYS)["p_duplicate"].to_dict()
    by_item = {key: part.to_dict("records") for key, part in matches.groupby(KEYS, observed=True)}
    places = anchors(scan)
    texts = _texts(scan, matches)
    others = _other_texts(scan)
    return [
        {
            **row,
            "anchor": places[row["benchmark"], row["item"]],
            "p": known.get((row["benchmark"], row["item"])),
            "about": [],
            "item": printable(str(row["item"]), _ITEM),
            "excerpt": _excerpt(row["text"], unfolded),
            "matches": [
                _match(match, texts, unfolded, said)
                | {"looked_for": others.get((row["benchmark"], row["item"], match["source"]), "")}
                for match in by_item.get((row["benchmark"], row["item"]), [])
            ],
        }
        for row in rows.to_dict("records")
    ]


def _other_texts(scan: "Scan") -> dict[tuple[Any, ...], str]:
    """Return what was looked for in a source, by item and source, if not the text of `items`."""
    if not scan.by_source:
        return {}
    shown, texts = scan.items.set_index(KEYS)["text"], scan.item_texts
    other = texts[texts["text"].to_numpy() != shown.loc[texts.set_index(KEYS).index].to_numpy()]
    modes = {row["benchmark"]: row for row in scan.record.get("benchmarks") or []}
    found = {}
    for benchmark, item, source in other[[*KEYS, "source"]].itertuples(index=False, name=None):
        row = modes.get(benchmark, {})
        mode = str((row.get("by_source") or {}).get(source, row.get("text_mode", "")))
        found[benchmark, item, source] = _MODES.get(mode, "another text of the item")
    return found


def anchors(scan: "Scan") -> dict[tuple[Any, ...], str]:
    """Return the identifier of each item's card, by benchmark and item."""
    keys = scan.items[KEYS].itertuples(index=False, name=None)
    return {key: f"item-{number}" for number, key in enumerate(keys, start=1)}


def _texts(scan: "Scan", matches: pd.DataFrame) -> dict[int, str]:
    rows = scan.texts[scan.texts["chunk_id"].isin(matches["chunk_id"].unique())]
    return dict(zip(rows["chunk_id"].tolist(), rows["text"].tolist(), strict=True))


def _match(
    match: dict[Any, Any],
    texts: dict[int, str],
    unfolded: int,
    said: dict[tuple[object, ...], list[str]],
) -> dict[str, Any]:
    p = match["p"]
    return {
        **match,
        "p": None if pd.isna(p) else p,
        "place": place(match["source"], match["stratum"]),
        "document": printable(str(match["document"]), _DOCUMENT),
        "scores": [(lexical_name(name), number(match[name], 2)) for name in lexical_columns(match)],
        "verdicts": said.get(tuple(match[name] for name in PAIR), []),
        "excerpt": _excerpt(texts.get(match["chunk_id"]), unfolded),
    }


def place(source: object, stratum: object) -> str:
    """Return source and stratum in one line.

    >>> place("web", "forum"), place("books", "")
    ('web: forum', 'books')
    """
    parts = [printable(str(part), _STRATUM) for part in (source, stratum) if str(part)]
    return ": ".join(parts)


def _excerpt(text: object, unfolded: int) -> Excerpt | None:
    return excerpt(text, unfolded=unfolded) if isinstance(text, str) and text else None


@dataclass(frozen=True, eq=False)
class Evidence:
    """A scan that was weighed with a curve."""

    scan: "Scan"
    curve: "Curve"
    weighed: ItemContamination
    # one row for each item; the columns of `bayescontam.evidence.covariates.covariates_table`
    items: pd.DataFrame

    def ranked(self) -> pd.DataFrame:
        """Return the items that most probably have duplicates first."""
        order = ["p_duplicate", "expected_duplicates", "top_cosine"]
        return self.items.sort_values(order, ascending=False, kind="stable")

    def matches(self, items: pd.DataFrame) -> pd.DataFrame:
        """Return the listed matches of some items, likely duplicates first."""
        rows = self.scan.matches.merge(items[KEYS], on=KEYS)
        p = _match_probabilities(self.scan, self.curve, items)
        rows = rows.merge(p, on=_PAIR, how="left")
        order = ["p", "cosine", "rank"]  # of equal ones in several sources the ranks differ
        return rows.sort_values(order, ascending=[False, False, True], kind="stable")

    def verdicts(self) -> dict[tuple[object, ...], list[str]]:
        """Return how judges called each pair, in words."""
        said: dict[tuple[object, ...], list[str]] = {}
        for row in first_runs(self.curve.judged).to_dict("records"):
            what = "exact copy" if sort_of(str(row["judge"])) == "rules" else "duplicate"
            verdict = f"{'a' if row['is_duplicate'] else 'no'} {what}".replace(
                "a exact", "an exact"
            )
            kind = f" ({row['kind']})" if row["kind"] and what == "duplicate" else ""
            words = f"{printable(str(row['judge']), 60)}: {verdict}{kind}"
            said.setdefault(tuple(row[name] for name in _PAIR), []).append(words)
        return said


def gather(scan: "Scan", curve: "Curve", progress: bool = False) -> Evidence:
    """Weigh a scan with a curve, for a page."""
    sources = {str(row["source"]) for row in scan.record.get("strata") or []}
    needed = {"benchmark": set(map(str, scan.items["benchmark"])), "source": sources}
    known = {"benchmark": set(curve.benchmarks), "source": set(curve.sources)}
    for what, names in needed.items():
        if lost := sorted(names - known[what]):
            raise UsageError(
                f"the curve does not cover {what} {join_list(lost)}; fit one to this scan:"
                " bayescontam curve"
            )
    weighed = item_contamination(scan, curve, progress=progress)
    return Evidence(scan, curve, weighed, covariates_table(weighed, scan, curve))


def _match_probabilities(scan: "Scan", curve: "Curve", items: pd.DataFrame) -> pd.DataFrame:
    """Return ``PAIR`` and ``p`` of the matches that count, one of each document."""
    matches = Matches(scan, curve, FLOOR, DRAWS)
    wanted = set(items[KEYS].itertuples(index=False, name=None))
    draws, parts = curve.draws(DRAWS), []
    every = scan.items[KEYS].itertuples(index=False, name=None)
    for key, matched in zip(every, matches, strict=True):
        if key in wanted and matched.listed:
            exposure = ItemExposure(draws, matched)
            each = np.einsum("sh,shm->sm", exposure.weight, exposure.probability).mean(axis=0)
            parts.append(matches.listed(key).assign(p=each[: matched.listed]))
    return pd.concat(parts) if parts else scan.matches.iloc[:0][_PAIR].assign(p=0.0)


def contaminated_section(fit: Fit, evidence: Evidence, models: Names) -> dict[str, Any]:
    """Return the most contaminated items of a fit, and their matched texts."""
    table = _joined(fit, evidence)
    shown = table.head(MOST_ITEMS)
    places = anchors(evidence.scan)
    rows = [
        {
            **row,
            "anchor": places[row["benchmark"], row["item"]],
            "item": printable(str(row["item"]), 60),
        }
        for row in shown.to_dict("records")
    ]
    ngram = ngram_column(evidence.scan.matches)
    return {
        "rows": rows,
        "cards": _cards(fit, evidence, shown, models),
        "n_items": len(table),
        "has_posterior": bool(shown["posterior_mean"].notna().any()),
        "ngram": lexical_name(ngram)[:-1] if ngram else "",
        "notes": list(_notes(fit, evidence, table)),
    }


def _joined(fit: Fit, evidence: Evidence) -> pd.DataFrame:
    """Return the items that fit and scan share, the most contaminated first.

    By the posterior mean of contamination where the fit has one, else by the probability
    of a duplicate.
    """
    answers = _as_in_scan(_by_model(fit), evidence)
    items = answers.groupby(KEYS, sort=False)[["accuracy", "fitted"]].mean()
    table = evidence.ranked().merge(items, on=KEYS)
    posterior = _as_in_scan(fit.exposures(), evidence)
    if len(posterior):
        mean = posterior.groupby(KEYS, sort=False)["posterior_mean"].mean()
        table = table.join(mean, on=KEYS)
        return table.sort_values(
            ["posterior_mean", "p_duplicate"], ascending=False, kind="stable", ignore_index=True
        )
    return table.assign(posterior_mean=np.nan)


def _as_in_scan(table: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """Name items as the scan does: a fit labels those of the same name by benchmark, too."""
    names: dict[tuple[str, str], str] = {}
    for form in ("{b}:{benchmark}/{item}", "{benchmark}/{item}", "{item}"):
        for benchmark, item in evidence.items[KEYS].itertuples(index=False, name=None):
            label = form.format(b=len(benchmark), benchmark=benchmark, item=item)
            names[benchmark, label] = item
    pairs = zip(table["benchmark"], table["item"], strict=True)
    return table.assign(item=[names.get(pair, pair[1]) for pair in pairs])


def _by_model(fit: Fit) -> pd.DataFrame:
    """Return ``benchmark, item, model, accuracy, fitted`` (contamination) of each response."""
    data = fit.data["constant_data"].to_dataset()
    keys = {
        name: data[name].to_numpy()[data[f"{name}_of_response"].to_numpy()]
        for name in ("benchmark", "item", "model")
    }
    correct = fit.data["observed_data"]["n_correct"].to_numpy()
    contamination = data["contamination"].to_numpy() if "contamination" in data else np.nan
    return pd.DataFrame(
        keys | {"accuracy": correct / data["n_trials"].to_numpy(), "fitted": contamination}
    )


def _cards(fit: Fit, evidence: Evidence, shown: pd.DataFrame, models: Names) -> list[Card]:
    best = best_matches(evidence.scan)
    cards = item_cards(evidence.scan, shown[KEYS].merge(best, on=KEYS), SHOWN, evidence)
    by_item = dict(iter(_as_in_scan(_by_model(fit), evidence).groupby(KEYS, sort=False)))
    for card, key in zip(cards, shown[KEYS].itertuples(index=False, name=None), strict=True):
        scores = by_item[key].groupby("model", sort=False)["accuracy"].mean()
        parts = [f"{models.label(name)} {number(score, 2)}" for name, score in scores.items()]
        more = f" and {len(parts) - _MOST_MODELS} more models" if len(parts) > _MOST_MODELS else ""
        card["about"] = [f"Accuracy: {', '.join(parts[:_MOST_MODELS])}{more}."]
    return cards


def _notes(fit: Fit, evidence: Evidence, table: pd.DataFrame) -> list[str]:
    """Return what a reader must know where fit and scan are not of one piece."""
    notes = []
    known = fit.data["constant_data"].sizes["item"]
    if len(table) < known:
        notes.append(f"{known - len(table):,} items of the fit are not in the scan.")
    apart = (table["fitted"] - table["p_duplicate"]).abs() > _OTHER
    if apart.any():
        notes.append(
            f"The contamination that was fitted differs from the probability of a duplicate for"
            f" {int(apart.sum()):,} items: the fit's covariates come from elsewhere, or another"
            " column was taken."
        )
    if not len(evidence.curve.judged):
        notes.append("Nothing was judged: probabilities rest on the prior of the curve alone.")
    if any(check.outcome is Outcome.FAILED for check in evidence.curve.checks()):
        notes.append("Do not rely on these probabilities yet: checks of the curve failed.")
    return notes


def prevalence_section(
    evidence: Evidence, items: pd.DataFrame | None = None, by: str | None = None
) -> dict[str, Any]:
    """Return tables and pictures of prevalence."""
    level = evidence.curve.level
    table = prevalence(evidence.weighed, level=level)
    documents = duplicate_numbers(evidence.weighed, level=level)
    pictures = [_by_matches(table[table["by"] == "matches"], level)]
    if items is not None and by is not None:
        groups = prevalence_by(evidence.weighed, items, by, level=level)
        pictures.append(_by_column(groups, by, level))
    parts = table[table["by"].isin(["source", "kind"])]
    if len(evidence.weighed.sources) < 2:
        parts = parts[parts["by"] != "source"]
    rows = _rows(table, documents)
    failed = any(check.outcome is Outcome.FAILED for check in evidence.curve.checks())
    judged = len(evidence.curve.judged)
    return {
        "level": level_text(level),
        "of_kinds": kind_words(evidence.curve.kinds),
        "verdict": _verdict(rows, level_text(level), judged, failed, evidence.curve.kinds),
        "outcome": "" if judged and not failed else "failed",
        "rows": rows,
        "parts": [
            {**row, "group": printable(str(row["group"]), 60)}
            for row in parts.head(MOST_ROWS).to_dict("records")
        ],
        "n_parts": len(parts),
        "pictures": pictures,
        "most": most_contaminated(evidence),
        "n_items": len(evidence.items),
        "judged": judged,
        "shares": _shares(evidence),
        "rest": _rest(evidence),
    }


def _rows(table: pd.DataFrame, documents: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return one row for each benchmark: whole corpus, scanned part, numbers of documents."""
    found = {by: part.set_index("benchmark") for by, part in documents.groupby("by")}
    views = {by: part.set_index("benchmark") for by, part in table.groupby("by")}
    return [
        {
            "benchmark": name,
            "items": int(views["corpus"].loc[name, "items"]),
            "corpus": views["corpus"].loc[name].to_dict(),
            "scanned": views["scanned"].loc[name].to_dict(),
            "documents": found["corpus"].loc[name].to_dict(),
            "documents_scanned": found["scanned"].loc[name].to_dict(),
        }
        for name in list(found["corpus"].index)[:MOST_ROWS]
    ]


def _verdict(
    rows: list[dict[Any, Any]], level: str, judged: int, failed: bool, kinds: tuple[str, ...]
) -> str:
    """Return how many items have a duplicate, and whether that may be believed."""
    named = []
    for row in rows[:_MOST_NAMED]:
        found = row["corpus"]
        count = f"{found['n_mean']:,.0f} {interval(found['n_low'], found['n_high'], 0)}"
        named.append(f"{count} of {row['items']:,} of '{printable(str(row['benchmark']), 40)}'")
    if more := len(rows) - len(named):
        named.append(f"{more:,} more benchmarks below")
    text = (
        f"Items with at least one duplicate{kind_words(kinds)} in the corpus ({level} interval):"
        f" {'; '.join(named)}."
    )
    if not judged:
        return f"{text} Nothing was judged: these numbers rest on a prior, and are no finding."
    if failed:
        return f"{text} Do not rely on it yet: checks of the curve failed, see its own page."
    return text


def most_contaminated(evidence: Evidence) -> list[dict[Any, Any]]:
    """Return the items that most probably have duplicates, as rows of a table."""
    kinds = [name for name in evidence.items if str(name).startswith("kind_")]
    places = anchors(evidence.scan)
    return [
        {
            **row,
            "anchor": places[row["benchmark"], row["item"]],
            "item": printable(str(row["item"]), 60),
            "kinds": _kinds(row, kinds),
        }
        for row in evidence.ranked().head(MOST_ITEMS).to_dict("records")
    ]


def _kinds(row: dict[Any, Any], columns: list[Any]) -> str:
    """Return the kinds that an item has duplicates of with a probability of at least 0.1."""
    likely = sorted((name for name in columns if row[name] >= 0.1), key=lambda name: -row[name])
    return ", ".join(f"{name.removeprefix('kind_')} {row[name]:.2f}" for name in likely)


def _shares(evidence: Evidence) -> str:
    """Say what share of the corpus was scanned, and what follows for the rest."""
    pairs = list(zip(evidence.weighed.sources, evidence.weighed.shares.tolist(), strict=True))
    if all(share == 1 for _, share in pairs):
        return "The whole corpus was searched: nothing had to be scaled up."
    named = [f"{percent(share)} of {printable(name, 40)}" for name, share in pairs[:20]]
    more = f" and {len(pairs) - 20} more sources" if len(pairs) > 20 else ""
    return (
        f"Of the documents were searched {', '.join(named)}{more}; short documents were not. What"
        " the rest holds is inferred from how duplicates are spread over the items."
    )


def _rest(evidence: Evidence) -> str:
    """Say how much of the expected number rests on matches that nobody can read."""
    scanned = float(evidence.items["expected_scanned"].sum())
    rest = float(evidence.items["expected_rest"].sum())
    share = rest / scanned if scanned > 0 else 0.0
    text = (
        f"Of the duplicates expected in the scanned part, {percent(share)} are among matches"
        " that the scan counted but did not list."
    )
    if share > 0.2:
        text += (
            " That is much: it rests on the lower end of the curve. Judge pairs at low cosines, or"
            " list more matches of each item (top_k)."
        )
    return text


@style()
def _by_matches(table: pd.DataFrame, level: float) -> Picture:
    """Draw the share of items with a duplicate among the first matches, on a log scale."""
    names, note = first_of(table["benchmark"], MOST_PANELS, "benchmarks")
    figure, axes = _share_panels(names, "matches of an item that are examined (log scale)")
    for axis, name in zip(axes, names, strict=True):
        rows = table[table["benchmark"] == name]
        x = rows["group"].astype(int)
        band(axis, x, rows["ci_low"], rows["ci_high"])
        axis.plot(x, rows["mean"], color=BLUE, marker="o", ms=4)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(x.tolist()))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0].set_ylim(bottom=0)
    caption = (
        "Share of items with at least one duplicate among their best matches in the scanned"
        f" part, with the {level_text(level)} band. Where the line still climbs at the right"
        f" end, there is more to be found further down.{note}"
    )
    alt = f"Prevalence by number of matches examined: {numbers(table['mean'])}."
    title = "Prevalence by the number of matches examined"
    return finish(figure, "prevalence-matches", title, alt, caption)


@style()
def _by_column(table: pd.DataFrame, column: str, level: float) -> Picture:
    """Draw the share of items with a duplicate by groups of an item column."""
    names, note = first_of(table["benchmark"], MOST_PANELS, "benchmarks")
    label = plain_labels([column], 40)[0]
    numeric = bool(table["at"].notna().all())
    figure, axes = _share_panels(names, label)
    for axis, name in zip(axes, names, strict=True):
        rows = table[table["benchmark"] == name].head(MOST_GROUPS)
        x = rows["at"].to_numpy() if numeric else np.arange(len(rows))
        mean = rows["mean"].to_numpy()
        bars = np.maximum([mean - rows["ci_low"], rows["ci_high"] - mean], 0)
        axis.errorbar(x, mean, bars, fmt="o", color=BLUE, ms=5, lw=1.5, ecolor=GREY)
        if not numeric:
            axis.set_xticks(x, plain_labels(rows["group"], 14), rotation=30, ha="right")
            axis.margins(x=0.1)
    axes[0].set_ylim(bottom=0)
    caption = (
        f"Share of items with at least one duplicate in the whole corpus, by {label}, with"
        f" {level_text(level)} intervals."
        f"{' Each point is a group of items, at their mean.' if numeric else ''}{note}"
    )
    alt = f"Prevalence by {label}, {len(table)} groups: {numbers(table['mean'])}."
    return finish(figure, "prevalence-by", f"Prevalence by {label}", alt, caption)


def _share_panels(names: list[str], xlabel: str) -> tuple[Any, list[Any]]:
    figure, axes = panels(
        plain_labels(names), 3, 2.5, xlabel=xlabel, ylabel="items with a duplicate", alone=0.62,
        sharey=True,
    )  # fmt: skip
    for axis in axes:
        axis.grid(axis="y")
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return figure, axes
