#pragma once
// Python's string operations on texts that remember who wrote them.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/interpreter.h"
#include "text/jinja/value.h"

namespace headrace::text::jinja {

size_t count_chars(std::string_view text);
// The byte where the n-th character begins; the end when there are fewer.
size_t byte_of_char(std::string_view text, size_t n);
// The first place of `wanted` in text[from...], or the last in all of `text`, or npos; in linear time.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);
size_t find_last_text(std::string_view text, std::string_view wanted);

// White space, or any of the characters of `chars`, taken off the ends.
Text strip(const Text& text, const Text* chars, bool left, bool right);
// At each `separator` (not empty), at most `most` times (< 0: always), from the left or the right.
std::vector<Text> split(Budget& in, const Text& text, std::string_view separator, int64_t most);
std::vector<Text> split_from_right(Budget& in, const Text& text, std::string_view separator, int64_t most);
// At runs of white space.
std::vector<Text> split_words(Budget& in, const Text& text, int64_t most, bool from_right);
// As str.splitlines(). `final_line`: as if a line break ended the text (what the indent filter does).
std::vector<Text> split_lines(Budget& in, const Text& text, bool final_line, bool keep_ends = false);
Text replace_all(Budget& in, const Text& text, std::string_view from, const Text& to, int64_t most);

enum class Align : unsigned char { left, right, center };
// `fill` is one character.
Text pad(Budget& in, const Text& text, int64_t width, std::string_view fill, Align align);

std::optional<int64_t> parse_python_integer(std::string_view text, int base);
std::optional<double> parse_python_real(std::string_view text);

// "%s and %d" % (...), and the filter `format`.
Value format_percent(Interpreter& in, const Value& format, Args& args);
// "{} and {:>5}".format(...).
Value format_braces(Interpreter& in, const Value& format, Args& args);

// a + b.
Value add(Interpreter& in, const Value& left, const Value& right);

}  // namespace headrace::text::jinja
