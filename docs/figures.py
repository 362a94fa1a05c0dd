"""Figures of the pages that explain the model, drawn from its formulas when these are built.

Each is an SVG without background, in tones that stand out on white and on black pages.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy.special import expit, gammaln, logit, ndtri

from bayescontam.model.quadrature import beta_quadrature, logit_location, normal_trapezoid

BLUE, ORANGE, GREEN, GREY = "#3a86c8", "#dd7a25", "#2a9d6f", "#7d7d7d"
_WIDTH, _HEIGHT = 7.4, 2.9  # inches, of a figure of two panels
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # words are text: sharp at any size, and found by a search
    "svg.hashsalt": "bayescontam",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.titlecolor": GREY,
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
}


def _normal(count: int = 401) -> tuple[Any, Any]:
    """Return nodes and weights of a standard Normal."""
    nodes, log_weights = normal_trapezoid(5.5, count)
    return nodes, np.exp(log_weights)


def write_figures(folder: Path) -> list[Path]:
    """Write every figure into a folder, and return the files; a file that would not change stays.

    Sphinx reads pages again whose pictures are newer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, draw in FIGURES.items():
        path, part = folder / f"{name}.svg", folder / f".{name}.part"
        with mpl.rc_context(_STYLE):
            figure = draw()
            FigureCanvasSVG(figure).print_svg(part, metadata={"Date": None})
        if path.exists() and path.read_bytes() == part.read_bytes():
            part.unlink()
        else:
            part.replace(path)
        files.append(path)
    return files


def _panels(count: int = 2, height: float = _HEIGHT, **options: Any) -> tuple[Figure, Any]:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.subplots(1, count, **options)
    for each in np.atleast_1d(axes):
        each.patch.set_alpha(0)
    return figure, axes


def _accuracy(axes: Axes, label: str = "accuracy of an item") -> None:
    axes.set(ylim=(0, 1), ylabel=label)


def _averaged(log_odds: Any, spread: float) -> Any:
    """Return the mean accuracy over a Normal effect of this spread on the log-odds."""
    nodes, weights = _normal()
    return expit(np.asarray(log_odds)[..., None] + spread * nodes) @ weights


def link() -> Figure:
    """Log-odds to accuracy, with and without guessing; one effect at three abilities."""
    figure, (left, right) = _panels()
    eta = np.linspace(-5, 5, 201)
    left.plot(eta, expit(eta), color=BLUE, label="no guessing")
    left.plot(eta, 0.25 + 0.75 * expit(eta), color=ORANGE, ls="--", label="four options, g = 0.25")
    left.set(xlabel="log-odds η", title="From log-odds to accuracy")
    left.legend(loc="upper left")
    _accuracy(left)
    right.plot(eta, expit(eta), color=GREY, lw=1.2)
    for clean in (-3.0, -0.5, 2.5):
        before, after = expit(clean), expit(clean + 1.5)
        arrow = {"arrowstyle": "-|>", "color": ORANGE, "lw": 1.8}
        right.annotate("", (clean + 1.5, after), (clean, before), arrowprops=arrow)
        place = (clean + 0.9, (before + after) / 2 - 0.06)
        right.annotate(f"+{after - before:.2f}", place, color=ORANGE)
    right.set(xlabel="log-odds η", title="The same effect of 1.5 log-odds, three items")
    _accuracy(right)
    return figure


def ability() -> Figure:
    """Estimates on their own and partially pooled, with few items and with many."""
    figure, (left, right) = _panels(sharey=True)
    spread, truth = 0.6, np.linspace(-1.4, 1.4, 8)
    noise = np.random.default_rng(5).normal(size=truth.size)
    for axes, items in ((left, 20), (right, 400)):
        error = 1 / np.sqrt(items * expit(truth) * expit(-truth))
        own = truth + error * noise
        kept = spread**2 / (spread**2 + error**2)
        pooled = kept * own + (1 - kept) * own.mean()
        axes.axhline(own.mean(), color=GREY, lw=0.9, ls=":")
        for place, (a, b) in enumerate(zip(own, pooled, strict=True)):
            axes.plot([place, place], [a, b], color=GREY, lw=1)
        axes.plot(own, "D", mfc="none", mec=ORANGE, ms=6, label="from its own responses")
        axes.plot(pooled, "o", color=BLUE, ms=5.5, label="partially pooled")
        axes.set(xlabel="model", xticks=[], title=f"{items} items each")
    left.set(ylabel="ability θ (log-odds)")
    left.legend(loc="upper left")
    return figure


