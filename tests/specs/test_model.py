"""Model specs: strict, frozen, and refused in words that help."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import bayescontam
from bayescontam.errors import SpecError
from bayescontam.specs.base import suggest
from bayescontam.specs.model import ModelSpec, restored_spec
from bayescontam.specs.registry import given_spec, load_model, shipped_folder, shipped_models

SHORT = 'summary = "x"\n'
SHIPPED = (
    "ability", "additive", "aggregated", "anchored", "anchored_by_pair", "concepts",
    "hierarchical", "imputed_covariate", "interaction", "latent_duplicate", "monotone",
    "noisy_covariate", "positive", "single", "spillover", "twins", "two_parameter",
)  # fmt: skip


TABLE = pd.DataFrame(
    {"model": "m", "benchmark": "b", "item": ["i", "j"], "correct": [1, 0], "contamination": [0, 1]}
)


def refused(text: str, name: str = "models/mine.toml") -> list[str]:
    """Return the faults of a spec as they are shown."""
    with pytest.raises(SpecError) as caught:
        ModelSpec.parse(SHORT + text, name)
    return [str(fault) for fault in caught.value.faults]


def priors(**families: str) -> str:
    return "[priors]\n" + "".join(f"{name} = {{ {it} }}\n" for name, it in families.items())


def test_the_shipped_specs_are_those_known() -> None:
    assert shipped_models() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_specs_load_and_say_what_they_are_for(name: str) -> None:
    spec = load_model(name)
    assert spec.name == name
    assert spec.summary.endswith(".")
    assert len(spec.description) > 100
    assert spec.text == (shipped_folder("models") / f"{name}.toml").read_text(encoding="utf-8")
    assert len(spec.hash) == 64
    assert load_model(shipped_folder("models") / f"{name}.toml").hash == spec.hash


def test_shipped_specs_all_mean_something_else() -> None:
    assert len({load_model(name).hash for name in SHIPPED}) == len(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_specs_spell_their_blocks_out(name: str) -> None:
    written = tomllib.loads(load_model(name).text)
    assert written.keys() >= {"summary", "description", "likelihood", "ability", "priors"}
    for block in ("likelihood", "ability", "difficulty"):
        known = getattr(load_model(name), block)
        later = {
            key for key in known.LATER if getattr(known, key) == type(known)().model_dump()[key]
        }
        assert set(known.model_dump()) - later <= written[block].keys() <= set(known.model_dump())


def test_the_default_file_states_the_defaults_of_the_code() -> None:
    file, code = load_model("hierarchical"), ModelSpec(summary="x")
    parts = {"likelihood", "ability", "difficulty", "contamination", "priors"}
    assert file.model_dump(include=parts) == code.model_dump(include=parts)
    # And the file hides none: what it leaves out belongs to blocks that it does not use.
    unsaid = set(code.priors.model_dump()) - set(tomllib.loads(file.text)["priors"])
    of_concepts, of_difficulty = {"mu_bar", "sigma_mu"}, {"sigma_alpha"}
    of_contamination = {"increments", "gamma", "kappa", "spillover"}
    assert unsaid == of_concepts | of_difficulty | of_contamination | code.priors.LATER


@pytest.mark.parametrize("name", SHIPPED)
def test_the_priors_of_the_design_are_kept(name: str) -> None:
    spec = load_model(name)
    assert spec.priors.mu.text() == "Normal(0, 1.5)"
    assert spec.priors.sigma_delta.text() == "HalfNormal(1)"
    assert spec.priors.sigma_bm.text() == "HalfNormal(0.5)"
    positive = spec.contamination.sign == "positive"
    assert spec.priors.beta_bar.text() == ("HalfNormal(2)" if positive else "Normal(0, 2)")


def test_hash_is_of_the_meaning() -> None:
    text = '[ability]\nby = "concept"\npooling = "none"\n[difficulty]\nform = "none"\n'
    other = '[difficulty] # none\nform = "none"\n\n[ability]\npooling = "none"\nby = "concept"\n'
    assert (
        ModelSpec.parse(SHORT + text, "a.toml").hash
        == ModelSpec.parse(SHORT + other, "b.toml").hash
    )
    assert ModelSpec.parse(SHORT, "a").hash == ModelSpec.parse(SHORT + "[ability]\n", "a").hash


def test_one_and_one_point_nought_are_one_hash() -> None:
    whole, point = (priors(mu=f'family = "normal", sigma = {s}') for s in ("1", "1.0"))
    assert ModelSpec.parse(SHORT + whole, "a").hash == ModelSpec.parse(SHORT + point, "a").hash


@pytest.mark.parametrize(
    "change",
    [
        priors(mu='family = "normal", sigma = 1.6'),
        priors(mu='family = "logistic", s = 1.5'),
        "[likelihood]\nguess = 0.25\n",
        "[likelihood]\nguess = { b = 0.25 }\n",
        '[ability]\nby = "concept"\n',
        '[contamination]\nform = "none"\n',
    ],
)
def test_hash_changes_with_the_meaning(change: str) -> None:
    assert ModelSpec.parse(SHORT + change, "a").hash != ModelSpec.parse(SHORT, "a").hash


def test_the_example_of_the_design() -> None:
    faults = refused(priors(mu='family = "normal", sigma = 1.0, sigm = 1.0'))
    assert faults == ["models/mine.toml: priors.mu.sigm: unknown key (did you mean 'sigma'?)"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[likelihod]\n", "likelihod: unknown key (did you mean 'likelihood'?)"),
        ("[ability]\npoling = 1\n", "ability.poling: unknown key (did you mean 'pooling'?)"),
        ("[priors]\nsigma_thet = 1\n",
         "priors.sigma_thet: unknown key (did you mean 'sigma_theta'?)"),
        ('[ability]\npooling = "partly"\n',
         "ability.pooling: got 'partly'; did you mean 'partial'?"),
        ('[contamination]\nsign = "zzz"\n',
         "contamination.sign: got 'zzz'; allowed: any, positive"),
        ('[likelihood]\nlink = "probit"\n', "likelihood.link: got 'probit'; allowed: logit"),
        ("[likelihood]\nmodel_by_item = 1\n",
         "likelihood.model_by_item: got 1; allowed is true or false"),
        ("[ability]\nby = 3\n", "ability.by: got 3; a text in quotes is needed"),
        ("ability = 3\n", "ability: got 3; a table is needed"),
        (priors(mu='family = "norml", sigma = 1.0'),
         "priors.mu: unknown family 'norml' (did you mean 'normal'?)"),
        (priors(sigma_a='family = "normal", sigma = 1.0'),
         "priors.sigma_a: unknown family 'normal' (did you mean 'half_normal'?)"),
        (priors(mu="sigma = 1.0"),
         "priors.mu: needs a key 'family', such as { family = \"normal\", sigma = 1.5 }"),
        (priors(mu='family = "normal"'), "priors.mu.sigma: is missing and has no default"),
        (priors(mu='family = "normal", sigma = "1"'),
         "priors.mu.sigma: got '1'; a number is needed"),
        (priors(mu='family = "normal", sigma = 0.0'),
         "priors.mu.sigma: got 0.0; allowed is more than 0"),
        (priors(mu='family = "normal", sigma = inf'),
         "priors.mu.sigma: got inf; a finite number is needed"),
        (priors(increments='family = "dirichlet", alpha = 0.01'),
         "priors.increments.alpha: got 0.01; allowed is 0.05 or more"),
    ],
)  # fmt: skip
def test_a_fault_names_key_value_and_what_is_allowed(text: str, fault: str) -> None:
    assert refused(text) == [f"models/mine.toml: {fault}"]


@pytest.mark.parametrize("guess", ["1.0", "-0.1", "nan", '"a"', "{ b = 1.0 }"])
def test_guess_is_a_probability_below_1(guess: str) -> None:
    faults = refused(f"[likelihood]\nguess = {guess}\n")
    assert faults
    assert all(fault.startswith("models/mine.toml: likelihood.guess") for fault in faults)


@pytest.mark.parametrize(
    ("guess", "reported"),
    [
        ("1.5", [": got 1.5; allowed is less than 1"]),
        ("[1]", [": got [1]; a number is needed"]),
        ("{ a = 2.0, b = 0.2 }", [".a: got 2.0; allowed is less than 1"]),
        ("{ a = 'b' }", [".a: got 'b'; a number is needed"]),
        ("{ family = 'beta', alpha = 1.0 }", [".beta: is missing and has no default"]),
        ("{ alpha = 1.0, beta = 2.0 }", [".family: is missing and has no default"]),
        (
            "{ family = 'betta', alpha = 1.0, beta = 2.0 }",
            [".family: got 'betta'; did you mean 'beta'?"],
        ),
        (
            "{ a = { family = 'beta', alpha = 1.0, beta = -1.0 }, b = 0.3 }",
            [".a.beta: got -1.0; allowed is more than 0"],
        ),
        (
            "{ family = 'beta', alpha = 1.0, beta = 2.0, mean = 3.0 }",
            [".mean: unknown key (allowed: alpha, beta, family)"],
        ),
    ],
)
def test_a_wrong_guess_is_reported_as_it_was_meant(guess: str, reported: list[str]) -> None:
    """Not once for each of the three things that it may be."""
    faults = refused(f"[likelihood]\nguess = {guess}\n")
    assert faults == [f"models/mine.toml: likelihood.guess{each}" for each in reported]


def test_all_faults_are_reported_at_once() -> None:
    text = '[ability]\npoling = 1\nby = 2\n[difficulty]\nform = "randm"\n'
    assert [fault.split(": ")[1] for fault in refused(text)] == [
        "ability.by",
        "ability.poling",
        "difficulty.form",
    ]


def test_a_summary_is_needed() -> None:
    with pytest.raises(SpecError, match=r"^a\.toml: summary: is missing and has no default$"):
        ModelSpec.parse("", "a.toml")


@pytest.mark.parametrize("text", ["summary = ", "a = 1\na = 2", "\0"])
def test_what_is_no_toml_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"^a\.toml: is not TOML: .*(line 1|line 2|end of doc)"):
        ModelSpec.parse(text, "a.toml")


def test_sign_and_prior_of_the_slope_belong_together() -> None:
    half, whole = (
        priors(beta_bar=f'family = "{f}", sigma = 1.0') for f in ("half_normal", "normal")
    )
    positive = '[contamination]\nsign = "positive"\n'
    assert "with it say contamination.sign = 'positive'" in refused(half)[0]
    assert "needs a prior on values >= 0 for priors.beta_bar" in refused(positive + whole)[0]
    assert "needs a prior on values >= 0" in refused(positive)[0]
    assert ModelSpec.parse(SHORT + positive + half, "a").contamination.sign == "positive"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[contamination]\nform = "none"\nexposure = "noisy"\n',
         r"contamination\.exposure = 'noisy' needs contamination\.form = 'linear'"),
        ('[likelihood]\ntrials = "items"\n[contamination]\nexposure = "latent"\n',
         r"contamination\.exposure = 'latent' is of one item, and with likelihood\.trials ="
         r" 'items' a row is several; use exposure = 'noisy', or trials = 'repeats'"),
        ('[contamination]\nexposure = "hidden"\n',
         r"contamination\.exposure: got 'hidden'; allowed: known, noisy, latent"),
    ],
)  # fmt: skip
def test_what_exposure_needs(text: str, fault: str) -> None:
    with pytest.raises(SpecError, match=fault):
        ModelSpec.parse(SHORT + text, "a.toml")


@pytest.mark.parametrize(
    ("name", "exposure"), [("noisy_covariate", "noisy"), ("latent_duplicate", "latent")]
)
def test_the_two_specs_change_one_thing(name: str, exposure: str) -> None:
    spec, default = load_model(name).model_dump(), load_model("hierarchical").model_dump()
    assert spec["contamination"].pop("exposure") == exposure
    assert default["contamination"].pop("exposure") == "known"
    parts = ("likelihood", "ability", "difficulty", "contamination", "priors")
    assert [spec[part] for part in parts] == [default[part] for part in parts]


def test_specs_are_frozen() -> None:
    spec = load_model("single")
    for block, name in ((spec, "summary"), (spec.ability, "by"), (spec.priors.theta, "s")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(block, name, getattr(block, name))


def places(table: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = [places(value, (*path, key)) for key, value in table.items() if isinstance(value, dict)]
    return [path, *(place for found in inner for place in found)]


WHOLE = load_model("hierarchical").model_dump()
ALL_PLACES = places(WHOLE)


@given(st.sampled_from(ALL_PLACES), st.from_regex(r"[a-z_]{1,20}", fullmatch=True), st.integers())
def test_an_unknown_key_anywhere_is_refused_and_named(
    place: tuple[str, ...], key: str, value: int
) -> None:
    table = WHOLE
    for part in place:
        table = table[part]
    if key in table:
        return
    header = f"[{'.'.join(place)}]\n" if place else ""
    family = f'family = "{table["family"]}"\nsigma = 1.0\n' if "family" in table else ""
    faults = refused(f"{header}{family}{key} = {value}\n", "a.toml")
    named = ".".join([*place, key])
    assert [fault for fault in faults if fault.startswith(f"a.toml: {named}: unknown key (")]


@pytest.mark.parametrize(
    ("word", "allowed", "hint"),
    [
        ("sigm", ["sigma", "mu"], "did you mean 'sigma'?"),
        ("", ["a", "b"], "allowed: a, b"),
        ("zzz", [], "allowed: "),
    ],
)
def test_closest(word: str, allowed: list[str], hint: str) -> None:
    assert suggest(word, allowed) == hint


def test_names_and_paths_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "single.toml").write_text(SHORT, encoding="utf-8")
    assert load_model(tmp_path / "single.toml").hash != load_model("single").hash
    with pytest.raises(
        SpecError, match=r"^model spec 'sngle': .*\(did you mean 'single'\?\)\nName"
    ):
        load_model("sngle")
    with pytest.raises(
        SpecError, match=r"no\.toml: cannot be read .*\nGive the path of a TOML file"
    ):
        load_model(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\0")
    with pytest.raises(SpecError, match="is not UTF-8 text; a spec is a TOML file"):
        load_model(tmp_path / "bytes.toml")


def test_the_hash_does_not_depend_on_the_name(tmp_path: Path) -> None:
    path = tmp_path / "deep.name.toml"
    path.write_text(load_model("single").text, encoding="utf-8")
    assert (load_model(path).name, load_model(path).hash) == (
        "deep.name",
        load_model("single").hash,
    )


NORMAL, SPREAD = (
    {"family": "normal", "mu": 0.5, "sigma": 9.0},
    {"family": "half_normal", "sigma": 9.0},
)


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ({"contamination": {"form": "none", "scale": "accuracy"}}, "contamination.scale"),
        ({"contamination": {"form": "none", "pooling": "none"}}, "contamination.pooling"),
        ({"contamination": {"form": "none"}, "priors": {"beta_bar": NORMAL}}, "priors.beta_bar"),
        ({"contamination": {"pooling": "none"}, "priors": {"sigma_bm": SPREAD}}, "priors.sigma_bm"),
        ({"priors": {"increments": {"family": "dirichlet", "alpha": 2.0}}}, "priors.increments"),
        ({"difficulty": {"form": "none", "selection": "ignored"}}, "difficulty.selection"),
        ({"difficulty": {"form": "none"}, "priors": {"sigma_delta": SPREAD}}, "priors.sigma_delta"),
        ({"difficulty": {"selection": "ignored"}, "priors": {"sigma_psi": SPREAD}}, "sigma_psi"),
        ({"priors": {"sigma_alpha": SPREAD}}, "priors.sigma_alpha"),
        ({"likelihood": {"model_by_item": False}, "priors": {"sigma_eps": SPREAD}}, "sigma_eps"),
        ({"likelihood": {"trials": "items"}, "priors": {"sigma_eps": SPREAD}}, "sigma_eps"),
        ({"priors": {"mu_bar": NORMAL}}, "priors.mu_bar"),
        ({"ability": {"pooling": "none"}, "priors": {"mu": NORMAL}}, "priors.mu"),
        ({"ability": {"pooling": "within"}, "priors": {"sigma_a": SPREAD}}, "priors.sigma_a"),
    ],
)
def test_keys_that_have_no_effect_are_refused(spec: dict[str, Any], key: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_model(spec)
    [fault] = caught.value.faults
    assert key in str(fault)
    assert "has no effect without" in str(fault)
    # A fit that was stored with it can be read.
    restored = restored_spec({"summary": "x"} | spec, "old", "")
    assert restored.hash != load_model({}).hash


def test_priors_given_beside_a_spec_have_an_effect() -> None:
    with pytest.raises(SpecError, match=r"priors\.beta_bar: has no effect without contamination"):
        load_model("ability", {"beta_bar": NORMAL})
    assert (
        load_model("hierarchical", {"beta_bar": NORMAL}).priors.beta_bar.text() == "Normal(0.5, 9)"
    )


def test_columns_with_a_meaning_are_no_kinds_and_slopes_keep_their_sign() -> None:
    kinds = {"ability": {"lineage": "base"}, "contamination": {"spillover": True}}
    clean = {"contamination": {"confounding": "anchored"}}
    for column in ("item", "n_correct", "contamination"):
        for spec, key in ((kinds, "kinds"), (clean, "clean_column")):
            given = {**spec, "contamination": {**spec["contamination"], key: column}}
            with pytest.raises(SpecError, match=f"contamination.{key}: '{column}' is a column of"):
                load_model(given)
    given = {
        "contamination": {"sign": "positive", "interaction": "difficulty"},
        "priors": {"beta_bar": SPREAD},
    }
    with pytest.raises(
        SpecError, match=r"contamination\.sign: is 'positive', but with interaction"
    ):
        load_model(given)
    # A fit that was stored with it can be read.
    assert restored_spec({"summary": "x"} | given, "old", "").contamination.sign == "positive"


def test_each_odd_key_has_its_own_advice() -> None:
    odd = (
        '[ability]\nlineage = "base"\n'
        '[contamination]\nsign = "positive"\ninteraction = "difficulty"\nspillover = true\n'
        'kinds = "item"\n'
        '[priors]\nbeta_bar = { family = "half_normal", sigma = 1.0 }\n'
        'increments = { family = "dirichlet", alpha = 2.0 }\n'
    )
    kinds, sign, idle = refused(odd)
    assert kinds.endswith("name one of its own")
    assert sign.endswith("leave one of the two out")
    assert idle.endswith("contamination.form = 'monotone'; set that, or leave this out")
    with pytest.raises(SpecError) as caught:
        ModelSpec.parse(SHORT + odd, "mine.toml")
    assert not caught.value.advice


@pytest.mark.parametrize(
    "use",
    [
        given_spec,
        lambda spec: bayescontam.fit(TABLE, spec),
        lambda spec: bayescontam.fit_many({"a": TABLE}, model=spec),
        lambda spec: bayescontam.build_model(spec, TABLE),
        lambda spec: bayescontam.prior_predictive(spec, TABLE),
        lambda spec: bayescontam.advise(TABLE, spec),
        lambda spec: bayescontam.power_analysis(spec, bayescontam.SampleSizes(items=20)),
        lambda spec: bayescontam.twin_power_analysis(spec, bayescontam.TwinSizes(items=20)),
    ],
)
def test_a_spec_that_was_made_in_python_is_refused_wherever_it_is_given(
    use: Callable[[ModelSpec], object],
) -> None:
    odd = {"sign": "positive", "interaction": "difficulty"}
    content = {"summary": "x", "contamination": odd, "priors": {"beta_bar": SPREAD}}
    with pytest.raises(SpecError, match=r"contamination\.sign: is 'positive', but with"):
        use(ModelSpec.model_validate(content))
