"""Attempts of people at ARC tasks: what counts, who is excluded, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import bayescontam
from bayescontam.data.importers.exclusion import accuracy_of_people
from bayescontam.errors import DataError, UsageError
from tests.cli.conftest import command
from tests.support.real_data import shared

PUBLISHED = Path(__file__).parents[3] / "studies/data/conceptarc_table1.csv"
HEAD = "participant,item,attempt,correct,minimal,training,explanation,nonsense,concept"
ROWS = """
ann,m1,1,0,1,0,,,C
ann,m2,1,0,1,0,,,D
ann,x,1,1,0,0,all of it,,C
bob,m1,1,1,1,0,a copy,,C
bob,m2,1,0,1,0,,,D
bob,m2,2,1,1,0,turned,0,D
bob,x,1,0,0,0,,,C
bob,y,1,0,0,0,,,D
bob,y,2,0,0,0,,,D
bob,y,3,0,0,0,,,D
bob,y,4,1,0,0,at last,,D
cay,m1,1,1,1,0,copied,0,C
cay,t,1,1,0,1,,,C
cay,x,1,1,0,0,nice,1,C
cay,y,1,0,0,0,,,D
cay,y,2,1,0,0,,,D
"""


def table(path: Path, rows: str = ROWS, head: str = HEAD) -> Path:
    path.write_text(f"{head}\n{rows.strip()}\n", encoding="utf-8")
    return path


@pytest.fixture
def attempts(tmp_path: Path) -> Path:
    return table(tmp_path / "attempts.csv")


def test_attempts_count_up_to_the_guesses(attempts: Path) -> None:
    """Neither training tasks nor minimal ones are responses."""
    for guesses, wanted in ((1, [1, 0, 1, 0, 0]), (2, [1, 0, 1, 0, 1]), (4, [1, 0, 1, 1, 1])):
        found = bayescontam.import_arc_people(attempts, exclude_minimal=0, guesses=guesses)
        frame = found.frame
        rows = frame[["item", "participant"]].agg("-".join, axis=1).tolist()
        assert rows == ["x-ann", "x-bob", "x-cay", "y-bob", "y-cay"]
        assert frame["n_correct"].tolist() == wanted
    assert frame["attempts"].tolist() == [1, 1, 1, 4, 2]
    assert frame["concept"].tolist() == list("CCCDD")
    assert frame["model"].unique().tolist() == ["humans"]
    counted = bayescontam.import_arc_people(attempts, exclude_minimal=0, minimal="count")
    assert counted.frame["item"].tolist() == ["m1"] * 3 + ["m2"] * 2 + list("xxxyy")
    assert counted.frame["minimal"].tolist() == [1] * 5 + [0] * 5


def test_by_item_people_are_trials(attempts: Path) -> None:
    frame = bayescontam.import_arc_people(attempts, exclude_minimal=0, by="item").frame
    assert frame[["item", "n_correct", "n_trials"]].to_numpy().tolist() == [
        ["x", 2, 3], ["y", 1, 2],
    ]  # fmt: skip
    assert "participant" not in frame


def test_each_rule_counts_what_it_removes(attempts: Path) -> None:
    found = bayescontam.import_arc_people(attempts, exclude_explanations=2, at_least=2)
    columns = ["participants", "responses", "further_participants", "further_responses"]
    assert found.rules[columns].to_numpy().tolist() == [
        [1, 2, 1, 2],  # cay: one nonsense, one blank after a solution
        [1, 1, 1, 1],  # ann failed both minimal tasks
        [1, 1, 0, 0],  # ann again, who answered one item that counts
    ]
    assert found.frame["participant"].tolist() == ["bob", "bob"]
    assert found.notes[0] == (
        "2 or more explanations empty or nonsense: excludes 1 of 3 participants (2 responses)"
        " alone, 1 (2) after the rules before it"
    )
    assert dict(found.left_out[["reason", "left_out"]].itertuples(index=False)) == {
        "attempts at training tasks": 1,
        "responses of participants with 2 or more explanations empty or nonsense": 2,
        "responses of participants with 2 or more minimal tasks failed": 1,
        "responses to minimal tasks": 5,
    }
    overall = found.by_rule[found.by_rule["concept"] == ""].set_index("rule")
    assert overall["participants"].tolist() == [3, 2, 2, 2, 1]
    # Without a rule 2 of 3 solve x and 1 of 2 solves y.
    assert overall["accuracy"].tolist() == pytest.approx([7 / 12, 1 / 4, 1 / 2, 1 / 2, 0])
    assert overall["change"].tolist() == pytest.approx([0, -4 / 12, -1 / 12, -1 / 12, -7 / 12])
    concepts = found.by_rule[found.by_rule["rule"] == "none"].set_index("concept")["accuracy"]
    assert concepts.to_dict() == pytest.approx({"": 7 / 12, "C": 2 / 3, "D": 1 / 2})


def test_a_minimal_task_is_failed_whatever_the_guesses(attempts: Path) -> None:
    """Else one, two and three guesses would compare different people."""
    for guesses in (1, 2, 3):
        found = bayescontam.import_arc_people(attempts, guesses=guesses, exclude_minimal=1)
        assert found.frame["participant"].unique().tolist() == ["bob", "cay"]


def test_the_published_numbers_of_excluded_participants(tmp_path: Path) -> None:
    """55 of 482 by their explanations, and 12 more by minimal tasks, leave 415."""
    rows = []
    for p in range(482):
        bad, inattentive = p < 55, 50 <= p < 67
        rows += [
            f"p{p},m{k},1,{int(not inattentive)},1,0,reason,{int(bad)},C" for k in range(3)
        ] + [f"p{p},x{p % 40},1,1,0,0,reason,0,C"]
    file = table(tmp_path / "made.csv", "\n".join(rows))
    found = bayescontam.import_arc_people(file, exclude_explanations=3)
    columns = ["participants", "further_participants"]
    assert found.rules[columns].to_numpy().tolist() == [[55, 55], [17, 12]]
    assert found.frame["participant"].nunique() == 415


def test_the_published_accuracies_of_people(tmp_path: Path) -> None:
    """Attempts made of the published counts give these again, and the table by concept."""
    counts = pd.read_csv(shared("conceptarc.csv")).query("model == 'humans'")
    rows = [
        f"{'nm'[minimal]}{k},{item},{1 + a},{int(k < right and a == k % 3)}"
        for item, right, trials, minimal in counts[
            ["item", "n_correct", "n_trials", "minimal"]
        ].itertuples(index=False)
        for k in range(trials)
        for a in range(k % 3 + 1 if k < right else 3)
    ]
    file = table(tmp_path / "p.csv", "\n".join(rows), "participant,item,attempt,correct")
    folder = shared("conceptarc_tasks")
    found = bayescontam.import_arc_people(file, tasks=folder, by="item", minimal="count",
                                          exclude_minimal=0)  # fmt: skip
    keys = ["item", "n_correct", "n_trials", "concept", "task"]
    made, wanted = (each[keys].sort_values("item") for each in (found.frame, counts))
    assert made.to_numpy().tolist() == wanted.to_numpy().tolist()
    found = bayescontam.import_arc_people(file, tasks=folder, exclude_minimal=0)
    printed = pd.read_csv(PUBLISHED)
    names = printed["concept"].str.replace(" and ", "").str.replace(" ", "")
    printed = printed.set_index(names)["humans"]
    own = found.by_rule.query("rule == 'none' and concept != ''").set_index("concept")["accuracy"]
    np.testing.assert_allclose(own, printed.loc[own.index], atol=0.0051)
    fewer = bayescontam.import_arc_people(file, tasks=folder, exclude_minimal=0, guesses=1)
    assert fewer.frame["n_correct"].sum() < found.frame["n_correct"].sum()


PAIR = {"input": [[1, 2]], "output": [[2, 1]]}


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    for name in ("MinimalTasks/TurnMinimal", "corpus/Turn/Turn1"):
        path = tmp_path / "tasks" / f"{name}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"train": [PAIR], "test": [PAIR, PAIR]}))
    return tmp_path / "tasks"


def test_grids_are_held_against_the_solutions(tmp_path: Path, tasks: Path) -> None:
    rows = """
