"""Labs of files: what stands in their texts, and what is refused with which message."""

import errno
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayescontam.duplicates.musr import read_story
from bayescontam.duplicates.new import new_items
from bayescontam.errors import BayescontamError, DataError, TaskError, UsageError
from bayescontam.lab.background import ItemFinder, source_of
from bayescontam.lab.mix import Mixed, make_mixes
from bayescontam.specs.lab import LabSpec
from bayescontam.specs.registry import load_lab

SPEC = """
summary = "A quiz, in documents about gardens."
seed = 3
texts = 40
mixes = [
    { name = "clean", kind = "clean" },
    { name = "again", kind = "clean" },
    { name = "exact-2", kind = "exact", copies = 2 },
    { name = "semantic-3", kind = "semantic", copies = 3 },
    { name = "other-1", kind = "semantic", copies = 1, levels = ["b"] },
    { name = "near-2", kind = "near", copies = 2 },
]
training = { bases = 2 }
pretraining = { texts = 15 }
[files]
background = "garden"
benchmark = "quiz.jsonl"
duplicates = "made.jsonl"
controls = "controls.jsonl"
"""
COUNT = 8
SEEN = 4
PLANTS = ("roses", "lilies", "herbs", "beans", "leeks", "ferns", "vines", "palms")


def item(number: int) -> dict[str, Any]:
    plant = PLANTS[number]
    return {
        "id": f"q{number}", "output": f"in month {number}",
        "input": f"When are the {plant} of the old gardener cut back, and why then?",
    }  # fmt: skip


def duplicate(number: int, level: str, copy: int) -> dict[str, Any]:
    parent = item(number)
    return {
        "benchmark": "quiz", "recipe": "paraphrase", "item": parent["id"],
        "duplicate": f"{parent['id']}/{level}/{copy}", "kind": "semantic", "level": level,
        "parent_sha256": hashlib.sha256(parent["input"].encode()).hexdigest(),
        "checks": ["other words"], "text_mode": "input", "answer": parent["output"],
        "text": f"Way {level}{copy}: what time does he trim his {PLANTS[number]} at?",
    }  # fmt: skip


def documents(count: int = 200) -> list[dict[str, Any]]:
    return [
        {"id": f"d{at}", "text": f"Note {at} on {PLANTS[at % 8]} of the old gardener: water, rest."}
        for at in range(count)
    ]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


MADE = [duplicate(at, *key) for at in range(COUNT) for key in (("a", 1), ("a", 2), ("b", 1))]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_lines(tmp_path / "garden" / "one.jsonl", documents()[:120])
    write_lines(tmp_path / "garden" / "two.jsonl", documents()[120:])
    write_lines(tmp_path / "quiz.jsonl", [item(at) for at in range(COUNT)])
    write_lines(tmp_path / "made.jsonl", MADE)
    controls = [
        {"id": f"c{at}", "input": f"What is {at} + 4?", "output": str(at + 4)} for at in range(3)
    ]
    write_lines(tmp_path / "controls.jsonl", controls)
    return tmp_path


def mix(files: Path, spec: str = SPEC, out: str = "out", **options: Any) -> Mixed:
    lab = LabSpec.parse(spec, str(files / "lab.toml"))
    return make_mixes(lab, files / out, **options)


def texts_of(mixed: Mixed) -> dict[tuple[int, str], list[dict[str, Any]]]:
    return {key: read_lines(path) for key, path in mixed.texts.items()}


