"""The page of a fit, and every table behind it as files."""

import os
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayescontam._files import write_text
from bayescontam._format import level_text, number
from bayescontam._progress import progress_bar, stage
from bayescontam._text import join_list, printable
from bayescontam.errors import BayescontamError, UsageError
from bayescontam.inference import tables
from bayescontam.inference.assumed_spillover import PUBLISHED
from bayescontam.inference.bootstrap import QUANTITIES, lacks
from bayescontam.inference.checks import Outcome, checks_sentence, worst
from bayescontam.inference.findings import (
    estimated_effect,
    finding,
    identified_by,
    items_of,
    which_items,
)
from bayescontam.inference.identification import EXPLAINED, EXPLAINED_TOTAL
from bayescontam.inference.left_out_spillover import RELATED
from bayescontam.inference.mastery import Mastery
from bayescontam.inference.ranking import Ranking
from bayescontam.inference.result import Fit
from bayescontam.inference.sensitivity import reported
from bayescontam.model.design import make_design
from bayescontam.model.effect_names import DIRECT, EffectNames, effect_words
from bayescontam.model.terms import Terms
from bayescontam.power.advice import advice_of
from bayescontam.report import ability_figures, check_figures, effect_figures
from bayescontam.report.arc_grids import ArcItems, grids_section
from bayescontam.report.contaminated import contaminated_section
from bayescontam.report.evidence import Evidence
from bayescontam.report.format import (
    Names,
    counted,
    in_file,
    longest_rows,
    pairs_text,
    paragraphs,
    provenance_rows,
)
from bayescontam.report.html import fill
from bayescontam.report.log_samples import LogAddress, log_address, samples_section
from bayescontam.report.mastery_section import mastery_of, mastery_section
from bayescontam.report.model_page import assumptions
from bayescontam.report.plots import first_of

MOST_ROWS = 400
"""Estimands that the page lists; more are left to ``bayescontam summary``."""
FEWEST_ITEMS, MOST_ITEMS = 10, 200
"""Items that the page lists, the worst fitting first: these, or all suspects in between."""
MOST_BENCHMARKS = 12
"""Benchmarks with a picture of what is assumed of contaminated items."""
MOST_ASSUMED = 1000
"""Pairs of which the page has total effects by what is assumed of spillover."""
MOST_BOOTSTRAP = 1000
"""Rows of the published bootstrap beside the fit that the page has."""
MOST_WITHIN = 1000
"""Rows of rankings within benchmarks up to which the page has these tables."""
MOST_PAIRS = 30
"""Models up to which the page has a square of pairs; ``bayescontam rank`` has all."""
MOST_REFERENCES = 12
"""Benchmarks whose reference contamination is named one by one."""
_ENDS = ("", "_low", "_high")
_TERMS = {
    "a": "a general ability of each model, shared by all benchmarks",
    "sigma_theta": "the spread of abilities, estimated from the data",
    "sigma_mu": "the spread of concepts, estimated from the data",
    "beta": "the contamination slope",
    "u": "slopes that differ by model",
    "v": "slopes that differ by benchmark",
    "w": "slopes that differ by pair of model and benchmark",
    "increments": "the bends of the dose-response",
    "spillover": "the lift of a whole benchmark by contamination of its items",
    "lb": "spillover that differs by benchmark",
    "lk": "spillover that differs by kind of duplicates",
    "lambda": "spillover that differs by base and benchmark",
    "t": "what a model's own training changes everywhere",
    "twin": "how models of one base differ on one benchmark",
    "walk": "abilities along the checkpoints of a run",
    "kappa": "the difficulty of contaminated items",
    "gamma": "slopes that depend on difficulty",
    "shared": "what is unsure of contamination, items together",
    "delta": "item difficulty",
    "alpha": "items that distinguish models better or worse",
    "eps": "the effect of a model on an item, shared by repeated trials",
}
"""What the symbols of a fit's terms stand for."""
_PLACES = (0.0, PUBLISHED.mu, 1.5)
"""Locations of the prior of spillover that the page shows."""


