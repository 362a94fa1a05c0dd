"""A model in formulas and words."""

import math
from collections.abc import Iterator
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from scipy import stats
from scipy.special import expit

from bayescontam.model.exposure import NODES
from bayescontam.model.priors import RATE, distribution, is_stretched
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Beta, Dirichlet, Prior


def mathematics(spec: ModelSpec) -> list[str]:
    """Return the model that a spec describes, one line for each statement."""
    text = _template().render(
        spec=spec,
        nodes=NODES,
        rate=f"{RATE:g}",
        knots=", ".join(f"{knot:g}" for knot in spec.contamination.knots),
        stretched=[name for name in _used(spec) if is_stretched(name, spec)],
        repr=repr,
    )
    return text.rstrip("\n").split("\n")


@cache
def _template() -> Template:
    loader = PackageLoader("bayescontam", "model")
    known = Environment(
        loader=loader, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return known.get_template("mathematics.txt")


def prior_meanings(spec: ModelSpec) -> list[tuple[str, str, str]]:
    """Say what the priors mean on the accuracy scale."""
    used = [(name, getattr(spec.priors, name)) for name in _used(spec)]
    guess = spec.likelihood.guess
    said = guess.items() if isinstance(guess, dict) else [("", guess)]
    for name, prior in said:
        if isinstance(prior, Beta):
            used.append((f"guess of {name!r}" if name else "guess", prior))
    return [(name, prior.text(), _meaning(name, prior, spec)) for name, prior in used]


def _used(spec: ModelSpec) -> Iterator[str]:
    by_concept = spec.ability.by != "benchmark"
    if spec.ability.pooling == "none":
        yield "theta"
    else:
        yield from ("mu_bar", "sigma_mu") if by_concept else ("mu",)
        yield from ("sigma_a",) if spec.ability.pooling == "partial" else ()
        yield "sigma_theta"
        if spec.ability.lineage != "none" and spec.ability.twins == "similar":
            yield from ("sigma_t", "sigma_twin")
            if spec.ability.checkpoints == "walk":
                yield "sigma_step"
    if spec.contamination.form != "none":
        yield "beta_bar"
        if spec.contamination.pooling == "partial":
            yield from ("sigma_bm", "sigma_bb", "sigma_bmb")
        block, related = spec.contamination, spec.ability.lineage != "none"
        pooled = block.spillover and related
        optional = {
            "increments": block.form == "monotone",
            "gamma": block.interaction != "none",
            "spillover": block.spillover and not related,
            "lambda_bar": pooled,
            "sigma_lb": pooled,
            "sigma_lk": pooled and bool(block.kinds),
            "sigma_lambda": pooled,
            "kappa": block.confounding != "none",
        }
        yield from (name for name, is_used in optional.items() if is_used)
    if spec.difficulty.form != "none":
        yield "sigma_delta"
        if spec.difficulty.selection == "modelled":
            yield "sigma_psi"
    if spec.difficulty.discrimination != "equal":
        yield "sigma_alpha"
    if spec.likelihood.has_model_by_item:
        yield "sigma_eps"
    if not spec.without_participants:
        yield "sigma_zeta"
        if spec.likelihood.has_model_by_item:
            yield "sigma_xi"


def _meaning(name: str, prior: Prior | Beta | Dirichlet, spec: ModelSpec) -> str:
    if isinstance(prior, Dirichlet):
        count = len(spec.contamination.knots) + 1
        part = stats.beta(prior.alpha, prior.alpha * (count - 1))
        return (
            f"each of {count} segments has between {part.ppf(0.025):.2f} and {part.ppf(0.975):.2f}"
            " of the whole rise with probability 0.95"
        )
    known = distribution(prior)
    low, median, most, high = (float(known.ppf(q)) for q in (0.025, 0.5, 0.95, 0.975))
    if isinstance(prior, Beta):
        return f"blind guessing succeeds {low:.2f} to {high:.2f} of the time with probability 0.95"
    if name in ("mu", "mu_bar", "theta"):
        return f"accuracy between {expit(low):.2f} and {expit(high):.2f} with probability 0.95"
    if name == "beta_bar":
        return (
            "an item solved half of the time when clean is solved between"
            f" {expit(low):.2f} and {expit(high):.2f} of the time when contaminated"
        )
    if name in ("kappa", "spillover", "lambda_bar", "gamma"):
        lifted = "where all items of a benchmark are contaminated, a clean one is solved"
        what = {
            "kappa": "contaminated items are, if clean ones are solved half of the time, solved",
            "spillover": lifted,
            "lambda_bar": lifted,
            "gamma": "one log-odds more of difficulty changes the slope so that a half becomes",
        }[name]
        sign = -1 if name == "kappa" else 1
        ends = sorted((expit(sign * low), expit(sign * high)))
        return f"{what} between {ends[0]:.2f} and {ends[1]:.2f} with probability 0.95"
    if name == "sigma_alpha":
        by_pair = spec.difficulty.discrimination == "by_pair"
        more, apart = ("pairs", "items") if by_pair else ("items", "models")
        return (
            f"{more} one sd more discriminating stretch differences between {apart}"
            f" {_factor(median)} times (median), at most {_factor(most)} times with probability"
            " 0.95"
        )
    if name.startswith("sigma_b") and spec.contamination.sign == "positive":
        factors = f"{_factor(median)} (median), at most {_factor(most)}"
        return f"one sd multiplies a slope by {factors} with probability 0.95"
    if name.startswith("sigma_b"):
        return (
            f"one sd more of slope lifts a contaminated item from 0.50 to {expit(median):.2f}"
            f" (median), at most {expit(most):.2f} with probability 0.95"
        )
    what = {
        "sigma_delta": "items", "sigma_psi": "(where models answered a part) items",
        "sigma_eps": "one model's items beyond their difficulty", "sigma_a": "models",
        "sigma_theta": "a model's abilities", "sigma_mu": "units",
        "sigma_zeta": "(where a model is a group of people) participants",
        "sigma_xi": "(where a model is a group of people) a group's items beyond their difficulty",
        "sigma_step": "later checkpoints of a run", "sigma_t": "models of one base",
        "sigma_twin": "on one unit, models of one base",
        "sigma_lb": "(all contaminated) items of benchmarks",
        "sigma_lk": "(all contaminated) items in one kind of duplicates",
        "sigma_lambda": "(all contaminated) items of one base, benchmark and kind",
    }[name]  # fmt: skip
    return (
        f"{what} one sd above a mean of 0.50 stand at {expit(median):.2f} (median),"
        f" at most {expit(most):.2f} with probability 0.95"
    )


def _factor(log: float) -> str:
    """Return the exponential as text; heavy tails reach beyond what a float holds."""
    value = math.exp(min(log, 700.0))
    return f"{value:.2f}" if value < 1e4 else f"{value:.1e}"
