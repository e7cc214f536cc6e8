#!/usr/bin/env python3
"""Compares what `headrace tokenize` gives with a reference library, on generated strings of every script: ids, and for a
tokenizer.json offsets and decoded texts too. tests/e2e/test_tokenizers.py runs it in CI.

usage: compare_tokenizers.py HEADRACE MODEL REFERENCE [COUNT] [SEED]
REFERENCE: a tokenizer.json (needs the package tokenizers) or a SentencePiece .model (needs sentencepiece).
Prints the strings that differ; the exit status is 1 when there are any.
"""
import functools
import json
import random
import subprocess
import sys
import unicodedata

WORDS = """the quick brown fox jumps over a lazy dog Hello WORLD camelCase snake_case don't I'm we'll it'S naïve café straße
Привет мир как дела 世界 你好 中文分词 こんにちは カタカナ 한국어 문장 שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก ελληνικά
Tiếng Việt Zażółć gęślą jaźń ქართული հայերեն አማርኛ தமிழ் ไทย ភាសាខ្មែរ မြန်မာ ᠮᠣᠩᠭᠣᠯ ꦗꦮ 1234567890 3.14 1,000 0x1F 2024-01-02 ½ Ⅷ ٣
def return std::vector<int> #include <html></div> {"a": [1, 2]} https://a.b/c?d=e&f e\u0301 n\u0303 👩‍👩‍👧 😀 🇩🇪 🏳️‍🌈 👍🏽 ﬁ ﷺ ㎒ ① Å ℌ""".split()
SPACES = [" "] * 12 + ["  ", "   ", "    ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", "\u200b", "\u2581", "", "", ""]
CODE = ["    for (int i = 0; i < n; ++i) {\n\t\tx[i] += y->z;\n    }\n", "def f(a, *b, **c):\n    return a if b else lambda: c['k']\n",
        "SELECT * FROM t WHERE a <> 'it''s';\r\n", "\\frac{1}{2} $x_i^2$ ", "<a href=\"#\">&nbsp;</a>", "/* 0xDEADBEEF */ #!/bin/sh\n"]
MARKS = "\u0301\u0308\u0323\u0327\u05b0\u064b\u093c\u094d\u0e38\u302a\u3099\ufe0f\u200d\U0001f3fd\U000e0067\U000e007f"


def any_char(rng):
    while True:
        code = rng.choice([rng.randrange(0x300), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x30000),
                           rng.randrange(0xE0000, 0x110000)])
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def part(rng, special):
    pick = rng.random()
    if pick < 0.74:
        return rng.choice(WORDS)
    if pick < 0.84:
        return "".join(any_char(rng) for _ in range(rng.randint(1, 6)))
    if pick < 0.86:  # letters and emoji with marks and joiners in any order
        return "".join(rng.choice("ae가ก😀👩") + "".join(rng.choice(MARKS) for _ in range(rng.randint(0, 4))) for _ in range(3))
    if pick < 0.87:
        return rng.choice(CODE)
    if pick < 0.88:
        return "".join(rng.choice("0123456789٣¾,. ") for _ in range(rng.randint(1, 30)))
    if pick < 0.89:
        return "".join(chr(rng.choice([*range(0x20), *range(0x7F, 0xA0)])) for _ in range(rng.randint(1, 5)))
    if pick < 0.92:
        return rng.choice("aA-=.*_ \n!世\u0301") * rng.randint(2, 70)
    if pick < 0.93:
        return "".join(rng.choice(" \n\t\r\u00a0\u2003") for _ in range(rng.randint(2, 40)))
    if pick < 0.96 and special:
        token = rng.choice(special)
        return rng.choice([token, token, token + rng.choice(special), token[:-1], " " + token + " ", token.upper(), token[1:]])
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(1, 12)))


@functools.cache
def assigned():
    """All characters that are assigned in the Unicode version of `tokenizers`, or of Python without it."""
    every = "".join(chr(c) for c in range(0x30000 + 0x10000) if not 0xD800 <= c < 0xE000) + "".join(map(chr, range(0xE0000, 0xE0200)))
    try:
        from tokenizers import Regex, pre_tokenizers
    except ImportError:
        return [c for c in every if unicodedata.category(c) not in ("Cn", "Co")]
    kept = pre_tokenizers.Split(Regex(r"[\p{Cn}\p{Co}]+"), "removed").pre_tokenize_str(every)
    return list("".join(word for word, _ in kept))


