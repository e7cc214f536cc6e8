#!/usr/bin/env python3
"""Writes the golden files of src/text's tests into the folder OUTPUT, each value computed by a reference library.

usage: generate_text_goldens.py OUTPUT      (needs: pip install tokenizers)
"""
import json
import pathlib
import random
import re
import sys

import tokenizers
from tokenizers import Regex, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[1]


def published_patterns():
    """The spellings in split_pattern.cc, by name."""
    source = (ROOT / "src/text/split_pattern.cc").read_text()
    return dict(re.findall(r'\{SplitPattern::(\w+),\s*R"\((.*?)\)"\}', source))


ATOMS = ["a", "B", "z", "Q", "word", "Word", "WORD", "camelCase", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u0085",
         "'", "'s", "'S", "'re", "'LL", "'ve", "'\u017f", "'d", "1", "12", "1234567", "\u0663", "\u2167", "\u00bd", "!", "...", "/", "//\n",
         "$", "_", "-", "\u00e9", "e\u0301", "\u0301", "\u4e16\u754c", "\u0e01\u0e34", "\u0905\u093f", "\U0001f600", "\U0001f469\u200d\U0001f467",
         "\u01c5", "\u02b0", "\u00df", "\ufb06", "\x00", "\x1f", "\u200b", "\ufeff", "\U0010ffff", "\u2028", "\u1c89", "\U00011f5a"]


def split_patterns():
    random.seed(11)
    texts = ["".join(random.choice(ATOMS) for _ in range(random.randint(1, 14))) for _ in range(160)]
    rows = []
    for name, regex in published_patterns().items():
        splitter = pre_tokenizers.Split(Regex(regex), "isolated")
        for text in texts:
            words = [word for word, _ in splitter.pre_tokenize_str(text)]
            rows.append([name, words])
    return {"reference": f"tokenizers {tokenizers.__version__}", "rows": rows}


def main():
    out = pathlib.Path(sys.argv[1])
    for name, make in {"split_patterns": split_patterns}.items():
        data = make()
        rows = ",\n".join(json.dumps(row, ensure_ascii=True) for row in data.pop("rows"))
        head = json.dumps(data, ensure_ascii=True)[:-1]
        (out / f"{name}.json").write_text(f'{head}, "rows": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
