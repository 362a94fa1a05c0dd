"""Two versions of a benchmark, one of which could not have shown contamination."""

import numpy as np
import pandas as pd

import bayescontam as bc
from bayescontam.model.effect_names import DIRECT, effect_words
from bayescontam.published.findings import Comparison, PictureData, TableData
from bayescontam.published.study import Study

from ._common import (
    METHOD,
    PRINTED,
    Generator,
    coverage,
    draw_exposures,
    estimate,
    fit_rows,
    mean_and_interval,
    percent,
    published_method,
    rows_of,
    simulated,
)

VERSIONS = ("version 1", "version 2")
FRACTION = DIRECT.fraction
MODELS = ("single", "additive", "hierarchical")


def analyse(study: Study) -> bc.Findings:
    """Return what identification shows about two versions of a benchmark."""
    settings = study.settings
    generator = Generator(settings["genuine"], settings["boost"], settings["tasks"])
    frames, truths = [], {}
    for name, exposures in _exposures(study).items():
        rng = study.stream("table", name)
        contamination = generator.contamination(exposures, rng)
        frames.append(generator.answered(contamination, rng, name))
        truths[name] = generator.truth(contamination)
    responses = simulated(*frames)
    method = published_method(responses, study.stream("bootstrap"), settings["resamples"])
    fits = {name: study.fit(name, responses, name) for name in MODELS}
    rows = {METHOD: method.assign(verdict="")}
    rows |= {f"posterior, {name}": fit_rows(fit) for name, fit in fits.items()}
    table = pd.concat([part.assign(estimate=name) for name, part in rows.items()])
    table["truth"] = [truths[row.benchmark].get(row.quantity, np.nan) for row in rows_of(table)]
    many = _many(study)
    verdicts = _identification(fits)
    return bc.Findings(
        _headline(table, verdicts, many),
        tuple(_comparisons(study, rows, verdicts, many)),
        (_intervals(study, table), _seeds(study, many)),
        (verdicts, _one(table), _method(many, settings["tables"])),
        tuple(note for name, fit in fits.items() for note in study.failed_checks(name, fit)),
    )


def _exposures(study: Study) -> dict[str, list[float]]:
    """Return how exposures of concepts are drawn, by version."""
    return {VERSIONS[k]: study.settings[f"exposures_{k + 1}"] for k in range(2)}


def _many(study: Study) -> pd.DataFrame:
    """Return what the published method reports of many tables, with and without a boost."""
    settings = study.settings

    def make(table: int) -> pd.DataFrame:
        parts = []
        for name, exposures in _exposures(study).items():
            for boost in (settings["boost"], 0.0):
                # The same tasks with and without a boost.
                rng = study.stream("tables", table, name)
                exposure = draw_exposures(exposures, study.stream("tables", table, name)).mean()
                generator = Generator(settings["genuine"], boost, settings["tasks"])
                at = generator.contamination(exposures, rng)
                responses = simulated(generator.answered(at, rng, name))
                found = published_method(responses, rng, settings["resamples"])
                own = found[found["quantity"] == FRACTION].assign(
                    truth=generator.truth(at)[FRACTION], sd=at.std(), exposure=exposure
                )
                parts.append(own.assign(boost=boost))
        return pd.concat(parts).drop(columns="model")

    names = ("genuine", "boost", "tasks", "exposures_1", "exposures_2", "resamples")
    inputs = {name: settings[name] for name in names}
    return study.over_tables("versions", inputs, make, settings["tables"])


