#!/usr/bin/env python3
"""Writes src/text/unicode_data.inc and src/text/regex_data.inc: the Unicode properties as the `tokenizers` library sees them.

The library, not the Unicode consortium's files, is the reference: each property is read off the library's own
behaviour, code point by code point, so that our classes change at exactly the code points where its classes do.

usage: generate_unicode_tables.py FOLDER      (needs: pip install tokenizers)
"""
import pathlib
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, CODES))
# The order is the order of `enum class Category` in unicode.h; surrogates never reach a class.
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co").split()


def matched_by(pattern):
    """Code points that the one-character class `pattern` matches in the library's regular expressions."""
    kept = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(ALL)
    out, at = set(), 0
    for _, (begin, end) in kept:
        out.update(CODES[at:begin])
        at = end
    out.update(CODES[at:])
    return out


def runs(values):
    """Run lengths over 0..0x10FFFF of a {code: value} mapping, 0 where it says nothing."""
    out = []
    for code in range(0x110000):
        value = values.get(code, 0)
        if out and out[-1][1] == value:
            out[-1][0] += 1
        else:
            out.append([1, value])
    return out


def varint(n):
    out = []
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return out + [n]


def emit(file, name, comment, data):
    file.write(f"\n// {comment}\nconstexpr uint8_t {name}[] = {{\n")
    line = ""
    for byte in data:
        if len(line) > 105:
            file.write(line.rstrip() + "\n")
            line = ""
        line += f"{byte},"
    file.write(line + "\n};\n")


def emit_runs(file, name, comment, values):
    data = [b for length, value in runs(values) for b in varint(length) + [value]]
    emit(file, name, comment + " As (run length, value) pairs.", data)


def categories():
    values = {}
    for index, name in enumerate(CATEGORIES):
        if name != "Cn":
            values.update(dict.fromkeys(matched_by(rf"\p{{{name}}}"), index))
    return values


# Bits of kPropertyRuns, in the order of enum Property in unicode.h.
PROPERTIES = ("word rust_numeric bert_removed bert_space bert_mark bert_punctuation punctuation combining_mark").split()


def properties():
    """Yes-or-no properties of the library's components that no regular expression can ask for."""
    pieces = {name: make for name, make in (
        ("word", pre_tokenizers.Whitespace()), ("rust_numeric", pre_tokenizers.Digits()),
        ("bert_punctuation", pre_tokenizers.BertPreTokenizer()), ("punctuation", pre_tokenizers.Punctuation("isolated")))}
    clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    accents = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    nfd, marks = normalizers.NFD(), normalizers.StripAccents()
    values = {}
    for code in CODES:
        c = chr(code)
        # Between two letters a word character joins them; everything else that is no space stands alone.
        alone = {name: [w for w, _ in p.pre_tokenize_str(f"a{c}a")] == ["a", c, "a"] for name, p in pieces.items()}
        cleaned = clean.normalize_str(c)
        has = {"word": pieces["word"].pre_tokenize_str(f"a{c}a")[0][0] == f"a{c}a",
               "rust_numeric": alone["rust_numeric"],
               "bert_removed": cleaned == "",
               "bert_space": cleaned == " " and c != " ",
               "bert_mark": accents.normalize_str(c) == "" and nfd.normalize_str(c) == c,
               "bert_punctuation": alone["bert_punctuation"],
               "punctuation": alone["punctuation"],
               "combining_mark": marks.normalize_str(c) == ""}
        values[code] = sum(1 << bit for bit, name in enumerate(PROPERTIES) if has[name])
    return values


def mapping(normalizer, skip=lambda code: False):
    """Code points that `normalizer` changes, each with what it becomes."""
    out = {}
    for code in CODES:
        if skip(code):
            continue
        changed = normalizer.normalize_str(chr(code))
        if changed != chr(code):
            out[code] = [ord(c) for c in changed]
    return out


def emit_mapping(file, name, comment, table):
    data, last = [], 0
    for code, to in sorted(table.items()):
        data += varint(code - last) + [len(to)] + [b for c in to for b in varint(c)]
        last = code
    emit(file, name, comment + " As (distance from the last one, length, code points).", data)


def is_hangul(code):
    return 0xAC00 <= code < 0xD7A4  # by the standard's arithmetic


