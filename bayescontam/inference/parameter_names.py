"""Parameter names: what the variables of a fit are called in sentences."""

from collections.abc import Mapping

from bayescontam.names import visible

_LEVELS = (
    "beta_level", "beta_bar_level", "beta_benchmark_level", "beta_model_mean",
    "beta_model_coordinates",
)  # fmt: skip
_SLOPES = ("beta", "beta_free", "beta_bar", "beta_benchmark", "beta_model")
_ABILITIES = ("theta_level", "mu_level", "mu_bar_level", "delta_coordinates", "kappa_level")
COORDINATES = (
    "a_coordinates",
    "psi_coordinates",
    *_ABILITIES,
    *_LEVELS,
    *(f"{name}_rise" for name in (*_LEVELS, *_SLOPES)),
)
"""Variables that only the sampler needs: others, with meanings, follow from them."""
WIDTH = 60
"""Longest name of a model, benchmark or item in a sentence."""
_WORDS = {
    "theta": "ability of {model} on {unit}",
    "mu": "mean ability on {unit}",
    "mu_bar": "mean ability on {unit}",
    "a": "general ability of {model}",
    "beta": "slope of {model} on {unit}",
    "beta_free": "slope of {model} on {unit}",
    "log_beta": "log slope of {model} on {unit}",
    "beta_bar": "mean slope",
    "beta_benchmark": "mean slope on {unit}",
    "beta_model": "slope of {model} beyond the mean",
    "delta": "difficulty of item {item}",
    "alpha": "discrimination of item {item}",
    "log_alpha": "log discrimination of item {item}",
    "kappa": "difficulty of contaminated items on {unit}",
    "gamma": "effect of difficulty on slopes",
    "spillover": "coefficient of spillover",
    "guess": "accuracy of blind guessing on {unit}",
    "increments": "segment {segment} of the dose-response",
    "sigma_a": "spread of general abilities",
    "sigma_theta": "spread of abilities",
    "sigma_mu": "spread of mean abilities",
    "sigma_bm": "spread of slopes over models",
    "sigma_bb": "spread of slopes over benchmarks",
    "sigma_bmb": "spread of slopes over pairs of model and benchmark",
    "sigma_delta": "spread of difficulties on {unit}",
    "sigma_alpha": "spread of discriminations",
    "sigma_eps": "spread of model-by-item effects",
}


def in_words(name: str, place: Mapping[str, object] | None = None) -> str:
    """Return what an element of a variable is called in a sentence.

    >>> in_words("delta", {"item": 3184})
    'difficulty of item 3184'
    >>> in_words("genuine_ability", {"model": "m", "benchmark": "b"})
    'genuine ability of m on b'
    >>> in_words("threshold", {"source": "web"})
    'threshold[web]'
    """
    labels = {dim: visible(str(label), WIDTH) for dim, label in (place or {}).items()}
    if "benchmark" in labels or "concept" in labels:
        labels["unit"] = labels.get("concept") or labels.get("benchmark", "")
    words = _WORDS.get(name)
    if words is None and {"model", "unit"} <= set(labels):
        words = f"{name.replace('_', ' ')} of {{model}} on {{unit}}"
    if words is None:
        return name + (f"[{', '.join(labels.values())}]" if labels else "")
    # A spread without a dim is one for all.
    return words.format_map(_Labels(labels)).removesuffix(" on ")


class _Labels(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""
