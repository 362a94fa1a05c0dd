"""Duplicates planted in a corpus, and the truth of where they are."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bayescontam.duplicates.planting import plant_duplicates
from bayescontam.errors import DataError, UsageError
from tests.support.json_lines import write_rows

HOST = "First sentence. Second one.\n\nA paragraph of its own.\nWith a second line."


@pytest.fixture
def made(tmp_path: Path) -> Path:
    rows = [
        {"benchmark": "quiz", "item": f"i{i}", "duplicate": f"i{i}/{level}", "kind": "semantic",
         "level": level, "text": f"What is the {level} answer to question {i}?"}
        for i in range(8) for level in ("plain", "bent")
    ]  # fmt: skip
    return write_rows(tmp_path / "made.jsonl", rows)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "c.jsonl", [{"id": f"d{k}", "text": HOST} for k in range(40)])


def read(folder: Path) -> tuple[dict[str, str], pd.DataFrame]:
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    texts = {record["id"]: record["text"] for record in map(json.loads, lines)}
    assert len(texts) == len(lines)
    return texts, pd.read_csv(folder / "truth.csv")


@pytest.mark.parametrize("inside", [0.0, 0.5, 1.0])
def test_the_truth_is_what_stands_there(made: Path, corpus: Path, inside: float) -> None:
    out = corpus.parent / "planted"
    plant_duplicates(corpus, made, out, share=0.5, copies=2, inside=inside, seed=3)
    texts, truth = read(out)
    placed = truth[truth["place"] != "absent"]
    assert len(placed) == 4 * 2 * 2
    assert placed["item"].nunique() == (truth["place"] == "absent").sum() == 4
    assert not {*placed["item"]} & {*truth.loc[truth["place"] == "absent", "item"]}
    known = {
        row["duplicate"]: row["text"] for row in map(json.loads, made.read_text().splitlines())
    }
    for row in placed.itertuples():
        text = texts[row.document]
        assert text[int(row.start) : int(row.end)] == known[row.duplicate]
        rest = text[: int(row.start)] + text[int(row.end) :]
        assert rest.split() == ([] if row.place == "alone" else HOST.split())
    if inside in (0.0, 1.0):
        assert {*placed["place"]} == {"inside" if inside else "alone"}
    # Nothing else of the corpus is changed, and all of it is there.
    untouched = set(texts) - {*placed["document"]}
    assert all(texts[name] == HOST for name in untouched)
    assert {f"d{k}" for k in range(40)} <= set(texts)


def test_the_same_seed_plants_the_same(made: Path, corpus: Path) -> None:
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        plant_duplicates(corpus, made, corpus.parent / name, seed=seed)
        found.append((corpus.parent / name / "corpus.jsonl").read_bytes())
    assert found[0] == found[1] != found[2]


def test_documents_without_a_name_have_one(made: Path, tmp_path: Path) -> None:
    corpus = write_rows(tmp_path / "nameless.jsonl", [{"text": HOST}] * 20)
    plant_duplicates(corpus, made, tmp_path / "out")
    texts, _ = read(tmp_path / "out")
    assert sum(name.startswith("document-") for name in texts) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0.0}, "share: got 0.0"),
        ({"share": 1.5}, "share: got 1.5"),
        ({"inside": -0.1}, "inside: got -0.1"),
        ({"copies": 0}, "copies: got 0"),
        ({"wrapped": 1.1}, "wrapped: got 1.1; allowed is a number from 0 to 1"),
        ({"tables": -1.0}, "tables: got -1.0"),
        ({"wrapped": 0.6, "tables": 0.5}, "wrapped, tables: got 0.6 and 0.5; .* a sum up to 1"),
        (
            {"levels": ["plain", "odd"]},
            r"levels \(--only\): got 'odd'; there are 'plain', 'bent'",
        ),
    ],
)
def test_numbers_that_are_not_allowed(
    made: Path, corpus: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plant_duplicates(corpus, made, corpus.parent / "out", **options)
    assert not (corpus.parent / "out").exists()


def test_files_that_cannot_be_used(made: Path, corpus: Path, tmp_path: Path) -> None:
    few = write_rows(tmp_path / "few.jsonl", [{"text": HOST}])
    with pytest.raises(DataError, match="has 1 documents; 8 are to hold a duplicate"):
        plant_duplicates(few, made, tmp_path / "out", share=0.5, inside=1.0)
    reason = r"has no text in the field 'body' \(40 of them\)"
    with pytest.raises(DataError, match=f"has 0 documents.*40 records are no documents: {reason}"):
        plant_duplicates(corpus, made, tmp_path / "out", text_field="body")
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(bytes(range(256)) * 3)
    with pytest.raises(DataError, match=r"and 1 more: has 0 documents.*: is no JSON \("):
        plant_duplicates([binary, binary], made, tmp_path / "out")
    with pytest.raises(DataError, match="has no 'benchmark', 'item'"):
        plant_duplicates(corpus, corpus, tmp_path / "out")
    with pytest.raises(DataError, match="0 documents"):
        plant_duplicates(
            write_rows(tmp_path / "none.jsonl", []), made, tmp_path / "out", inside=0.0
        )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"item": {"id": 1}}, r'row 2: item: got \{"id": 1\}, allowed is a text or a number'),
        ({"benchmark": None}, "row 2: benchmark: got null, allowed is a text or a number"),
        ({"level": ["plain"]}, r'row 2: level: got \["plain"\], allowed is a text'),
        ({"text_mode": ["input"]}, r"row 2: text_mode \['input'\]: allowed is 'input', 'output'"),
        ({"text_mode": None}, "row 2: text_mode None: allowed is 'input'"),
        ({"text_mode": "output"}, "row 2: has no answer, which text_mode 'output' plants"),
        (
            {"text_mode": "input_output", "answer": None},
            "row 2: has no answer, which text_mode 'input_output' plants",
        ),
        ({"text": " \n"}, "row 2: text: is blank: there is nothing to plant"),
        ({"text_mode": "output", "answer": ""}, "row 2: answer: is blank"),
    ],
)
def test_duplicates_with_faults_are_refused(
    made: Path, corpus: Path, changed: dict[str, Any], message: str
) -> None:
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    write_rows(made, [rows[0], rows[1] | changed, *rows[2:]])
    with pytest.raises(DataError, match=message):
        plant_duplicates(corpus, made, corpus.parent / "out")
    assert not (corpus.parent / "out").exists()


def test_an_answer_may_be_any_value_but_null(made: Path, corpus: Path) -> None:
    row = json.loads(made.read_text().splitlines()[0])
    write_rows(made, [row | {"item": 7, "text_mode": "output", "answer": False}])
    plant_duplicates(corpus, made, corpus.parent / "out", share=1.0, inside=0.0)
    texts, truth = read(corpus.parent / "out")
    assert texts[truth["document"][0]] == "false"
    assert truth["item"].tolist() == [7]


def test_lists_that_cannot_be_read_to_their_end_are_refused(
    made: Path, corpus: Path, tmp_path: Path
) -> None:
    broken, latin = tmp_path / "broken.json", tmp_path / "latin.json"
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    broken.write_text(json.dumps(rows)[:-1] + ",")
    latin.write_bytes(b'[\n{"id": "caf\xe9"}\n]')
    for duplicates, read_from in ((broken, corpus), (made, broken)):
        with pytest.raises(DataError, match=r"broken\.json: is no JSON list: Expecting"):
            plant_duplicates(read_from, duplicates, tmp_path / "out", inside=0.0)
    with pytest.raises(DataError, match=r"latin\.json: .* can't decode byte 0xe9"):
        plant_duplicates(latin, made, tmp_path / "out", inside=0.0)


def ids_in(folder: Path) -> list[Any]:
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    return [json.loads(line)["id"] for line in lines]


def test_a_corpus_that_is_planted_already_gets_other_names(made: Path, corpus: Path) -> None:
    once, twice = corpus.parent / "once", corpus.parent / "twice"
    plant_duplicates(corpus, made, once, inside=0.0, seed=1)
    plant_duplicates(once / "corpus.jsonl", made, twice, inside=0.0, seed=2)
    names = ids_in(twice)
    assert len({*names}) == len(names) == 40 + 8 + 8
    _, truth = read(twice)
    assert not {*truth["document"].dropna()} & {*ids_in(once)}
    assert {"planted-1", "planted-8", "planted-9", "planted-16"} <= {*names}


@pytest.mark.parametrize("odd", [None, "", ["d3"], {"name": "d3"}])
def test_every_document_without_a_name_gets_one(made: Path, tmp_path: Path, odd: object) -> None:
    """A scan numbers documents whose id is no text or number, and the truth has to name them."""
    rows = [{"id": odd, "text": HOST}] * 12
    rows += [{"id": "document-5", "text": HOST}, {"id": 0, "text": HOST}, {"text": HOST}]
    corpus = write_rows(tmp_path / "odd.jsonl", rows)
    plant_duplicates(corpus, made, tmp_path / "out", inside=1.0)
    texts, truth = read(tmp_path / "out")
    assert all(isinstance(name, str | int) and name != "" for name in texts)
    assert {"document-5", "document-6", "document-17", "document-20", 0} <= {*texts}
    assert {*truth["document"].dropna()} <= {*map(str, texts)}


def test_a_document_that_holds_a_duplicate_has_a_name_of_its_own(
    made: Path, corpus: Path, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in corpus.read_text().splitlines()]
    write_rows(corpus, [*rows, {"id": "d0", "text": HOST}])
    other = write_rows(tmp_path / "other.jsonl", [*rows, {"id": "d0-again", "text": HOST}])
    at = f"{corpus}: line 1: has the same id, 'd0', as {corpus}: line 41, and one of them is to"
    advice = "Give every document an id of its own over all files"
    done = 0
    for seed in range(20):
        out = tmp_path / f"{seed}"
        options: dict[str, Any] = {"inside": 1.0, "share": 0.3, "seed": seed}
        # Where the ids differ, the same documents hold duplicates.
        hosts = {*plant_duplicates(other, made, out / "other", **options)["document"]}
        if hosts & {"d0", "d0-again"}:
            with pytest.raises(DataError, match=f"{re.escape(at)}(.|\n)*{advice}"):
                plant_duplicates(corpus, made, out / "own", **options)
            assert not (out / "own").exists()
        else:
            assert {*plant_duplicates(corpus, made, out / "own", **options)["document"]} == hosts
            done += 1
    assert 0 < done < 20  # both happened
    again = write_rows(tmp_path / "again.jsonl", [{"id": f"d{k}", "text": "."} for k in range(40)])
    with pytest.raises(DataError, match=r"again\.jsonl: line \d+, and one of them is to hold"):
        plant_duplicates([corpus, again], made, tmp_path / "out", inside=1.0)
    plant_duplicates([corpus, again], made, tmp_path / "out", inside=0.0)  # none holds one


def test_the_same_texts_have_the_same_identity(made: Path, corpus: Path) -> None:
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    texts = ["Why so?", "Why so?\n", "Why not?"] * 5 + ["Why so?"]
    write_rows(made, [row | {"text": text} for row, text in zip(rows, texts, strict=True)])
    plant_duplicates(corpus, made, corpus.parent / "out", share=0.9)
    _, truth = read(corpus.parent / "out")
    placed = truth[truth["place"] != "absent"]
    text_of = dict(zip((row["duplicate"] for row in rows), texts, strict=True))
    known = placed["duplicate"].map(text_of).str.strip()
    assert placed.groupby(known)["text_sha256"].nunique().tolist() == [1, 1]
    why = hashlib.sha256(b"Why so?").hexdigest()
    assert why.startswith(placed.loc[known == "Why so?", "text_sha256"].iloc[0])
    assert truth.loc[truth["place"] == "absent", "text_sha256"].isna().all()


def test_records_that_are_no_documents_are_left_out_and_counted(made: Path, corpus: Path) -> None:
    with corpus.open("a") as file:
        file.write('{"id": "cut", "text": "The\n{"id": "bare"}\n[1]\n{"id": "void", "text": 3}\n')
    truth = plant_duplicates(corpus, made, corpus.parent / "out")
    assert sorted(truth.attrs["left_out"].values()) == [1, 1, 2]
    texts, _ = read(corpus.parent / "out")
    assert not {"cut", "bare", "void"} & {*texts}


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize("name", ["corpus.jsonl", "truth.csv"])
def test_what_is_read_through_a_link_is_not_written_over(
    made: Path, corpus: Path, link: Callable[[Path, Path], None], name: str
) -> None:
    folder = corpus.parent / "planted"
    folder.mkdir()
    own = corpus.rename(folder / name)
    before = own.read_bytes()
    link(other := corpus.with_name("link.jsonl"), own)
    with pytest.raises(UsageError, match="is what is read, and would be lost"):
        plant_duplicates(other, made, folder)
    assert own.read_bytes() == before


def test_a_corpus_is_not_written_over(made: Path, corpus: Path) -> None:
    own = corpus.rename(corpus.with_name("corpus.jsonl"))
    before = own.read_bytes()
    with pytest.raises(UsageError, match="is what is read, and would be lost"):
        plant_duplicates(own, made, own.parent)
    assert own.read_bytes() == before


def test_only_some_levels_are_planted(made: Path, corpus: Path) -> None:
    with made.open("a") as file:  # an item that has none of the level
        row = {"benchmark": "quiz", "item": "bare", "duplicate": "bare/bent", "kind": "semantic"}
        file.write(json.dumps(row | {"level": "bent", "text": "Bent only?"}) + "\n")
    out = corpus.parent / "out"
    truth = plant_duplicates(corpus, made, out, levels=["plain"], share=0.5)
    placed = truth[truth["place"] != "absent"]
    assert {*placed["level"]} == {"plain"}
    assert len(placed) == len(truth) - len(placed) == 4
    assert "bare" not in {*truth["item"]}
    assert "bent" not in (out / "corpus.jsonl").read_text()


PROSE = " ".join(f"word{n} goes on" for n in range(30))
OPTIONS = "Which one?\n(A) This one.\n(B) That one."


@pytest.fixture
def formed(tmp_path: Path) -> Path:
    """Duplicates with prose, with options, with choices as a field, and with none of these."""
    texts = {"prose": PROSE, "options": OPTIONS, "choices": "Pick!", "neither": "Short."}
    rows = [
        {"benchmark": "quiz", "item": f"{name}-{i}", "duplicate": f"{name}-{i}/x",
         "kind": "semantic", "level": name, "text": text,
         **({"choices": ["red", "blue"]} if name == "choices" else {})}
        for name, text in texts.items() for i in range(25)
    ]  # fmt: skip
    return write_rows(tmp_path / "formed.jsonl", rows)


def planted_in_forms(formed: Path, corpus: Path, **options: float) -> tuple[Any, pd.DataFrame]:
    """Return what was planted, and the truth with the text that stands there."""
    many = write_rows(
        corpus.with_name("many.jsonl"), [{"id": f"d{k}", "text": HOST} for k in range(200)]
    )
    found = plant_duplicates(many, formed, corpus.parent / "out", share=1.0, **options)
    texts, truth = read(corpus.parent / "out")
    spans = zip(truth["document"], truth["start"], truth["end"], strict=True)
    return found, truth.assign(text=[texts[name][int(a) : int(b)] for name, a, b in spans])


def test_forms_are_those_of_what_stands_there(formed: Path, corpus: Path) -> None:
    found, truth = planted_in_forms(formed, corpus, wrapped=0.4, tables=0.4, seed=5)
    by_level = truth.groupby("level")["form"].apply(set).to_dict()
    assert by_level == {
        "prose": {"as made", "wrapped"}, "options": {"as made", "table"},
        "choices": {"as made", "table"}, "neither": {"as made"},
    }  # fmt: skip
    for row in truth.itertuples():
        if row.form == "wrapped":
            assert row.text.split() == PROSE.split()
            assert row.text.count("\n") > 1
            assert 30 < max(map(len, row.text.split("\n"))) <= 100
        elif row.form == "table":
            assert row.text.split("\n")[-3:] == (
                ["| --- | --- |", "| A | This one. |", "| B | That one. |"]
                if row.level == "options"
                else ["| --- | --- |", "| A | red |", "| B | blue |"]
            )
        else:
            made = {"prose": PROSE, "options": OPTIONS, "choices": "Pick!", "neither": "Short."}
            assert row.text == made[row.level]
    # Of what was drawn for a form, those of other levels cannot have it.
    share = (truth["form"] == "wrapped").sum() + found.attrs["as_made"]["wrapped"]
    assert 25 <= share <= 55  # of 100, at a share of 0.4
    assert found.attrs["as_made"]["table"] > 5
    assert len({*truth.loc[truth["form"] == "wrapped", "text"]}) > 3  # widths differ


def test_forms_move_nothing_else(formed: Path, corpus: Path) -> None:
    _, plain = planted_in_forms(formed, corpus, seed=2)
    _, forms = planted_in_forms(formed, corpus, seed=2, wrapped=0.5, tables=0.5)
    columns = ["item", "duplicate", "document", "place", "start"]
    assert plain[columns].equals(forms[columns])
    assert {*plain["form"]} == {"as made"}
    assert (plain["text"] != forms["text"]).any()
    _, others = planted_in_forms(formed, corpus, seed=3, wrapped=0.5, tables=0.5)
    by_name = (table.set_index("duplicate")["form"].sort_index() for table in (forms, others))
    assert not next(by_name).equals(next(by_name))


def test_all_are_in_a_form_where_it_applies(formed: Path, corpus: Path) -> None:
    _, truth = planted_in_forms(formed, corpus, wrapped=1.0)
    assert truth.groupby("level")["form"].apply(set)["prose"] == {"wrapped"}
    _, truth = planted_in_forms(formed, corpus, tables=1.0)
    assert truth.groupby("level")["form"].apply(set)["options"] == {"table"}


@pytest.mark.parametrize(
    ("mode", "text"),
    [("input", "Why?"), ("output", "def f():"), ("input_output", "Why?\ndef f():")],
)
def test_what_is_planted_is_text_or_answer_or_both(corpus: Path, mode: str, text: str) -> None:
    row = {"benchmark": "b", "item": "i", "duplicate": "i/1", "kind": "semantic", "level": "l",
           "text": "Why?", "answer": "def f():", "text_mode": mode}  # fmt: skip
    made = write_rows(corpus.parent / "one.jsonl", [row])
    plant_duplicates(corpus, made, corpus.parent / "planted", share=1.0, inside=0.0)
    texts, truth = read(corpus.parent / "planted")
    assert texts[truth["document"][0]] == text
    write_rows(made, [row | {"text_mode": "both"}])
    with pytest.raises(DataError, match="text_mode 'both': allowed is 'input'"):
        plant_duplicates(corpus, made, corpus.parent / "again")
