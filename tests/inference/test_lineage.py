"""Models of one base: who descends from whom, and abilities and spillover that they share."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pytensor.graph.traversal import ancestors
from scipy import stats

from bayescontam.data.responses import Responses
from bayescontam.errors import DataError, SpecError
from bayescontam.model.auto import choose_spec, compose_spec
from bayescontam.model.build import build
from bayescontam.model.design import make_design
from bayescontam.model.lineage import bases_of
from bayescontam.specs.model import ModelSpec
from tests.support.marginal_likelihoods import spec_of
from tests.support.model_points import PLAIN


def table(bases: dict[str, object], **columns: object) -> Responses:
    """Return a response of each model on two benchmarks, with these bases."""
    rows = [
        {"model": model, "benchmark": b, "item": f"{b}{i}", "correct": i, "base": base,
         "contamination": 0.0 if k % 2 else 0.5 * i}
        for k, (model, base) in enumerate(bases.items()) for b in ("one", "two") for i in (0, 1)
    ]  # fmt: skip
    return Responses.from_frame(pd.DataFrame(rows).assign(**columns))


def test_a_base_that_is_a_model_has_the_base_that_it_descends_from():
    found = bases_of(table({"root": "", "child": "root", "grandchild": "child", "alone": None}))
    assert found == {"root": "root", "child": "root", "grandchild": "root", "alone": "alone"}


@pytest.mark.parametrize("word", ["NA", "None", "nan", " "])
def test_words_for_nothing_are_no_base_unless_a_model_is_so_named(word):
    found = bases_of(table({"a": "recipe", "b": "recipe", "c": word, "d": word}))
    assert found == {"a": "recipe", "b": "recipe", "c": "c", "d": "d"}
    if word.strip():
        assert bases_of(table({word: "", "child": word})) == {word: word, "child": word}


@pytest.mark.parametrize("nothing", ["", "NA", None])
def test_optional_columns_that_hold_nothing_add_nothing(nothing):
    more = {"duplicate_kind": nothing, "checkpoint": nothing}
    bare, notes = compose_spec(table({"a": nothing, "b": nothing, "c": None}, **more))
    assert bare.ability.lineage == "none"
    spec, notes = compose_spec(table({"a": "x", "b": "x", "c": nothing}, **more))
    assert (spec.ability.lineage, spec.ability.checkpoints) == ("base", "independent")
    assert spec.contamination.kinds == ""
    assert "lineage and spillover (column 'base': 1 base of several models)" in notes[0]


def test_notes_read_the_column_that_the_model_spec_reads():
    """Twins of one contamination, of which one has duplicates of half of its items."""
    p = [0.8, 0.0, 0.8, 0.0] + [0.0] * 4
    responses = table({"a": "x", "b": "x"}, contamination=0.3, p_duplicate=p)
    spec, given = choose_spec("auto", responses)
    assert spec.contamination.exposure == "latent"
    notes = "\n".join(given.notes)
    assert "models of one base show by their different exposure" in notes
    assert "no models of one base differ" not in notes
    assert "does not vary" not in notes


def test_words_for_nothing_are_no_kind_and_no_run():
    spec = spec_of("twins", contamination={"kinds": "kind"})
    with pytest.raises(DataError, match="2 contaminated rows have no kind"):
        make_design(spec, table({"a": "x", "b": "x"}, kind=["", "NA", "", "NA"] + [""] * 4))
    walk = spec_of("twins", **WALK)
    place = np.repeat([1.0, 2.0], 4)
    runs = [
        make_design(
            walk, table({"a": "x", "b": "x"}, contamination=[0.0, 0.5] * 4, **more)
        ).lineage.run
        for more in ({"checkpoint": place, "run": run} for run in ("NA", ""))
    ]
    assert runs[0] == runs[1] == ("x", "x")


def test_a_base_may_be_a_recipe_that_several_models_share():
    assert set(bases_of(table({"a": "recipe", "b": "recipe"})).values()) == {"recipe"}


@pytest.mark.parametrize(
    ("bases", "message"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "in a circle: a → b → c → a"),
        ({"a": "recipe", "b": "recipe", "c": "recipes"},
         "the base 'recipes' of 'c' is neither .* \\(did you mean 'recipe'\\?\\)"),
        ({"a": "b", "b": "b", "c": "zzz"}, "the base 'zzz' of 'c' is neither"),
    ],
)  # fmt: skip
def test_bases_that_cannot_be_are_refused_in_one_message(bases, message):
    with pytest.raises(DataError, match=message) as caught:
        bases_of(table(bases))
    assert len(caught.value.faults) == 1


def test_a_model_has_one_base():
    frame = table({"a": "x", "b": "x"}).frame
    frame.loc[0, "base"] = "y"
    with pytest.raises(DataError, match="more than one base: 'a"):
        bases_of(Responses.from_frame(frame))


def test_lineage_needs_the_column():
    responses = Responses.from_frame(table({"a": "x", "b": "x"}).frame.drop(columns="base"))
    with pytest.raises(DataError, match="lineage needs a column 'base'"):
        build(spec_of("twins"), responses)


def test_a_contaminated_row_needs_a_kind_where_kinds_are_distinguished():
    responses = table({"a": "x", "b": "x"}, kind="")
    with pytest.raises(
        DataError, match="2 contaminated rows have no kind of duplicates, such as a on one1"
    ):
        build(spec_of("twins", contamination={"kinds": "kind"}), responses)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ability]\ntwins = 'identical'", "twins = 'identical' needs ability.lineage"),
        ("[ability]\nlineage = 'base'\npooling = 'none'", "needs ability.pooling = 'partial'"),
        ("[contamination]\nkinds = 'kind'", "contamination.kinds has no effect unless"),
        ("[priors]\nsigma_t = {family = 'half_normal', sigma = 1.0}", "sigma_t and sigma_twin"),
        ("[priors]\nlambda_bar = {family = 'normal', mu = 1.0, sigma = 1.0}", "priors.lambda_bar"),
        ("[ability]\nlineage = 'base'\n[contamination]\nspillover = true\n[priors]\n"
         "spillover = {family = 'normal', mu = 1.0, sigma = 1.0}", "priors.spillover has no"),
    ],
)  # fmt: skip
def test_keys_without_effect_are_refused(text, message):
    with pytest.raises(SpecError, match=message):
        ModelSpec.parse(f"summary = 'x.'\n{text}", "mine.toml")


def kinds_table() -> Responses:
    """Return three models of one base: clean, and two kinds of duplicates on two benchmarks."""
    responses = table({"clean": "recipe", "exact": "recipe", "both": "recipe"})
    frame = responses.frame
    frame["contamination"] = 0.0
    one = frame["item"].str.endswith("1")
    frame.loc[(frame["model"] == "exact") & one, "contamination"] = 1.0
    frame.loc[(frame["model"] == "both") & (frame["benchmark"] == "one"), "contamination"] = 1.0
    frame["kind"] = np.where(frame["model"] == "exact", "exact", "semantic")
    frame.loc[(frame["model"] == "both") & ~one, "kind"] = "exact"
    return Responses.from_frame(frame)


def test_exposures_are_grouped_by_base_benchmark_and_kind():
    design = make_design(spec_of("twins", contamination={"kinds": "kind"}), kinds_table())
    lineage = design.lineage
    labels = lineage.labels(design.benchmarks)
    assert labels == [
        "recipe on one (exact)", "recipe on one (semantic)", "recipe on two (exact)",
    ]  # fmt: skip
    share = dict(zip(design.models, lineage.share.reshape(3, 2, 3), strict=True))
    np.testing.assert_allclose(share["both"][0], [0.5, 0.5, 0.0])
    np.testing.assert_allclose(share["exact"], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    # A model that was not exposed would gain what its base's exposed models do.
    np.testing.assert_allclose(share["clean"], [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(share["both"][1], [0.0, 0.0, 1.0])


def test_the_density_of_abilities_is_that_of_the_design():
    """Around the base, whose abilities vary around the benchmarks'; lambda around its mean."""
    responses = table({f"m{k}": f"base{k // 2}" for k in range(6)})
    built = build(spec_of("twins", difficulty={"form": "none"}), responses)
    model, design = built.model, built.design
    assert {"a", "sigma_theta", "t", "twin", "spillover", "lb", "lambda"} <= built.terms.entered
    point = model.initial_point()
    rng = np.random.default_rng(3)
    point = {name: value + rng.normal(0, 0.3, np.shape(value)) for name, value in point.items()}
    names = ["theta", "theta_base", "a_base", "mu", "t", "spillover", "beta", "lambda_bar",
             "lambda_benchmark", "lambda", "sigma_theta", "sigma_t", "sigma_twin", "sigma_a",
             "sigma_lb", "sigma_lambda", "theta_level"]  # fmt: skip
    named = {v.name: v for v in model.unobserved_value_vars}
    sampled = ["theta_level", "theta_base_level", "t_coordinates", "lambda_benchmark", "lambda"]
    densities = [model.logp(vars=[model[n]], jacobian=False, sum=False)[0] for n in sampled]
    outputs = [*(named[n] for n in names), *densities, *model.value_vars]
    found = model.compile_fn(outputs, mode=PLAIN)(point)
    values = dict(zip(names, found, strict=False))
    density = dict(zip(sampled, found[len(names) :], strict=False))
    small = 1e-6
    base = design.lineage.base
    added = (values["beta"] * design.cell_level) + values["spillover"] * dose_of_cells(design)
    center = values["theta_base"][base] + values["t"][:, None]
    # What is sampled is an ability with what contamination adds to it: a shift of its Normal.
    wanted = {
        "theta_level": stats.norm.logpdf(values["theta"], center, values["sigma_twin"] + small),
        "theta_base_level": stats.norm.logpdf(
            values["theta_base"], values["mu"] + values["a_base"][:, None],
            values["sigma_theta"] + small,
        ),
        # In an orthonormal basis: of each element another, and the same in all.
        "t_coordinates": stats.norm.logpdf(values["t"], 0, values["sigma_t"] + small),
        "lambda_benchmark": stats.norm.logpdf(
            values["lambda_benchmark"], values["lambda_bar"], values["sigma_lb"] + small
        ),
        "lambda": stats.norm.logpdf(
            values["lambda"], values["lambda_benchmark"][design.lineage.group_benchmark],
            values["sigma_lambda"] + small,
        ),
    }  # fmt: skip
    density["t_coordinates"] = density["t_coordinates"].sum()
    wanted["t_coordinates"] = wanted["t_coordinates"].sum()
    for name, expected in wanted.items():
        np.testing.assert_allclose(density[name], expected, rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(values["theta_level"], values["theta"] + added, rtol=1e-9)


def dose_of_cells(design) -> np.ndarray:
    """Return the mean contamination of each pair, (model, benchmark)."""
    whole = np.zeros(design.answered.size)
    whole[design.model_benchmark] = design.cell_contamination
    return whole.reshape(design.answered.shape)


def test_identical_twins_have_one_ability():
    responses = table({f"m{k}": f"base{k // 2}" for k in range(6)})
    built = build(spec_of("twins", ability={"twins": "identical"}), responses)
    theta = pm.draw(built.model["theta"], 3, random_seed=1, mode="FAST_COMPILE")
    np.testing.assert_array_equal(theta[:, ::2], theta[:, 1::2])
    assert not {"t", "twin"} & built.terms.entered


def run_table(places: dict[str, object], doses: dict[str, float], **columns: object) -> Responses:
    """Return a base and checkpoints of it, of which each has met this share of the items."""
    rows = [
        {"model": model, "benchmark": b, "item": f"{b}{i}", "correct": i % 2, "base": "base",
         "checkpoint": place, "contamination": float(i < 4 * doses[model]) if b == "exam" else 0.0}
        for model, place in places.items() for b in ("exam", "control") for i in range(4)
    ]  # fmt: skip
    return Responses.from_frame(pd.DataFrame(rows).assign(**columns))


PLACES = {"base": None, "early": 1, "middle": 2, "late": 4}
DOSES = {"base": 0.0, "early": 0.0, "middle": 0.5, "late": 0.5}
WALK = {"ability": {"checkpoints": "walk"}}


def test_along_a_run_abilities_are_a_random_walk():
    design = make_design(spec_of("twins", **WALK), run_table(PLACES, DOSES))
    starts, steps = design.lineage.walk
    at = {name: k for k, name in enumerate(design.models)}
    assert starts.shape == (4, 2)
    for name in ("middle", "late"):
        np.testing.assert_array_equal(starts[at[name]], starts[at["early"]])
    assert (starts[at["base"]] != starts[at["early"]]).any()
    # Steps of length 1 and 2: variances in this proportion, on average one sigma_step.
    np.testing.assert_allclose(steps[at["early"]], 0.0)
    np.testing.assert_allclose(steps[at["middle"]] ** 2, [2 / 3, 0.0])
    np.testing.assert_allclose(steps[at["late"]] ** 2, [2 / 3, 4 / 3])


def test_the_walk_has_the_variance_that_is_printed():
    built = build(spec_of("twins", **WALK), run_table(PLACES, DOSES))
    assert "walk" in built.terms
    spread = {"sigma_t": 0.5, "sigma_step": 0.2}
    model = pm.do(built.model, spread)
    t = pm.draw(model["t"], 4000, random_seed=1, mode="FAST_COMPILE")
    at = {name: k for k, name in enumerate(built.design.models)}
    step = t[:, at["late"]] - t[:, at["middle"]]
    # 4,000 draws: a standard deviation is off by more than 6 % once in 1e7 times.
    assert step.std() == pytest.approx(0.2 * np.sqrt(4 / 3), rel=0.06)
    assert t[:, at["early"]].std() == pytest.approx(0.5, rel=0.06)
    assert abs(np.corrcoef(step, t[:, at["early"]])[0, 1]) < 0.09


@pytest.mark.parametrize(
    ("places", "doses", "message"),
    [
        (PLACES | {"late": 1.5}, DOSES | {"late": 0.25, "middle": 0.5}, None),
        (PLACES, DOSES | {"late": 0.25}, "order: late is less exposed to exam \\(0.25\\)"),
        (PLACES | {"late": 2}, DOSES, "'middle' and 'late' have one checkpoint \\(2\\)"),
        (PLACES | {"late": "last"}, DOSES, "got 'last', allowed is a number or nothing"),
    ],
)
def test_checkpoints_that_cannot_be_are_refused_in_one_message(places, doses, message):
    responses = run_table(places, doses)
    if message is None:
        assert make_design(spec_of("twins", **WALK), responses).lineage.walk is not None
        return
    with pytest.raises(DataError, match=message) as caught:
        make_design(spec_of("twins", **WALK), responses)
    assert len(caught.value.faults) == 1


def test_runs_whose_base_and_name_read_alike_are_two():
    """Base "olmo, 7b" without a run, and run "7b" of base "olmo"."""
    places, doses = {"p1": 1, "p2": 2, "q1": 3, "q2": 4}, dict.fromkeys(("p1", "p2"), 0.0)
    responses = run_table(places, doses | {"q1": 0.0, "q2": 0.5}, run="")
    frame = responses.frame
    first = frame["model"].isin(["p1", "p2"])
    frame["base"], frame["run"] = np.where(first, "olmo, 7b", "olmo"), np.where(first, "", "7b")
    walk = make_design(spec_of("twins", **WALK), responses).lineage.walk
    np.testing.assert_array_equal(walk[0], [[1, 0], [1, 0], [0, 1], [0, 1]])
    assert sorted(walk[1].T.tolist()) == [[0, 0, 0, 1], [0, 1, 0, 0]]


def test_runs_of_one_base_are_distinguished_by_a_column():
    responses = run_table(PLACES | {"late": 2}, DOSES, run="")
    responses.frame.loc[responses.frame["model"] == "late", "run"] = "second"
    assert make_design(spec_of("twins", **WALK), responses).lineage.walk[1].shape == (4, 1)


@pytest.mark.parametrize("other", ["second", ""])
def test_a_model_is_of_one_run(other):
    """Of whichever run its first row is would depend on the order of rows."""
    responses = run_table(PLACES, DOSES, run="first")
    responses.frame.loc[responses.frame.index[-1], "run"] = other
    with pytest.raises(DataError, match="run: models with more than one run: 'late'"):
        make_design(spec_of("twins", **WALK), responses)


@pytest.mark.parametrize("name", ["spillover", "twins"])
def test_counts_depend_on_the_coefficients_that_are_reported(name):
    """Simulations read the truth off the variables that counts are drawn from."""
    responses = table({f"m{k}": f"base{k // 2}" for k in range(6)})
    model = build(spec_of(name, difficulty={"form": "none"}), responses).model
    assert model["spillover"] in set(ancestors([model["n_correct"]]))


def test_a_checkpoint_that_missed_items_is_not_out_of_order():
    frame = run_table(PLACES, DOSES).frame
    missed = (frame["model"] == "late") & frame["item"].isin(["exam0"])
    skipped = (frame["model"] == "middle") & (frame["benchmark"] == "control")
    design = make_design(spec_of("twins", **WALK), Responses.from_frame(frame[~missed & ~skipped]))
    assert design.lineage.walk[1].shape == (4, 2)


def test_kinds_go_with_probabilities_of_duplicates():
    responses = kinds_table()
    frame = responses.frame.rename(columns={"contamination": "p_duplicate"})
    latent = {"contamination": {"kinds": "kind", "exposure": "latent"}}
    design = make_design(spec_of("twins", **latent), Responses.from_frame(frame))
    assert design.lineage.kinds == ("exact", "semantic")
