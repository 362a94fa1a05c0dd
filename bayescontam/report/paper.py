"""Tables that papers and sites can take over, and a badge: Markdown, LaTeX and SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import pandas as pd

from bayescontam._text import join_list, printable
from bayescontam.errors import UsageError
from bayescontam.inference.checks import Outcome, checks_sentence
from bayescontam.inference.findings import estimated_effect, level_of_verdicts, which_items
from bayescontam.inference.ranking import Ranking
from bayescontam.inference.result import Fit
from bayescontam.inference.tables import headline
from bayescontam.model.effect_names import EffectNames, effect_words

type Paper = Literal["markdown", "latex"]
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "−": "--", "–": "--", "±": r"$\pm$", "≥": r"$\geq$", "≤": r"$\leq$",
}  # fmt: skip
_MARKDOWN = {sign: f"\\{sign}" for sign in "\\|*_`[~$"} | {"<": "&lt;"}
_GREEN, _AMBER, _RED, _GREY = "#2e7d32", "#b26a00", "#b3261e", "#5f6368"
_CHARACTER, _HEIGHT = 6.6, 20  # pixels: width of a character of a badge, and its height


def leaderboard(ranking: Ranking) -> pd.DataFrame:
    """Return a ranking as sites show it: rank, model, score, standard error, interval, group.

    Two models share a letter of ``group`` if and only if they cannot be distinguished.
    """
    table, by = ranking.table, ranking.by
    low, high = (table[f"{by}_{end}"] for end in ("low", "high"))
    return pd.DataFrame(
        {
            "rank": table["rank"].map("{:g}".format),
            "model": table["model"],
            "score": table[by].map(_number),
            "se": table[f"{by}_sd"].map(_number),
            f"{100 * ranking.level:g} % interval": _intervals(low, high),
            "raw": table["raw_accuracy"].map(_number),
            "group": table["groups"],
        }
    )


def scores(fit: Fit, estimands: pd.DataFrame) -> pd.DataFrame:
    """Return the headline of a fit as papers show it: one row for each model and benchmark."""
    table = headline(fit, estimands)
    names = EffectNames.among(table)
    found = {"benchmark": table["benchmark"], "model": table["model"]}
    found["raw"] = table["raw_accuracy"].map(_number)
    shown = ("accuracy",) if names is None else (names.ability, names.overfitting)
    for name in shown:
        interval = _intervals(table[f"{name}_low"], table[f"{name}_high"])
        found[effect_words(name)] = (table[name].map(_number) + " " + interval).str.strip()
    if names is not None:
        found[f"{effect_words(names.overfitting)} is"] = table[names.verdict].astype(str)
    return pd.DataFrame(found)


def _intervals(low: "pd.Series[float]", high: "pd.Series[float]") -> "pd.Series[str]":
    return ("[" + low.map(_number) + ", " + high.map(_number) + "]").where(low.notna(), "")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3f}"


def notes_of(fit: Fit, ranking: Ranking | None = None, level: float | None = None) -> list[str]:
    """Return what a reader of such a table must know: what is estimated, and whether it holds.

    `level` is that of the intervals; default: that of the ranking, or of the fit.
    """
    lines = [estimated_effect(fit.data["estimands"])]
    if ranking is not None:
        level = ranking.level
        lines.append(f"Score: {effect_words(ranking.by)}, posterior mean; se: its sd.")
        if len(ranking.compared.shares) == 1:
            lines.append(f"Benchmark: {ranking.compared.shares.index[0]}.")
        if ranking.groups:
            lines.append("Models that share a letter cannot be distinguished.")
        lines += ranking.sentences()
    lines.append(which_items(fit, level))
    if ranking is None:  # which has no verdicts
        lines += level_of_verdicts({"": fit}, level)
    return [*lines, f"{checks_sentence(fit.checks())}."]


def as_paper(table: pd.DataFrame, kind: Paper, notes: Sequence[str]) -> str:
    """Return a table of texts and whole numbers in Markdown or LaTeX, with notes below.

    LaTeX needs the package booktabs.

    >>> print(as_paper(pd.DataFrame({"model": ["a_b"], "score": ["0.5"]}), "markdown", ["A note."]))
    | model | score |
    |---|---:|
    | a\\_b | 0.5 |
    <BLANKLINE>
    A note.
    <BLANKLINE>
    """
    heads = [str(name) for name in table.columns]
    # Numbers to the right; names, verdicts and groups to the left.
    right = [all(_is_number(cell) for cell in table[name]) for name in table.columns]
    rows = [[printable(str(cell), 200) for cell in row] for row in table.itertuples(index=False)]
    if kind == "markdown":
        lines = [heads, *rows]
        cells = [f"| {' | '.join(_escaped(cell, _MARKDOWN) for cell in line)} |" for line in lines]
        cells.insert(1, "|" + "|".join("---:" if one else "---" for one in right) + "|")
        below = ["", " ".join(_escaped(note, _MARKDOWN) for note in notes), ""]
        return "\n".join([*cells, *below])
    body = [r" & ".join(_escaped(cell, _LATEX) for cell in line) + r" \\" for line in rows]
    head = r" & ".join(_escaped(cell, _LATEX) for cell in heads) + r" \\"
    columns = "".join("r" if one else "l" for one in right)
    start = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
    note = _escaped(" ".join(notes), _LATEX)
    last = rf"\multicolumn{{{len(heads)}}}{{p{{0.9\linewidth}}}}{{\footnotesize {note}}} \\"
    return "\n".join([*start, *body, r"\bottomrule", last, r"\end{tabular}", ""])


def _is_number(cell: object) -> bool:
    try:
        float(str(cell))
    except ValueError:
        return False
    return True


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)


@dataclass(frozen=True)
class Badge:
    """What a score is worth, in one line."""

    label: str  # model and benchmark
    text: str  # score with interval, raw score, verdict
    colour: str  # of the verdict

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"

    def svg(self) -> str:
        """Return a picture of it: label and text side by side."""
        label, text = printable(self.label, 60), printable(self.text, 120)
        left, right = (round(_CHARACTER * len(part)) + 12 for part in (label, text))
        whole = escape(f"{label}: {text}", quote=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}"'
            f' role="img" aria-label="{whole}"><title>{whole}</title>'
            f'<rect width="{left}" height="{_HEIGHT}" fill="#3c4043"/>'
            f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{self.colour}"/>'
            '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"'
            ' text-anchor="middle">'
            f'<text x="{left / 2}" y="14" textLength="{left - 12}">{escape(label)}</text>'
            f'<text x="{left + right / 2}" y="14" textLength="{right - 12}">{escape(text)}</text>'
            "</g></svg>\n"
        )


def badge(fit: Fit, model: str | None = None, benchmark: str | None = None) -> Badge:
    """Return the badge of a model's score on a benchmark.

    A fit whose checks failed has no score to show: its badge is grey and states that.
    """
    table = headline(fit)
    for what, wanted in (("model", model), ("benchmark", benchmark)):
        known = list(dict.fromkeys(table[what].astype(str)))
        if wanted is None and len(known) > 1:
            raise UsageError(f"--{what}: the fit has several; choose one of {join_list(known)}")
        if wanted is not None and wanted not in known:
            shown = printable(wanted, 60)
            raise UsageError(f"--{what}: no {what} '{shown}' in the fit; it has {join_list(known)}")
        if wanted is not None:
            table = table[table[what].astype(str) == wanted]
    if table.empty:
        raise UsageError("badge: the model did not answer the benchmark; choose another pair")
    row = table.iloc[0]
    label = f"{row['model']} on {row['benchmark']}"
    if any(check.outcome is Outcome.FAILED for check in fit.checks()):
        return Badge(label, "no score: checks of the fit failed", _GREY)
    names = EffectNames.among(table)
    name = "accuracy" if names is None else names.ability
    interval = f"[{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"
    score = f"{row[name]:.2f}, {100 * fit.level:g} % {interval}"
    raw = f"raw {row['raw_accuracy']:.2f}"
    if names is None:
        return Badge(label, f"accuracy {score}, {raw}; contamination not modelled", _GREY)
    verdict = str(row[names.verdict])
    colour = {"shown": _RED, "at most small": _GREEN}.get(verdict, _AMBER)
    words = effect_words(names.overfitting)
    return Badge(label, f"{effect_words(name)} {score}, {raw}, {words}: {verdict}", colour)
