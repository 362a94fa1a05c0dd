"""Steps of a language model, by an endpoint that follows a script and misbehaves."""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayescontam.duplicates.kinds import kind_of
from bayescontam.duplicates.make import Made, check_duplicates, make_duplicates
from bayescontam.duplicates.new import new_items
from bayescontam.duplicates.sandbox import check_sandbox, run_program
from bayescontam.duplicates.writing import load_prompts
from bayescontam.endpoint import Endpoint
from bayescontam.errors import TaskError, UsageError
from bayescontam.specs.recipe import Recipe
from bayescontam.specs.registry import load_recipe
from tests.support.human_eval import tasks
from tests.support.json_lines import write_rows
from tests.support.llm_server import VERDICT, Reply, Request, Server, completion, fault, verdict

pytest.importorskip("openai")

OPENINGS = ("Kindly", "Your job:", "Wanted:", "Here,", "Please", "One should", "Now", "Let us")
SOLUTIONS = {
    "add": (
        "# Of a pair\ndef add(x: int, y: int):\n    # Built-in addition\n    return sum((x, y))\n",
        "# Take a negative number away\ndef add(x: int, y: int):\n    # Twice a minus is a plus\n"
        "    negative = -y\n    # Hand it back\n    return x - negative\n",
        "# Names of operators\nimport operator\n# Fold a list\nfrom functools import reduce\n\n\n"
        "# Fold both numbers\ndef add(x: int, y: int):\n    # Into one\n"
        "    return reduce(operator.add, [x, y], 0)\n",
    ),
    "strlen": (
        "# Count one by one\ndef strlen(string: str) -> int:\n    # Ones\n"
        "    return sum(1 for _ in string)\n",
        "# Walk along\ndef strlen(string: str) -> int:\n    # Nothing seen yet\n    seen = 0\n"
        "    # Each letter\n    for letter in string:\n        # Is one more\n        seen += 1\n"
        "    # All of them\n    return seen\n",
        "# Peel letters off\ndef strlen(string: str) -> int:\n    # Nothing is left\n"
        "    if not string:\n        # So it has no length\n        return 0\n"
        "    # One more than the rest\n    return 1 + strlen(string[1:])\n",
    ),
}
"""Solutions that pass, with a comment above each line, and differ from each other."""


def sent(request: Request) -> str:
    """Return what a request is about: the last message."""
    return str(request.body["messages"][-1]["content"])


def judged(request: Request) -> bool:
    return request.body["messages"][0]["role"] == "system"


def paraphrases(request: Request, text: str) -> Reply:
    """Write as many versions as are wanted: the same words in other orders, none twice.

    What follows a number stays behind it.
    """
    [wanted] = re.findall(r"^(One version|\d+ versions),", sent(request), re.MULTILINE)
    count = 1 if wanted == "One version" else int(wanted.split()[0])
    words = re.findall(r"(?:\d+|two) \S+|\S+", text)[::-1]
    step = 5 if len(words) % 5 else 3
    new = [at for at, opening in enumerate(OPENINGS) if f"{opening} this:" not in sent(request)]
    cuts = {at: step * at % len(words) for at in new[:count]}
    texts = [
        f"{OPENINGS[at]} this: " + " ".join(words[cut:] + words[:cut]) for at, cut in cuts.items()
    ]
    return completion(json.dumps({"paraphrases": texts}))


def written(reply: Reply) -> list[str]:
    """Return the texts of a reply."""
    content = json.loads(reply.body)["choices"][0]["message"]["content"]
    return list(json.loads(content)["paraphrases"])


def function_of(request: Request) -> str:
    return next(name for name in SOLUTIONS if f"the function `{name}`" in sent(request))


def solution(request: Request) -> Reply:
    """Write the first solution that is not shown as an earlier one."""
    known = SOLUTIONS[function_of(request)]
    left = [each for each in known if each.strip() not in sent(request)]
    return completion(f"```python\n{left[0]}```")


