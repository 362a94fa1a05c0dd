"""Words and pieces: round trips, the same tokens in every process, and what is no token."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bayescontam.errors import DataError, UsageError
from bayescontam.lab.tokenizers import (
    encode_texts,
    fast_tokenizer,
    piece_tokenizer,
    start_tokens,
    word_tokenizer,
)

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

SUMS = [f"{a} + {b} = {a + b} ." for a in range(6) for b in range(6)]
PROSE = [f"Ann has {n} apples and buys {n} pears ; how many fruits ?" for n in range(40)]


def test_words_make_the_round_trip(tmp_path: Path) -> None:
    tokenizer = word_tokenizer(SUMS)
    assert [tokenizer.decode(tokenizer.encode(text).ids) for text in SUMS] == SUMS
    assert tokenizer.to_str() == word_tokenizer(SUMS[::-1] * 2).to_str()
    assert [tokenizer.id_to_token(at) for at in range(3)] == ["<pad>", "<unk>", "<end>"]
    fast_tokenizer(tokenizer).save_pretrained(tmp_path)
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for one in (loaded, fast_tokenizer(tokenizer)):
        assert one("1 + eleven =")["input_ids"] == tokenizer.encode("1 + eleven =").ids
        assert (one.pad_token_id, one.unk_token_id, one.eos_token_id) == (0, 1, 2)


@pytest.mark.parametrize(
    "text", ["Ann has 7 plums .", " naïve\n\tcafé – 東京 🙂 ", "<pad", "x" * 99]
)
def test_pieces_make_the_round_trip_of_every_text(text: str) -> None:
    tokenizer = fast_tokenizer(piece_tokenizer(PROSE, 320))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert min(ids) > 2


def test_pieces_begin_with_the_most_frequent_pair() -> None:
    text = " ".join(["lower"] * 5 + ["newest"] * 6 + ["widest"] * 3 + ["low"] * 2)
    tokenizer = piece_tokenizer([text], 300)
    pairs = Counter(pair for word in text.split() for pair in itertools.pairwise(word))
    [(first, count), (_, second)] = pairs.most_common(2)
    assert tokenizer.id_to_token(3 + 256) == "".join(first)
    assert count > second
    assert tokenizer.encode(" newest").tokens == ["Ġnewest"]
    assert tokenizer.get_vocab_size() <= 300


def test_pieces_are_the_same_in_every_process() -> None:
    code = """
import sys
from bayescontam.lab.tokenizers import piece_tokenizer
from tests.lab.test_tokenizers import PROSE, SUMS
sys.stdout.write(piece_tokenizer([*SUMS, *PROSE][::-1], 400).to_str())
"""
    environment = {**os.environ, "RAYON_NUM_THREADS": "5", "PYTHONHASHSEED": "7"}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, check=True
    )
    assert done.stdout.decode() == piece_tokenizer([*SUMS, *PROSE], 400).to_str()


def test_texts_have_a_start_if_the_tokenizer_sets_one_and_an_end() -> None:
    plain = fast_tokenizer(word_tokenizer(SUMS))
    own = plain.encode("1 + 1")
    assert encode_texts(plain, ["1 + 1"], None) == [[*own, 2]]
    own_model = word_tokenizer([*SUMS, "<s>"])
    mark = own_model.token_to_id("<s>")
    own_model.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", mark)]
    )
    begun = fast_tokenizer(own_model)
    assert start_tokens(begun) == []  # it has no token for starts
    begun.bos_token = "<s>"
    assert start_tokens(begun) == [mark]
    assert encode_texts(begun, ["1 + 1"], 5) == [[*begun.encode("1 + 1"), 2]]
    with pytest.raises(
        DataError, match="row 1: length in tokens is 3; allowed are 1 to 2, as an end"
    ):
        encode_texts(begun, ["1 + 1"], 4)


def test_what_cannot_be_encoded_is_named() -> None:
    with pytest.raises(DataError, match="texts: hold '<end>', which mark padding"):
        word_tokenizer(["1 + 1", "an<end>"])
    with pytest.raises(DataError, match="texts: hold '<pad>', which mark padding"):
        piece_tokenizer(["<pad>"])
    with pytest.raises(UsageError, match="vocabulary: got 299; allowed is 300 or more"):
        piece_tokenizer(SUMS, 299)
    words = fast_tokenizer(word_tokenizer(SUMS))
    lacking = "rows 2, 3: has '<pad>', '<unk>', '<end>' or words that are no tokens"
    with pytest.raises(DataError, match=lacking):
        encode_texts(words, ["1 + 1", "1 + twelve", "1 <end> 1"], None)
    many = "rows 1, 3: length in tokens is 0, 4; allowed are 1 to 3, as an end follows"
    with pytest.raises(DataError, match=many):
        encode_texts(words, [" ", "1 + 1", "1 + 1 ="], 4)
    with pytest.raises(DataError, match="texts: none; a training needs at least one"):
        encode_texts(words, [], None)
    words.eos_token = None
    with pytest.raises(UsageError, match=r"tokenizer: has no token for ends \(eos_token\)"):
        encode_texts(words, ["1 + 1"], None)
