#!/usr/bin/env python3
"""Compares the ids that `headrace tokenize` gives with a reference library's, on generated strings of every script.

usage: compare_tokenizers.py HEADRACE MODEL REFERENCE [COUNT] [SEED]
REFERENCE: a tokenizer.json (needs the package tokenizers) or a SentencePiece .model (needs sentencepiece).
Prints the strings that differ; the exit status is 1 when there are any.
"""
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


def any_char(rng):
    while True:
        code = rng.choice([rng.randrange(0x300), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x30000),
                           rng.randrange(0xE0000, 0x110000)])
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def strings(count, seed, special):
    rng = random.Random(seed)
    # Every code point once, in runs of 64.
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co")]
    runs = ["".join(every[i:i + 64]) for i in range(0, len(every), 64)]
    yield from (runs if count >= len(runs) else rng.sample(runs, count // 10))
    for i in range(count):
        parts = []
        for _ in range(rng.randint(1, 40)):
            pick = rng.random()
            if pick < 0.8:
                parts.append(rng.choice(WORDS))
            elif pick < 0.9:
                parts.append("".join(any_char(rng) for _ in range(rng.randint(1, 6))))
            elif pick < 0.93:
                parts.append(rng.choice("aA-=.*_ \n!世\u0301") * rng.randint(2, 70))
            elif pick < 0.95 and special:
                parts.append(rng.choice(special))
            else:
                parts.append("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(1, 12))))
            parts.append(rng.choice(SPACES))
        yield "".join(parts)


def reference(path):
    if path.endswith(".json"):
        import tokenizers
        library = tokenizers.Tokenizer.from_file(path)
        library.no_truncation()
        library.no_padding()
        # Runs of U+2581 written in the text are spaces to SentencePiece and tokens of their own to `tokenizers`.
        special = [t.content for t in library.get_added_tokens_decoder().values() if "\u2581" not in t.content][:200]
        return special, lambda text: library.encode(text).ids
    import sentencepiece
    library = sentencepiece.SentencePieceProcessor(model_file=path)
    return [], lambda text: library.encode(text, add_bos=False)


def main():
    headrace, model, path = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 20000
    special, encode = reference(path)
    texts = list(strings(count, int(sys.argv[5]) if len(sys.argv) > 5 else 1, special))
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    out = subprocess.run([headrace, "tokenize", model, "--jsonl"], input=lines, capture_output=True, text=True, check=True)
    different = 0
    for text, line in zip(texts, out.stdout.splitlines(), strict=True):
        got, want = json.loads(line)["ids"], encode(text)
        if got == want:
            continue
        different += 1
        if different <= 10:
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            print(f"{text!r}\n  at id {at}: got {got[at:at + 8]}, want {want[at:at + 8]}")
    print(f"{len(texts)} strings, {different} different")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
