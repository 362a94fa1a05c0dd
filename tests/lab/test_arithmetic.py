"""The small world of arithmetic: results by another parser, wordings, what is left out."""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from bayescontam.errors import UsageError
from bayescontam.lab.arithmetic import (
    KINDS,
    LARGEST,
    PARAPHRASES,
    Key,
    Problem,
    answer,
    background,
    control,
    draw_control,
    draw_problem,
    items,
    other_form,
    own_form,
    paraphrase,
    problem_of,
    question,
    vocabulary,
)

LOST = re.compile(
    r"(?:gives|loses|takes|sells|eats|less|[Ww]ithout) (\d+)|When (\d+) \w+ of \d+ are gone"
    r"|(?<!of )\b(\d+) (?:are )?(?:taken out|gone|eaten)"
)
"""Numbers that are taken away, by the words around them."""
HOURS = re.compile(r"\bhours?\b|\bclock\b")
"""Texts about clocks."""
SUM = re.compile(r"together (\d+) ,")


def check(text: str) -> None:
    """Work out what a text is about from its words alone, and compare with its last number."""
    numbers = [int(word) for word in text.split() if word.isdigit()]
    assert all(0 <= number <= LARGEST for number in numbers), text
    if "=" in text:
        for equation in text.removesuffix(" .").split(" ; "):
            left, right = equation.split(" = ")
            assert re.fullmatch(r"\d+( [-+] \d+)+", left), text
            terms = re.findall(r"([-+]?) ?(\d+)", left)
            assert sum(int(sign + number) for sign, number in terms) == int(right), text
        return
    *given, result = numbers
    if HOURS.search(text):
        assert len(given) == 2, text
        assert (sum(given) - result) % 12 == 0, text
        assert 1 <= result <= 12, text
        return
    if found := SUM.search(text):  # the sum on the way
        assert int(found[1]) == given[0] + given[1] == given[2], text
        del given[2]
    lost = [int(number) for groups in LOST.findall(text) for number in groups if number]
    assert sum(given) - 2 * sum(lost) == result, text
    assert len(lost) <= 1, text


def problems(count: int) -> Iterator[Problem]:
    rng = np.random.default_rng(2)
    return (draw_problem(rng) for _ in range(count))


def test_numbers_that_are_added_stand_in_either_order() -> None:
    for kind, first, second in (
        ("add", (7, 5), (5, 7)), ("change", (7, 5, 2), (5, 7, 2)),
    ):  # fmt: skip
        keys = {Problem(kind, "Ann", "apples", n, 0).key for n in (first, second)}  # type: ignore[arg-type]
        assert len(keys) == 1
    for kind in ("subtract", "clock"):
        assert Problem(kind, "Ann", "x", (7, 5), 0).key == ("Ann", "x", (7, 5))  # type: ignore[arg-type]


def test_the_forms_are_as_stated() -> None:
    problem = Problem("add", "Ann", "apples", (7, 5), 12)
    text = "Question : Ann has 7 apples and gets 5 more . How many apples has Ann now ? Answer :"
    assert (question(problem), answer(problem)) == (text, "12")
    assert own_form(problem) == f"{text} 12 ."


def test_results_are_right_in_every_wording() -> None:
    rng = np.random.default_rng(3)
    for problem in problems(400):
        for text in (own_form(problem), *(paraphrase(problem, at) for at in range(PARAPHRASES))):
            check(text)
            assert text.endswith(f" Answer : {problem.result} .")
            assert {problem.name, problem.thing, *map(str, problem.numbers)} <= {*text.split()}
        check(other_form(problem, rng))
    for text in background(4000, rng, own_share=0.2, question_share=0.4, control_share=0.3):
        check(text)


def test_all_numbers_of_all_classes_are_drawn_alike() -> None:
    drawn = [*problems(20_000)]
    counts = Counter(problem.kind for problem in drawn)
    assert {*counts} == {*KINDS}
    assert all(abs(count - 20_000 / 3) < 5 * (20_000 * 2 / 9) ** 0.5 for count in counts.values())
    assert len({p.numbers for p in drawn if p.kind == "add"}) == 231  # 1 + 2 + … + 21
    assert len({p.numbers for p in drawn if p.kind == "subtract"}) == 231
    assert len({p.name for p in drawn}) == 10
    assert len({p.thing for p in drawn}) == 8
    assert all(sum(p.numbers[:2]) <= LARGEST for p in drawn if p.kind != "subtract")


