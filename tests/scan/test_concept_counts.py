"""Documents that meet concepts are counted, however the corpus is stored."""

import gzip
import json
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.scan.concept_counts import count_exposures

WORDS = {"Copy": ["copy", "copies"], "Inside": ["inside of", "Within"], "Never": ["zyzzyva"]}
TEXTS = [
    "Copy it, then copy it again.",
    "Photocopy machines; scopies.",
    "INSIDE-of the box there are copies",
    "within\nreach",
    "inside the box of toys",
]


def write(folder: Path, field: str = "text") -> Path:
    """Write three documents as compressed JSON Lines and two as text files."""
    folder.mkdir()
    lines = "".join(json.dumps({field: text}) + "\n" for text in TEXTS[:3])
    (folder / "some.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    for number, text in enumerate(TEXTS[3:]):
        (folder / f"{number}.txt").write_text(text)
    return folder


def test_whole_words_and_phrases_count_once_a_document(tmp_path: Path) -> None:
    table = count_exposures([write(tmp_path / "c")], WORDS).set_index("concept")
    assert table["documents"].tolist() == [2, 2, 0]
    # Counted whole, nothing is left unsure.
    assert table["exposure"].tolist() == [1, 1, 0]
    assert (table["exposure_sd"] == 0).all()


def test_a_sample_leaves_exposures_unsure(tmp_path: Path) -> None:
    table = count_exposures(write(tmp_path / "c"), WORDS, share=0.01).set_index("concept")
    assert (table["exposure"] > 0).all()
    assert (table["exposure"] <= 1).all()
    assert table.loc["Never", "exposure"] < table.loc["Copy", "exposure"]
    assert (table["exposure_sd"] > 0).all()


def test_words_may_be_single_texts_in_any_spelling_of_unicode(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text(unicodedata.normalize("NFD", "Das Café in der STRASSE."))
    table = count_exposures(path, {"Place": "café", "Street": "Straße", "Sea": ["mer"]})
    assert table["documents"].tolist() == [1, 1, 0]


def test_words_come_from_a_table_and_texts_from_another_field(tmp_path: Path) -> None:
    rows = [(concept, word) for concept, own in WORDS.items() for word in own]
    words = tmp_path / "words.csv"
    pd.DataFrame(rows, columns=["concept", "word"]).to_csv(words, index=False)
    corpus = write(tmp_path / "c", "body")
    table = count_exposures([corpus / "some.jsonl.gz"], words, text="body", share=0.5)
    assert table["documents"].tolist() == [2, 1, 0]
    assert (table["share"] == 0.5).all()
    assert np.isfinite(table["exposure"]).all()


def test_records_that_are_no_documents_are_an_error_unless_they_are_passed_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"text": "copy"}\n{"text": 3}\n{"te\n')
    with pytest.raises(
        DataError, match=r"2 records are no documents \(1 × [\s\S]*--skip-unreadable"
    ):
        count_exposures([path], WORDS)
    assert count_exposures([path], WORDS, skip_unreadable=True)["documents"].tolist() == [1, 0, 0]


def test_what_cannot_be_counted_is_refused(tmp_path: Path) -> None:
    corpus = write(tmp_path / "c")
    with pytest.raises(UsageError, match="none of the 1 concepts is met in the 5 documents of"):
        count_exposures([corpus], {"Never": ["zyzzyva"]})
    with pytest.raises(UsageError, match="share: got 2; allowed is above 0 up to 1"):
        count_exposures([corpus], WORDS, share=2)
    with pytest.raises(UsageError, match="give at least one word for each concept"):
        count_exposures([corpus], {"Copy": []})
    with pytest.raises(DataError, match="got '--', which has no letter or digit"):
        count_exposures([corpus], {"Copy": ["--"]})
    with pytest.raises(DataError, match="word: got '!', which has no letter or digit"):
        count_exposures([corpus], pd.DataFrame({"concept": ["Copy"], "word": ["!"]}))
    with pytest.raises(DataError, match="no field 'body'"):
        count_exposures([corpus / "some.jsonl.gz"], WORDS, text="body")
    with pytest.raises(UsageError, match="absent"):
        count_exposures([tmp_path / "absent"], WORDS)
