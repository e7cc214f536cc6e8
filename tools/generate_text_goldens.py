#!/usr/bin/env python3
"""Writes the golden files of src/text's tests into the folder OUTPUT, each value computed by a reference library.

usage: generate_text_goldens.py OUTPUT      (needs: pip install tokenizers sentencepiece)
"""
import json
import pathlib
import random
import re
import sys

import make_vocab_goldens
import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

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


def named_splits():
    """What the regular expressions of named_split.cc make of texts, for one name of each list."""
    source = (ROOT / "src/text/named_split.cc").read_text()
    lists = dict(re.findall(r'constexpr Regexes (\w+) = \{(.*?)\};\n', source, re.S))
    patterns = published_patterns()
    random.seed(12)
    # Without the atoms that are younger than PCRE2's Unicode version.
    atoms = [a for a in ATOMS if a not in ("\u1c89", "\U00011f5a")]
    texts = ["".join(random.choice(atoms) for _ in range(random.randint(1, 14))) for _ in range(60)]
    rows = {}
    for name, pattern, regexes in re.findall(r'\{"([^"]+)", ([\w:]+), \w+, \w+, (\w+)\}', source):
        if regexes in rows:
            continue
        # The library's `\s+$`, which ours spells without back-tracking.
        steps = [r.replace(r"(?<!\s)\s++$", r"\s+$") for r in re.findall(r'R"\((.*?)\)"', lists[regexes], re.S)]
        steps += [patterns[pattern]] if pattern in patterns else []
        splitter = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r), "isolated") for r in steps])
        rows[regexes] = [name, [[word for word, _ in splitter.pre_tokenize_str(text)] for text in texts]]
    return {"reference": f"tokenizers {tokenizers.__version__}", "rows": list(rows.values())}


CORPUS = ["the quick brown fox jumps over the lazy dog", "hello world, hello again; it's fine.", "12 123 1234",
          "na\u00efve caf\u00e9 stra\u00dfe", "def f(x):\n    return x + 1\n", "\u3053\u3093 \u4e16\u754c"] * 3
TEXTS = ["", " ", "hello world", "  Hello,  WORLD! ", "it's 1234 caf\u00e9 cafe\u0301 \ufb01", "<s>hello</s> x <s> y", "a-b--c",
         "\u4e16\u754c \u3053\u3093\U0001f600", "x\u00a0y\u3000z\u200b\t\n", "\u0663\u00bd \u2460", "\u212b\u0344\u1e9b\u0323", "\uac01\u1100\u1161\u11a8"]


def charsmap():
    """A normalization table as SentencePiece compiles it, with all that make_vocab_goldens maps."""
    return make_vocab_goldens.charsmap_of(make_vocab_goldens.trained_with_rules(vocab_size=120))


def components():
    """Small tokenizers, one for each component that the suite of cases leaves out; text -> ids, offsets, text."""
    n, p, d, pp = normalizers, pre_tokenizers, decoders, processors
    special = ["<unk>", "<s>", "</s>"]

    def trained(model, trainer, norm=None, pre=None, post=None, dec=None):
        t = Tokenizer(model)
        for name, part in (("normalizer", norm), ("pre_tokenizer", pre)):
            if part is not None:
                setattr(t, name, part)
        t.train_from_iterator(CORPUS, trainer(vocab_size=160, special_tokens=special, show_progress=False))
        for name, part in (("post_processor", post), ("decoder", dec)):
            if part is not None:
                setattr(t, name, part)
        return t

    def unigram(**kw):
        return trainers.UnigramTrainer(unk_token="<unk>", **kw)

    def byte_level(vocab_size, **kw):
        return bpe(vocab_size=300, initial_alphabet=p.ByteLevel.alphabet(), **kw)

    bpe = trainers.BpeTrainer
    unk = dict(unk_token="<unk>")
    return {
        "unigram_metaspace": trained(models.Unigram(), unigram, n.NFKC(), p.Metaspace(), None, d.Metaspace()),
        "precompiled": trained(models.Unigram(), unigram, n.Precompiled(charsmap()), p.Metaspace(), None, d.Metaspace()),
        "wordlevel_whitespace": trained(models.WordLevel(**unk), trainers.WordLevelTrainer, n.Lowercase(), p.Whitespace()),
        "bpe_fused_unk": trained(models.BPE(fuse_unk=True, **unk), bpe, n.Sequence([n.NFD(), n.StripAccents(), n.Strip()]),
                                 p.WhitespaceSplit()),
        "bpe_suffix": trained(models.BPE(end_of_word_suffix="</w>", **unk),
                              lambda **kw: bpe(end_of_word_suffix="</w>", **kw), n.NFKD(), p.BertPreTokenizer(), None,
                              d.BPEDecoder()),
        "bpe_prefix": trained(models.BPE(continuing_subword_prefix="##", **unk),
                              lambda **kw: bpe(continuing_subword_prefix="##", **kw), n.NFC(),
                              p.Sequence([p.Punctuation(), p.Digits(individual_digits=True), p.WhitespaceSplit()])),
        "roberta": trained(models.BPE(), byte_level, None, p.ByteLevel(add_prefix_space=True),
                           pp.RobertaProcessing(("</s>", 2), ("<s>", 1)), d.ByteLevel()),
        "bert": trained(models.WordPiece(**unk), trainers.WordPieceTrainer, n.BertNormalizer(strip_accents=False),
                        p.BertPreTokenizer(), pp.BertProcessing(("</s>", 2), ("<s>", 1)), d.WordPiece(cleanup=False)),
        "split_regex": trained(models.BPE(**unk), bpe, n.Replace("l", "L"),
                               p.Sequence([p.Split(Regex(r"[-,;]"), "merged_with_next"), p.Split(Regex(r"\S+"), "removed", True),
                                           p.Split("o", "contiguous"), p.Digits()])),
        "legacy_llama": trained(models.BPE(byte_fallback=True, **unk), bpe,
                                n.Sequence([n.Prepend("\u2581"), n.Replace(" ", "\u2581")]), None,
                                pp.TemplateProcessing("<s> $A", "<s> $A </s> $B:1", [("<s>", 1), ("</s>", 2)]),
                                d.Sequence([d.Replace("\u2581", " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])),
    }


def component_goldens():
    rows = []
    for name, tok in components().items():
        source = tok.to_str()
        cases = []
        for text in TEXTS:
            for pair in (None, "hello"):
                e = tok.encode(text, pair)
                offsets = []
                for (begin, end), of in zip(e.offsets, e.sequence_ids):
                    part = pair if of == 1 else text
                    offsets.append([len(part[:begin].encode()), len(part[:end].encode())] if of is not None else None)
                cases.append([text, pair, e.ids, offsets, e.type_ids, tok.decode(e.ids, skip_special_tokens=False)])
        rows.append([name, json.loads(source), cases])
    return {"reference": f"tokenizers {tokenizers.__version__}", "rows": rows}


def main():
    out = pathlib.Path(sys.argv[1])
    for name, make in {"split_patterns": split_patterns, "named_splits": named_splits, "tokenizer_components": component_goldens}.items():
        data = make()
        rows = ",\n".join(json.dumps(row, ensure_ascii=True) for row in data.pop("rows"))
        head = json.dumps(data, ensure_ascii=True)[:-1]
        (out / f"{name}.json").write_text(f'{head}, "rows": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