def test_wordings_are_distinct_and_many() -> None:
    rng = np.random.default_rng(4)
    for kind in (*KINDS, "clock"):
        draw = draw_control if kind == "clock" else draw_problem
        problem = draw(rng)
        while problem.kind != kind or len({*problem.numbers, problem.result}) < 3:
            problem = draw(rng)
        others = {other_form(problem, rng) for _ in range(400)}
        assert len(others) >= 6
        assert own_form(problem) not in others
        assert all(str(problem.result) in text.split() for text in others)
        if kind != "clock":
            signs = " - " if kind == "subtract" else " + "
            assert any(signs in text for text in others)
        meant = {paraphrase(problem, at) for at in range(PARAPHRASES)}
        assert len(meant) == PARAPHRASES >= 8
        assert not meant & (others | {own_form(problem)})


def test_clean_models_know_every_word() -> None:
    known = vocabulary()
    assert len(set(known)) == len(known) < 200
    clean = background(5000, np.random.default_rng(5), own_share=0.2, question_share=0.4)
    assert {word for text in clean for word in text.split()} == {*known}
    for problem in problems(50):
        for at in range(PARAPHRASES):
            assert {*paraphrase(problem, at).split()} <= {*known}


def test_items_are_distinct_and_lead_back_to_their_problems() -> None:
    made = items(500, np.random.default_rng(6))
    assert len({problem_of(item).key for item in made}) == 500
    assert len({item["id"] for item in made}) == len({item["text"] for item in made}) == 500
    for item in made:
        assert item["text"] == question(problem_of(item))
        check(f"{item['text']} {item['answer']} .")
    assert made == items(500, np.random.default_rng(6))


def test_controls_are_distinct_and_about_clocks() -> None:
    made = control(1000, np.random.default_rng(7))
    assert len({item["text"] for item in made}) == 1000
    for item in made:
        assert "clock" in item["text"]
        check(f"{item['text']} {item['answer']} .")


def keys_about(name: str, thing: str) -> set[Key]:
    """Return more keys than there are problems: every pair and triple of numbers."""
    some = range(LARGEST + 1)
    pairs = [(a, b) for a in some for b in some]
    triples = [(*pair, c) for pair in pairs for c in some]
    return {(name, thing, numbers) for numbers in [*pairs, *triples]}


@pytest.mark.parametrize(("name", "thing"), [("Ann", "apples"), ("Ben", "clock")])
def test_no_text_is_about_an_excluded_problem(name: str, thing: str) -> None:
    def found(exclude: set[Key]) -> int:
        texts = background(4000, np.random.default_rng(8), exclude, 0.1, 0.3)
        return sum({name, thing} <= {*text.split()} for text in texts)

    assert found(set()) > 20
    assert found(keys_about(name, thing)) == 0


OWN = re.compile(r"Question : (\w+ has \d+ \w+ (and|,) (gets|gives)|The clock of \w+ shows \d+ \.)")
"""The benchmarks' own form."""


def test_items_have_their_benchmarks_own_form() -> None:
    made = [*items(300, np.random.default_rng(10)), *control(90, np.random.default_rng(10))]
    assert all(OWN.match(row["text"]) for row in made)
    names = {"add": "sums", "subtract": "sums", "change": "changes", "clock": "clock"}
    assert all(row["id"].startswith(names[row["problem"]["kind"]]) for row in made)


def test_shares_of_the_background_are_exact() -> None:
    rng = np.random.default_rng(9)
    texts = background(1000, rng, own_share=0.05, question_share=0.3, control_share=0.2)
    questions = [text for text in texts if text.startswith("Question")]
    own = [text for text in questions if OWN.match(text)]
    clocks = [text for text in texts if HOURS.search(text)]
    assert (len(texts), len(clocks), len(questions), len(own)) == (1000, 200, 350, 50)
    assert sum(text in clocks for text in own) == 10
    assert sum(text in clocks for text in questions) == 70
    places = [at for at, text in enumerate(texts) if text in clocks]
    assert abs(np.mean(places) - 500) < 100  # in random order


@pytest.mark.parametrize("count", [0, 1001])
def test_other_numbers_of_controls_are_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"count: got {count:,}; allowed are 1 to 1,000 items"):
        control(count, np.random.default_rng(1))


def test_faults_are_named() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(UsageError, match="which: got 8; allowed are 0 to 7"):
        paraphrase(next(problems(1)), 8)
    with pytest.raises(UsageError, match=r"own_share: got 1\.5; allowed is a number from 0 to 1"):
        background(5, rng, own_share=1.5)
    with pytest.raises(UsageError, match=r"question_share: got -0\.1; allowed is a number from 0"):
        background(5, rng, question_share=-0.1)
    with pytest.raises(UsageError, match=r"shares: got own_share 0\.6 and question_share 0\.5"):
        background(5, rng, own_share=0.6, question_share=0.5)
    everything = {problem_of(item).key for item in control(1000, rng)}
    everything |= {draw_control(rng).key for _ in range(30_000)}
    with pytest.raises(UsageError, match="exclude: leaves nearly no problem, of 1,320"):
        background(5, rng, everything, control_share=1.0)