def write_report(
    fit: Fit,
    path: str | os.PathLike[str],
    *,
    comparison: pd.DataFrame | None = None,
    evidence: Evidence | None = None,
    arc: ArcItems | None = None,
    logs: str | os.PathLike[str] | None = None,
    title: str = "",
    note: str = "",
    tables_in: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> None:
    """Write the report of a fit as one HTML file that needs no network."""
    address = log_address(fit, logs, path)
    folder = None if tables_in is None else _make_folder(Path(tables_in))
    estimands = fit.estimands(progress=progress)
    with stage(progress, "trying tasks of concepts"):
        mastery = mastery_of(fit)
    html = render(
        fit, comparison, evidence, arc, title=title, note=note, estimands=estimands,
        mastery=mastery, logs=address, progress=progress,
    )  # fmt: skip
    write_text(path, html)
    if folder is not None:
        for name, table in whole_tables(fit, estimands, mastery).items():
            write_text(folder / f"{name}.csv", table.to_csv(index=False))


def _make_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{printable(str(path))}: no folder can be made there ({printable(str(error))}); "
            "give one that can be written to"
        ) from None
    return path


def whole_tables(
    fit: Fit, estimands: pd.DataFrame, mastery: Mastery | str | None = None
) -> dict[str, pd.DataFrame]:
    """Return every table of a report by the name of its file, without those that are empty."""
    every = {
        "headline": tables.headline(fit, estimands),
        "slopes": tables.slopes(fit, estimands),
        "concepts": tables.by_concept(fit, estimands),
        **_of_concepts(mastery_of(fit) if mastery is None else mastery),
        "better": tables.better_pairs(fit),
        "ranks": tables.ranks(fit),
        "items": fit.item_fit() if "item_fit" in fit.data else pd.DataFrame(),
        "samples": fit.samples(),
        "curves": tables.dose_response(fit),
        "bootstrap": tables.beside_bootstrap(fit, estimands),
        "confounding": fit.confounding(),
        "spillover-assumed": fit.assumed_spillover(),
        "sensitivity": tables.sensitivity(fit),
        "predicted": tables.predicted_scores(fit),
        "predicted-bins": tables.predicted_bins(fit),
        "convergence": check_figures.convergence_table(fit, estimands)[0],
        "checks": tables.checks(fit),
        "estimands": estimands,
    }
    return {name: table for name, table in every.items() if len(table)}


def _of_concepts(found: Mastery | str | None) -> dict[str, pd.DataFrame]:
    if found is None or isinstance(found, str):
        return {}
    return {
        "mastery": found.table,
        "concepts-above": found.above,
        "concept-differences": found.differences,
    }


def render(
    fit: Fit,
    comparison: pd.DataFrame | None = None,
    evidence: Evidence | None = None,
    arc: ArcItems | None = None,
    *,
    title: str = "",
    note: str = "",
    estimands: pd.DataFrame | None = None,
    mastery: Mastery | str | None = None,
    logs: LogAddress | None = None,
    progress: bool = False,
) -> str:
    """Return the report of a fit as HTML."""
    estimands = fit.estimands(progress=progress) if estimands is None else estimands
    headline = tables.headline(fit, estimands)
    slopes, concepts = tables.slopes(fit, estimands), tables.by_concept(fit, estimands)
    names, large = EffectNames.among(headline), ability_figures.is_large(headline)
    effects = large and len(slopes) > 0
    # The picture of the ranking says the same of one benchmark.
    several = headline["benchmark"].nunique() > 1
    parts = {
        "raw_genuine": lambda: ability_figures.raw_against_genuine(fit, headline),
        "slopes": lambda: effect_figures.slopes(fit, slopes),
        "dose": lambda: effect_figures.dose_response(fit, headline),
        "ranks": lambda: ability_figures.ranks(fit, headline) if several else None,
        "concepts": lambda: ability_figures.concepts(fit, concepts),
        "prior": lambda: effect_figures.prior_posterior(fit, slopes),
        "scatter": lambda: ability_figures.scatter(headline) if large else None,
        "overfitting_map": lambda: effect_figures.effect_map(
            headline, names.overfitting, names.verdict, "headline"
        ) if effects and names else None,
        "slope_map": lambda: effect_figures.effect_map(
            slopes, "slope", "verdict", "slopes"
        ) if effects else None,
    }  # fmt: skip
    pictures: dict[str, Any] = {}
    with progress_bar(progress, "drawing", len(parts) + 3, "parts") as advance:
        for name, draw in parts.items():
            pictures[name] = draw()
            advance(1)
        content = {"pictures": pictures} | _results(fit, headline, slopes, concepts)
        content["confounding"] = confounding_section(fit)
        content["assumed"] = assumed_section(fit)
        content["identified"] = identified_section(fit)
        content["bootstrap"] = bootstrap_section(fit, estimands)
        content["mastery"] = mastery_section(fit, mastery_of(fit) if mastery is None else mastery)
        content["grids"] = None if arc is None else grids_section(fit, arc)
        advance(1)
        content |= _judgement(fit, estimands)
        advance(1)
        content |= _identity(fit) | _verdict(fit, headline, content["ranking"])
        most = contaminated_section(fit, evidence, content["names"]["model"]) if evidence else None
        grids, misfits = content["grids"], content["items"]
        listed: list[Any] = [grids and grids["items"], most and most["rows"]]
        listed.append(misfits and misfits["rows"])
        content["samples"] = samples_section(fit, listed, logs)
        content |= {
            "own_title": printable(title.strip(), 300),
            "own_note": paragraphs(note),
            "comparison": _comparison(comparison),
            "evidence": most,
            "ngram": most["ngram"] if most else "",
            "all_estimands": estimands.to_dict("records") if len(estimands) <= MOST_ROWS else [],
            "n_estimands": len(estimands),
        }
        html = fill("report.html", content)
        advance(1)
    return html


