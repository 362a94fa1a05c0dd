import pickle

import pytest

from bayescontam.scan.embedders import TokenCounter

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture
def tokenizer():
    """One token a word, two special ones around them."""
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "word": 3}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return made


def test_special_tokens_are_left_out(tokenizer):
    assert TokenCounter(tokenizer)(["word and word", "", " ", "word"]) == [3, 0, 0, 1]
    assert TokenCounter(tokenizer)([]) == []


def test_nothing_is_cut_or_filled_up_and_the_tokenizer_stays_as_it_is(tokenizer):
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=10)
    counter = TokenCounter(tokenizer)
    assert counter(["word " * 300, "word"]) == [300, 1]
    assert len(tokenizer.encode("word " * 300).ids) == 10
    tokenizer.enable_truncation(2)
    assert counter(["word " * 300]) == [300]


def test_counters_can_be_sent_to_other_processes(tokenizer):
    counter = pickle.loads(pickle.dumps(TokenCounter(tokenizer)))
    assert counter(["word and word", "word"]) == [3, 1]


def test_many_characters_are_counted_in_groups(tokenizer, monkeypatch):
    monkeypatch.setattr("bayescontam.scan.embedders._CHARACTERS", 30)
    assert TokenCounter(tokenizer)(["one two"] * 9 + ["word " * 40] * 2) == [2] * 9 + [40] * 2


def test_tokenizers_in_plain_python_count_too():
    class Slow:
        def __call__(self, texts, *, add_special_tokens, verbose):
            assert not add_special_tokens
            assert not verbose
            return {"input_ids": [text.split() for text in texts]}

    assert TokenCounter(Slow())(["a b", "", "c"] * 5) == [2, 0, 1] * 5