def _identification(fits: dict[str, bc.Fit]) -> TableData:
    rows = []
    for name, fit in fits.items():
        data = fit.data["identification"].to_dataset()
        slopes = fit_rows(fit, ("slope",))
        for benchmark in VERSIONS:
            own = data.sel(model="model", benchmark=benchmark)
            slope = estimate(slopes, "slope", benchmark=benchmark)
            rows.append(
                {
                    "posterior": name,
                    "benchmark": benchmark,
                    "verdict": str(own["verdict"].item()),
                    **dict(zip(("slope", "low", "high"), slope, strict=True)),
                    "detectable slope": float(own["detectable_slope"]),
                    "contraction": float(own["contraction"]),
                    "in words": str(own["sentence"].item()),
                }
            )
    caption = (
        "What the data can show about each slope. Detectable slope: the smallest, in log-odds from"
        " clean to contaminated, that answers of this number and spread would show. Contraction:"
        " share of the prior's variance that the data took away (0: they hold no information)."
    )
    return TableData("Identification", caption, pd.DataFrame(rows))


def _comparisons(
    study: Study, rows: dict[str, pd.DataFrame], verdicts: TableData, many: pd.DataFrame
) -> list[Comparison]:
    reasons = {
        "version 1": "One table of ours against one of theirs, and no penalty that narrows ours.",
        "version 2": (
            "Nearly all tasks have the same contamination, so that their penalty of 1 on the slope"
            " outweighs the data, and overfitting below 0 is cut off."
        ),
    }
    verdict_on = verdicts.table.set_index(["posterior", "benchmark"])["verdict"]
    found = []
    for benchmark in VERSIONS:
        for name in MODELS:
            value = estimate(rows[f"posterior, {name}"], FRACTION, benchmark=benchmark)
            label = f"{benchmark}; posterior, {name}"
            reason = f"{reasons[benchmark]} Verdict on our slope: {verdict_on[name, benchmark]}."
            found.append(study.compared(FRACTION, value, reason, where=benchmark, label=label))
        boosted = many[(many["benchmark"] == benchmark) & (many["boost"] > 0)]
        tables = boosted["table"].nunique()
        for quantity, column in (
            (FRACTION, "mean"), ("exposure_mean", "exposure"), ("contamination_sd", "sd"),
        ):  # fmt: skip
            reason = f"Mean and 95 % range over {tables} tables of the generator."
            label = f"{benchmark}; {tables} tables"
            value = mean_and_interval(boosted[column])
            found.append(study.compared(quantity, value, reason, where=benchmark, label=label))
    return found


def _intervals(study: Study, table: pd.DataFrame) -> PictureData:
    own = table[table["quantity"] == FRACTION]
    printed = pd.DataFrame(
        [
            {"estimate": PRINTED, "benchmark": name}
            | {"mean": row["value"], "low": row["low"], "high": row["high"]}
            for name in VERSIONS
            for row in [study.printed(FRACTION, name)]
        ]
    )
    shown = pd.concat([printed, own]).assign(series="estimate", truth=lambda t: t["truth"])
    shown = shown.rename(columns={"estimate": "label", "benchmark": "panel"})
    columns = ["label", "series", "mean", "low", "high", "truth", "panel"]
    caption = (
        "Overfitting as a share of the score, with 95 % intervals, and the truth of our tables. On"
        f" version 2 the published interval is {_widths(shown)}."
    )
    title = "Overfitting fraction of two versions"
    return PictureData("intervals", title, caption, shown[columns], effect_words(FRACTION), "")


def _widths(shown: pd.DataFrame) -> str:
    """Return how wide the published interval and ours are on version 2, in words."""
    own = shown[shown["panel"] == VERSIONS[1]]
    width = (100 * (own["high"] - own["low"])).groupby(own["label"]).first()
    posteriors = width[width.index.str.startswith("posterior")]
    return (
        f"{width[PRINTED]:.1f} points wide, those of our posteriors {posteriors.min():.1f} to"
        f" {posteriors.max():.1f}"
    )


