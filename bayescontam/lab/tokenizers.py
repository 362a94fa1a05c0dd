"""Tokens of training texts: words, pieces of words, or those of a published model."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from bayescontam._optional import require
from bayescontam._text import join_list
from bayescontam.errors import DataError, Fault, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "<end>"}


def word_tokenizer(texts: Collection[str]) -> "Tokenizer":
    """Return a tokenizer whose tokens are the words of texts, split by white space.

    Parameters
    ----------
    texts : collection of str
        Texts whose words are the vocabulary. Order and repetition do not matter.

    Returns
    -------
    tokenizers.Tokenizer
        Tokens 0, 1 and 2 are ``<pad>``, ``<unk>`` and ``<end>``; then follow the words, sorted.

    Raises
    ------
    DataError
        If a text holds one of the special tokens.

    Examples
    --------
    >>> tokenizer = word_tokenizer(["two and two", "is four ."])
    >>> tokenizer.encode("two and five").ids
    [7, 4, 1]
    >>> tokenizer.decode([7, 4, 7])
    'two and two'
    """
    library = require("tokenizers", "lab")
    _refuse_marks(texts)
    splitter = library.pre_tokenizers.WhitespaceSplit()
    words = {word for text in texts for word, _ in splitter.pre_tokenize_str(text)}
    vocabulary = {word: at for at, word in enumerate([*_SPECIAL.values(), *sorted(words)])}
    model = library.models.WordLevel(vocabulary, unk_token=_SPECIAL["unk_token"])
    tokenizer: Tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = splitter
    tokenizer.add_special_tokens(list(_SPECIAL.values()))
    return tokenizer


def piece_tokenizer(texts: Collection[str], vocabulary: int = 8000) -> "Tokenizer":
    """Return a tokenizer of pieces of words: byte-level BPE, trained on texts [1]_.

    It encodes every text, of other words too, and decodes it as it was.

    Parameters
    ----------
    texts : collection of str
        Texts whose frequent pieces become tokens. Their order does not matter.
    vocabulary : int, default 8000
        Most tokens, special ones and the 256 bytes counted; 300 or more.

    Returns
    -------
    tokenizers.Tokenizer
        Tokens 0, 1 and 2 are ``<pad>``, ``<unk>`` and ``<end>``; then follow bytes and pieces.

    Raises
    ------
    DataError
        If a text holds one of the special tokens.

    References
    ----------
    .. [1] Sennrich, Haddow and Birch (2016), Neural machine translation of rare words with
       subword units. arXiv:1508.07909.

    Examples
    --------
    >>> tokenizer = piece_tokenizer(["two and two is four ."] * 9, 300)
    >>> tokenizer.encode("two and two").tokens
    ['two', 'Ġand', 'Ġtwo']
    >>> tokenizer.decode(tokenizer.encode("née 7").ids)
    'née 7'
    """
    library = require("tokenizers", "lab")
    _refuse_marks(texts)
    if vocabulary < 300:
        raise UsageError(f"vocabulary: got {vocabulary}; allowed is 300 or more")
    tokenizer: Tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(_SPECIAL.values()),
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def fast_tokenizer(tokenizer: "Tokenizer") -> Any:
    """Return a tokenizer of words or pieces as transformers uses it."""
    library = require("transformers", "lab")
    return library.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_SPECIAL)


def encode_texts(tokenizer: Any, texts: Sequence[str], longest: int | None) -> list[list[int]]:
    """Return the tokens of training texts, `longest` at most, each with its start and end."""
    end, start = tokenizer.eos_token_id, start_tokens(tokenizer)
    if end is None:
        raise UsageError("tokenizer: has no token for ends (eos_token); choose another model")
    # One by one: a batch would start threads, and processes with threads should not be forked.
    encoded = [tokenizer.encode(text, add_special_tokens=False, verbose=False) for text in texts]
    most = float("inf") if longest is None else longest - len(start) - 1
    names = [tokenizer.pad_token, tokenizer.unk_token, tokenizer.eos_token]
    marks = {tokenizer.pad_token_id, tokenizer.unk_token_id, end}
    lacking = f"has {join_list(dict.fromkeys(filter(None, names)))} or words that are no tokens"
    faults = []
    for row, ids in enumerate(encoded, start=1):
        if not 1 <= len(ids) <= most:
            cause = f"length in tokens is {{}}; allowed are 1 to {most:,}, as an end follows"
            problem = cause.replace("{}", f"{len(ids):,}")
            faults.append(Fault("texts", problem, row, cause=cause, value=f"{len(ids):,}"))
        elif not marks.isdisjoint(ids):
            faults.append(Fault("texts", lacking, row))
    if faults or not encoded:
        advice = "Shorten or split what does not fit."
        raise DataError(faults or [Fault("texts", "none; a training needs at least one")], advice)
    return [[*start, *ids, end] for ids in encoded]


def start_tokens(tokenizer: Any) -> list[int]:
    """Return what a tokenizer puts before a text: its token for starts, or nothing."""
    start = tokenizer.bos_token_id
    return [start] if start is not None and tokenizer.encode("")[:1] == [start] else []


def _refuse_marks(texts: Collection[str]) -> None:
    reserved = [token for token in _SPECIAL.values() if any(token in text for text in texts)]
    if reserved:
        problem = f"hold {join_list(reserved)}, which mark padding, unknown words and ends"
        raise DataError([Fault("texts", problem)], "write these words in another way")
