"""Published architectures, tiny and with random weights, as folders that transformers loads."""

from pathlib import Path
from typing import Any

from bayescontam.lab.tokenizers import fast_tokenizer, word_tokenizer
from bayescontam.scan.embedders import quiet

POSITIONS = 12


def gpt2(texts: list[str], folder: Path, **options: Any) -> Path:
    """Write a GPT-2 with the words of texts as tokens: tied weights, dropout, learned positions."""
    import torch
    import transformers

    tokenizer = fast_tokenizer(word_tokenizer(texts))
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=POSITIONS, n_embd=16, n_layer=1, n_head=2,
        bos_token_id=2, eos_token_id=2, **options,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = transformers.GPT2LMHeadModel(config)
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder
