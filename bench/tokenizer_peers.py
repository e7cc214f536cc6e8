#!/usr/bin/env python3
"""Times tokenizer_bench beside the libraries `tokenizers` (one thread, as TOKENIZERS_PARALLELISM=false has it) and, for byte-level
vocabularies without merges of their own, `tiktoken`: the same text, turn by turn in one run, medians.

usage: tokenizer_peers.py TOKENIZER_BENCH TOKENIZER_JSON... [--rounds N] [--tiktoken NAME]
A file may be gzipped. NAME: part of the path of the file that tiktoken can run (llama3). (needs: pip install tokenizers tiktoken)
"""
import argparse
import gzip
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import compare_tokenizers as compare  # noqa: E402
import tokenizers  # noqa: E402


def text():
    """About 4 MB: this repository's prose and code, and as much of every script."""
    files = [p for pattern in ("docs/*.md", "src/**/*.h", "src/**/*.cc", "tools/*.py") for p in sorted(ROOT.glob(pattern))]
    own = "".join(p.read_text() for p in files)[:2_000_000]
    rng, lines = random.Random(1), []
    while sum(map(len, lines)) < 1_200_000:
        lines.append("".join(rng.choice(compare.WORDS) + rng.choice(compare.SPACES[:14]) for _ in range(30)) + "\n")
    return own + "".join(lines)


def rates(lines, size, encode, decode):
    start = time.perf_counter()
    ids = [encode(line) for line in lines]
    middle = time.perf_counter()
    for one in ids:
        decode(one)
    return {"encode_mb_s": size / 1e6 / (middle - start), "decode_mb_s": size / 1e6 / (time.perf_counter() - middle),
            "ids": sum(map(len, ids))}


def timed_ms(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def library_row(path, lines, size, words):
    loaded = []
    load = timed_ms(lambda: loaded.append(tokenizers.Tokenizer.from_file(path)))
    library = loaded[0]
    row = rates(lines, size, lambda line: library.encode(line, add_special_tokens=False).ids, lambda ids: library.decode(ids, skip_special_tokens=False))
    row["load_ms"] = load
    for name, word in words.items():
        row[name] = timed_ms(lambda: library.encode(word, add_special_tokens=False))
    return row


def tiktoken_of(path):
    import tiktoken
    file = json.loads(pathlib.Path(path).read_text())
    spelled = {c: b for b, c in byte_alphabet().items()}
    ranks = {bytes(spelled[c] for c in token): rank for token, rank in file["model"]["vocab"].items()}
    special = {t["content"]: t["id"] for t in file["added_tokens"]}
    parts = file["pre_tokenizer"]["pretokenizers"] if file["pre_tokenizer"]["type"] == "Sequence" else [file["pre_tokenizer"]]
    pattern = next(p["pattern"]["Regex"] for p in parts if p["type"] == "Split")
    return tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def byte_alphabet():
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, following = {}, 256
    for byte in range(256):
        out[byte] = chr(byte) if byte in own else chr(following)
        following += byte not in own
    return out


def tiktoken_row(encoding, lines, size, words):
    # Not encode(): with each call it makes sets of all special tokens, which costs more than a line's text.
    row = rates(lines, size, encoding.encode_ordinary, encoding.decode)
    for name, word in words.items():
        row[name] = timed_ms(lambda: encoding.encode_ordinary(word)) if name == "word_ms" else None
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tiktoken", default="llama3")
    options = parser.parse_args()
    sample = text()
    lines, size = [line + "\n" for line in sample[:-1].split("\n")], len(sample.encode())
    rng = random.Random(0)
    words = {"word_ms": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=1_000_000)), "same_letter_ms": "a" * 1_000_000}
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "text")
        pathlib.Path(source).write_text(sample)
        for name in options.files:
            path = os.path.join(folder, "tokenizer.json")
            pathlib.Path(path).write_bytes(gzip.open(name).read() if name.endswith(".gz") else pathlib.Path(name).read_bytes())
            peers = {"headrace": lambda: json.loads(subprocess.run([options.program, path, source], capture_output=True, check=True).stdout),
                     "tokenizers": lambda: library_row(path, lines, size, words)}
            if options.tiktoken in name:
                encoding = tiktoken_of(path)
                peers["tiktoken"] = lambda: tiktoken_row(encoding, lines, size, words)
            rows = {peer: [] for peer in peers}
            for _ in range(options.rounds):
                for peer, run in peers.items():
                    rows[peer].append(run())
            for peer, of in rows.items():
                median = {key: round(statistics.median(r[key] for r in of), 2) for key in of[0] if of[0][key] is not None}
                print(json.dumps({"vocabulary": pathlib.Path(name).parent.name, "program": peer, **median}), flush=True)


if __name__ == "__main__":
    main()