def strings(count, seed, special):
    rng = random.Random(seed)
    # Every code point once, in runs of 64, and once with spaces between.
    every = assigned()
    runs = [joint.join(every[i:i + 64]) for joint in ("", " ") for i in range(0, len(every), 64)]
    yield from (runs if count >= len(runs) else rng.sample(runs, count // 10))
    for _ in range(count):
        yield "".join(part(rng, special) + rng.choice(SPACES) for _ in range(rng.randint(1, 40)))


def long_words(size):
    """Words of about `size` bytes."""
    rng = random.Random(0)
    letters = "".join(rng.choice("etaoinshrdlu") for _ in range(size))
    return ["a" * size, letters, "世" * (size // 3), " " * size]


def broken_utf8(seed):
    """Bytes with every kind of ill-formed sequence, between words."""
    rng = random.Random(seed)
    pieces = [bytes(rng.choices(range(0x80, 0x100), k=rng.randint(1, 4))) for _ in range(4000)]
    pieces += [c.encode()[:cut] for c in "é世😀" for cut in (1, 2, 3)] + [b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xf0\x80\x80\x80"]
    return b"".join(piece + rng.choice(WORDS).encode() + rng.choice([b" ", b"", b"\n"]) for piece in pieces)


def headrace_lines(headrace, model, values):
    """What `headrace tokenize --jsonl` answers to each value, a string or a list of ids."""
    lines = "".join(json.dumps(value) + "\n" for value in values)
    out = subprocess.run([headrace, "tokenize", model, "--jsonl"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in out.stdout.split("\n")[:-1]]  # not at U+2028 and its like


def shorter(value):
    text = repr(value)
    return text if len(text) < 300 else text[:140] + " ... " + text[-140:]


def differences(texts, got, want):
    """Lines that say where the lists first differ, one for each text."""
    out = []
    for text, g, w in zip(texts, got, want, strict=True):
        if g != w:
            at = next((i for i, (a, b) in enumerate(zip(g, w)) if a != b), min(len(g), len(w)))
            out.append(f"{shorter(text)}\n  at {at}: got {g[at:at + 8]!r}, want {w[at:at + 8]!r}")
    return out


def compare_with_library(headrace, model, library, texts):
    """Ids, offsets and decoded texts of `library`, a tokenizers.Tokenizer; lines that say what differs."""
    want = library.encode_batch(texts)
    got = headrace_lines(headrace, model, texts)
    out = differences(texts, [g["ids"] for g in got], [w.ids for w in want])
    out += differences(texts, [g["offsets"] for g in got], [[list(o) for o in w.offsets] for w in want])
    # As encoded, and cut in the middle of characters.
    lists = [w.ids for w in want] + [w.ids[1::2] for w in want[::7]]
    decoded = headrace_lines(headrace, model, lists)
    for key, skip in (("text", False), ("without_special", True)):
        out += differences(lists, [d[key] for d in decoded], library.decode_batch(lists, skip_special_tokens=skip))
    return out


def compare_broken(headrace, model, library, seed):
    """Bytes that are no UTF-8 count as U+FFFD, one for each ill-formed part, as Python's lossy decoding has it."""
    raw = broken_utf8(seed)
    out = subprocess.run([headrace, "tokenize", model], input=raw, capture_output=True, check=True)
    got, text = [int(i) for i in out.stdout.split()], raw.decode("utf-8", "replace")
    return differences([text], [got], [library.encode(text).ids])


def special_tokens(library):
    return [t.content for t in library.get_added_tokens_decoder().values()][:200]


def synthetic():
    """{name: tokenizers.Tokenizer}: small vocabularies of every model, with components in many combinations."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders as d, models, normalizers as n, pre_tokenizers as p
    from tokenizers import processors as pp, trainers as t
    corpus = [" ".join(random.Random(i).choices(WORDS, k=30)) for i in range(40)] + CODE
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    trainer = {models.BPE: t.BpeTrainer, models.WordPiece: t.WordPieceTrainer, models.WordLevel: t.WordLevelTrainer}

    def make(model, norm=None, pre=None, post=None, dec=None, **kw):
        tok = Tokenizer(model)
        for name, component in (("normalizer", norm), ("pre_tokenizer", pre), ("post_processor", post), ("decoder", dec)):
            if component is not None:
                setattr(tok, name, component)
        make_trainer = trainer.get(type(model), t.UnigramTrainer)
        if make_trainer is t.UnigramTrainer:
            kw["unk_token"] = "<unk>"
        tok.train_from_iterator(corpus, make_trainer(vocab_size=600, special_tokens=special, show_progress=False, **kw))
        return tok

    def with_tokens(tok):
        tok.add_tokens([AddedToken("<add>", normalized=True), AddedToken("Word", single_word=True), AddedToken("<l>", lstrip=True, normalized=False)])
        tok.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<r>", rstrip=True), AddedToken("世", single_word=True)])
        return tok

    def limited(tok):
        tok.enable_truncation(40, strategy="longest_first", direction="left")
        tok.enable_padding(length=32, pad_to_multiple_of=24, direction="left", pad_id=3, pad_token="<pad>")
        return tok

    unk = dict(unk_token="<unk>")
    frame = pp.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", [("<s>", 1), ("</s>", 2)])
    letters = dict(initial_alphabet=p.ByteLevel.alphabet())
    o200k = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{Lo}\p{M}]+(?i:'s|'t|'ll)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return {
        "gpt2": with_tokens(make(models.BPE(), None, p.ByteLevel(), pp.ByteLevel(), d.ByteLevel(), **letters)),
        "split": make(models.BPE(ignore_merges=True), n.NFC(), p.Sequence([p.Split(Regex(o200k), "isolated"), p.ByteLevel(False, use_regex=False)]),
                      frame, d.ByteLevel(), **letters),
        "bytes_inside": make(models.BPE(**unk), n.NFD(), p.Sequence([p.ByteLevel(False, use_regex=False), p.Split(Regex(r"Ġ?\p{L}+|\d"), "merged_with_next")]),
                             None, d.ByteLevel(), **letters),
        "roberta": make(models.BPE(), None, p.ByteLevel(False), pp.RobertaProcessing(("</s>", 2), ("<s>", 1)), d.ByteLevel(), **letters),
        "legacy_llama": with_tokens(make(models.BPE(byte_fallback=True, fuse_unk=True, **unk), n.Sequence([n.Prepend("▁"), n.Replace(" ", "▁")]), None, frame,
                                         d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)]))),
        "suffix": make(models.BPE(end_of_word_suffix="</w>", **unk), n.Sequence([n.NFKC(), n.Lowercase()]), p.BertPreTokenizer(), None,
                       d.BPEDecoder(), end_of_word_suffix="</w>"),
        "bert": limited(make(models.WordPiece(**unk), n.BertNormalizer(), p.BertPreTokenizer(), pp.BertProcessing(("</s>", 2), ("<s>", 1)), d.WordPiece())),
        "wordpiece": with_tokens(make(models.WordPiece(**unk), n.Sequence([n.Nmt(), n.NFKD(), n.StripAccents()]),
                                      p.Sequence([p.Punctuation("merged_with_previous"), p.WhitespaceSplit()]), None, d.WordPiece(cleanup=False))),
        "unigram": with_tokens(make(models.Unigram(), n.Sequence([n.Nmt(), n.NFKC(), n.Replace(Regex(" {2,}"), " ")]), p.Metaspace(), frame, d.Metaspace())),
        "unigram_first": make(models.Unigram(), n.NFKD(), p.Sequence([p.UnicodeScripts(), p.Digits(True), p.Metaspace(prepend_scheme="first", split=False)]),
                              None, d.Metaspace()),
        "words": with_tokens(make(models.WordLevel(**unk), n.Sequence([n.Strip(), n.Lowercase()]), p.Whitespace(), frame)),
        "fixed": make(models.BPE(**unk), n.StripAccents(), p.Sequence([p.FixedLength(7), p.Split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated"), p.Digits()])),
        "delimited": make(models.WordLevel(**unk), n.Replace(Regex(r"\p{Cc}+"), "\n"), p.Sequence([p.CharDelimiterSplit(" "), p.Split(Regex(r"\w+"), "contiguous")])),
    }


def reference(path):
    """The special tokens to write in texts, and text -> ids."""
    if path.endswith(".json"):
        import tokenizers
        library = tokenizers.Tokenizer.from_file(path)
        library.no_truncation()
        library.no_padding()
        # Runs of U+2581 written in the text are spaces to SentencePiece and tokens of their own to `tokenizers`.
        return [t for t in special_tokens(library) if "\u2581" not in t], lambda text: library.encode(text).ids
    import sentencepiece
    library = sentencepiece.SentencePieceProcessor(model_file=path)
    return [], lambda text: library.encode(text, add_bos=False)


def main():
    headrace, model, path = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 20000
    special, encode = reference(path)
    texts = list(strings(count, int(sys.argv[5]) if len(sys.argv) > 5 else 1, special))
    found = differences(texts, [line["ids"] for line in headrace_lines(headrace, model, texts)], [encode(text) for text in texts])
    print("\n".join(found[:10]))
    print(f"{len(texts)} strings, {len(found)} different")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