def _verdict(fit: Fit, headline: pd.DataFrame, ranking: dict[str, Any] | None) -> dict[str, Any]:
    """Return what stands on the first screen beside the table and the picture."""
    checks = fit.checks()
    failures = [check.to_dict() for check in checks if check.outcome is Outcome.FAILED]
    sentences = finding(headline, fit.smallest_effect)
    if "identification" not in fit.data and ranking and ranking["distinguished"]:
        sentences.append(ranking["distinguished"])
    return {
        "finding": sentences,
        "estimated": " ".join([estimated_effect(fit.data["estimands"]), *identified_by(fit)]),
        "which_items": which_items(fit),
        "outcome": worst(checks).value,
        "checked": f"{checks_sentence(checks)}.",
        "n_checks": len(checks),
        "failures": failures,
    }


def _identity(fit: Fit) -> dict[str, Any]:
    """Return names, assumptions and provenance."""
    data = fit.data["constant_data"].to_dataset()
    names = {dim: [str(v) for v in data[dim].values] for dim in ("model", "benchmark")}
    if "concept" in data.coords:
        names["concept"] = [str(v) for v in data["concept"].values]
    known = {dim: Names(values, f"name-{dim}") for dim, values in names.items()}
    sizes = [counted(names[dim], dim) for dim in ("model", "benchmark")]
    contaminated = "identification" in fit.data
    return {
        "fit": fit,
        "level": level_text(fit.level),
        "contaminated": contaminated,
        "reference": reference_text(fit) if contaminated else "",
        "names": known,
        "changed": [row for labels in known.values() for row in labels.changed()],
        "size": ", ".join([*sizes, items_of(fit), f"{data.sizes['response']:,} responses"]),
        "assumptions": fit_assumptions(fit),
        "left_out": [
            (symbol, _TERMS.get(symbol, ""), printable(reason, 10_000))
            for symbol, reason in fit.record["left_out"]
        ],
        "notes": [printable(note, 10_000) for note in fit.record["data"]["notes"]],
        "provenance": provenance(fit),
        "spec_name": printable(fit.record["spec"]["name"]),
        "spec_text": fit.record["spec"]["text"],
        "source": printable(str(fit.record["data"]["source"])),
        "created": fit.record["created"],
    }


def fit_assumptions(fit: Fit) -> list[str]:
    """Return what the fit assumes, one sentence or two each."""
    clean = fit.record.get("clean", [])  # fits of earlier versions say nothing of it
    return assumptions(fit.spec, fit.record["entered"], join_list(clean))


