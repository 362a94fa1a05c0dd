"""Studies: strict, with messages that say where and what, and a hash of what they mean."""

from pathlib import Path

import pytest

from bayescontam.calibration.study import plan_of
from bayescontam.errors import SpecError, UsageError
from bayescontam.specs.registry import load_study, shipped_models, shipped_studies
from bayescontam.specs.study import StudySpec

FIXED = """
summary = "s"
replicates = 10
[simulator]
kind = "fixed"
model = "hierarchical"
slope = 1.0
[design]
models = 3
[[estimators]]
name = "a"
model = "single"
"""


def test_cells_are_the_combinations_of_the_grid_in_order() -> None:
    text = f"{FIXED}[grid]\nslope = [0, 2.5]\ncontamination_sd = [0.017, 0.2]\nitems = [50]"
    cells = StudySpec.parse(text, "x.toml").cells()
    assert list(cells) == [
        "slope=0, contamination_sd=0.017, items=50",
        "slope=0, contamination_sd=0.2, items=50",
        "slope=2.5, contamination_sd=0.017, items=50",
        "slope=2.5, contamination_sd=0.2, items=50",
    ]
    simulator, layout = cells["slope=2.5, contamination_sd=0.017, items=50"]
    assert (simulator.slope, simulator.model) == (2.5, "hierarchical")
    assert (layout.contamination_sd, layout.items, layout.models) == (0.017, 50, 3)
    assert list(StudySpec.parse(FIXED, "x.toml").cells()) == [""]


def test_words_layout_and_replicates_do_not_change_the_hash() -> None:
    one = StudySpec.parse(FIXED, "x.toml")
    more = FIXED.replace("replicates = 10", "replicates = 20  # more").replace('"s"', '"t"')
    assert StudySpec.parse(more, "y.toml").hash == one.hash
    reported = f'kind = "simulation"\npublished = "arc_recovery"{FIXED}'
    assert StudySpec.parse(reported, "x.toml").hash == one.hash
    larger = FIXED.replace("replicates = 10", "replicates = 10\nfull_replicates = 90")
    assert StudySpec.parse(larger, "x.toml").hash == one.hash
    for old, new in (("1.0", "1.5"), ('"single"', '"positive"'), ("models = 3", "models = 4")):
        assert StudySpec.parse(FIXED.replace(old, new), "x.toml").hash != one.hash


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("[grid]\nslop = [1]", r"x.toml: grid.slop: unknown key \(did you mean 'slope'\?\)"),
        ("[grid]\nslope = [1, 1]", "grid.slope: a value stands there twice"),
        ("[grid]\nslope = [1, 1.0000001]", "2 combinations have 1 names between them"),
        ("[grid]\nitems = [10.5]", "items: got 10.5; a whole number is needed"),
        ("[grid]\nslope = 2", r"grid: slope: got 2; give a list, such as \[2\]"),
        ("[grid]\nslope = []", "grid.slope: got .*; it must not be empty"),
        ("[grid]\ncontamination_sd = [0.6]", "contamination_sd: got 0.6; allowed is less than"),
        ("[grid]\nboost = [0.1]", "simulator.boost is for simulator.kind = 'published'"),
        ("[grid]\nability_sd = [0.1]", "simulator.ability_sd is around simulator.ability"),
        ("[gates]\nrhat = 0.9", "gates.rhat: got 0.9; allowed is more than 1"),
        ("[gates]\nrhta = 1.1", r"gates.rhta: unknown key \(did you mean 'rhat'\?\)"),
        ("[sampling]\nengine = 'nutpy'", r"sampling.engine: got 'nutpy'; did you mean 'nutpie'\?"),
        ("[[estimators]]\nname = 'a'\nmodel = 'single'", "estimators: two have the name 'a'"),
        ("[[estimators]]\nname = 'a b'\nmodel = 'single'", "got 'a b'; a name without blanks"),
        ("[[estimators]]\nname = 'b'", "the estimator 'b' of kind 'model' needs a model spec"),
        (
            "[[estimators]]\nname = 'b'\nkind = 'bootstrap'\nmodel = 'single'",
            "the estimator 'b' of kind 'bootstrap' has no model spec",
        ),
        ("[expressions]\ngap = 'theta.x'", "expressions: gap: 'theta.x' is no formula"),
        ("[expressions]\nx_nominal = 'theta'", "x_nominal: names that end in '_nominal'"),
    ],
)  # fmt: skip
def test_faults_are_reported_with_their_place(extra: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        StudySpec.parse(f"{FIXED}{extra}", "x.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"fixed"', '"prior"', "simulator.slope is for simulator.kind = 'fixed'; leave it out"),
        ('model = "hierarchical"\n', "", "needs a model spec: simulator.model"),
        ("slope = 1.0", "slope_sd = 1.0", "simulator.slope_sd is around simulator.slope"),
        ("models = 3", "contamination_sd = 0.49\ncontamination_mean = 0.1", "less than 0.3"),
        ("replicates = 10", "replicates = 0", "replicates: got 0; allowed is 1 or more"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        StudySpec.parse(FIXED.replace(old, new), "x.toml")


def test_the_published_generator_takes_no_contaminations_of_its_own() -> None:
    text = FIXED.replace('"fixed"', '"published"').replace(
        'model = "hierarchical"\nslope = 1.0', ""
    )
    assert StudySpec.parse(text, "x.toml").simulator.boost == 0.3
    with pytest.raises(SpecError, match=r"design\.contamination_mean: contaminations of"):
        StudySpec.parse(text.replace("models = 3", "contamination_mean = 0.3"), "x.toml")
    with pytest.raises(SpecError, match="expressions: needs a simulator with a model spec"):
        plan_of(StudySpec.parse(f"{text}[expressions]\na = 'theta'", "x.toml"), Path())
    wanted = text.replace("replicates", "quantities = ['slope']\nreplicates", 1)
    with pytest.raises(SpecError, match="quantities: nothing is called 'slope' here"):
        plan_of(StudySpec.parse(wanted, "x.toml"), Path())


def test_changes_make_another_model_spec_of_the_same_name() -> None:
    priors = "[estimators.changes.priors]\nbeta_bar = { family = 'normal', mu = 0.0, sigma = 0.1 }"
    plain, changed = (
        plan_of(StudySpec.parse(text, "x.toml"), Path()) for text in (FIXED, FIXED + priors)
    )
    assert changed.specs["a"].priors.beta_bar.text() == "Normal(0, 0.1)"
    assert changed.specs["a"].priors.theta == plain.specs["a"].priors.theta
    assert changed.specs["a"].name == "single"
    assert changed.hash != plain.hash
    wrong = StudySpec.parse(f"{FIXED}[estimators.changes.priors]\nbeta_baar = 1", "x.toml")
    with pytest.raises(SpecError, match=r"estimator 'a': priors.beta_baar: unknown key"):
        plan_of(wrong, Path())


def test_a_changed_model_spec_changes_the_plan(tmp_path: Path) -> None:
    text = FIXED.replace('"single"', '"mine.toml"')
    hashes = set()
    for sigma in (1.0, 2.0):
        prior = f"beta_bar = {{ family = 'normal', mu = 0.0, sigma = {sigma} }}"
        (tmp_path / "mine.toml").write_text(f"summary = 'mine'\n[priors]\n{prior}")
        hashes.add(plan_of(StudySpec.parse(text, "x.toml"), tmp_path).hash)
    assert len(hashes) == 2
    with pytest.raises(SpecError, match="cannot be read"):
        plan_of(StudySpec.parse(text, "x.toml"), tmp_path / "elsewhere")


def reported(text: str, base: Path) -> list[str]:
    """Return the faults of a study's model specs as they are shown."""
    with pytest.raises(SpecError) as caught:
        plan_of(StudySpec.parse(text, "folder/x.toml"), base)
    return str(caught.value).splitlines()


def test_a_model_spec_that_is_not_there_is_reported_with_the_key_that_names_it(
    tmp_path: Path,
) -> None:
    more = '[[estimators]]\nname = "b"\nmodel = "singel"\n'
    lines = reported(FIXED + more, tmp_path)
    assert lines[0] == (
        "folder/x.toml: estimators.1.model: got 'singel' (of the estimator 'b'), which cannot be"
        " used:"
    )
    assert lines[1] == "model spec 'singel': no such model spec (did you mean 'single'?)"
    assert lines[2].startswith("Name a shipped model spec (bayescontam models list)")
    lines = reported(FIXED.replace("hierarchical", "hierarchcal"), tmp_path)
    assert lines[0] == "folder/x.toml: simulator.model: got 'hierarchcal', which cannot be used:"
    assert lines[1].endswith("(did you mean 'hierarchical'?)")


def test_faults_of_a_model_spec_are_reported_with_the_study_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("summary = 'mine'\n[ability]\nbye = 'x'\npoling = 'y'\n")
    lines = reported(FIXED.replace('"single"', '"mine.toml"'), tmp_path)
    assert lines[0].startswith("folder/x.toml: estimators.0.model: got 'mine.toml' (of the estim")
    assert [line.removeprefix(f"{tmp_path}/") for line in lines[1:]] == [
        "mine.toml: ability.bye: unknown key (did you mean 'by'?)",
        "mine.toml: ability.poling: unknown key (did you mean 'pooling'?)",
    ]


def simulation(name: str) -> StudySpec:
    study = load_study(name)
    assert isinstance(study, StudySpec)
    return study


@pytest.mark.parametrize(
    "name", [name for name in shipped_studies() if isinstance(load_study(name), StudySpec)]
)
def test_shipped_studies_can_be_planned(name: str) -> None:
    study = simulation(name)
    plan = plan_of(study, Path())
    assert plan.cells
    assert study.name == name


def test_the_recovery_study_has_the_published_size_and_a_larger_one() -> None:
    study = simulation("recovery")
    assert (study.count(), study.count(full=True)) == (100, 1000)
    with pytest.raises(UsageError, match="full: 'wrong' has no other size than 500 replicates"):
        simulation("wrong").count(full=True)


def test_every_shipped_model_spec_has_a_study_of_its_own_prior() -> None:
    for name in shipped_models():
        study = simulation(f"sbc-{name}")
        assert (study.simulator.kind, study.simulator.model) == ("prior", name)
        assert [estimator.model for estimator in study.estimators] == [name]
        assert study.replicates >= 500


def test_an_unknown_study_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SpecError, match=r"no such study \(did you mean 'recovery'\?\)"):
        load_study("recovry")


BOOTSTRAP = '[[estimators]]\nname = "b"\nkind = "bootstrap"\n'
PUBLISHED = f'summary = "s"\nreplicates = 1\nsimulator.kind = "published"\n{BOOTSTRAP}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{PUBLISHED}reversed = true", "'b' of kind 'bootstrap' has no reversed"),
        (f'reference = "zero"\n{PUBLISHED}', "reference: got 'zero'; an estimator of kind 'boot"),
        (
            f"design.models = 2\n{PUBLISHED}",
            "design.models: an estimator of kind 'bootstrap' needs 1",
        ),
        (f"grid.models = [1, 2]\n{PUBLISHED}", "design.models: an estimator of kind 'bootstrap'"),
    ],
)
def test_a_bootstrap_is_held_against_nothing_but_what_it_estimates(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        StudySpec.parse(text, "x.toml")
    assert StudySpec.parse(PUBLISHED, "x.toml").reference == "min_observed"


def test_contamination_that_is_not_known_cannot_be_reported_the_wrong_way_round() -> None:
    text = FIXED.replace('model = "single"', 'model = "latent_duplicate"\nreversed = true')
    with pytest.raises(SpecError, match="estimator 'a': reversed is for contamination that is"):
        plan_of(StudySpec.parse(text, "x.toml"), Path())
