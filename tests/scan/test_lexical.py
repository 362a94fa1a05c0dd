"""Lexical baselines, held against counts by hand and against brute force."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayescontam.scan.results import lexical_scores, words
from bayescontam.specs.corpus import Lexical

SPEC = Lexical(ngrams=(1, 2, 3))
FEW_WORDS = st.lists(st.sampled_from("abcd"), max_size=9).map(" ".join)
ANY_TEXT = st.text(max_size=60)


def scores(item: str, chunk: str, spec: Lexical = SPEC) -> dict[str, float]:
    """Return the baselines of one pair."""
    return lexical_scores([(item, chunk)], spec).iloc[0].to_dict()


def longest_common(a: list[str], b: list[str]) -> int:
    """Return the length of the longest common subsequence by trying all of them."""

    def holds(text: list[str], sequence: tuple[str, ...]) -> bool:
        rest = iter(text)
        return all(word in rest for word in sequence)

    tried = (length for length in range(len(a), 0, -1))
    return next((n for n in tried if any(holds(b, c) for c in combinations(a, n))), 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat, the CAT!", ["the", "cat", "the", "cat"]),
        ("Don’t won't 'quoted'", ["don't", "won't", "quoted"]),
        ("pi = 3.14159; v1.2.3 1,000", ["pi", "3.14159", "v1", "2.3", "1", "000"]),
        ("def top_k(xs):\n\treturn xs[-1]  # x", ["def", "top_k", "xs", "return", "xs", "1", "x"]),
        ("a->b.c==__init__", ["a", "b", "c", "__init__"]),
        ("Čeština Straße ΑΒΓ", ["čeština", "straße", "αβγ"]),
        ("e\u0301te\u0301 = \u00e9t\u00e9", ["\u00e9t\u00e9", "\u00e9t\u00e9"]),
        ("深度学习 model", ["深", "度", "学", "习", "model"]),
        ("٣٤ ½ x²", ["٣٤", "½", "x²"]),
        (" \n\t ,;", []),
        ("\0\ud800a", ["a"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_ngrams_by_hand() -> None:
    # Distinct pairs of the item: a b, b a, a c. The chunk holds a b and b a.
    found = scores("a b a b a c", "x a b a")
    assert found["ngram_1"] == pytest.approx(2 / 3)
    assert found["ngram_2"] == pytest.approx(2 / 3)
    # Distinct triples: a b a, b a b, b a c. The chunk holds the first.
    assert found["ngram_3"] == pytest.approx(1 / 3)
    assert found["jaccard"] == pytest.approx(2 / 4)
    assert found["rouge_l"] == pytest.approx(2 * 3 / (6 + 4))


def test_containment_is_the_items_share() -> None:
    inside = scores("one two three", "zero one two three four five")
    assert (inside["ngram_2"], inside["ngram_3"]) == (1, 1)
    outside = scores("zero one two three four five", "one two three")
    assert outside["ngram_2"] == pytest.approx(2 / 5)
    assert outside["ngram_3"] == pytest.approx(1 / 4)


def test_case_and_punctuation_do_not_count_and_order_does() -> None:
    assert set(scores("Call me: Ishmael.", "call ME ishmael").values()) == {1}
    turned = scores("a b c", "c b a")
    assert (turned["jaccard"], turned["ngram_1"], turned["ngram_2"]) == (1, 1, 0)
    assert turned["rouge_l"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("item", "chunk", "undefined"),
    [
        ("", "", {"ngram_1", "ngram_2", "ngram_3", "jaccard", "rouge_l"}),
        ("", "a b c", {"ngram_1", "ngram_2", "ngram_3"}),
        ("a b", "", {"ngram_3"}),
        ("a b", "a b c", {"ngram_3"}),
        ("a b c", "z", set()),
    ],
)
def test_what_is_undefined_is_nan(item: str, chunk: str, undefined: set[str]) -> None:
    found = scores(item, chunk)
    assert {name for name, value in found.items() if math.isnan(value)} == undefined


def test_the_spec_chooses_the_columns() -> None:
    few = lexical_scores([("a b c", "a b d")], Lexical(ngrams=(2,), jaccard=False, rouge_l=False))
    assert list(few) == ["ngram_2"]
    assert list(lexical_scores([], Lexical())) == [
        "ngram_2", "ngram_3", "ngram_8", "ngram_13", "jaccard", "rouge_l",
    ]  # fmt: skip
    none = lexical_scores([("a", "b")], Lexical(ngrams=(), jaccard=False, rouge_l=False))
    assert none.shape == (1, 0)
    assert set(map(str, lexical_scores([("a", "b")], Lexical()).dtypes)) == {"float32"}


@given(FEW_WORDS, FEW_WORDS)
def test_all_against_brute_force(item: str, chunk: str) -> None:
    a, b = item.split(), chunk.split()
    found = scores(item, chunk)
    for n in (1, 2, 3):
        mine = {tuple(a[i : i + n]) for i in range(len(a) - n + 1)}
        theirs = {tuple(b[i : i + n]) for i in range(len(b) - n + 1)}
        expected = len(mine & theirs) / len(mine) if mine else math.nan
        assert found[f"ngram_{n}"] == pytest.approx(expected, nan_ok=True)
    if a or b:
        assert found["jaccard"] == pytest.approx(len({*a} & {*b}) / len({*a} | {*b}))
        assert found["rouge_l"] == pytest.approx(2 * longest_common(a, b) / (len(a) + len(b)))


@given(ANY_TEXT, ANY_TEXT)
def test_bounds_symmetry_and_identity(item: str, chunk: str) -> None:
    there, back, same = scores(item, chunk), scores(chunk, item), scores(item, item)
    assert all(math.isnan(value) or 0 <= value <= 1 for value in there.values())
    for name in ("jaccard", "rouge_l"):
        assert there[name] == pytest.approx(back[name], nan_ok=True)
    assert {value for value in same.values() if not math.isnan(value)} <= {1}


@given(st.lists(st.tuples(FEW_WORDS, FEW_WORDS), max_size=8))
def test_rows_keep_their_order_and_do_not_depend_on_the_others(
    pairs: list[tuple[str, str]],
) -> None:
    alone = [lexical_scores([pair], SPEC).to_numpy()[0] for pair in pairs]
    together = lexical_scores(pairs, SPEC).to_numpy()
    assert np.array_equal(together, np.array(alone).reshape(-1, 5), equal_nan=True)
