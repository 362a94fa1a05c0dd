"""The section of a fit's page on how hard contaminated items are assumed to be."""

from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.lines import Line2D

from bayescontam.inference.result import Fit
from bayescontam.report.fit_figures import note_of
from bayescontam.report.format import in_file, level_text, number
from bayescontam.report.plots import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    Picture,
    finish,
    grid,
    plain_labels,
    style,
)

MOST_MODELS, MOST_BENCHMARKS = 12, 12
"""Models in one picture, and pictures; the table holds all."""
_LOOKS = {"genuine_ability": BLUE, "overfitting": ORANGE}
_ENDS = ("", "_low", "_high")
_AXIS = "assumed: contaminated items are   easier  ←  0  →  harder   (log-odds)"


def confounding_section(fit: Fit) -> dict[str, Any] | None:
    """Return what a page needs to show the curves."""
    if "confounding" not in fit.tree:
        return None
    curves = fit.tree["confounding"].to_dataset()
    if reason := str(curves["reason"].item()):
        return {"reason": reason}
    table = sign_table(fit)
    largest = table.groupby("benchmark", sort=False)["overfitting"].agg(lambda x: x.abs().max())
    first = largest.sort_values(ascending=False, kind="stable").index[:MOST_BENCHMARKS]
    drawn = [name for name in largest.index if name in set(first)]
    note = note_of(len(drawn), len(largest), "benchmarks", "largest overfitting")
    return {
        "reason": "",
        "pictures": [
            _picture(fit, curves, table[table["benchmark"] == name], letter)
            for name, letter in zip(drawn, ascii_lowercase, strict=False)
        ],
        "rows": table,
        "own": float(curves["own_location"]),
        "several": "own" in curves["changed"],
        "note": f"{note} All: {in_file('confounding')}." if note else "",
    }


def sign_table(fit: Fit) -> pd.DataFrame:
    """Return one row for each model and benchmark: what becomes of overfitting."""
    curves = fit.tree["confounding"].to_dataset()
    together = curves.sel(changed="all", drop=True)
    own = together.sel(location=float(curves["own_location"]), method="nearest", drop=True)
    zero = together.reindex(location=[0.0], method="nearest", tolerance=1e-6)
    zero = zero.isel(location=0, drop=True)
    columns = {f"overfitting{end}": own[f"overfitting{end}"] for end in _ENDS}
    columns |= {f"overfitting_zero{end}": zero[f"overfitting{end}"] for end in _ENDS}
    columns |= {name: together[name] for name in ("sign_at", "sign", "reach_low", "reach_high")}
    alone = xr.full_like(together["sign"], "")
    if "own" in curves["changed"]:
        alone = curves["sign"].sel(changed="own", drop=True)
    data = xr.Dataset(columns | {"sign_own": alone})
    table = data.to_dataframe(["model", "benchmark"]).reset_index()
    return table[table["sign"] != ""].reset_index(drop=True)


def _picture(fit: Fit, curves: xr.Dataset, rows: pd.DataFrame, letter: str) -> Picture:
    """Draw the curves on one benchmark, a panel for each model."""
    benchmark = rows["benchmark"].iloc[0]
    order = rows["overfitting"].abs().sort_values(ascending=False, kind="stable").index
    shown = rows.loc[order[:MOST_MODELS]].sort_index()
    here, own = curves.sel(benchmark=benchmark), float(curves["own_location"])
    several = "own" in curves["changed"]
    with style():
        columns = max(2, min(4, len(shown)))
        height = 2.15 if columns == 4 else 2.8
        figure, axes = grid(len(shown), columns, height, sharex=True, sharey=True)
        for axis, row in zip(axes, shown.itertuples(), strict=True):
            _panel(axis, here.sel(model=row.model), own, several)
            axis.set_title(plain_labels([row.model], 24)[0])
        for axis in axes[::columns]:
            axis.set_ylabel("accuracy")
        reach = here.sel(model=shown["model"].tolist())[["reach_low", "reach_high"]]
        ends = np.array([reach["reach_low"].min(), reach["reach_high"].max()])
        pad = max(0.05 * np.ptp(ends), 0.05)
        axes[0].set_xlim(ends[0] - pad, ends[1] + pad)  # of all panels
        figure.supxlabel(_AXIS, fontsize=9.5)
        figure.legend(handles=_marks(several), loc="outside upper left", ncols=3)
        label = plain_labels([benchmark])[0]
        title = f"{label}: if contaminated items are assumed to be easier or harder"
        caption = _caption(fit, len(shown), len(rows), several)
        name = f"confounding-{letter}"
        return finish(figure, name, title, _alt(label, shown, own), caption)


def _panel(axis: Any, curve: xr.Dataset, own: float, several: bool) -> None:
    x, together = curve["location"].to_numpy(), curve.sel(changed="all")
    axis.axhline(0, color=INK, lw=0.8)
    axis.axvline(own, color=GREY, lw=1.0, ls=(0, (3, 2)))
    for name, color in _LOOKS.items():
        low, high = together[f"{name}_low"], together[f"{name}_high"]
        axis.fill_between(x, low, high, color=color, alpha=0.18, lw=0)
        if several:
            axis.plot(x, curve[name].sel(changed="own"), color=color, lw=1.1, ls=(0, (1, 1.5)))
        axis.plot(x, together[name], color=color, lw=1.8)
    at = float(together["sign_at"])
    if np.isfinite(at):
        known = together["overfitting"].dropna("location")
        height = np.interp(at, known["location"], known)
        axis.plot(at, height, "D", mfc="white", mec=INK, ms=6, mew=1.3, zorder=5)


def _marks(several: bool) -> list[Line2D]:
    marks = [
        Line2D([], [], color=color, lw=1.8, label=name.replace("_", " "))
        for name, color in _LOOKS.items()
    ]
    marks.append(Line2D([], [], color=GREY, ls=(0, (3, 2)), label="location of the model spec"))
    if several:
        text = "only this benchmark's prior moved"
        marks.append(Line2D([], [], color=INK, lw=1.1, ls=(0, (1, 1.5)), label=text))
    text = "sign of overfitting: certain on one side only"
    marks.append(Line2D([], [], ls="none", marker="D", mfc="white", mec=INK, label=text))
    return marks


def _caption(fit: Fit, shown: int, of: int, several: bool) -> str:
    lines = (
        "the priors of kappa of all benchmarks have that location"
        if several
        else ("the prior of kappa has that location")
    )
    dotted = " Dotted: only that of this benchmark has." if several else ""
    return (
        f"Lines: genuine ability and overfitting if {lines}, with {level_text(fit.level)}"
        f" bands.{dotted} Lines end where the draws of this fit become too few. Diamond:"
        " where the sign of overfitting becomes certain or uncertain."
        f"{note_of(shown, of, 'models', 'largest overfitting')}"
    )


def _models(count: int) -> str:
    return "1 model" if count == 1 else f"{count} models"


def _alt(label: str, shown: pd.DataFrame, own: float) -> str:
    first = shown.iloc[int(shown["overfitting"].abs().to_numpy().argmax())]
    return (
        f"Genuine ability and overfitting of {_models(len(shown))} on {label} along the assumed"
        f" difficulty of contaminated items. Largest overfitting at {number(own, 2)}:"
        f" {plain_labels([first['model']])[0]}, {number(first['overfitting'])}; its sign is"
        f" {first['sign']}, within {number(first['reach_low'], 2)} to"
        f" {number(first['reach_high'], 2)}."
    )
