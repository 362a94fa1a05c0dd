"""Study: fits and tables that were made before are used again, and only these."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bayescontam.data.responses import Responses
from bayescontam.errors import UsageError
from bayescontam.inference.pipeline import Options
from bayescontam.inference.sampling import Sampling
from bayescontam.published import study as module
from bayescontam.specs.registry import load_model
from tests.support.made_findings import Quick, spec, study
from tests.support.made_fit import drawn_from_prior


class MadeAgainError(Exception):
    """Raised in the place of a fit."""


def refuse(*_: Any, **__: Any) -> Any:
    raise MadeAgainError


def answers() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    contamination = rng.uniform(size=60)
    return pd.DataFrame(
        {
            "model": "m", "benchmark": "b", "item": [f"i{k}" for k in range(60)],
            "correct": rng.binomial(1, 0.4 + 0.4 * contamination), "contamination": contamination,
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Quick:
    made = Quick(spec(), {}, pd.DataFrame(), tmp_path_factory.mktemp("study"))
    with drawn_from_prior():
        made.fit("one", answers(), "single")
    return made


def test_a_fit_of_the_same_is_read_and_of_anything_else_is_made(
    quick: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "fit_responses", refuse)
    table = answers()
    again = quick.fit("one", table, "single")
    assert again.spec.name == "single"
    others: list[tuple[pd.DataFrame, str, dict[str, Any]]] = [
        (table.assign(contamination=table["contamination"] / 2), "single", {}),
        (table.assign(correct=1 - table["correct"]), "single", {}),
        (table, "positive", {}),
        (table, "single", {"reference": "zero"}),
        (table, "single", {"seed": 5}),
        (table, "single", {"draws": 151}),
    ]
    for frame, model, settings in others:
        with pytest.raises(MadeAgainError):
            quick.fit("one", frame, model, **settings)
    with pytest.raises(MadeAgainError):
        quick.fit("another", table, "single")
    assert len(list((quick.folder / "fits").iterdir())) == 1


def test_a_fit_that_was_cut_off_is_made_again(
    quick: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = (quick.folder / "fits").iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:1000])
    monkeypatch.setattr(module, "fit_responses", refuse)
    with pytest.raises(MadeAgainError):
        quick.fit("one", answers(), "single")
    path.write_bytes(content)


def test_failed_checks_are_reported_by_name(quick: Quick) -> None:
    short = quick.fit("one", answers(), "single")
    assert any(
        note.startswith("The fit 'one' failed the check") for note in
        quick.failed_checks("one", short)
    )  # fmt: skip


def test_a_table_is_kept_until_what_it_follows_from_changes(tmp_path: Path) -> None:
    made = study(tmp_path, {})
    calls: list[int] = []

    def make() -> pd.DataFrame:
        calls.append(1)
        return pd.DataFrame({"a": [1.5, np.nan], "b": ["x", "y"]})

    first = made.stored("t", {"n": 1}, make)
    second = made.stored("t", {"n": 1}, make)
    pd.testing.assert_frame_equal(first, second)
    assert len(calls) == 1
    made.stored("t", {"n": 2}, make)
    made.stored("u", {"n": 1}, make)
    assert len(calls) == 3


def test_names_that_cannot_be_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"got the name '\.\./x'; allowed are"):
        study(tmp_path, {}).stored("../x", {}, pd.DataFrame)


def test_random_streams_follow_from_the_seed_and_the_name(tmp_path: Path) -> None:
    one, same = study(tmp_path, {"a": 1}), study(tmp_path, {"a": 2})
    assert one.stream("x").random() == same.stream("x").random()
    assert one.stream("x").random() != one.stream("y").random()


@pytest.mark.parametrize(
    "changed",
    [
        {"items": "answered"}, {"population": True}, {"smallest_effect": 0.1}, {"bootstrap": True},
        {"by_need": True}, {"item_draws": 3}, {"store_all": True},
        {"sampling": Sampling(difficulties="marginalised")}, {"sampling": Sampling(draws=77)},
    ],
)  # fmt: skip
def test_a_fit_by_other_options_is_another(changed: dict[str, Any]) -> None:
    given, single = Responses.from_frame(answers()), load_model("single")
    key = module._key(given, single, Options(seed=1))
    assert module._key(given, single, Options(seed=1, **changed)) != key
    same = Options(seed=1, command="x", sampling=Sampling(cores=1))
    assert module._key(given, single, same) == key