def _seeds(study: Study, many: pd.DataFrame) -> PictureData:
    names = {True: f"boost {study.settings['boost']:g}", False: "no boost: nothing to find"}
    shown = many.assign(
        value=many["mean"],
        series=[names[bool(boost > 0)] for boost in many["boost"]],
        panel=many["benchmark"],
        published=[float(study.printed(FRACTION, name)["value"]) for name in many["benchmark"]],
    )
    caption = (
        f"The published estimate of the overfitting fraction on {many['table'].nunique()} tables of"
        " each version, with contamination that helps and with contamination that does not. The"
        f" estimate of a table with a boost is the larger one {_larger_with_boost(many)};"
        " where that is near 50 %, an estimate near 0 is no evidence of less contamination."
        " Vertical line: as printed."
    )
    columns = ["value", "series", "panel", "published"]
    title = "Could the published method have distinguished them?"
    return PictureData("shares", title, caption, shown[columns], "estimate", "share of tables")


def _larger_with_boost(many: pd.DataFrame) -> str:
    """Return how often a table with a boost has a larger estimate than one without, in words."""
    shares = {
        str(name): larger(
            *(own.loc[own["boost"].gt(0) == boosted, "mean"] for boosted in (True, False))
        )
        for name, own in many.groupby("benchmark", sort=False)
    }
    return " and ".join(f"{100 * share:.0f} % of the time on {n}" for n, share in shares.items())


def larger(one: "pd.Series[float]", other: "pd.Series[float]") -> float:
    """Return the share of pairs in which the first is larger; ties count half.

    >>> larger(pd.Series([1.0, 2.0]), pd.Series([0.0, 1.0]))
    0.875
    """
    differences = np.subtract.outer(one.to_numpy(), other.to_numpy())
    return float((np.sign(differences).mean() + 1) / 2)


def _one(table: pd.DataFrame) -> TableData:
    columns = ["benchmark", "estimate", "quantity", "mean", "low", "high", "truth"]
    shown = table[columns].assign(quantity=table["quantity"].map(effect_words))
    caption = "One simulated table of each version: estimates, 95 % intervals, truths."
    shown = shown.sort_values(["benchmark", "quantity"], kind="stable")
    return TableData("Estimates from one table of each version", caption, shown)


def _method(many: pd.DataFrame, tables: int) -> TableData:
    rows = []
    for _, own in many.groupby(["benchmark", "boost"]):
        share, error = coverage(own)
        rows.append(
            {
                "benchmark": own["benchmark"].iloc[0],
                "boost": float(own["boost"].iloc[0]),
                "mean truth": float(own["truth"].mean()),
                "mean estimate": float(own["mean"].mean()),
                "mean upper end": float(own["high"].mean()),
                "coverage": share,
                "error": error,
            }
        )
    caption = (
        f"The published method over {tables} tables: true and estimated overfitting fraction, upper"
        " end of its 95 % interval, and share of the intervals that hold the truth with its Monte"
        " Carlo standard error. Without a boost the truth is 0, which a method that cuts at 0"
        " cannot miss from below."
    )
    return TableData("The published method over many tables", caption, pd.DataFrame(rows))


def _headline(table: pd.DataFrame, verdicts: TableData, many: pd.DataFrame) -> str:
    second = VERSIONS[1]
    rows = table[(table["estimate"] == "posterior, single") & (table["quantity"] == FRACTION)]
    mean, low, high = estimate(rows, FRACTION, benchmark=second)
    known = verdicts.table
    alone = (known["posterior"] == "single") & (known["benchmark"] == second)
    verdict = str(known.loc[alone, "verdict"].iloc[0])
    boosted = many[(many["benchmark"] == second) & (many["boost"] > 0)]
    share, _ = coverage(boosted)
    return (
        f"On version 2 our posterior of the overfitting fraction is {percent(mean, low, high)},"
        f" with the verdict “{verdict}” on the slope: a spread of {boosted['sd'].mean():.3f} in"
        " contamination says next to nothing of its effect. The published method's intervals"
        f" there hold the truth {100 * share:.0f} % of the time over {boosted['table'].nunique()}"
        " tables."
    )