def combining_classes():
    """The standard's classes, for the marks that the library reorders."""
    nfd = normalizers.NFD()
    values = {}
    for code in CODES:
        combining = unicodedata.combining(chr(code))
        # Between marks of classes 240 and 1, one that has a class is moved before the first or behind the second.
        before = nfd.normalize_str("\u0345" + chr(code)) == chr(code) + "\u0345"
        behind = nfd.normalize_str(chr(code) + "\u0334") == "\u0334" + chr(code)
        if combining and (before or behind):
            values[code] = combining
    return values


def compositions(decompositions):
    """(first, second) -> composed, where the library composes."""
    nfc = normalizers.NFC()
    out = {}
    for code, parts in decompositions.items():
        if len(parts) < 2 or nfc.normalize_str(chr(code)) != chr(code):
            continue
        first = nfc.normalize_str("".join(map(chr, parts[:-1])))
        if len(first) == 1:
            out[code] = [ord(first), parts[-1]]
    return out


def python_case(change):
    return {c: [ord(x) for x in change(chr(c))] for c in CODES if change(chr(c)) != chr(c)}


def scripts():
    """Groups of the pre-tokenizer UnicodeScripts: 0 for characters that belong to the word before them."""
    splitter = pre_tokenizers.UnicodeScripts()
    together = lambda a, b: len(splitter.pre_tokenize_str(a + b)) == 1
    kept = [c for c in CODES if splitter.pre_tokenize_str(chr(c))]
    values, leaders = {}, []
    at = 0
    for word, _ in splitter.pre_tokenize_str("".join(map(chr, kept))):
        group = next((i for i, leader in enumerate(leaders) if together(leader, word[0])), None)
        if group is None:
            group = len(leaders)
            leaders.append(word[0])
        values.update(dict.fromkeys(kept[at:at + len(word)], group + 1))
        at += len(word)
    assert len(leaders) < 256 and at == len(kept)
    return values


# What regular expressions may ask for by name beside the general categories.
NAMED_SETS = """alnum alpha ascii blank cntrl digit graph lower print punct space upper xdigit word assigned whitespace
alphabetic uppercase lowercase math hexdigit asciihexdigit idstart idcontinue xidstart xidcontinue ideographic emoji
emojipresentation emojimodifier emojimodifierbase emojicomponent extendedpictographic cased caseignorable dash diacritic
extender graphemebase graphemeextend joincontrol quotationmark radical unifiedideograph variationselector noncharactercodepoint
regionalindicator
adlam ahom anatolianhieroglyphs arabic armenian avestan balinese bamum bassavah batak bengali bhaiksuki bopomofo brahmi braille
buginese buhid canadianaboriginal carian caucasianalbanian chakma cham cherokee chorasmian common coptic cuneiform cypriot
cyprominoan cyrillic deseret devanagari divesakuru dogra duployan egyptianhieroglyphs elbasan elymaic ethiopic garay georgian
glagolitic gothic grantha greek gujarati gunjalagondi gurmukhi gurungkhema han hangul hanifirohingya hanunoo hatran hebrew hiragana
imperialaramaic inherited inscriptionalpahlavi inscriptionalparthian javanese kaithi kannada katakana kawi kayahli kharoshthi
khitansmallscript khmer khojki khudawadi kiratrai lao latin lepcha limbu lineara linearb lisu lycian lydian mahajani makasar
malayalam mandaic manichaean marchen masaramgondi medefaidrin meeteimayek mendekikakui meroiticcursive meroitichieroglyphs miao
modi mongolian mro multani myanmar nabataean nagmundari nandinagari newtailue newa nko nushu nyiakengpuachuehmong ogham olchiki
oldhungarian olditalic oldnortharabian oldpermic oldpersian oldsogdian oldsoutharabian oldturkic olduyghur olonal oriya osage osmanya
pahawhhmong palmyrene paucinhau phagspa phoenician psalterpahlavi rejang runic samaritan saurashtra sharada shavian siddham
signwriting sinhala sogdian sorasompeng soyombo sundanese sunuwar sylotinagri syriac tagalog tagbanwa taile taitham taiviet takri
tamil tangsa tangut telugu thaana thai tibetan tifinagh tirhuta todhri toto tulutigalari ugaritic unknown vai vithkuqi wancho
warangciti yezidi yi zanabazarsquare""".split()


