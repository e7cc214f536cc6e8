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
    texts = ["".join(random.choice(ATOMS) for _ in range(random.randint(1, 14))) for _ in range(60)]
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


ODD_TEXTS = ["", " ", "hello world", "  Hello,\t\tWORLD!\n", "it's 1234567 caf\u00e9", "\u4e16\u754c\u3053\u3093\u30cf\u30edabc \u041f\u0440\u0438 \u05e9\u05dc",
             "x\u00a0y\u200bz\u2581\ufeff\x07\x7f\u0085", "lllama\nall\r\nllo ", "<add>hello<mask> <word>lo <word> x<strip> <mask>l", "a  b\u00ad\u0301\U0001f600!"]


def more_components():
    """As components(), of smaller vocabularies: what was added later, with added tokens, truncation and padding."""
    n, p, d, pp = normalizers, pre_tokenizers, decoders, processors
    special = ["<unk>", "<s>", "</s>", "<pad>"]

    def bpe(norm=None, pre=None, post=None, dec=None, trainer=None, **kw):
        t = Tokenizer(models.BPE(unk_token="<unk>", **kw))
        for name, part in (("normalizer", norm), ("pre_tokenizer", pre), ("post_processor", post), ("decoder", dec)):
            if part is not None:
                setattr(t, name, part)
        t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=56, special_tokens=special, show_progress=False, **(trainer or {})))
        return t

    def limited(truncation=None, padding=None, post=True):
        frame = pp.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", [("<s>", 1), ("</s>", 2)])
        t = bpe(pre=p.Whitespace(), post=frame if post else None)
        if truncation:
            t.enable_truncation(**truncation)
        if padding:
            t.enable_padding(pad_id=3, pad_token="<pad>", **padding)
        return t

    def with_added():
        t = bpe(n.Sequence([n.NFKC(), n.Lowercase()]), p.Whitespace(), None, d.Fuse())
        t.add_tokens([AddedToken("<add>", normalized=True), AddedToken("<Word>", single_word=True, normalized=True),
                      AddedToken("<strip>", lstrip=True, rstrip=True, normalized=False), AddedToken("llo", normalized=False)])
        t.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("1234", rstrip=True), AddedToken("\u00e9", single_word=True)])
        return t

    pieces = Tokenizer(models.WordPiece(unk_token="<unk>"))
    pieces.pre_tokenizer = p.ByteLevel(add_prefix_space=False)
    pieces.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special, show_progress=False))
    ctc = Tokenizer(models.WordLevel({"<pad>": 0, "|": 1, "h": 2, "e": 3, "l": 4, "o": 5, " .": 6, "<unk>": 7}, unk_token="<unk>"))
    ctc.pre_tokenizer = p.Split("", "isolated")
    ctc.decoder = d.CTC()
    byte_bpe = dict(trainer=dict(initial_alphabet=["\u0120", "\u010a", "\u00c3", "\u00a9"]))
    return {
        "nmt": bpe(n.Nmt(), p.WhitespaceSplit()),
        "replace_regex": bpe(n.Sequence([n.Replace(Regex("^|l+$"), "L"), n.Replace(Regex(r"[\s\d]{2,}+"), "__"), n.Replace("ll", "o")]), None, None,
                             d.Sequence([d.Replace(Regex("(?i)L+|o$"), "x"), d.Fuse()])),
        "replace_nothing": bpe(n.Replace("", "_"), p.Whitespace()),
        "scripts": bpe(None, p.Sequence([p.UnicodeScripts(), p.Digits()])),
        "fixed_length": bpe(n.NFC(), p.FixedLength(3), None, d.Fuse()),
        "byte_level_normalizer": bpe(n.Sequence([n.NFC(), n.ByteLevel()]), None, None, d.ByteLevel(), **byte_bpe),
        "split_of_bytes": bpe(None, p.Sequence([p.ByteLevel(use_regex=False), p.Split(Regex(r"\u0120?\p{L}+|(?=(\d{3})+(?!\d))"), "isolated")]),
                              pp.Sequence([pp.ByteLevel(trim_offsets=True), pp.TemplateProcessing("<s> $A", "$A </s> $B:2", [("<s>", 1), ("</s>", 2)])]),
                              d.ByteLevel(), **byte_bpe),
        "suffix_of_bytes": bpe(None, p.ByteLevel(add_prefix_space=False), None, d.Sequence([d.ByteLevel(), d.BPEDecoder("</w>")]),
                               end_of_word_suffix="</w>", trainer=dict(end_of_word_suffix="</w>", **byte_bpe["trainer"])),
        "wordpiece_of_bytes": pieces,
        "ctc": ctc,
        "added": with_added(),
        "cut_right_fill_left": limited(dict(max_length=7, stride=2), dict(length=9, direction="left")),
        "cut_left_fill_right": limited(dict(max_length=8, strategy="only_first", direction="left"), dict(pad_to_multiple_of=4, pad_type_id=3)),
        "cut_second": limited(dict(max_length=30, strategy="only_second")),
        "cut_all": limited(dict(max_length=3), dict(length=2, pad_to_multiple_of=5)),
        "cut_without_frame": limited(dict(max_length=5, stride=1, direction="left"), post=False),
        "fill_to_multiple": limited(None, dict(pad_to_multiple_of=8, direction="left")),
    }


def component_goldens():
    rows = []
    for name, tok in components().items():
        rows.append([name, json.loads(tok.to_str()), [encoded(tok, text, pair) for text in TEXTS for pair in (None, "hello")]])
    for name, tok in more_components().items():
        pairs = (None, "hello again, 12 it's 1234567") if tok.truncation or tok.padding or tok.post_processor else (None,)
        rows.append([name, json.loads(tok.to_str()), [encoded(tok, text, pair) for text in ODD_TEXTS for pair in pairs]])
    return {"reference": f"tokenizers {tokenizers.__version__}", "rows": rows}


