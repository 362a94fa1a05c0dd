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


def bert(folder: Path, seed: int = 1, **config: Any) -> Path:
    """Write a BERT that knows the words w0 to w49 and a prompt."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "find", ":"]
    words = {name: number for number, name in enumerate([*special, *(f"w{n}" for n in range(50))])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    positions = {"max_position_embeddings": 32} | config
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(BertConfig(vocab_size=60, intermediate_size=48, **sizes, **positions))
    with quiet():
        model.save_pretrained(folder)
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
            sep_token="[SEP]", mask_token="[MASK]", model_max_length=100,
        ).save_pretrained(folder)  # fmt: skip
    return folder
