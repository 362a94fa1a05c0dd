"""A model in formulas and words."""

import math
from collections.abc import Iterator

from scipy import stats
from scipy.special import expit

from bayescontam.model.exposure import NODES
from bayescontam.model.priors import RATE, distribution, is_stretched
from bayescontam.specs.model import ModelSpec
from bayescontam.specs.priors import Beta, Dirichlet, Prior


def mathematics(spec: ModelSpec) -> list[str]:
    """Return the model that a spec describes, one line for each statement."""
    parts = (_likelihood, _predictor, _exposure, _ability, _slope, _doses, _rest)
    return [line for part in parts for line in part(spec)]


def _unit(spec: ModelSpec) -> str:
    return "b" if spec.ability.by == "benchmark" else "c"


def _likelihood(spec: ModelSpec) -> Iterator[str]:
    guess = spec.likelihood.guess
    yield "n_correct[m,i] ~ Binomial(n_trials[m,i], p[m,i])"
    if not guess:
        yield "p = logistic(eta)"
        return
    if guess == "column":
        yield "p = guess[i] + (1 - guess[i]) * logistic(eta)"
        yield "    guess[i] of the table's column 'guess', or 1 / n_options"
        return
    yield "p = guess[b] + (1 - guess[b]) * logistic(eta)"
    if isinstance(guess, dict):
        for name, said in guess.items():
            yield f"    guess of {name!r}" + _said_guess(said)
        yield "    guess of others = 0"
    else:
        yield "    guess[b]" + _said_guess(guess)


def _said_guess(said: float | Beta) -> str:
    return f" ~ {said.text()}" if isinstance(said, Beta) else f" = {said:g}"


def _predictor(spec: ModelSpec) -> Iterator[str]:
    block, ability = spec.contamination, f"theta[m,{_unit(spec)}]"
    if spec.difficulty.form != "none":
        ability += " - delta[i]"
    if spec.difficulty.discrimination != "equal":
        ability = f"alpha[i] * ({ability})"
    parts, others = [ability], []
    if block.spillover:
        others.append(f"+ spillover * (D[m,b] - mean of {_known(spec, 'd')} in b)")
    if block.confounding != "none":
        others.append(
            f"- kappa[b] * ({_known(spec, 'd[i]')} - mean of {_known(spec, 'd[i]')} in b)"
        )
    effect = ["+ eps[m,i]"] if spec.likelihood.has_model_by_item else []
    dose = "M(d[m,i])" if block.form == "monotone" else "d[m,i]"
    mean = dose.replace("[m,i]", "") if block.exposure == "known" else "E d"
    slope = "beta[m,b]" if block.interaction == "none" else "(beta[m,b] + gamma * delta[i])"
    if block.form != "none" and block.scale == "accuracy":
        clean = [f"- {slope} * (mean of {mean} in b)"]
        yield "clean[m,i] = " + " ".join(parts + clean + others)
        ends = f"(1 - {dose}) * logistic(clean[m,i]) + {dose} * logistic(clean[m,i] + {slope})"
        parts, others = [f"logit({ends})"], []
    elif block.form != "none":
        parts.append(f"+ {slope} * ({dose} - mean of {mean} in b)")
    yield "eta[m,i] = " + " ".join(parts + others + effect)


def _known(spec: ModelSpec, dose: str) -> str:
    """Return how a contamination enters that must be known: by its expectation if it is not."""
    return dose if spec.contamination.exposure == "known" else f"E {dose}"


def _exposure(spec: ModelSpec) -> Iterator[str]:
    if spec.contamination.exposure == "noisy":
        yield (
            "d[m,i] = d[i] ~ Beta of mean contamination[i] and sd contamination_sd[i],"
            f" summed out ({NODES} nodes)"
        )
    if spec.contamination.exposure == "latent":
        yield "d[m,i] = d[i] ~ Bernoulli(q[i]), summed out     q = p_duplicate"
        yield "    (with p_duplicate_sd: logit(q[i]) = location[i] + scale[i] * p_shift[b], with"
        yield "     p_shift[b] ~ Normal(0, 1), and location and scale such that q[i] has the mean"
        yield "     p_duplicate[i] and the standard deviation p_duplicate_sd[i])"
    if spec.contamination.exposure != "known":
        yield "    (where covariates of an item differ between models: one d[m,i] for each pair)"


def _ability(spec: ModelSpec) -> Iterator[str]:
    unit, priors = _unit(spec), spec.priors
    if spec.ability.pooling == "none":
        yield f"theta[m,{unit}] ~ {priors.theta.text()}"
        return
    yield f"theta[m,{unit}] ~ Normal(mu[{unit}] + a[m], sigma_theta)"
    yield f"    (fewer than 3 pairs: mu[{unit}] + {priors.theta.text()})"
    yield "a[m] ~ Normal(0, sigma_a), summing to zero over models"
    if unit == "c":
        yield f"mu[c] ~ Normal(mu_bar[b], sigma_mu)     mu_bar[b] ~ {priors.mu_bar.text()}"
        yield f"    (fewer than 3 units or 2 models: mu[c] ~ {priors.mu.text()})"
        yield f"sigma_mu ~ {priors.sigma_mu.text()}"
    else:
        yield f"mu[b] ~ {priors.mu.text()}"
    yield f"sigma_a ~ {priors.sigma_a.text()}     sigma_theta ~ {priors.sigma_theta.text()}"


def _slope(spec: ModelSpec) -> Iterator[str]:
    priors = spec.priors
    if spec.contamination.form == "none":
        return
    if spec.contamination.pooling == "none":
        yield f"beta[m,b] ~ {priors.beta_bar.text()}"
        return
    shift = "sigma_bm * u[m] + sigma_bb * v[b] + sigma_bmb * w[m,b]"
    if spec.contamination.sign == "positive":
        yield f"beta[m,b] = beta_bar * exp({shift})"
    else:
        yield f"beta[m,b] = beta_bar + {shift}"
    yield f"beta_bar ~ {priors.beta_bar.text()}     u, v, w ~ Normal(0, 1)"
    spreads = ("sigma_bm", "sigma_bb", "sigma_bmb")
    yield "     ".join(f"{name} ~ {getattr(priors, name).text()}" for name in spreads)


def _doses(spec: ModelSpec) -> Iterator[str]:
    block, priors = spec.contamination, spec.priors
    if block.form == "monotone":
        knots = ", ".join(f"{knot:g}" for knot in block.knots)
        yield f"M(0) = 0, M(1) = 1, straight between 0, {knots} and 1, rising by increments[k]"
        yield f"increments ~ {priors.increments.text()} over {len(block.knots) + 1} segments"
    if block.interaction != "none":
        yield f"gamma ~ {priors.gamma.text()}"
    if block.spillover:
        met = f"mean of {_known(spec, 'd[m,i]')} over items of b"
        yield f"D[m,b] = {met}     spillover ~ {priors.spillover.text()}"
    if block.confounding != "none":
        mean = f"{_known(spec, 'd[i]')} = mean of {_known(spec, 'd[m,i]')} over models"
        yield f"kappa[b] ~ {priors.kappa.text()}     {mean}"
    if block.confounding == "anchored":
        who = ", ".join(block.clean) or f"{block.clean_column} = 1"
        zero = "beta[m,b] = 0" + (" and gamma = 0" if block.interaction != "none" else "")
        zero += " and D[m,b] = 0" if block.spillover else ""
        yield f"{zero} for clean models ({who}), whose d[m,i] do not count in d[i]"


def _rest(spec: ModelSpec) -> Iterator[str]:
    if spec.difficulty.form != "none":
        prior = spec.priors.sigma_delta.text()
        yield f"delta[i] ~ Normal(0, sigma_delta[b])     sigma_delta[b] ~ {prior}"
    if spec.difficulty.form != "none" and spec.difficulty.selection == "modelled":
        yield "    (in b of which K > 0 models answered a part: theta - delta[i] - chosen[i], with"
        yield "     chosen[i] = sum over these of psi[m,b] * (answered[m,i] - its mean) / sqrt(K),"
        yield f"     psi[m,b] ~ Normal(0, sigma_psi), sigma_psi ~ {spec.priors.sigma_psi.text()})"
    if spec.difficulty.discrimination != "equal":
        prior = spec.priors.sigma_alpha.text()
        yield f"log(alpha[i]) ~ Normal(0, sigma_alpha)     sigma_alpha ~ {prior}"
    if spec.likelihood.has_model_by_item:
        yield (
            "eps[m,i] ~ Normal(0, sigma_eps), only where n_trials > 1"
            f"     sigma_eps ~ {spec.priors.sigma_eps.text()}"
        )
        names = [name for name in _used(spec) if is_stretched(name, spec)]
        yield (
            "    (there the priors of log-odds, and of their spreads, are multiplied by"
            f" sqrt(1 + {RATE:g} * sigma_eps^2), by which log-odds of single items exceed those of"
            f" mean accuracies: {', '.join(names)})"
        )


