#!/usr/bin/env python3
"""Writes tests/golden/gguf_vocabularies.json: small vocabularies as GGUF metadata would carry them, and the ids that the
library which trained each gives for a list of texts.

usage: make_vocab_goldens.py OUTPUT      (needs: pip install sentencepiece tokenizers)
"""
import io
import json
import pathlib
import sys

import sentencepiece

CORPUS = (["the quick brown fox jumps over the lazy dog", "hello world, hello again; it's fine.", "12 123 1234 over and over",
           "na\u00efve caf\u00e9 stra\u00dfe", "def f(x):  return x + 1", "\u3053\u3093 \u4e16\u754c \u4e16\u754c"] * 20)
TEXTS = ["", " ", "   ", "hello world", "  Hello,  WORLD! ", "it's 1234 caf\u00e9 cafe\u0301 \ufb01", "a-b--c", "over  and   over    x",
         "\u4e16\u754c \u3053\u3093\U0001f600\U0001f600", "x\u00a0y\u3000z\u200b\t\n", "\u2581the\u2581\u2581dog", "fox<u>dog</u>  <u>", "overoverover",
         "helloworld" * 20, "the" * 40, "\u212b\u0344\u1e9b\u0323\uac01", "line one\nline two\r\n\n end "]
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def trained(**options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out, num_threads=1,
                                             minloglevel=2, hard_vocab_limit=False, **options)
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())


def spec_of(library, model, **more):
    """As the converters to GGUF write it: user-defined tokens have their spaces back."""
    kinds = [(library.is_unknown, UNKNOWN), (library.is_control, CONTROL), (library.is_unused, UNUSED), (library.is_byte, BYTE)]
    tokens, types = [], []
    for i in range(library.get_piece_size()):
        kind = next((k for is_kind, k in kinds if is_kind(i)), NORMAL)
        piece = library.id_to_piece(i)
        if piece in ("<u>", "</u>", "\u2581\u2581", "\u2581\u2581\u2581"):
            kind, piece = USER, piece.replace("\u2581", " ")
        tokens.append(piece)
        types.append(kind)
    return {"model": model, "tokens": tokens, "scores": [library.get_score(i) for i in range(len(tokens))], "types": types,
            "bos_id": library.bos_id(), "eos_id": library.eos_id(), "unk_id": library.unk_id(), **more}


def sentencepiece_rows():
    plain = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "vocab_size": 420}
    bytes_too = trained(model_type="bpe", byte_fallback=True, add_dummy_prefix=False,
                        user_defined_symbols=["<u>", "</u>", "\u2581\u2581", "\u2581\u2581\u2581"], **plain)
    prefixed = trained(model_type="bpe", add_dummy_prefix=True, **{**plain, "vocab_size": 150})
    for name, library, model, more in [
            ("sentencepiece_bytes", bytes_too, "llama", {"add_bos": True}),
            ("sentencepiece_prefix", prefixed, "llama", {"add_space_prefix": True, "add_eos": True})]:
        spec = spec_of(library, model, **more)
        # SentencePiece puts its prefix before the whole text only; GGUF readers after each matched token too.
        texts = [t for t in TEXTS if not (more.get("add_space_prefix") and "<u>" in t)]
        frame = {key: more.get(key, False) for key in ("add_bos", "add_eos")}
        # SentencePiece spells an unknown token with a sign of its own.
        cases = [[t, library.encode(t, **frame), None if library.unk_id() in library.encode(t) else library.decode(library.encode(t))]
                 for t in texts]
        yield name, f"sentencepiece {sentencepiece.__version__}", spec, cases


def main():
    rows = list(sentencepiece_rows())
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    pathlib.Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