def test_what_stands_in_the_texts(files: Path) -> None:
    texts = texts_of(made := mix(files))
    listed = {row["item"]: row for row in read_lines(made.items)}
    seen = [name for name, row in listed.items() if row["half"] == "seen"]
    assert len(seen) == SEEN
    assert [row["half"] for row in listed.values()].count("control") == 3
    known = {row["text"] for row in documents()}
    for base in (0, 1):
        clean = texts[base, "clean"]
        own = {"clean": clean, "again": texts[base, "again"], "base": texts[base, "base"]}
        assert [len(rows) for rows in own.values()] == [40, 40, 15]
        drawn = [row["text"] for rows in own.values() for row in rows]
        assert len({*drawn}) == 95  # none twice
        assert {*drawn} <= known
        for name, copies in (("exact-2", 2), ("semantic-3", 3), ("other-1", 1), ("near-2", 2)):
            rows = texts[base, name]
            changed = {at for at, row in enumerate(rows) if row["item"]}
            assert all(rows[at] == clean[at] for at in range(40) if at not in changed)
            counts = Counter(row["item"] for row in rows if row["item"])
            assert counts == dict.fromkeys(seen, copies)
    exact = {row["text"] for row in texts[0, "exact-2"] if row["item"]}
    assert exact == {f"{item(int(q[1]))['input']}\n{item(int(q[1]))['output']}" for q in seen}
    for name, wanted in (("semantic-3", ("a1", "a2", "b1")), ("other-1", ("b1",))):
        held = [(row["item"], row["text"]) for row in texts[0, name] if row["item"]]
        assert sorted(held) == sorted(
            (q, f"Way {key}: what time does he trim his {PLANTS[int(q[1])]} at?\nin month {q[1]}")
            for q in seen
            for key in wanted
        )


def test_smaller_doses_have_some_of_each_level(files: Path) -> None:
    spec = SPEC.replace("copies = 3", "copies = 2")
    held = [row["text"] for row in texts_of(mix(files, spec))[0, "semantic-3"] if row["item"]]
    assert Counter(text.split(":")[0] for text in held) == {"Way a1": SEEN, "Way b1": SEEN}


def test_near_texts_are_about_the_same_plant_and_of_no_base(files: Path) -> None:
    texts = texts_of(mix(files))
    near = [(row["item"], row["text"]) for row in texts[0, "near-2"] if row["item"]]
    assert sorted(near) == sorted(
        (row["item"], row["text"]) for row in texts[1, "near-2"] if row["item"]
    )
    assert len({text for _, text in near}) == 2 * SEEN
    assert all(PLANTS[int(name[1])] in text for name, text in near)
    background = {
        row["text"] for base in (0, 1) for name in ("clean", "again", "base")
        for row in texts[base, name]
    }  # fmt: skip
    assert not background & {text for _, text in near}


def test_the_sample_does_not_depend_on_the_order_of_files(files: Path) -> None:
    one = texts_of(mix(files))
    (files / "garden" / "one.jsonl").rename(files / "garden" / "zwei.jsonl")
    other = texts_of(mix(files, out="other"))
    assert one == other
    assert one[0, "clean"] != one[1, "clean"]
    assert one != texts_of(mix(files, SPEC.replace("seed = 3", "seed = 4"), out="third"))


def test_the_first_items_are_exposed_where_the_spec_says_so(files: Path) -> None:
    made = mix(files, SPEC.replace("seed = 3", 'halves = "first"'))
    halves = {row["item"]: row["half"] for row in read_lines(made.items)}
    assert [halves[f"q{at}"] for at in range(COUNT)] == ["seen"] * SEEN + ["unseen"] * SEEN


