#!/usr/bin/env python3
"""Writes tests/golden/streams.json: small vocabularies of four kinds, and what tokenizers decodes sequences of ids to, with and
without special tokens.

usage: make_stream_goldens.py OUTPUT      (needs: pip install tokenizers)
"""
import json
import pathlib
import random
import sys

import tokenizers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = ["the quick brown fox jumps over the lazy dog.", "Hello, world! It's fine, isn't it? 'Yes' do not go.", "12 123 1234  two  spaces",
          "na\u00efve caf\u00e9 stra\u00dfe", "def f(x):\n\treturn x + 1\n", "\u3053\u3093\u306b\u3061\u306f \u4e16\u754c", "\U0001f600 \U0001f600\U0001f680"] * 3
ATOMS = ["the", " ", "quick", "Hello", ",", " world", "'", "n't", ".", "?", "12", "\n", "\t", "  ", "\u00e9", "\u00df", "\u4e16", "\u754c", "\u2026", "\U0001f600",
         "\U0001f469\u200d\U0001f467", "\u0301", "x", "do not", "</s>", "\u2581", "\u05d0", "\U0010ffff", "<0x41>"]
SPECIAL = ["<unk>", "<s>", "</s>"]


def byte_level():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=340, special_tokens=SPECIAL, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def byte_fallback():
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=140, special_tokens=SPECIAL, show_progress=False))
    file = json.loads(t.to_str())
    vocab = file["model"]["vocab"]
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    file["model"] |= {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    t = Tokenizer.from_str(json.dumps(file))
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def unigram():
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=110, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False))
    return t


def wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="<unk>"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=130, special_tokens=SPECIAL, show_progress=False))
    return t


def is_certain(tokenizer, ids):
    """False where a run of byte tokens holds whole characters and then bytes that are none: the library replaces the characters
    too, which a stream has shown by then."""
    run = b""
    for id in [*ids, None]:
        token = None if id is None else tokenizer.id_to_token(id)
        if token and len(token) == 6 and token.startswith("<0x"):
            run += bytes([int(token[3:5], 16)])
            continue
        try:
            run.decode()
        except UnicodeDecodeError:
            if run.decode(errors="ignore"):
                return False
        run = b""
    return True


def rows(tokenizer, seed):
    random.seed(seed)
    out = []
    while len(out) < 90:
        ids = tokenizer.encode("".join(random.choice(ATOMS) for _ in range(random.randint(1, 12))), add_special_tokens=False).ids
        if len(out) % 3 == 1:
            ids = [random.randrange(tokenizer.get_vocab_size()) for _ in range(random.randint(1, 16))]
        elif len(out) % 3 == 2:  # special tokens and single bytes between the words
            for _ in range(3):
                ids.insert(random.randint(0, len(ids)), random.choice([0, 1, 2, random.randrange(tokenizer.get_vocab_size())]))
        if ids and is_certain(tokenizer, ids):
            out.append([ids, tokenizer.decode(ids, skip_special_tokens=True), tokenizer.decode(ids, skip_special_tokens=False)])
    return out


if __name__ == "__main__":
    golden = {"reference": f"tokenizers {tokenizers.__version__}", "vocabularies": {}}
    for i, make in enumerate([byte_level, byte_fallback, unigram, wordpiece]):
        tokenizer = make()
        golden["vocabularies"][make.__name__] = {"tokenizer": json.loads(tokenizer.to_str()), "rows": rows(tokenizer, 40 + i)}
    (pathlib.Path(sys.argv[1]) / "streams.json").write_text(json.dumps(golden, ensure_ascii=True) + "\n")