a,TurnMinimal,1,1,"[[2, 1]]",0
a,Turn1,0,1,|12|,0
a,Turn1,0,2,|21|,0
b,Turn1,1,1,|2|1|,0
b,Warmup,0,1,,1
"""
    head = "participant,task,test,attempt,grid,training"
    file = table(tmp_path / "g.csv", rows, head)
    frame = bayescontam.import_arc_people(file, tasks=tasks).frame
    columns = ["item", "participant", "n_correct", "attempts", "outcome", "concept", "minimal"]
    assert frame[columns].to_numpy().tolist() == [
        ["Turn1-0", "a", 1, 2, "right", "Turn", 0],
        ["Turn1-1", "b", 0, 1, "wrong shape", "Turn", 0],
    ]
    with pytest.raises(UsageError, match=r"has grids, which are held against .*--tasks"):
        bayescontam.import_arc_people(file)


FAULTS = {
    "no participant": ("item,correct\nx,1", r"participant: no such column"),
    "no item": ("participant,correct\na,1", r"give 'item', or 'task' and 'test'"),
    "no answer": ("participant,item\na,x", r"correct: no such column; 0 or 1; or give 'grid'"),
    "both": ("participant,item,correct,grid\na,x,1,|1|", r"stands beside 'grid'"),
    "score": ("participant,item,correct\na,x,2", r"row 1: correct: got '2', allowed is 0, 1"),
    "attempt": ("participant,item,attempt,correct\na,x,0,1", r"got '0', allowed is a whole number"),
    "twice": ("participant,item,correct\na,x,0\na,x,1", r"row 2.*same participant, item, attempt"),
    "gap": (
        "participant,item,attempt,correct\na,x,1,0\na,x,3,1",
        r"row 2: attempt: got '3', but not all attempts before it",
    ),
    "minimal": ("participant,item,correct,minimal\na,x,1,", r"minimal: got .*allowed is 0"),
    "differs": (
        "participant,item,correct,minimal\na,x,1,0\nb,x,1,1",
        r"minimal: differs between rows of one item: 'x'",
    ),
    "training": (
        "participant,item,correct,training\na,x,1,1", r"holds attempts at training tasks only"
    ),
    "nobody": ("participant,item,correct,minimal\na,x,0,1\na,y,0,1", r"no response is left of 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_tables_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    text, message = FAULTS[name]
    head, _, rows = text.partition("\n")
    with pytest.raises(DataError, match=message):
        bayescontam.import_arc_people(table(tmp_path / "p.csv", rows, head))


def test_grids_that_are_none_and_items_of_other_tasks(tmp_path: Path, tasks: Path) -> None:
    head = "participant,item,grid"
    for row, message in (
        ("a,Turn1-0,|1|22|", r"grid: got '\|1\|22\|', which has rows of 2 lengths"),
        ("a,Turn1-0,dunno", r"which is no grid, such as"),
        ("a,Turn1-0,", r"grid: got .*which is no grid"),
        ("a,Turn1-9,|1|", r"'Turn1-9' is no test input of these tasks "),
    ):
        with pytest.raises(DataError, match=message):
            bayescontam.import_arc_people(table(tmp_path / "g.csv", row, head), tasks=tasks)


def test_the_same_attempts_in_two_files(tmp_path: Path) -> None:
    files = [table(tmp_path / f"{name}.csv") for name in "ab"]
    with pytest.raises(DataError, match=r"'ann' on m1 stands in another file too \(16 such"):
        bayescontam.import_arc_people(files)


def test_options_that_cannot_be_used(attempts: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"at_least=-1: allowed is a whole number, and 0"):
        bayescontam.import_arc_people(attempts, at_least=-1)
    bare = table(tmp_path / "b.csv", "a,x,1", "participant,item,correct")
    with pytest.raises(UsageError, match=r"--exclude-explanations .* needs a column"):
        bayescontam.import_arc_people(bare, exclude_explanations=1)
    found = bayescontam.import_arc_people(bare)
    assert found.notes == (
        "2 or more minimal tasks failed: excludes 0 of 1 participants (0 responses) alone, 0 (0)"
        " after the rules before it",
        "all 1 participants were given fewer than 2 minimal tasks, so that the rule on these"
        " cannot exclude them",
    )
    done = command("import", "arc-people", bare, "-o", "r.csv", "--rules", "r.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert b"r.txt" in done.stderr


def test_the_command_writes_rules(attempts: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.csv"
    done = command("import", "arc-people", attempts, "-o", "r.csv", "--rules", rules, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"2 or more minimal tasks failed: excludes 1 of 3 participants" in done.stdout
    assert pd.read_csv(rules)["rule"].unique().tolist() == [
        "none", "2 or more minimal tasks failed",
    ]  # fmt: skip


def test_the_jackknife_is_that_of_leaving_each_person_out() -> None:
    """Against a loop over participants, where some items have one participant."""
    rng = np.random.default_rng(5)
    person, item = np.nonzero(rng.random((7, 9)) < 0.4)
    _, person = np.unique(person, return_inverse=True)
    _, item = np.unique(item, return_inverse=True)
    correct = (rng.random(len(item)) < 0.6).astype(int)
    frame = pd.DataFrame({"p": person, "i": item, "y": correct})
    assert (frame.groupby("i").size() == 1).any()
    value, low, high = accuracy_of_people(person, item, correct)
    assert value == pytest.approx(frame.groupby("i")["y"].mean().mean())
    without = np.array([
        frame[frame["p"] != p].groupby("i")["y"].mean().mean() for p in frame["p"].unique()
    ])  # fmt: skip
    n = len(without)
    se = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    reach = np.log(high / (1 - high)) - np.log(low / (1 - low))
    assert reach / 2 == pytest.approx(stats.t.ppf(0.975, n - 1) * se / (value * (1 - value)))


def test_intervals_cover_where_people_differ() -> None:
    """In 400 tables; a rate of 0.95 gives fewer than 360 with a probability below 1e-5."""
    rng, covered, people, items = np.random.default_rng(8), 0, 60, 40
    z = np.linspace(-6, 6, 61)
    weight = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    for _ in range(400):
        hard = rng.normal(0, 1, items)
        truth = (expit(1 + hard[:, None] + z) @ weight).mean()
        person, item = np.nonzero(rng.random((people, items)) < 0.4)
        able = rng.normal(0, 1, people)
        correct = (rng.random(len(item)) < expit(1 + hard[item] + able[person])).astype(int)
        _, low, high = accuracy_of_people(person, item, correct)
        covered += low < truth < high
    assert covered >= 360


def test_where_nothing_varies_there_is_no_interval() -> None:
    person, item = np.array([0, 1, 2]), np.array([0, 0, 1])
    assert accuracy_of_people(person, item, np.ones(3, dtype=int))[0] == 1
    assert np.isnan(accuracy_of_people(person, item, np.ones(3, dtype=int))[1:]).all()


def test_test_inputs_of_one_minimal_task_count_once(tmp_path: Path) -> None:
    """Whether tasks are named in a column of their own, or by the names of items."""
    rows = "ann,m-0,1,0,1\nann,m-1,1,0,1\nann,x-0,1,1,0\nbob,x-0,1,0,0"
    path = table(tmp_path / "items.csv", rows, "participant,item,attempt,correct,minimal")
    by_item = bayescontam.import_arc_people(path).frame
    assert by_item["participant"].tolist() == ["ann", "bob"]
    rows = "ann,m,0,1,0,1\nann,m,1,1,0,1\nann,x,0,1,1,0\nbob,x,0,1,0,0"
    path = table(tmp_path / "tasks.csv", rows, "participant,task,test,attempt,correct,minimal")
    assert bayescontam.import_arc_people(path).frame["participant"].tolist() == ["ann", "bob"]


def test_grids_of_parquet_are_read(tmp_path: Path) -> None:
    grid = [[1, 1], [2, 2]]
    (tmp_path / "tasks").mkdir()
    task = {"train": [{"input": grid, "output": grid}], "test": [{"input": grid, "output": grid}]}
    (tmp_path / "tasks" / "same.json").write_text(json.dumps(task))
    answers = pd.DataFrame(
        {"participant": ["ann", "bob"], "task": "same", "test": 0, "attempt": 1,
         "grid": [grid, [[1, 2], [2, 1]]]}
    )  # fmt: skip
    answers.to_parquet(tmp_path / "a.parquet")
    found = bayescontam.import_arc_people(tmp_path / "a.parquet", tasks=tmp_path / "tasks")
    assert found.frame["n_correct"].tolist() == [1, 0]


def test_rules_and_responses_may_not_be_one_file(attempts: Path, tmp_path: Path) -> None:
    done = command("import", "arc-people", attempts, "-o", "r.csv", "--rules", "./r.csv",
                   cwd=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert b"is --out too" in done.stderr
    assert not (tmp_path / "r.csv").exists()


def test_words_for_nothing_are_no_explanation(tmp_path: Path) -> None:
    """R writes NA for missing text."""
    file = tmp_path / "people.csv"
    rows = [f"{who},t1,1,1,{text}" for who, text in (("ann", "why"), ("bob", "NA"), ("cat", ""))]
    file.write_text("\n".join(["participant,item,attempt,correct,explanation", *rows]) + "\n")
    found = bayescontam.import_arc_people(file, exclude_explanations=1)
    assert found.frame["participant"].tolist() == ["ann"]
