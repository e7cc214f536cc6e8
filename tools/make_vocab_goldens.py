#!/usr/bin/env python3
"""Writes tests/golden/gguf_vocabularies.json: small vocabularies as GGUF metadata would carry them, and the ids that the
library which trained each gives for a list of texts.

usage: make_vocab_goldens.py OUTPUT      (needs: pip install sentencepiece tokenizers)
"""
import base64
import io
import json
import pathlib
import sys
import tempfile

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


def fields(data):
    """(number, value) of a protobuf message's length-delimited fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, data[at:at + size]
            at += size


def charsmap_of(library):
    normalizer = dict(fields(library.serialized_model_proto()))[3]
    return dict(fields(normalizer))[2]


RULES = {"\ufb01": "fi", "\u212b": "\u00c5", "\u3000": " ", "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u200b": " ", "e\u0301": "\u00e9",
         "\u2460": "1", "\u1e9b\u0323": "\u1e69", "\u1e9b": "\u1e61", "H": "h", "\x01": ""}


def trained_with_rules(**options):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in RULES.items():
            rules.write("\t".join(" ".join(f"{ord(c):X}" for c in part) for part in (source, target)) + "\n")
        rules.flush()
        return trained(model_type="unigram", normalization_rule_tsv=rules.name, **options)


def unigram_rows():
    options = {"vocab_size": 120, "user_defined_symbols": ["<u>", "</u>"]}
    tidy = trained_with_rules(**options)
    loose = trained_with_rules(remove_extra_whitespaces=False, add_dummy_prefix=False, **options)
    for name, library, more in [("unigram_tidy", tidy, {"remove_extra_whitespaces": True, "add_space_prefix": True, "add_eos": True}),
                                ("unigram_loose", loose, {})]:
        spec = spec_of(library, "t5", charsmap=base64.b64encode(charsmap_of(library)).decode(), **more)
        texts = [t for t in TEXTS if "<u>" not in t]
        ids = [library.encode(t, add_eos=more.get("add_eos", False)) for t in texts]
        # The text is the normalized one, so that it does not come back: the ids alone are compared.
        yield name, f"sentencepiece {sentencepiece.__version__}", spec, [[t, i, None] for t, i in zip(texts, ids)]


def wordpiece_rows():
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for name, lowercase in [("wordpiece_uncased", True), ("wordpiece_cased", False)]:
        library = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        library.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        library.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=160, special_tokens=special, show_progress=False))
        library.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        library.decoder = decoders.WordPiece()
        pieces = [library.id_to_token(i) for i in range(library.get_vocab_size())]
        tokens = [p if p in special else p[2:] if p.startswith("##") else "\u2581" + p for p in pieces]
        spec = {"model": "bert", "tokens": tokens, "types": [CONTROL if p in special else NORMAL for p in pieces],
                "cls_id": 2, "sep_id": 3, "unk_id": 1, "lowercase": lowercase, "strip_accents": lowercase}
        texts = TEXTS + ["[CLS] fox [MASK] dog", "x" * 200]
        cases = [[t, e.ids, library.decode(e.ids, skip_special_tokens=True)] for t in texts for e in [library.encode(t)]]
        yield name, f"tokenizers {tokenizers.__version__}", spec, cases


def proto_rows():
    """SentencePiece's own files, in base64."""
    shapes = [("proto_bpe", trained(model_type="bpe", vocab_size=150, normalization_rule_name="identity")),
              ("proto_bpe_bytes", trained(model_type="bpe", vocab_size=400, byte_fallback=True, add_dummy_prefix=False,
                                          normalization_rule_name="identity", remove_extra_whitespaces=False)),
              ("proto_unigram", trained_with_rules(vocab_size=120, user_defined_symbols=["<u>"], add_dummy_prefix=False))]
    for name, library in shapes:
        proto = {"proto": base64.b64encode(library.serialized_model_proto()).decode()}
        yield name, f"sentencepiece {sentencepiece.__version__}", proto, [[t, library.encode(t), None] for t in TEXTS]


def main():
    rows = [*sentencepiece_rows(), *unigram_rows(), *wordpiece_rows(), *proto_rows()]
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    pathlib.Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
