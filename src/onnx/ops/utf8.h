#pragma once
// Text as code points, and their simple case mappings (Unicode's, by the C library's C.UTF-8).

#include <string>
#include <string_view>
#include <vector>

namespace headrace::onnx {

inline constexpr char32_t kByte = 0x110000;  // code points from here on are bytes that are no UTF-8

std::vector<char32_t> code_points(std::string_view text);
void append_utf8(std::string& text, char32_t point);
char32_t to_lower(char32_t point);
char32_t to_upper(char32_t point);

}  // namespace headrace::onnx
