"""The printed mathematics, read as formulas, against what the PyMC model computes."""

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.special import expit, logit

from bayescontam.data.responses import Responses
from bayescontam.model.build import BuiltModel, build
from bayescontam.model.describe import mathematics
from bayescontam.specs.model import ModelSpec, restored_spec
from bayescontam.specs.registry import load_model, shipped_models
from tests.support.every_term import EVERYTHING, ON_ACCURACY, table

KNOWN = {
    name: load_model(name)
    for name in shipped_models()
    if load_model(name).contamination.exposure == "known"
}


def with_keys(name: str, **blocks: dict[str, str]) -> ModelSpec:
    """Return a shipped model spec with some keys changed."""
    content = load_model(name).model_dump()
    for block, keys in blocks.items():
        content[block] |= keys
    return restored_spec(content, "mine", "")


SPECS = KNOWN | {
    "everything": ModelSpec.parse(EVERYTHING, "mine.toml"),
    "on accuracy": ModelSpec.parse(ON_ACCURACY, "mine.toml"),
    "kinds": with_keys("twins", contamination={"kinds": "kind"}),
    "identical": with_keys("twins", ability={"twins": "identical"}),
    "related on accuracy": with_keys("twins", contamination={"scale": "accuracy"}),
    "related and anchored": with_keys(
        "anchored", ability={"lineage": "base"}, contamination={"spillover": True}
    ),
    "related by knots": with_keys("twins", contamination={"form": "monotone"}),
    "accuracy by knots": ModelSpec.parse(
        "summary = 'x'\n[contamination]\nscale = 'accuracy'\nform = 'monotone'", "mine.toml"
    ),
}


def printed(lines: list[str], left: str) -> str | None:
    """Return the right side of the printed equation of a symbol, as Python."""
    said = [line.partition(" = ")[2] for line in map(str.strip, lines) if line.startswith(left)]
    if not said:
        return None
    assert len(said) == 1
    words = {
        "mean of M(d) in b": "mean_height", "mean of d[i] in b": "mean_item_d",
        "mean of d in b": "mean_d", "M(d[m,i])": "height", "d[m,i]": "d", "d[i]": "item_d",
        "D[m,b]": "met", "lambda[m,b]": "coefficient",
    }  # fmt: skip
    for word, name in words.items():
        said[0] = said[0].replace(word, name)
    return re.sub(r"\[[mbcip,]+\]", "", said[0])


def zero_for_clean_models(lines: list[str]) -> list[str]:
    """Return the symbols that are said to be 0 for clean models."""
    said = " ".join(
        line.partition(" for clean models")[0] for line in lines if " for clean" in line
    )
    return [name.replace("D", "met") for name in re.findall(r"(\w+)(?:\[m,b\])? = 0", said)]


def symbols(
    frame: pd.DataFrame, b: BuiltModel, values: Mapping[str, np.ndarray]
) -> dict[str, object]:
    """Return what each printed symbol is for each response, from the table alone."""
    design = b.design
    own = {
        "theta": design.model_unit, "delta": design.item, "alpha": design.item,
        "kappa": design.benchmark, "beta": design.model * len(design.benchmarks) + design.benchmark,
    }  # fmt: skip
    reported: dict[str, object] = {
        name: values[name].ravel()[own[name]] for name in own.keys() & values
    }
    if "alpha_pair" in values:
        reported["alpha"] = values["alpha_pair"].ravel()[own["beta"]]
    if design.lineage is not None:
        reported["coefficient"] = values["spillover"].ravel()[own["beta"]]
    else:
        reported |= {"spillover": float(values["spillover"])} if "spillover" in values else {}
    reported |= {"gamma": float(values["gamma"])} if "gamma" in values else {}
    d, benchmark = frame["contamination"], frame["benchmark"]
    height = d
    if "increments" in values:
        knots = [0.0, *(float(x) for x in design.knots), 1.0]
        height = pd.Series(np.interp(d, knots, [0.0, *np.cumsum(values["increments"])]))
    clean = frame["model"].isin(["m0"]) & ("kappa" in values)
    met = d.groupby([frame["model"], benchmark]).transform("mean")
    item_d = d.where(~clean).groupby(frame["item"]).transform("mean")
    per_item = item_d.groupby([benchmark, frame["item"]]).first().groupby("benchmark").mean()
    return reported | {
        "d": d, "height": height, "met": met, "item_d": item_d,
        "mean_d": d.groupby(benchmark).transform("mean"),
        "mean_height": height.groupby(benchmark).transform("mean"),
        "mean_item_d": benchmark.map(per_item),
        # The table has single trials, and no people: their effects are only there.
        "eps": 0.0, "zeta": 0.0, "xi": 0.0, "logistic": expit, "logit": logit,
    }  # fmt: skip


@pytest.mark.parametrize("name", SPECS)
def test_the_printed_log_odds_are_those_of_the_model(name: str) -> None:
    frame = table().assign(n_trials=1, clean=lambda x: (x["model"] == "m0").astype(int))
    frame["base"] = np.where(frame["model"].isin(["m0", "m1"]), "m0", "recipe")
    frame["kind"] = np.where(frame["model"] == "m1", "exact", "semantic")
    frame["concept"] = "c" + (frame["item"].str[-1].astype(int) % 2).astype(str)
    b = build(SPECS[name], Responses.from_frame(frame))
    frame = frame.reset_index(drop=True)
    parts = ("theta", "beta", "delta", "alpha", "alpha_pair", "increments", "kappa", "gamma",
             "spillover")  # fmt: skip
    names = [part for part in parts if part in b.model.named_vars]
    inputs = b.model["n_correct"].owner.inputs
    log_odds = next(x for x in inputs if x.dtype == "float64" and x.ndim == 1)
    *drawn, eta = pm.draw(
        [*(b.model[part] for part in names), log_odds], 1, random_seed=5, mode="FAST_COMPILE"
    )
    known = symbols(frame, b, dict(zip(names, drawn, strict=True)))
    lines = mathematics(SPECS[name])
    for symbol in zero_for_clean_models(lines):
        known[symbol] = np.where(frame["model"] == "m0", 0.0, known[symbol])
    clean = printed(lines, "clean[m,i]")
    if clean is not None:
        known["clean"] = eval(clean, {}, known)
    formula = printed(lines, "eta[m,i]")
    assert formula is not None
    np.testing.assert_allclose(eval(formula, {}, known), eta, atol=1e-10)
    for part in {"theta", *names} - {"increments"}:
        shown = part.removesuffix("_pair")
        shown = "coefficient" if part == "spillover" and b.design.lineage is not None else shown
        assert re.search(rf"\b{shown}\b", f"{formula} {clean}")