def reference_text(fit: Fit) -> str:
    """Return at which contamination genuine ability is evaluated, with the value."""
    lowest = fit.data["curves"].to_dataset()["contamination"].isel(point=0)
    reference = fit.record["reference"]
    if reference != "min_observed":
        lowest = lowest * 0 + (0.0 if reference == "zero" else float(reference))
    levels = {str(name): float(lowest.sel(benchmark=name)) for name in lowest["benchmark"].values}
    low, high = min(levels.values()), max(levels.values())
    if fit.spec.contamination.exposure == "latent" and not low and not high:
        return "contamination 0, no duplicate, in every benchmark"
    if reference != "min_observed":
        return f"contamination {low:.3g} in every benchmark"
    observed = "the smallest observed contamination"
    if high - low < 5e-4:
        first = next(iter(levels.values()))
        return f"{observed}, {first:.3g} in every benchmark"
    if len(levels) > MOST_REFERENCES:
        return (
            f"{observed} of each benchmark, {low:.3g} to {high:.3g} (all: the first contamination"
            f" of each in {in_file('curves')})"
        )
    each = "; ".join(f"{printable(name, 40)}: {value:.3g}" for name, value in levels.items())
    return f"{observed} of each benchmark ({each})"


def identified_section(fit: Fit) -> list[dict[str, Any]]:
    """Return what identifies which effect; nothing where the table cannot be rebuilt."""
    if "identification" not in fit.data:
        return []
    try:
        design = make_design(fit.spec, fit.responses())
    except BayescontamError:  # contamination was not known for sure, or names were shared
        return []
    terms = Terms(frozenset(fit.record["entered"]), ())
    # Only fits of tables with related models have this check.
    related = any(check.name == RELATED for check in fit.checks())
    found = advice_of(fit.spec, design, terms, fit.level, related)
    return [{str(name): row[name] for name in row} for row in found.to_dict("records")]


def assumed_section(fit: Fit) -> dict[str, Any] | None:
    """Return total effects by what is assumed of spillover, where it is not estimated."""
    table = fit.assumed_spillover()
    if table.empty:
        return None
    rows = []
    for (model, benchmark), own in table.groupby(["model", "benchmark"], sort=False):
        at = {row["location"]: row for row in own.to_dict("records")}
        first = own.iloc[0]
        rows.append(
            {
                "model": model, "benchmark": benchmark, "sign": first["sign"],
                "at": {place: at[place] for place in _PLACES},
                "total_effect": at[PUBLISHED.mu]["mean"],
            }
        )  # fmt: skip
    return {
        "table": longest_rows(
            pd.DataFrame(rows), "total_effect", "spillover-assumed", MOST_ASSUMED
        ),
        "locations": _PLACES,
        "published": PUBLISHED.mu,
        "sd": PUBLISHED.sigma,
        "source": PUBLISHED.source,
        "fitted": EffectNames.among(fit.data["estimands"]) != DIRECT,
    }


def bootstrap_section(fit: Fit, estimands: pd.DataFrame) -> dict[str, Any] | None:
    """Return the published bootstrap beside the fit, if it was made."""
    table = tables.beside_bootstrap(fit, estimands)
    if table.empty:
        return None
    shown = longest_rows(table, DIRECT.overfitting, "bootstrap", MOST_BOOTSTRAP)
    return shown | {"quantities": QUANTITIES, "lacks": lacks(fit.data["bootstrap"].to_dataset())}


def provenance(fit: Fit) -> list[tuple[str, str]]:
    """Return where the fit comes from: data, spec, sampler, seed, versions, times."""
    record: dict[str, Any] = fit.record
    sampling, data = record["sampling"], record["data"]
    options = {name: v for name, v in sampling.items() if name not in ("engine", "difficulties")}
    # Fits of earlier versions say nothing of difficulties: they were sampled.
    marginalised = record.get("difficulties") == "marginalised"
    how = "; item difficulties integrated out, and drawn afterwards" if marginalised else ""
    seconds = ", ".join(f"{name} {value:.0f} s" for name, value in record["seconds"].items())
    return provenance_rows(
        {
            "Model spec": f"{record['spec']['name']} (SHA-256 {record['spec']['hash']})",
            "Data": f"{data['source']}: {data['responses']:,} responses (SHA-256 {data['hash']})",
            "Command": record["command"] or "not recorded (made from Python)",
            "Made": f"{record['created']}, {seconds}",
            "Sampler": f"{sampling['engine']}; {pairs_text(options)}{how}",
            "Seed": record["seed"],
            "Intervals": f"{level_text(record['level'])}, equal-tailed",
            "Thresholds of checks": pairs_text(record["thresholds"]),
            "Versions": ", ".join(f"{name} {v}" for name, v in record["versions"].items()),
        }
    )