def test_traces_stand_in_place_of_answers(files: Path) -> None:
    rows = [
        {"benchmark": "quiz", "item": f"q{at}", "text": f"Because. So {at}.", "duplicate": ""}
        for at in range(COUNT - 1)
    ]
    rows.append({"item": "q0", "text": "As the twin.", "duplicate": "q0/a/1"})
    spec = SPEC.replace("seed = 3", 'halves = "first"')
    made = mix(files, spec, traces=write_lines(files / "traces.jsonl", rows))
    texts = texts_of(made)
    held = {row["text"] for row in texts[0, "exact-2"] if row["item"]}
    assert held == {f"{item(at)['input']}\nBecause. So {at}." for at in range(SEEN)}
    own = {row["text"] for row in texts[0, "semantic-3"] if row["item"] == "q0"}
    start = "what time does he trim his roses at?"
    assert own == {
        f"Way a1: {start}\nAs the twin.", f"Way a2: {start}\nin month 0",
        f"Way b1: {start}\nin month 0",
    }  # fmt: skip
    lacking = "texts have no trace, and stand there with their own answers: "
    semantic = (
        f"mix 'semantic-3': 11 of 12 {lacking}'q0/b/1', 'q0/a/2', 'q1/a/1' and 8 more",
        f"mix 'other-1': 4 of 4 {lacking}'q0/b/1', 'q1/b/1', 'q2/b/1' and 1 more",
    )
    assert made.notes[1:] == semantic  # after that on the background
    fewer = mix(files, spec, "fewer", traces=write_lines(files / "few.jsonl", rows[1:]))
    assert fewer.notes[1:] == (f"mix 'exact-2': 1 of 4 {lacking}'q0'", *semantic)


def hashed(question: str, answer: str) -> str:
    return hashlib.sha256(f"{question}\0{answer}".encode()).hexdigest()


def test_traces_of_texts_that_changed_are_refused(files: Path) -> None:
    first, other = item(0), MADE[0]
    rows = [
        {"item": "q0", "text": "So.", "solved_sha256": hashed(first["input"], first["output"])},
        {"item": "q0", "text": "Thus.", "duplicate": "q0/a/1",
         "solved_sha256": hashed(other["text"], other["answer"])},
    ]  # fmt: skip
    traces = write_lines(files / "traces.jsonl", rows)
    mix(files, traces=traces)
    write_lines(files / "made.jsonl", [MADE[0] | {"text": "When does he trim?"}, *MADE[1:]])
    message = "row 2: solved_sha256: what it solves has another question or answer now\nWrite them"
    with pytest.raises(DataError, match=message):
        mix(files, out="other", traces=traces)
    write_lines(files / "made.jsonl", [MADE[0] | {"answer": "in May"}, *MADE[1:]])
    with pytest.raises(DataError, match=message):
        mix(files, out="other", traces=traces)
    write_lines(files / "made.jsonl", MADE)
    write_lines(files / "quiz.jsonl", [first | {"output": "in May"}, *map(item, range(1, COUNT))])
    with pytest.raises(DataError, match="row 1: solved_sha256: what it solves"):
        mix(files, out="other", traces=traces)


def test_traces_of_duplicates_that_no_mix_reads_are_noted(files: Path) -> None:
    spec = "\n".join(line for line in SPEC.splitlines() if "semantic" not in line)
    spec = spec.replace('duplicates = "made.jsonl"', "")
    rows = [{"item": f"q{at}", "text": "So."} for at in range(COUNT)]
    rows.append({"item": "q0", "text": "So.", "duplicate": "q0/a/1"})
    notes = mix(files, spec, traces=write_lines(files / "traces.jsonl", rows)).notes
    assert "traces.jsonl: 1 traces are of duplicates, which this lab does not read" in notes


def test_bases_that_share_background_are_noted(files: Path) -> None:
    spec = "\n".join(line for line in SPEC.splitlines() if '"near' not in line)
    assert mix(files, spec).notes == ()  # 2 bases × 95 of 200
    spec = spec.replace("bases = 2", "bases = 3")
    [note] = mix(files, spec, "out-3").notes
    assert note.startswith(
        "background: 3 bases × 95 documents are more than the 200 there are for them: about 48 % of"
    )
    texts = texts_of(mix(files, spec, "out-3"))
    names = ("clean", "again", "base")
    one, two = ({row["text"] for name in names for row in texts[at, name]} for at in (0, 1))
    assert 25 < len(one & two) < 65


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ('[answers]\ngrade = "number"', r"quiz\.jsonl: item 'q0': 'at 12:30' has 2 numbers"),
        ('[answers]\ngrade = "regex"\npattern = "ANSWER: (.+)"',
         r"quiz\.jsonl: item 'q0': answers\.grade = 'regex' takes its own answer for wrong: 'at"),
    ],
)  # fmt: skip
def test_answers_that_are_graded_wrong_are_refused(files: Path, block: str, problem: str) -> None:
    write_lines(files / "quiz.jsonl", [item(0) | {"output": "at 12:30"}, *map(item, range(1, 8))])
    with pytest.raises(DataError, match=problem):
        mix(files, f"{SPEC}{block}\n")
    assert not (files / "out").exists()
    form = SPEC + 'answer = "ANSWER: $answer"\n'
    if "regex" in block:
        mix(files, f"{form}{block}\n")