def made_of(path: Path, recipe: Recipe, server: Server, tmp_path: Path, **options: Any) -> Made:
    endpoint = Endpoint(server.base_url, "small", timeout=20.0, retries=2)
    return make_duplicates(
        path, recipe, endpoint=endpoint, cache=tmp_path / "cache", **{"seed": 1, **options}
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    check_sandbox()
    return write_rows(tmp_path / "he.jsonl", tasks(23, 53))


def recipe(name: str, **changes: Any) -> Recipe:
    return load_recipe(name).model_copy(update=changes)


def in_prompt(request: Request) -> str:
    """Return the text that a prompt of paraphrases holds."""
    return sent(request).partition("<text>\n")[2].partition("\n</text>")[0]


def good(request: Request) -> Reply:
    if judged(request):
        return verdict()
    if "<text>" not in sent(request):
        return solution(request)
    # The docstring in other words; what comes before it, and examples, stay.
    text = in_prompt(request)
    doc = re.findall(r'""" ?(.*?)\n', text)[0]
    reply = json.loads(
        json.loads(paraphrases(request, doc).body)["choices"][0]["message"]["content"]
    )
    texts = [text.replace(doc, new) for new in reply["paraphrases"]]
    return completion(json.dumps({"paraphrases": texts}))


def test_solutions_and_paraphrases_of_human_eval(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    server.behave = good
    made = made_of(programs, recipe("humaneval", copies=3), server, tmp_path)
    assert made.failures[made.failures["what"] != "attempt"].empty, made.failures
    assert Counter(row["level"] for row in made.rows) == {"paraphrase": 6, "solution": 6}
    for row in made.rows:
        expected = (
            ["names", "other words", "tests", "equal meaning by llm:small"]
            if row["level"] == "paraphrase"
            else ["other code", "comments", "tests", "other than earlier ones"]
        )
        assert row["checks"] == expected
    assert len({row["answer"] for row in made.rows if row["level"] == "solution"}) == 6
    assert len({row["text"] for row in made.rows if row["level"] == "paraphrase"}) == 6
    again = check_duplicates(write_rows(tmp_path / "d.jsonl", made.rows), programs, "humaneval")
    assert again.failures.empty
    assert again.rows == made.rows


def test_settings_are_the_published_ones_and_the_judge_is_at_zero(
    programs: Path, server: Server, tmp_path: Path
) -> None:
    server.behave = good
    made_of(programs, recipe("humaneval", copies=2), server, tmp_path, judge="big")
    for request in server.requests:
        expected = ("big", 0.0) if judged(request) else ("small", 1.0)
        assert (request.body["model"], request.body["temperature"]) == expected
        assert request.body["max_tokens"] == 1024


BAD = {
    "same code": (
        '#\ndef add(x: int, y: int):\n    """Add two numbers x and y\n    >>> add(2, 3)\n    5\n'
        '    >>> add(5, 7)\n    12\n    """\n    #\n    return x + y\n',
        "too similar",
    ),
    "wrong code": (
        "# Wrong\ndef add(x: int, y: int):\n    # Sum and one\n    return sum([x, y]) + 1\n",
        "its code fails its tests",
    ),
    "endless loop": (
        "# Loop\ndef add(x: int, y: int):\n    # For ever\n    while True:\n        # Nothing\n"
        "        pass\n",
        "time limit",
    ),
    "fork bomb": (
        "# Import\nimport os\n\n\n# Bomb\ndef add(x: int, y: int):\n    # Again and again\n"
        "    while True:\n        # Split\n        os.fork()\n",
        "process",
    ),
    "file deletion": (
        "# Import\nimport shutil\n\n\n# Remove\ndef add(x: int, y: int):\n    # All\n"
        "    shutil.rmtree('{folder}')\n    # Sum\n    return x + y\n",
        "fails its tests",
    ),
    "no code": ("I would rather not.", "no Python"),
    "another name": (
        "# Other\ndef plus(x: int, y: int):\n    # Sum\n    return sum([x, y])\n", "tests"
    ),
    "no comments": ("def add(x, y):\n    total = x\n    total += y\n    return total\n", "comment"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_solution_is_counted_and_written_again(
    case: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_sandbox()
    if case == "endless loop":  # it runs for as long as it may
        brief = lambda *parts, **_: run_program(*parts, seconds=2.0)  # noqa: E731
        monkeypatch.setattr("bayescontam.duplicates.programs.run_program", brief)
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "file").write_text("here")
    code, reason = BAD[case]
    first = completion(code.replace("{folder}", str(canary)))
    server.behave = lambda request: first if len(server.requests) == 1 else good(request)
    path = write_rows(tmp_path / "he.jsonl", tasks(53))
    made = made_of(path, recipe("humaneval", copies=2), server, tmp_path, chains=["solution"])
    assert len(made.rows) == 2
    assert made.failures["what"].tolist() == ["attempt"]
    assert reason in made.failures["reason"][0]
    assert "What was wrong with an earlier attempt" in sent(server.requests[1])
    assert reason in sent(server.requests[1])
    assert (canary / "file").read_text() == "here"


def test_what_never_passes_is_a_failure_by_reason(server: Server, tmp_path: Path) -> None:
    check_sandbox()
    server.behave = lambda request: completion(BAD["wrong code"][0])
    path = write_rows(tmp_path / "he.jsonl", tasks(53))
    made = made_of(path, recipe("humaneval", copies=2), server, tmp_path, chains=["solution"])
    assert not made.rows
    counts = made.failures.set_index("what")["count"]
    assert counts.to_dict() == {"attempt": 6, "duplicate": 2}
    assert made.failures["reason"].eq("its code fails its tests").all()


TEXTS = [
    {"id": "q1", "input": "Ada has 12 pears and gives 5 to Ben. How many has Ada left?",
     "output": "7"},
    {"id": "q2", "input": "How far does a train go in 3 hours at 80 km an hour, says Ada?",
     "output": "240"},
]  # fmt: skip


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "quiz.jsonl", TEXTS)


def any_text(request: Request) -> Reply:
    return verdict() if judged(request) else paraphrases(request, in_prompt(request))


def test_paraphrases_of_any_benchmark(texts: Path, server: Server, tmp_path: Path) -> None:
    server.behave = any_text
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert made.failures.empty
    assert len({row["text"] for row in made.rows}) == len(made.rows) == 10
    assert {row["answer"] for row in made.rows} == {"7", "240"}
    writing = [request for request in server.requests if not judged(request)]
    assert len(writing) == 2  # five together
    assert "5 versions" in sent(writing[0])
    assert "12, 5, Ben" in sent(writing[0]) or "12, 5, Ada" in sent(writing[0])


WRAPPINGS: dict[str, Callable[[list[str]], str]] = {
    "a fence and a preface": lambda texts: (
        "Here are the paraphrases:\n```json\n" + json.dumps({"paraphrases": texts}) + "\n```"
    ),
    "thoughts": lambda texts: (
        '<think>Perhaps {"paraphrases": ["no", "no"]}</think>' + json.dumps({"paraphrases": texts})
    ),
    "a thought as an object": lambda texts: (
        '{"thought": "numbers stay"}\n' + json.dumps({"paraphrases": texts})
    ),
    "a bare list": json.dumps,
    "a list of objects": lambda texts: json.dumps([{"text": text} for text in texts]),
    "an object in an object": lambda texts: json.dumps({"result": {"paraphrases": texts}}),
    "numbered fields": lambda texts: json.dumps({f"para{at}": t for at, t in enumerate(texts)}),
    "line breaks in texts": lambda texts: (
        json.dumps({"paraphrases": texts}).replace("this: ", "this:\n")
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRAPPINGS)
def test_replies_are_read_in_many_forms(
    case: str, texts: Path, server: Server, tmp_path: Path
) -> None:
    def wrapped(request: Request) -> Reply:
        if judged(request):
            return verdict()
        return completion(WRAPPINGS[case](written(paraphrases(request, in_prompt(request)))))

    server.behave = wrapped
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert made.failures.empty
    assert len(made.rows) == 10
    assert all("this:" in row["text"] for row in made.rows)


FENCES: dict[str, Callable[[str], str]] = {
    "none": lambda code: code,
    "python3": lambda code: f"Here it is:\n```python3\n{code}```\nIt adds.",
    "capital": lambda code: f"```Python\n{code}```",
    "tildes": lambda code: f"~~~python\n{code}~~~",
    "unclosed": lambda code: f"```python\n{code}",
    "indented": lambda code: "  ```python\n" + textwrap.indent(code, "  ") + "  ```",
    "a command before": lambda code: f"```bash\npip install x\n```\n```python\n{code}```",
    "a longer one before": lambda code: (
        "```python\ndef add(x, y):\n" + "    # wrong\n" * 40 + "    return 0\n```\n"
        f"```python\n{code}```"
    ),
    "thoughts": lambda code: (
        f"<think>```python\ndef add(x, y): pass\n```</think>```python\n{code}```"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FENCES)
def test_code_is_read_in_many_forms(case: str, server: Server, tmp_path: Path) -> None:
    check_sandbox()
    server.behave = lambda request: completion(FENCES[case](SOLUTIONS["add"][0]))
    path = write_rows(tmp_path / "he.jsonl", tasks(53))
    made = made_of(path, recipe("humaneval", copies=1), server, tmp_path, chains=["solution"])
    assert made.failures.empty
    assert [row["answer"] for row in made.rows] == [SOLUTIONS["add"][0]]


HOPELESS = {
    "cut off within brackets": "# c\ndef add(x, y):\n    # d\n    return sum([v for v in (x, y)]",
    "an open text": '# c\ndef add(x, y):\n    # d\n    return """a',
    "null": "# c\ndef add(x, y):\n    # d\n    return x + y\x00",
    "deep": "# c\ndef add(x, y):\n    # d\n    return " + "(" * 300,
    "half a character": "# \ud83d\ndef add(x, y):\n    # d\n    return 1",
}


@pytest.mark.parametrize("case", HOPELESS)
def test_odd_code_ends_no_run(case: str, server: Server, tmp_path: Path) -> None:
    check_sandbox()
    server.behave = lambda request: (
        completion(HOPELESS[case]) if len(server.requests) == 1 else good(request)
    )
    path = write_rows(tmp_path / "he.jsonl", tasks(53))
    for _ in range(2):  # what is stored does not end it either
        made = made_of(path, recipe("humaneval", copies=1), server, tmp_path, chains=["solution"])
        assert len(made.rows) == 1
        assert made.failures["what"].tolist() == ["attempt"]


def test_a_text_that_was_cut_off_is_none(texts: Path, server: Server, tmp_path: Path) -> None:
    def cut(request: Request) -> Reply:
        if judged(request):
            return verdict()
        content = json.dumps({"paraphrases": written(paraphrases(request, in_prompt(request)))})
        finish = "length" if len(server.requests) == 1 else "stop"
        return completion(content, finish_reason=finish)

    server.behave = cut
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert len(made.rows) == 10
    assert made.failures["reason"].tolist() == ["the model's reply was cut off"]


def test_a_judge_that_cannot_be_read_is_named_and_paid_for_once(
    texts: Path, server: Server, tmp_path: Path
) -> None:
    server.behave = lambda request: (
        completion("I think they are the same.") if judged(request) else any_text(request)
    )
    for _ in range(2):
        made = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
        assert not made.rows
        assert made.failures["reason"].eq("the judge's answer is unparsable").all()
        calls = len(server.requests)
    made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert len(server.requests) == calls


def test_thoughts_that_do_not_end_are_no_answer(
    texts: Path, server: Server, tmp_path: Path
) -> None:
    draft = f"<think>Perhaps {json.dumps(VERDICT)}"
    server.behave = lambda request: completion(draft) if judged(request) else any_text(request)
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path / "judge")
    assert not made.rows
    assert made.failures["reason"].eq("the judge's answer is unparsable").all()

    def unfinished(request: Request) -> Reply:
        content = json.dumps({"paraphrases": written(paraphrases(request, in_prompt(request)))})
        return verdict() if judged(request) else completion(f"<think>Perhaps {content}")

    server.behave = unfinished
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path / "writer")
    assert not made.rows
    assert made.failures["reason"].eq("its reply is no JSON with texts").all()


def test_failing_solutions_are_written_again_for_every_copy(server: Server, tmp_path: Path) -> None:
    check_sandbox()
    server.behave = lambda request: completion(BAD["wrong code"][0])
    path = write_rows(tmp_path / "he.jsonl", tasks(53))
    made_of(path, recipe("humaneval", copies=3), server, tmp_path, chains=["solution"])
    assert len(server.requests) == 3 * 3


def test_near_copies_and_other_numbers_are_no_paraphrases(
    texts: Path, server: Server, tmp_path: Path
) -> None:
    def near(request: Request) -> Reply:
        if judged(request):
            return verdict()
        text = in_prompt(request)
        odd = (
            " ".join(text.split()[::-1]).replace("5", "5 or 6")
            if "5" in text
            else f"{text} Please."
        )
        return completion(json.dumps({"paraphrases": [f"{text} Please.", odd] * 3}))

    server.behave = near
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert not made.rows
    reasons = {*made.failures["reason"]}
    assert reasons == {
        "its words are nearly those of the text before", "a number is new, or there less often"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("prompts", "text", "message"),
    [
        ({"paraphrse": "p.md"}, "x", "writing.prompts: got 'paraphrse'"),
        ({"paraphrase": "p.md"}, "Costs $5: $text $names", "a dollar sign is"),
        ({"paraphrase": "p.md"}, "$text and $nmes", "needed are"),
        ({"paraphrase": "p.md"}, "Say it again.", "needed are"),
        ({"paraphrase": "none.md"}, "", "cannot be read"),
    ],
)
def test_own_prompts_are_checked_before_any_call(
    prompts: dict[str, str], text: str, message: str, texts: Path, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "p.md").write_text(text)
    known = load_recipe("paraphrase")
    paths = {step: str(tmp_path / name) for step, name in prompts.items()}
    mine = known.model_copy(update={"writing": known.writing.model_copy(update={"prompts": paths})})
    with pytest.raises(UsageError, match=message):
        made_of(texts, mine, server, tmp_path)
    assert not server.requests


def test_another_prompt_or_model_is_other_work(texts: Path, server: Server, tmp_path: Path) -> None:
    server.behave = any_text
    part, known = tmp_path / "part", load_recipe("paraphrase")
    made_of(texts, known, server, tmp_path, resume=part)
    assert (
        "2 of 2 were finished before" in made_of(texts, known, server, tmp_path, resume=part).notes
    )
    own = load_prompts(known.writing)["paraphrase"].template
    (tmp_path / "p.md").write_text(f"{own}\nTake your time.\n")
    writing = known.writing.model_copy(update={"prompts": {"paraphrase": str(tmp_path / "p.md")}})
    again = made_of(
        texts, known.model_copy(update={"writing": writing}), server, tmp_path, resume=part
    )
    assert any("held parts of other work" in note for note in again.notes)


def changed(request: Request, change: Callable[[str], str]) -> Reply:
    first, *others = written(paraphrases(request, in_prompt(request)))
    return completion(json.dumps({"paraphrases": [change(first), *others]}))


CHANGES: dict[str, tuple[Callable[[Request], Reply], str]] = {
    "same text": (
        lambda request: changed(request, lambda _: in_prompt(request)), "those of the text before"
    ),
    "twice the same": (
        lambda request: completion(
            json.dumps({"paraphrases": [written(paraphrases(request, in_prompt(request)))[1]] * 5})
        ),
        "those of the text before",
    ),
    "a number is lost": (
        lambda request: changed(request, lambda text: re.sub(r"\d+", "some", text)), "is lost"
    ),
    "broken JSON": (lambda request: completion('{"paraphrases": ["one'), "no JSON with texts"),
    "too few": (lambda request: completion('{"paraphrases": []}'), "fewer texts"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_a_bad_paraphrase_is_counted_and_written_again(
    case: str, texts: Path, server: Server, tmp_path: Path
) -> None:
    bad, reason = CHANGES[case]
    server.behave = lambda request: bad(request) if len(server.requests) == 1 else any_text(request)
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert len({row["text"] for row in made.rows}) == len(made.rows) == 10
    assert made.failures["what"].eq("attempt").all()
    assert made.failures["reason"].str.contains(reason).any()


def test_another_meaning_is_refused(texts: Path, server: Server, tmp_path: Path) -> None:
    server.behave = lambda request: (
        verdict(kind="related", is_duplicate="Kindly" not in request.texts[1])
        if judged(request) else any_text(request)
    )  # fmt: skip
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert not any("Kindly" in row["text"] for row in made.rows)
    assert made.failures["reason"].str.contains("another meaning").any()


def test_429_is_tried_again_and_stays_unseen(texts: Path, server: Server, tmp_path: Path) -> None:
    server.behave = lambda request: fault(429) if len(server.requests) % 2 else any_text(request)
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert len(made.rows) == 10
    assert made.failures.empty


def test_an_endpoint_that_gives_up_later_is_counted_and_not_final(
    texts: Path, server: Server, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    server.behave = lambda request: fault(500) if "train" in sent(request) else any_text(request)
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path, resume=part)
    assert {row["item"] for row in made.rows} == {"q1"}
    assert made.failures["reason"].str.contains("gave no answer: status 500").all()
    server.behave = any_text
    again = made_of(texts, load_recipe("paraphrase"), server, tmp_path, resume=part)
    assert {row["item"] for row in again.rows} == {"q1", "q2"}
    assert again.failures.empty


def test_nobody_there_is_an_error(texts: Path, tmp_path: Path) -> None:
    away = Endpoint("http://127.0.0.1:9/v1", "small", retries=1)
    with pytest.raises(TaskError, match="check --base-url"):
        make_duplicates(texts, "paraphrase", endpoint=away)


def test_the_budget_ends_and_the_same_run_goes_on(
    texts: Path, server: Server, tmp_path: Path
) -> None:
    server.behave = any_text
    made = made_of(texts, load_recipe("paraphrase"), server, tmp_path, max_calls=7)
    assert made.left == 5
    assert len(made.rows) == 5
    calls = len(server.requests)
    again = made_of(texts, load_recipe("paraphrase"), server, tmp_path)
    assert again.left == 0
    whole = made_of(texts, load_recipe("paraphrase"), server, tmp_path / "afresh")
    assert again.rows == whole.rows
    assert len(server.requests) == calls + (12 - calls) + 12  # nothing was paid twice


def test_a_grid_is_paraphrased_after_other_steps(server: Server, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "g.jsonl", new_items(2, houses=3, categories=2, seed=1))

    def prose(request: Request) -> Reply:
        if judged(request):
            return verdict()
        before, title, clues = in_prompt(request).partition("## Clues:\n")
        values = re.findall("`(.+?)`", before)
        lines = [
            f"{at}. Some rule binds " + " with ".join(value for value in values if value in clue)
            for at, clue in enumerate(clues.splitlines(), 1)
        ]
        text = before.replace("stand in a row", "are lined up") + title + "\n".join(lines)
        return completion(json.dumps({"paraphrases": [text]}))

    server.behave = prose
    chain = "shuffle+substitute+paraphrase"
    made = made_of(path, load_recipe("zebralogic"), server, tmp_path, chains=[chain])
    assert [row["level"] for row in made.rows] == [chain] * 2
    assert all("clues as far as they can be read" in row["checks"] for row in made.rows)
    kind = kind_of(load_recipe("zebralogic"))
    rows = [row | {"text": row["text"].replace(next(iter(kind.names(
        kind.read({"id": "x", "puzzle": row["before"], "solution": row["answer"]}))
    )), "nobody")} for row in made.rows]  # fmt: skip
    found = check_duplicates(write_rows(tmp_path / "d.jsonl", rows), path, "zebralogic")
    assert found.failures["reason"].tolist() == ["a name or number is lost"]


def test_a_story_by_a_model_has_the_facts_and_the_answer_of_its_tree(
    server: Server, tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "m.jsonl", new_items(2, "murder-mystery", seed=1))

    def storyteller(request: Request) -> Reply:
        facts = re.findall(r"^\d+\. (.+)$", sent(request).partition("# Facts")[2], re.MULTILINE)
        if "You check whether" in sent(request):
            missing = [1] if len(server.requests) == 2 else []
            return completion(json.dumps({"missing": missing, "gives_answer": False}))
        people = re.findall(r"^People: (.+)$", sent(request), re.MULTILINE)
        again = "Once more: " * ("What was wrong" in sent(request))
        return completion(f"{again}There were {people[0]}. " + " ".join(facts))

    server.behave = storyteller
    chains = ["level-0+story", "level-1+story", "level-2+story"]
    made = made_of(path, recipe("story", copies=1), server, tmp_path, chains=chains)
    assert len(made.rows) == 6, made.failures.to_dict("records")
    assert made.failures["reason"].tolist() == ["a fact is missing"]
    assert all("facts by llm:small" in row["checks"] for row in made.rows)
    found = check_duplicates(write_rows(tmp_path / "d.jsonl", made.rows), path, "story")
    assert found.failures.empty