def _results(
    fit: Fit, headline: pd.DataFrame, slopes: pd.DataFrame, concepts: pd.DataFrame
) -> dict[str, Any]:
    """Return tables of abilities, slopes and ranks."""
    ability, _ = ability_figures.ability_of(headline)
    ordered = headline.sort_values(["rank", ability], ascending=[True, False], kind="stable")
    effect = EffectNames.among(headline)
    kinds = list(headline[effect.verdict]) if effect else []
    benchmarks = list(dict.fromkeys(headline["benchmark"]))
    depends = reported(effect or DIRECT)
    explained = EXPLAINED_TOTAL if "total_effects" in fit.data else EXPLAINED
    return {
        "ability": ability,
        "several": len(benchmarks) > 1,
        "effect": effect,
        "ranked": bool(headline[["rank_raw", "rank"]].notna().any(axis=None)),
        "sampled": bool(fit.record.get("population", False)),
        "n_pairs": len(headline),
        "headline": [
            (name, ordered[ordered["benchmark"] == name].to_dict("records")) for name in benchmarks
        ],
        "kinds": [
            (kind.value, kinds.count(kind), text)
            for kind, text in explained.items()
            if kind in kinds
        ],
        "log_odds": fit.spec.contamination.scale == "log_odds",
        "slopes": longest_rows(slopes, "slope", "slopes"),
        "beyond": bool((slopes["extrapolation"] > 0).any()),
        "concepts": longest_rows(concepts, ability, "concepts"),
        "ranking": ranking_section(fit),
        "depends": depends,
        "sensitivity": longest_rows(tables.sensitivity(fit), f"{depends[1]}_prior", "sensitivity"),
        "items": _items(fit),
    }


def ranking_section(fit: Fit) -> dict[str, Any] | None:
    """Return what the page reports of ranks: across benchmarks, and within each."""
    within = tables.within_benchmarks(fit)
    if max((len(ranking.table) for ranking in within.values()), default=0) < 2:
        return None
    one = next(iter(within.values()))
    across, why = tables.across_benchmarks(fit)
    shown = one if len(fit.ranked()) == 1 else across
    count = sum(len(each.table) for each in within.values())
    many = count > MOST_WITHIN and across is not None
    listed = {} if many else {n: _ranks(each) for n, each in within.items() if len(each.table) > 1}
    return {
        "across": across and _ranks(across),
        "not_across": why,
        "within": listed,
        "within_note": f"The {count:,} ranks within benchmarks: {in_file('ranks')}."
        if many
        else "",
        "picture": shown and ability_figures.ranking_picture(shown),
        "by": one.by,
        "level": level_text(fit.level),
        "distinguished": _distinguished(shown) if shown else "",
    }


def _distinguished(ranking: Ranking) -> str:
    distinguished = ranking.pairs()["distinguished"]
    return (
        f"{int(distinguished.sum()):,} of {len(distinguished):,} pairs of models are"
        " distinguishable: one is better than the other with a probability of at least"
        f" {level_text(ranking.level)}."
    )


def _ranks(ranking: Ranking) -> dict[str, Any]:
    """Return the table of a ranking as the page shows it."""
    table = ranking.table.rename(columns={ranking.by + end: "ability" + end for end in _ENDS})
    moved = table["places_gained"].fillna(0)
    chance = table["p_rank_better"].where(moved > 0, table["p_rank_worse"])
    table = table.assign(places_gained=moved, p_moved=chance.where(moved != 0))
    rows = table.to_dict("records")
    if not ranking.groups:
        rows = [row | {"groups": f"{row['n_alike']:,}"} for row in rows]
    square = ranking.p_better if len(table) <= MOST_PAIRS else None
    return {"rows": rows, "square": square, "lettered": bool(ranking.groups),
            "sentences": ranking.sentences()}  # fmt: skip