def concepts() -> Figure:
    """Benchmarks' means, concepts around them, models around these."""
    figure, axes = _panels(1, height=2.6)
    generator = np.random.default_rng(11)
    mean, spread, between = 0.4, 0.9, 0.45
    centres = np.sort(generator.normal(mean, spread, 6))
    axes.axvline(mean, color=GREY, lw=1, ls=":")
    axes.annotate("mean of the benchmark", (mean, 5.75), xytext=(4, 0), textcoords="offset points")
    general = np.array([-0.5, 0.0, 0.5])
    for row, centre in enumerate(centres):
        axes.plot([centre], [row], "|", color=ORANGE, ms=16, mew=2.2)
        own = centre + general + between * generator.normal(size=3)
        for place, marker in zip(own, "os^", strict=True):
            axes.plot([place], [row], marker, color=BLUE, ms=6)
    axes.plot([], [], "|", color=ORANGE, ms=11, mew=2.2, label="mean of a concept")
    for name, marker in zip(("model A", "model B", "model C"), "os^", strict=True):
        axes.plot([], [], marker, color=BLUE, ms=6, ls="none", label=name)
    axes.set(yticks=range(6), yticklabels=[f"concept {k + 1}" for k in range(6)], ylim=(-0.6, 6.3))
    axes.set(xlabel="ability θ on the concept (log-odds)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def shapes() -> Figure:
    """Accuracy against contamination for each form of the effect."""
    figure, (left, right) = _panels(sharey=True)
    d, clean, slope = np.linspace(0, 1, 201), logit(0.15), 4.0
    left.plot(d, expit(clean + slope * d), color=BLUE, label="linear in log-odds")
    additive = (1 - d) * expit(clean) + d * expit(clean + slope)
    left.plot(d, additive, color=GREEN, ls="-.", label="additive: linear in accuracy")
    knots = np.linspace(0, 1, 11)
    increments = np.array([0.01, 0.01, 0.02, 0.06, 0.4, 0.38, 0.08, 0.02, 0.01, 0.01])
    rise = np.interp(d, knots, np.concatenate([[0], np.cumsum(increments)]))
    left.plot(d, expit(clean + slope * rise), color=ORANGE, ls="--", label="monotone, a threshold")
    left.set(xlabel="contamination d", title="Three shapes of one rise")
    _accuracy(left)
    left.legend(loc="lower right")
    for gamma, style in ((0.0, "-"), (0.8, "--")):
        for harder, color in ((-1.5, GREEN), (1.5, ORANGE)):
            # The model's slope is that of an item of mean difficulty plus gamma times difficulty.
            line = expit(0.0 - harder + (1.5 + gamma * harder) * d)
            right.plot(d, line, color=color, ls=style)
    right.annotate("easy item", (0.03, 0.72), color=GREEN)
    right.annotate("hard item", (0.03, 0.37), color=ORANGE)
    right.plot([], [], color=GREY, label="γ = 0: one slope")
    right.plot([], [], color=GREY, ls="--", label="γ = 0.8: hard items gain more")
    right.legend(loc="lower right")
    right.set(xlabel="contamination d", title="Interaction with difficulty")
    return figure


def difficulty() -> Figure:
    """Difficulty given how many solved an item, and the nodes of the integral over it."""
    figure, (left, right) = _panels()
    theta, spread = np.linspace(-1.5, 1.5, 12), 1.2
    z = np.linspace(-4.2, 4.2, 401)

    def integrand(total: int, at: Any) -> Any:
        log_odds = theta[:, None] - spread * at
        log = -total * spread * at - np.logaddexp(0, log_odds).sum(axis=0) - at**2 / 2
        return np.exp(log)

    sd = []
    for total, color in ((0, ORANGE), (6, BLUE), (11, GREEN)):
        value = integrand(total, z)
        value /= np.trapezoid(value, z)
        mean = np.trapezoid(z * value, z)
        sd.append(np.sqrt(np.trapezoid((z - mean) ** 2 * value, z)))
        left.plot(spread * z, value / spread, color=color, label=f"{total} of 12 solved it")
    prior = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    left.plot(spread * z, prior / spread, color=GREY, ls=":", label="prior")
    left.set(xlabel="difficulty δ", yticks=[], title="The total informs about difficulty")
    left.legend(loc="upper left")
    left.set(xlim=(-5, 5), ylim=(0, 1.25))
    step = 1.2 * min(sd)
    nodes = np.arange(-5.5, 5.5 + step, step)
    value = integrand(6, z)
    at = integrand(6, nodes) / value.max()
    right.plot(z, value / value.max(), color=BLUE)
    right.vlines(nodes, 0, at, color=ORANGE, lw=1.4)
    right.plot(nodes, at, "o", color=ORANGE, ms=4.5, label="nodes of the trapezoid rule")
    right.set(xlabel="difficulty in standard deviations z", yticks=[], xlim=(-4.2, 4.2))
    right.set(title="6 of 12: integrated out by a sum", ylim=(0, 1.35))
    right.legend(loc="upper left")
    return figure


def spillover() -> Figure:
    """Genuine ability, spillover and the direct effect of items with and without duplicates."""
    figure, (left, right) = _panels(width_ratios=[1.15, 1])
    nodes, weights = _normal()
    theta, beta, coefficient, spread = 0.0, 1.0, 1.6, 1.0
    dose = 0.5

    def mean(shift: float) -> float:
        return float(expit(theta + shift - spread * nodes) @ weights)

    genuine, lifted, both = mean(0.0), mean(coefficient * dose), mean(coefficient * dose + beta)
    parts = {
        "clean twin": (genuine, 0.0, 0.0),
        "items without\nduplicates": (genuine, lifted - genuine, 0.0),
        "items with\nduplicates": (genuine, lifted - genuine, both - lifted),
    }
    for row, (a, b, c) in enumerate(parts.values()):
        left.bar(row, a, color=BLUE, width=0.62)
        left.bar(row, b, bottom=a, color=GREEN, width=0.62)
        left.bar(row, c, bottom=a + b, color=ORANGE, width=0.62)
    for height, word, color in (
        (genuine / 2, "genuine\nability", "white"),
        ((genuine + lifted) / 2, "spillover", "white"),
        ((lifted + both) / 2, "direct", "white"),
    ):
        left.annotate(word, (2, height), ha="center", va="center", color=color, fontsize=8.5)
    left.axhline(genuine, color=GREY, ls=":", lw=1)
    left.set(xticks=range(3), xticklabels=list(parts), title="Half of a benchmark is contaminated")
    _accuracy(left, "accuracy")
    doses = np.linspace(0, 1, 51)
    spill = np.array([mean(coefficient * each) for each in doses])
    seen = np.array([mean(coefficient * each + beta) for each in doses])
    total = doses * seen + (1 - doses) * spill
    right.plot(doses, total, color=ORANGE, label="score")
    right.plot(doses, spill, color=GREEN, ls="--", label="without the direct effect")
    right.axhline(genuine, color=BLUE, ls="-.", label="without the total effect")
    right.set(xlabel="dose D (share of items with duplicates)", title="What a score loses")
    _accuracy(right, "accuracy")
    right.legend(loc="lower right")
    return figure


def repeated() -> Figure:
    """Numbers of correct generations, and the slope of the average accuracy."""
    figure, (left, right) = _panels()
    nodes, weights = _normal(801)
    k, trials = np.arange(11), 10
    choose = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    for spread, color, shift in ((0.0, BLUE, -0.2), (6.0, ORANGE, 0.2)):
        eta = 0.4 + spread * nodes
        density = k[:, None] * eta - trials * np.logaddexp(0, eta) + choose[:, None]
        share = np.exp(density) @ weights
        left.bar(k + shift, share, width=0.4, color=color, label=f"σ = {spread:g}")
    left.set(xlabel="correct of 10 generations", xticks=[0, 5, 10], ylabel="share of responses")
    left.set(title="Generations agree")
    left.legend(loc="upper center")
    left.set(ylim=(0, 0.55))
    x = np.linspace(-12, 12, 201)
    right.plot(x, expit(x), color=BLUE, label="one item of one model")
    right.plot(x, _averaged(x, 6.0), color=ORANGE, label="average, σ = 6")
    factor = np.sqrt(1 + 0.346 * 36)
    right.plot(
        x, expit(x / factor), color=GREY, ls=":", lw=2.2, label="logistic, slope divided by s"
    )
    right.set(xlabel="log-odds without the effect", title=f"Averages are flatter: s = {factor:.1f}")
    _accuracy(right, "accuracy")
    right.legend(loc="lower right", bbox_to_anchor=(1.04, 0.0))
    return figure


def participants() -> Figure:
    """People of a group on items of rising difficulty, and the accuracy of their population."""
    figure, axes = _panels(1, height=2.7)
    delta, spread = np.linspace(-4, 4, 161), 1.4
    for z in ndtri((np.arange(9) + 0.5) / 9):
        axes.plot(delta, expit(spread * z - delta), color=GREY, lw=0.9, alpha=0.7)
    axes.plot([], [], color=GREY, lw=0.9, label="people of the group")
    axes.plot(delta, expit(-delta), color=BLUE, ls="--", label="the median person")
    axes.plot(delta, _averaged(-delta, spread), color=ORANGE, lw=2.4, label="the population")
    axes.set(xlabel="difficulty δ of an item (log-odds)")
    _accuracy(axes)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def uncertain() -> Figure:
    """Accuracy at a probability of contamination; errors of items, own and shared."""
    figure, (left, right) = _panels(width_ratios=[1, 1.15])
    p, clean, slope = np.linspace(0, 1, 101), logit(0.45), 2.5
    mixture = (1 - p) * expit(clean) + p * expit(clean + slope)
    left.plot(p, mixture, color=BLUE, label="duplicated or not: expected")
    left.plot(p, expit(clean + slope * p), color=ORANGE, ls="--", label="probability plugged in")
    left.set(xlabel="P(the item is duplicated)", title="latent_duplicate")
    _accuracy(left)
    left.legend(loc="lower right")
    mean = np.array([0.15, 0.3, 0.5, 0.7, 0.85])
    place = np.arange(mean.size)
    nodes, weights = beta_quadrature(mean, np.full(mean.size, 0.12), 5)
    right.scatter(
        np.repeat(place, 5) - 0.18, nodes.ravel(), s=140 * weights.ravel(), color=BLUE, lw=0
    )
    right.scatter([], [], s=40, color=BLUE, label="noisy_covariate: its own error")
    scale = np.full(mean.size, 0.8)
    location = logit_location(mean, scale)
    for z, style in ((-1.3, "v"), (0.0, "o"), (1.3, "^")):
        right.plot(
            place + 0.18, expit(location + scale * z), style, color=ORANGE, ms=5, ls="-", lw=0.7
        )
    right.plot([], [], "^-", color=ORANGE, ms=5, lw=0.7, label="imputed_covariate: one factor")
    right.set(
        xlabel="item", xticks=[], ylabel="contamination", ylim=(-0.03, 1.35), yticks=[0, 0.5, 1]
    )
    right.set(title="Errors of items, and errors that they share")
    right.legend(loc="upper left")
    return figure


def identification() -> Figure:
    """Slope and the ease of contaminated items: what responses and a clean model show of both."""
    figure, axes = _panels(3, height=2.9, sharey=True, sharex=True)
    prior = np.diag([1 / 2.0**2, 1 / 1.0**2])  # precisions of beta, Normal(0, 2), and kappa
    difference = np.array([1.0, -1.0])
    exposed = np.outer(difference, difference) / 0.35**2
    clean = np.diag([0.0, 1 / 0.35**2])
    truth = np.array([1.6, -0.8])
    cases = {
        "κ = 0 assumed": (prior + exposed + np.diag([0.0, 1e6]), exposed, np.zeros((2, 2))),
        "sensitivity": (prior + exposed, exposed, np.zeros((2, 2))),
        "anchored": (prior + exposed + clean, exposed, clean),
    }
    line = np.array([-3.2, 6.2])
    for each, (title, (precision, of_exposed, of_clean)) in zip(axes, cases.items(), strict=True):
        covariance = np.linalg.inv(precision)
        mean = covariance @ (of_exposed + of_clean) @ truth
        values, vectors = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
        size = 2 * np.sqrt(5.99 * values)  # of 95 %
        shape = Ellipse(
            mean, size[1], max(size[0], 0.08), angle=angle, fc=BLUE, ec=BLUE, alpha=0.45
        )
        each.add_patch(shape)
        each.plot(line, line - difference @ truth, color=GREY, lw=1, ls=":")
        each.plot(*truth, "*", color=ORANGE, ms=11)
        each.set(title=title, xlabel="slope β", xlim=(-1.5, 5), ylim=(-3.2, 2.4))
    axes[0].set(ylabel="κ: contaminated items\nare harder by")
    axes[1].annotate("truth", truth, (6, -13), textcoords="offset points", color=ORANGE)
    axes[2].annotate("β − κ as the\nexposed models show", (0.1, -2.95), fontsize=8)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "link": link,
    "ability": ability,
    "concepts": concepts,
    "shapes": shapes,
    "difficulty": difficulty,
    "spillover": spillover,
    "repeated": repeated,
    "participants": participants,
    "uncertain": uncertain,
    "identification": identification,
}
"""Every figure by the name of its file."""