def named_sets():
    """{name: ranges}, of planes that differ from code point to code point; the others are like their first one."""
    uneven = [c for c in CODES if c >> 16 in (0, 1, 2, 3, 14) or c & 0xFFFF in (0, 0xFFFE, 0xFFFF)]
    text = "".join(map(chr, uneven))
    spellings = {name: rf"\p{{{name}}}" for name in NAMED_SETS}
    spellings |= {f"posix{name}": f"[[:{name}:]]" for name in ("punct", "word")}
    out = {}
    for name, pattern in spellings.items():
        try:
            splitter = pre_tokenizers.Split(Regex(pattern), "removed")
        except Exception as e:  # a name that is younger than the library
            print(name, e, file=sys.stderr)
            continue
        codes = set(uneven)
        for _, (begin, end) in splitter.pre_tokenize_str(text):
            codes.difference_update(uneven[begin:end])
        ranges = []
        for code in sorted(codes):
            last = code + 0xFFFD if code >> 16 in (*range(4, 14), 15, 16) and code & 0xFFFF == 0 else code
            if ranges and ranges[-1][1] + 1 == code or ranges and ranges[-1][1] == 0xD7FF and code == 0xE000:
                ranges[-1][1] = last
            else:
                ranges.append([code, last])
        out[name] = ranges
    return out


def emit_named_sets(file, sets):
    data = []
    for name, ranges in sets.items():
        data += [len(name), *name.encode()] + varint(len(ranges))
        last = 0
        for first, end in ranges:
            data += varint(first - last) + varint(end - first)
            last = end
    emit(file, "kNamedSets", "Named sets as (length of the name, name, number of ranges, (first less the last end, end less first)...).", data)


def case_variants():
    """Single characters that (?i:c) matches beside c."""
    lower = normalizers.Lowercase()
    cased = {c for c in CODES if lower.normalize_str(chr(c)) != chr(c) or any(
        change(chr(c)) != chr(c) for change in (str.upper, str.lower, str.title, str.casefold))}
    cased |= {ord(x) for c in list(cased) for change in (lower.normalize_str, str.upper, str.lower, str.title, str.casefold)
              for x in change(chr(c))}
    letters = sorted(cased)
    # Apart, so that no match of several characters (ss for an eszett) is one of them.
    text = "\0".join(map(chr, letters))
    out = {}
    for code in letters:
        pattern = "(?i:\\x{%x})" % code
        found = set(letters)
        for word, _ in pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text):
            found.difference_update(map(ord, word.replace("\0", "")))
        found.discard(code)
        if found:
            out[code] = sorted(found)
    return out


def main():
    folder = pathlib.Path(sys.argv[1])
    with open(folder / "regex_data.inc", "w", encoding="ascii") as file:
        file.write("// Generated by tools/generate_unicode_tables.py from the behaviour of the `tokenizers` library, "
                   f"version {tokenizers.__version__}.\n")
        emit_named_sets(file, named_sets())
        emit_mapping(file, "kCaseVariants", "What else matches where case is ignored.", case_variants())
    with open(folder / "unicode_data.inc", "w", encoding="ascii") as file:
        file.write("// Generated by tools/generate_unicode_tables.py from the behaviour of the `tokenizers` library, "
                   f"version {tokenizers.__version__}.\n")
        emit_runs(file, "kCategoryRuns", "General categories, in the order of enum class Category.", categories())
        emit_runs(file, "kPropertyRuns", "Sets of enum Property.", properties())
        emit_runs(file, "kScriptRuns", "Groups of the pre-tokenizer UnicodeScripts.", scripts())
        emit_runs(file, "kCombiningRuns", "Canonical combining classes.", combining_classes())
        canonical = mapping(normalizers.NFD(), is_hangul)
        compatible = {c: to for c, to in mapping(normalizers.NFKD(), is_hangul).items() if canonical.get(c) != to}
        emit_mapping(file, "kCanonical", "Full canonical decompositions, without Hangul.", canonical)
        emit_mapping(file, "kCompatible", "Full compatibility decompositions where they differ.", compatible)
        emit_mapping(file, "kComposed", "Composed characters and the pair that makes them.", compositions(canonical))
        emit_mapping(file, "kLowercase", "The Lowercase normalizer.", mapping(normalizers.Lowercase()))
        file.write(f"\n// The three that follow: Python's str methods, Unicode {unicodedata.unidata_version}.\n")
        emit_mapping(file, "kPythonUpper", "str.upper.", python_case(str.upper))
        emit_mapping(file, "kPythonLower", "str.lower.", python_case(str.lower))
        emit_mapping(file, "kPythonTitle", "str.title.", python_case(str.title))


if __name__ == "__main__":
    main()