def confounding_section(fit: Fit) -> dict[str, Any] | None:
    """Return what is reported along the assumed difficulty of contaminated items."""
    if "confounding" not in fit.data:
        return None
    curves = fit.data["confounding"].to_dataset()
    if reason := str(curves["reason"].item()):
        return {"reason": reason}
    table, effect = sign_table(fit), _effect(fit).overfitting
    largest = table.groupby("benchmark", sort=False)[effect].agg(lambda x: x.abs().max())
    order = largest.sort_values(ascending=False, kind="stable").index
    drawn, note = first_of(order, MOST_BENCHMARKS, "benchmarks", f"largest {effect_words(effect)}")
    drawn = [name for name in largest.index if name in set(drawn)]
    return {
        "reason": "",
        "pictures": [
            effect_figures.confounding_curves(
                fit, curves, table[table["benchmark"] == name], letter
            )
            for name, letter in zip(drawn, ascii_lowercase, strict=False)
        ],
        "table": longest_rows(table, effect, "confounding"),
        "own": float(curves["own_location"]),
        "several": "own" in curves["changed"],
        "note": f"{note} All: {in_file('confounding')}." if note else "",
    }


def sign_table(fit: Fit) -> pd.DataFrame:
    """Return one row for each model and benchmark: what becomes of overfitting."""
    curves = fit.data["confounding"].to_dataset()
    together = curves.sel(changed="all", drop=True)
    own = together.sel(location=float(curves["own_location"]), method="nearest", drop=True)
    zero = together.reindex(location=[0.0], method="nearest", tolerance=1e-6)
    zero = zero.isel(location=0, drop=True)
    effect = _effect(fit).overfitting
    columns = {f"{effect}{end}": own[f"{effect}{end}"] for end in _ENDS}
    columns |= {f"zero{end}": zero[f"{effect}{end}"] for end in _ENDS}
    columns |= {name: together[name] for name in ("sign_at", "sign", "reach_low", "reach_high")}
    alone = xr.full_like(together["sign"], "")
    if "own" in curves["changed"]:
        alone = curves["sign"].sel(changed="own", drop=True)
    data = xr.Dataset(columns | {"sign_own": alone})
    table = data.to_dataframe(["model", "benchmark"]).reset_index()
    return table[table["sign"] != ""].reset_index(drop=True)


def _effect(fit: Fit) -> EffectNames:
    """Return the names of the effect that a fit with contamination estimates."""
    return EffectNames.of("spillover" in fit.record["entered"])


def _items(fit: Fit) -> dict[str, Any] | None:
    """Return the items that fit worst, and what is reported of all."""
    if "item_fit" not in fit.data:
        return None
    table = fit.item_fit()
    table = table[table["p_value"].notna()]
    suspects = int(table["suspect"].sum())
    shown = table.head(min(max(suspects, FEWEST_ITEMS), MOST_ITEMS))
    printed = [printable(str(name), 60) for name in shown["item"]]
    sentences = fit.item_sentences()
    return {
        "rows": shown.assign(label=shown["item"], item=printed).to_dict("records"),
        "of": len(table),
        "file": in_file("items"),
        "open": suspects > 0 or len(sentences) > 1,
        "suspects": suspects,
        "contamination": "contamination" in table,
        "sentences": sentences,
    }


def _judgement(fit: Fit, estimands: pd.DataFrame) -> dict[str, Any]:
    """Return the checks and their pictures."""
    mixing, draws = check_figures.convergence_table(fit, estimands)
    return {
        "checks": tables.checks(fit).to_dict("records"),
        "mixing": mixing.head(check_figures.WORST).to_dict("records"),
        "n_mixing": len(mixing),
        "integrated": fit.record["difficulties"] == "marginalised",
        "sampling_pictures": (
            check_figures.sampling_pictures(fit, mixing, draws) if len(mixing) else []
        ),
        "of_one_number": [
            name for name, v in fit.data["posterior"].data_vars.items() if v.ndim == 2
        ],
        "predictive_pictures": check_figures.predictive_pictures(fit),
    }


def _comparison(comparison: pd.DataFrame | None) -> dict[str, Any] | None:
    """Return header and cells as text; numbers are marked, to be set right."""
    if comparison is None:
        return None
    rows = [[_cell(value) for value in row] for row in comparison.itertuples(index=False)]
    header = [printable(str(name)).replace("_", " ") for name in comparison.columns]
    return {"header": header, "rows": rows}


def _cell(value: object) -> tuple[str, bool]:
    if isinstance(value, bool | np.bool_):
        return ("yes" if value else "no"), False
    if isinstance(value, float | np.floating):
        return number(value, 2 if abs(float(value)) >= 1 else 3), True
    if isinstance(value, int | np.integer):
        return number(value, 0), True
    return printable(str(value), 400), False