def encoded(tok, text, pair):
    """[text, pair, ids, offsets, type ids, decoded]; offsets are null for what the frame and padding add, ids where it refuses."""
    try:
        e = tok.encode(text, pair)
    except BaseException as error:  # the library panics where the stride does not fit
        print(f"{text!r}, {pair!r}: {error}", file=sys.stderr)
        return [text, pair, None, None, None, None]
    offsets = []
    for (begin, end), of in zip(e.offsets, e.sequence_ids):
        part = pair if of == 1 else text
        offsets.append([len(part[:begin].encode()), len(part[:end].encode())] if of is not None else None)
    return [text, pair, e.ids, offsets, e.type_ids, tok.decode(e.ids, skip_special_tokens=False)]


CLASSES = [r"\p{L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{C}", r"\p{Lu}", r"\p{Ll}", r"\p{Lo}", r"\p{Nd}", r"\p{Cn}", r"\p{^L}", r"\P{L}",
           r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\h", ".", "(?m:.)", r"[^\s\p{L}\p{N}]", r"[^\r\n\p{L}\p{N}]", r"[\p{L}\p{M}]",
           r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[^\r\n\p{L}\p{P}\p{S}]", r"[\p{P}\$\+<=>\^~\|`]",
           "(?i:s)", "(?i:k)", "(?i:[a-z])", "(?i)[^k]", r"(?i:\p{Lu})", r"(?i:\u03c3)", r"(?i:[\u0390-\u03ff])", r"(?i:\u01c5)", r"(?i)[^\p{Ll}]",
           r"[\p{Han}\p{Hiragana}\p{Katakana}]", r"[\p{L}&&[^\p{Han}]]", r"[^\p{Han}&&\w]", "[[:punct:]]", "[[:^alpha:]]", r"\p{Punct}", r"\p{Arabic}",
           r"\p{Emoji}", r"\p{Alphabetic}", "[^a]", r"[\p{Cyrillic}a-z\d_-]"]


def regex_classes():
    """FNV-1a (64 bits) over the code points that each class matches, as 32-bit little-endian numbers."""
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    text = "".join(map(chr, codes))
    rows = []
    for pattern in CLASSES:
        matched = set(range(len(codes)))
        for _, (begin, end) in pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text):
            matched.difference_update(range(begin, end))
        digest = 0xCBF29CE484222325
        for i in sorted(matched):
            for byte in codes[i].to_bytes(4, "little"):
                digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        rows.append([pattern, len(matched), f"{digest:016x}"])
    return {"reference": f"tokenizers {tokenizers.__version__}", "rows": rows}


SYNTAX = [r"\s+$", "^", "$", "", "x*", r"(?=(\d{3})+(?!\d))", r"\d{1,2}+", r"\d{2}?", r"\d{1,3}?", r"\d{,2}", "a(?i)b|c", "(?i:a(?-i:b)c)", r"\bw", r"\Bo", r"o\b", r"\R",
          r"(?x: a  b # comment\n )", r"(?m:a.)", "a.", "(?<n>[ab])\\k<n>", r"(.)\1", r"\x41\u0042\x{43}", r"[\x41-\u0043]+", "[]a]+", "[a-c&&[^b]]+", "[[ab][^a-z]]+", "a{", "{x}", "}",
          "]", r"(?>a+)b", "(?<=a)b", "(?<!a)b", r"\K", r"a\Kb", "a++b", "a*?b", "(a|b)*c", "(?#no)b", r"\.", r"[\]\\.-]+", r"[\s\-a]+", r"\Aa", r"c\z", r"c\Z", r"[^\S\n]+",
          r"'(?i:[sdmt]|ll|ve|re)", r"(?:a|)(?:b|c)?", r"\h+", r"\N+", r"\O", r"(?i:STRA\u00dfe)?x", r"(?<![\w])[ab]+", "(?i)AB(?-i)c|C", "(?i:(?i:a)B)", "a{2}{2}", "(?:ab){1,}", r"\p{Lu}\p{Ll}*"]
SYNTAX_TEXTS = ["aab abc\nABC a.b\\c-]\n", "x1234567 12 it's IT'LL wow low\r\n\n", "aaaab bbc AbC aBc aBC [a]{x}}", "a\u017f'\u017f \u212a k \u00e9w w\u0301 \u4e16x\u754c\u0085\u2028a"]


def regex_syntax():
    """The words of Split(Regex, isolated), null for what the library refuses."""
    rows = []
    for pattern in SYNTAX:
        try:
            splitter = pre_tokenizers.Split(Regex(pattern), "isolated")
        except Exception:
            rows.append([pattern, None])
            continue
        rows.append([pattern, [[word for word, _ in splitter.pre_tokenize_str(text)] for text in SYNTAX_TEXTS]])
    return {"reference": f"tokenizers {tokenizers.__version__}", "rows": rows}


def main():
    out = pathlib.Path(sys.argv[1])
    makers = {"split_patterns": split_patterns, "named_splits": named_splits, "tokenizer_components": component_goldens,
              "regex_classes": regex_classes, "regex_syntax": regex_syntax}
    for name, make in makers.items():
        data = make()
        rows = ",\n".join(json.dumps(row, ensure_ascii=True) for row in data.pop("rows"))
        head = json.dumps(data, ensure_ascii=True)[:-1]
        (out / f"{name}.json").write_text(f'{head}, "rows": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
