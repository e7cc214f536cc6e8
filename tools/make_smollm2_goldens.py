#!/usr/bin/env python3
"""make_smollm2_goldens.py MODEL.gguf: writes tests/golden/smollm2_tokens.jsonl.

Reference: the `tokenizers` library (0.23) with the vocabulary, merges and special tokens of the GGUF file, read with the
`gguf` package, and the pre-tokenizer of SmolLM2's own tokenizer.json (digits one by one, then byte level). Each line:
{"text", "ids", "offsets"}. Needs: pip install tokenizers gguf
"""
import json
import pathlib
import random
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

PIECES = ["a", "b", " ", "  ", "\n", "\t", "1", "23", "é", "ü", "世", "界", "🌍", "👩\u200d👩\u200d👧", "नमस्ते", "<|im_end|>",
          "<|im_start|>", "'s", "-", "_", "Hello", "the ", "\u00a0", "\u200b", "e\u0301", "Ж", "ا", ".", ",",
          "def f(x):\n  ", "don't", "\r\n", "\u0000", "<|im_", "\U0010ffff"]
TEXTS = ["", "What is a mill race?", "Ein Mühlgraben führt Wasser.", "x = [1, 2, 3]  # 456", " leading", "trailing ", "\n\n\n",
         "<|im_start|>user\nHi<|im_end|>\n", "a" * 300]


def strings(field):
    return [bytes(field.parts[i]).decode() for i in field.data]


def main() -> None:
    fields = GGUFReader(sys.argv[1]).fields
    tokens = strings(fields["tokenizer.ggml.tokens"])
    merges = [tuple(merge.split(" ")) for merge in strings(fields["tokenizer.ggml.merges"])]
    types = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token, kind in zip(tokens, types) if kind == control])

    random.seed(0)
    texts = TEXTS + ["".join(random.choices(PIECES, k=random.randint(1, 12))) for _ in range(150)]
    out = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "smollm2_tokens.jsonl"
    with out.open("w", encoding="ascii") as file:
        for text in texts:
            encoding = tokenizer.encode(text)
            file.write(json.dumps({"text": text, "ids": encoding.ids, "offsets": encoding.offsets},
                                  separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