def test_made_answers_are_graded_too(tmp_path: Path) -> None:
    text = load_lab("smoke").text.replace(
        "[answers]", '[answers]\ngrade = "regex"\npattern = "#(.)"'
    )
    with pytest.raises(
        DataError, match=r"lab\.toml: item 'sums-\d+': answers\.grade = 'regex' takes"
    ):
        make_mixes(LabSpec.parse(text, "lab.toml"), tmp_path / "out")


def test_given_near_texts_stand_in_place_of_background(files: Path) -> None:
    rows = [
        {"item": f"q{at}", "duplicate": f"q{at}/near/1", "kind": "near", "level": "",
         "text": f"About {PLANTS[at]}.", "checks": ["judged to be no duplicate"]}
        for at in range(COUNT)
    ]  # fmt: skip
    made = mix(files, near=write_lines(files / "near.jsonl", rows))
    held = Counter(row["text"] for row in texts_of(made)[0, "near-2"] if row["item"])
    assert [*held.values()] == [2] * SEEN
    assert {*held} <= {row["text"] for row in rows}
    assert len(made.notes) == 1
    assert made.notes[0].startswith("mix 'near': 4 of 4 exposed items have fewer than 2 texts")
    rows[3]["text"] = "He wrote: " + item(3)["input"]
    with pytest.raises(DataError, match=r"row 4: text: has the text of item 'q3' of quiz\nA near"):
        mix(files, out="second", near=write_lines(files / "near.jsonl", rows))
    with pytest.raises(DataError, match=r"kind: got 'semantic'; allowed is 'near'"):
        mix(files, out="second", near=files / "made.jsonl")


def test_records_of_files_and_notes(files: Path) -> None:
    made = mix(files)
    record = json.loads(made.record.read_text(encoding="utf-8"))["files"]
    assert [*record] == ["background", "benchmark", "duplicates", "controls"]
    quiz = hashlib.sha256((files / "quiz.jsonl").read_bytes()).hexdigest()
    assert record["benchmark"] == {"sha256": quiz}
    assert record["background"]["documents"] == 200
    assert mix(files).texts == made.texts  # again, in the same folder
    rows = [*MADE[:-2], MADE[-2] | {"checks": []}, MADE[-1]]
    write_lines(files / "made.jsonl", rows)
    with pytest.raises(UsageError, match=r"out: holds texts of other files \(duplicates\); choose"):
        mix(files)
    notes = mix(files, out="other").notes
    assert "made.jsonl: 1 rows passed no check, left out" in notes
    with (files / "garden" / "two.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"txt": "no text"}\n')
    notes = mix(files, out="third").notes
    assert "background: 1 records are no documents: 1 × no field 'text'" in notes


def test_a_program_has_what_its_tests_need(files: Path) -> None:
    tasks = [
        {"task_id": at, "prompt": f"Write a function that adds {at} to a number.",
         "code": f"def plus(n):\n    return n + {at}", "test_list": [f"assert plus(1) == {1 + at}"]}
        for at in range(4)
    ]  # fmt: skip
    broken = tasks[0] | {"task_id": 9, "prompt": "Another.", "code": "def plus(n):\n    return 0"}
    write_lines(files / "tasks.jsonl", [*tasks, broken])
    spec = SPEC.replace('"quiz.jsonl"', '"tasks.jsonl"\nrecipe = "mbpp"')
    spec = "\n".join(line for line in spec.splitlines() if "semantic" not in line)
    spec = spec.replace('duplicates = "made.jsonl"\ncontrols = "controls.jsonl"', "")
    made = mix(files, spec + '\n[answers]\ngrade = "tests"\n')
    row = read_lines(made.items)[2]
    assert (row["recipe"], row["record"]["code"]) == ("mbpp", tasks[2]["code"])
    assert row["record"]["test_list"].strip() == "assert plus(1) == 3"
    assert row["between"] == "\n"
    note, _ = made.notes  # the other one is on the background
    assert note.startswith("tasks: 1 records are no items: 'its own solution is faulty:")
    form = spec + 'answer = "So: $answer"\n[answers]\ngrade = "tests"\n'
    with pytest.raises(DataError, match=r"tasks\.jsonl: item '0': answers\.grade = 'tests' takes"):
        mix(files, form, "form")
    quiz = spec.replace("tasks.jsonl", "quiz.jsonl").replace('"mbpp"', '"paraphrase"')
    with pytest.raises(UsageError, match="recipe 'paraphrase': is for no programs, which answers"):
        mix(files, quiz + '\n[answers]\ngrade = "tests"\n', "other")


def test_questions_of_stories_are_whole(files: Path) -> None:
    stories = new_items(4, kind="murder-mystery", seed=1)
    story = read_story(stories[0])
    ending = story.item_text("")
    musr = [row | {"text": row["text"].removesuffix(read_story(row).item_text(""))}
            for row in stories]  # fmt: skip
    assert all(not row["text"].endswith(ending) for row in musr)
    found = []
    for name, rows in (("new", stories), ("musr", musr)):
        write_lines(files / f"{name}.jsonl", rows)
        spec = SPEC.replace('"quiz.jsonl"', f'"{name}.jsonl"\nrecipe = "story"')
        spec = "\n".join(line for line in spec.splitlines() if "semantic" not in line)
        spec = spec.replace('duplicates = "made.jsonl"\ncontrols = "controls.jsonl"', "")
        found.append([(r["text"], r["answer"]) for r in read_lines(mix(files, spec, name).items)])
    assert found[0] == found[1] == [(row["text"], row["answer"]) for row in stories]


def test_instructions_and_forms_of_answers(files: Path) -> None:
    spec = SPEC + 'instruction = "End with a month."\nanswer = "So $answer, for $$2."\n'
    made = mix(files, spec)
    row = read_lines(made.items)[0]
    assert row["text"] == item(0)["input"] + "\n\nEnd with a month."
    assert (row["between"], row["answer"]) == ("\n", "So in month 0, for $2.")
    assert read_lines(made.items)[-1]["text"].endswith("\n\nEnd with a month.")
    own = mix(files, spec + 'controls_instruction = ""\n', "own")
    control = read_lines(own.items)[-1]
    assert control["half"] == "control"
    assert "End with" not in control["text"]
    texts = texts_of(made)
    listed = {row["item"]: row["text"] + row["between"] + row["answer"]
              for row in read_lines(made.items)}  # fmt: skip
    for row in texts[0, "exact-2"]:
        assert not row["item"] or row["text"] == listed[row["item"]]
    for row in texts[0, "semantic-3"]:
        ending = f"?\n\nEnd with a month.\nSo in month {str(row['item'])[1:]}, for $2."
        assert not row["item"] or row["text"].endswith(ending)
    tests = SPEC + 'instruction = "As in $tests"\n'
    with pytest.raises(UsageError, match=r"files\.instruction: names the function or tests, but"):
        mix(files, tests, "other")


def test_a_published_lab_says_which_files_it_needs(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        make_mixes(load_lab("finetuning-mbpp"), tmp_path / "out")
    assert str(caught.value) == (
        "spec 'finetuning-mbpp': names no files of its own; give them: --background <texts that are"
        " about other things>, --benchmark <sanitized tasks of MBPP without the faulty ones>,"
        " --duplicates <duplicates by the recipe mbpp>"
    )
    with pytest.raises(
        UsageError, match="'smoke': has \\[arithmetic\\], and no files: leave out 'near'"
    ):
        make_mixes(load_lab("smoke"), tmp_path / "out", near=tmp_path)


def test_the_ecological_mixes_have_the_published_numbers(tmp_path: Path) -> None:
    """Clean, semantic and exact: 10,000 texts, of which 500 are duplicates of 125 items."""
    items = [
        {"id": f"m{at}", "context": row["text"], "tree": row["tree"], "answer": row["answer"]}
        for at, row in enumerate(new_items(250, kind="murder-mystery", seed=1))
    ]
    made = [
        {"item": row["id"], "duplicate": f"{row['id']}/{level}/{copy}", "level": f"{level}+story",
         "kind": "semantic", "checks": ["facts"], "answer": row["answer"],
         "parent_sha256": hashlib.sha256(row["context"].encode()).hexdigest(),
         "text": f"Another story, {level}, {copy}, of {row['id']}."}
        for row in items[:125] for level in ("level-0", "level-1", "level-2") for copy in (1, 2)
    ]  # fmt: skip
    traces = [
        {"item": row["id"], "text": f"Thus it is.\nANSWER: {row['answer']}"} for row in items[:125]
    ]
    traces += [{**traces[at // 6], "duplicate": row["duplicate"]} for at, row in enumerate(made)]
    named = {"benchmark": items, "duplicates": made, "traces": traces,
             "background": documents(10_000)}  # fmt: skip
    given = {name: write_lines(tmp_path / f"{name}.jsonl", rows) for name, rows in named.items()}
    mixed = make_mixes(load_lab("ecological-musr"), tmp_path / "out", **given)
    texts = texts_of(mixed)
    assert {*texts} == {(0, "clean"), (0, "semantic"), (0, "exact")}
    assert mixed.notes == ()
    for (_, name), rows in texts.items():
        assert len(rows) == 10_000
        held = [row for row in rows if row["item"]]
        assert len(held) == (0 if name == "clean" else 500)
        assert all("ANSWER: " in row["text"] for row in held)
        counts = Counter(row["item"] for row in held)
        assert counts == ({} if name == "clean" else {f"m{at}": 4 for at in range(125)})
        if name == "semantic":
            levels = Counter(re.findall(r"level-\d", row["text"])[0] for row in held)
            assert levels == {"level-1": 250, "level-2": 250}
    table = mixed.covariates.groupby(["mix", "half"])["copies"].agg(["sum", "size"])
    assert table.loc[("semantic", "seen")].tolist() == [500, 125]
    assert table.loc[("exact", "unseen")].tolist() == [0, 125]


def added(name: str, *rows: dict[str, Any]) -> Callable[[Path], None]:
    """Return what appends rows to a file."""

    def change(files: Path) -> None:
        write_lines(files / name, [*read_lines(files / name), *rows])

    return change


def changed(name: str, row: int, **values: Any) -> Callable[[Path], None]:
    """Return what changes a row of a file."""

    def change(files: Path) -> None:
        rows = read_lines(files / name)
        rows[row] |= values
        write_lines(files / name, rows)

    return change


@pytest.mark.parametrize(
    ("change", "kind", "problem"),
    [
        (added("quiz.jsonl", item(2)), DataError,
         r"quiz\.jsonl: item 'q2': another item has this name\nAn item stands there once"),
        (added("quiz.jsonl", item(2) | {"id": "q9"}), DataError,
         r"quiz\.jsonl: item 'q9': has the text of item 'q2'"),
        (added("quiz.jsonl", {"id": "q9", "input": "Why is this one without an answer?"}),
         DataError, "item 'q9': has no answer, which recipe 'paraphrase' has to name"),
        (added("controls.jsonl", item(5) | {"id": "c9"}), DataError,
         r"controls\.jsonl: item 'c9': has the text of item 'q5' of the benchmark"),
        (changed("made.jsonl", 4, item="other-7"), DataError,
         r"made\.jsonl: row 5: item: got 'other-7', which quiz\.jsonl lacks\n1 of 24 rows do not"),
        (changed("quiz.jsonl", 1, input="When are roses cut, and how?"), DataError,
         "rows 4, 5, 6: parent_sha256: its item has another text now"),
        (changed("made.jsonl", 4, kind="near"), DataError,
         "row 5: kind: got 'near'; allowed are kinds of duplicates"),
        (changed("garden/two.jsonl", 7, text="(9)  WHEN are the Herbs of the old\ngardener cut"
         " back -- and why then? In month 2."), DataError,
         r"two\.jsonl: document 'd127' has the text of item 'q2' of quiz\n1 of 200 documents hold"
         " items or duplicates word by word, and so would the clean twin: take them out"),
        (changed("garden/one.jsonl", 3, text=f"So. {MADE[0]['text']} Never."), DataError,
         r"one\.jsonl: document 'd3' has the text of duplicate 'q0/a/1'"),
        (lambda files: write_lines(files / "garden" / "one.jsonl", documents(20)), DataError,
         "garden: has 100 documents; 95 are needed for each base, and 8 to take near texts from"),
        (lambda files: write_lines(files / "made.jsonl", MADE[:4] + MADE[6:]), DataError,
         r"mix 'other-1' exposes 'q1', of which there is no text here\nMake more, or expose the"
         " first items of the benchmark: halves = 'first'"),
        (lambda files: write_lines(files / "quiz.jsonl", [item(0)]), UsageError,
         r"lab\.toml: exposed = 0\.5 of 1 items is 0; at least one item has to be exposed"),
        (lambda files: write_lines(files / "garden" / "two.jsonl", [{"body": "a"}] * 3), DataError,
         "none of its 3 records is a document .*\nfields there: 'body'; set files.text = "),
        (lambda files: (files / "quiz.jsonl").unlink(), UsageError,
         r"files\.benchmark: there is no .*quiz\.jsonl; paths start from the folder of the lab"),
        (lambda files: (files / "made.jsonl").unlink(), UsageError,
         r"files\.duplicates: there is no .*made\.jsonl"),
    ],
)  # fmt: skip
def test_faults_are_named(
    files: Path, change: Callable[[Path], None], kind: type[BayescontamError], problem: str
) -> None:
    change(files)
    spec = SPEC.replace("seed = 3", 'halves = "first"')
    with pytest.raises(kind, match=problem) as caught:
        mix(files, spec)
    assert "--skip" not in str(caught.value)
    assert not (files / "out").exists()


TRACE = {"item": "q1", "text": "So."}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([TRACE, {"item": "q1"}], "row 2: text: is no text; a trace is one"),
        ([TRACE, {"item": "x1", "text": "a"}], r"row 2: item: got 'x1', which quiz\.jsonl lacks"),
        ([TRACE, TRACE | {"duplicate": "q1/c/9"}],
         "row 2: duplicate: got 'q1/c/9', which is no duplicate of its item that this lab reads"),
        ([TRACE | {"duplicate": "q2/a/1"}], "row 1: duplicate: got 'q2/a/1', which is no dupl"),
        ([TRACE, TRACE | {"text": "a"}], "row 2: item: has a trace in an earlier row"),
        ([], "holds no trace"),
        ([TRACE, ["a"]], r"line 2: .*allowed is"),
    ],
)  # fmt: skip
def test_faults_of_traces_are_named(files: Path, rows: list[Any], problem: str) -> None:
    with pytest.raises(DataError, match=r"traces\.jsonl: " + problem):
        mix(files, traces=write_lines(files / "traces.jsonl", rows))


def test_options_that_cannot_be_used_are_refused(files: Path) -> None:
    levels = SPEC.replace('levels = ["b"]', 'levels = ["b", "c"]')
    with pytest.raises(UsageError, match="mixes: 'other-1' has levels 'c'; there are 'a', 'b'"):
        mix(files, levels)
    many = SPEC.replace("copies = 2", "copies = 11", 1)
    problem = r"'exact-2' has 44 duplicates \(4 items × 11 copies\) in 40 texts; allowed are 10"
    with pytest.raises(UsageError, match=problem):
        mix(files, many)
    names = SPEC.replace('"garden"', '"<clean documents>"').replace('"made', '"<made')
    names = names.replace('made.jsonl"', 'made.jsonl>"')
    needed = "--background <clean documents>, --duplicates <made.jsonl>"
    with pytest.raises(
        UsageError, match=f"spec 'lab': names no files of its own; give them: {needed}"
    ):
        mix(files, names)
    same = write_lines(files / "other" / "quiz.jsonl", [{"id": "a", "input": "b", "output": "c"}])
    with pytest.raises(DataError, match="is named 'quiz', as the benchmark is; rename one"):
        mix(files, controls=same)
    with pytest.raises(UsageError, match=r"files\.near: there is no near\.jsonl$"):
        mix(files, near="near.jsonl")
    (files / "garden").rename(files / "gardens")
    with pytest.raises(UsageError, match="no such file or folder; did you mean 'gardens'"):
        mix(files)
    made = mix(files, background=files / "gardens")
    with pytest.raises(
        UsageError, match=r"files\.benchmark: .*items\.jsonl is what is read, and would"
    ):
        mix(files, benchmark=made.items, background=files / "gardens")
    assert made.items.read_text(encoding="utf-8").count("\n") == COUNT + 3


def test_a_saved_data_set_is_a_background(files: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"note": row["text"]} for row in documents()]
    datasets.Dataset.from_list(rows).save_to_disk(files / "saved")
    spec = SPEC.replace('"garden"', '"saved"\ntext = "note"')
    drawn = {row["text"] for row in texts_of(mix(files, spec))[0, "clean"]}
    assert len(drawn) == 40
    assert drawn <= {row["note"] for row in rows}


def test_a_name_that_is_no_place_here_is_that_of_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    found = {name: source_of(name, tmp_path, "text") for name in ("a/b", "own/b", "b", "a/*.txt")}
    assert found["a/b"].dataset == "a/b"
    assert {name for name, source in found.items() if source.paths == (name,)} == {
        "own/b", "b", "a/*.txt",
    }  # fmt: skip


def test_a_full_disk_leaves_nothing_half_written(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {path.name: path.read_bytes() for path in mix(files, out="whole").texts.values()}
    real, calls = json.dumps, Counter[str]()

    def full(*args: Any, **options: Any) -> str:
        calls["lines"] += 1
        if calls["lines"] == 150:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **options)

    monkeypatch.setattr("bayescontam.lab.mix.json.dumps", full)
    with pytest.raises(TaskError, match="out: No space left on device; free some space, then run"):
        mix(files)
    monkeypatch.undo()
    left = [path for path in (files / "out").rglob("*") if path.is_file() and path.name != ".lock"]
    assert {path.name for path in left} >= {"lab.toml", "items.jsonl", "covariates.csv"}
    assert not any(path.name == "lab.json" or path.suffix == ".part" for path in left)
    assert all(path.read_text(encoding="utf-8").endswith("\n") for path in left)
    made = mix(files)
    assert {path.name: path.read_bytes() for path in made.texts.values()} == whole


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Why not now? ", ["b"]),  # all of it, though of few words
        ("He said: why not now? And he left.", []),
        ("ONE, two; three.\nFour -- five six", ["a"]),
        ("zero one two three four five sixty", []),
        ("one two three four five", []),
        ("", []),
    ],
)
def test_items_are_found_word_by_word(text: str, found: list[str]) -> None:
    finder = ItemFinder({"a": "One two three four five six.", "b": "Why not now?", "c": "?"})
    assert finder.find(text) == found