def _meaning_of_parts(prior: Dirichlet, count: int) -> str:
    part = stats.beta(prior.alpha, prior.alpha * (count - 1))
    return (
        f"each of {count} segments has between {part.ppf(0.025):.2f} and {part.ppf(0.975):.2f} of"
        " the whole rise with probability 0.95"
    )


def prior_meanings(spec: ModelSpec) -> list[tuple[str, str, str]]:
    """Say what the priors mean on the accuracy scale."""
    used = [(name, getattr(spec.priors, name)) for name in _used(spec)] + [*_guesses(spec)]
    return [(name, prior.text(), _meaning(name, prior, spec)) for name, prior in used]


def _guesses(spec: ModelSpec) -> Iterator[tuple[str, Beta]]:
    """Yield the priors of guessing, each under a name that shows its benchmark."""
    guess = spec.likelihood.guess
    said = guess.items() if isinstance(guess, dict) else [("", guess)]
    for name, prior in said:
        if isinstance(prior, Beta):
            yield f"guess of {name!r}" if name else "guess", prior


def _used(spec: ModelSpec) -> Iterator[str]:
    by_concept = spec.ability.by != "benchmark"
    if spec.ability.pooling == "none":
        yield "theta"
    else:
        yield from ("mu_bar", "sigma_mu") if by_concept else ("mu",)
        yield from ("sigma_a", "sigma_theta")
    if spec.contamination.form != "none":
        yield "beta_bar"
        if spec.contamination.pooling == "partial":
            yield from ("sigma_bm", "sigma_bb", "sigma_bmb")
        yield from _used_doses(spec)
    if spec.difficulty.form != "none":
        yield "sigma_delta"
        if spec.difficulty.selection == "modelled":
            yield "sigma_psi"
    if spec.difficulty.discrimination != "equal":
        yield "sigma_alpha"
    if spec.likelihood.has_model_by_item:
        yield "sigma_eps"


def _used_doses(spec: ModelSpec) -> Iterator[str]:
    block = spec.contamination
    if block.form == "monotone":
        yield "increments"
    if block.interaction != "none":
        yield "gamma"
    if block.spillover:
        yield "spillover"
    if block.confounding != "none":
        yield "kappa"


def _meaning(name: str, prior: Prior | Beta | Dirichlet, spec: ModelSpec) -> str:
    if isinstance(prior, Dirichlet):
        return _meaning_of_parts(prior, len(spec.contamination.knots) + 1)
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
    if name in ("kappa", "spillover", "gamma"):
        what = {
            "kappa": "contaminated items are, if clean ones are solved half of the time, solved",
            "spillover": "where all items of a benchmark are contaminated, a clean one is solved",
            "gamma": "one log-odds more of difficulty changes the slope so that a half becomes",
        }[name]
        sign = -1 if name == "kappa" else 1
        ends = sorted((expit(sign * low), expit(sign * high)))
        return f"{what} between {ends[0]:.2f} and {ends[1]:.2f} with probability 0.95"
    if name == "sigma_alpha":
        return (
            f"items one sd more discriminating stretch differences between models {_factor(median)}"
            f" times (median), at most {_factor(most)} times with probability 0.95"
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
    }[name]  # fmt: skip
    return (
        f"{what} one sd above a mean of 0.50 stand at {expit(median):.2f} (median),"
        f" at most {expit(most):.2f} with probability 0.95"
    )


def _factor(log: float) -> str:
    """Return the exponential as text; heavy tails reach beyond what a float holds."""
    value = math.exp(min(log, 700.0))
    return f"{value:.2f}" if value < 1e4 else f"{value:.1e}"
