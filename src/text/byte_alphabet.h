#pragma once
// GPT-2's alphabet: each of the 256 bytes spelled as one printable character, so that a vocabulary of byte
// strings can be written as text ("Ġthe" is " the").

#include <optional>
#include <string>
#include <string_view>

namespace headrace::text {

// The character that stands for `byte`: itself where it is printable Latin-1, else U+0100 and up.
char32_t byte_to_char(unsigned char byte);
// The byte that `code` stands for, or -1.
int char_to_byte(char32_t code);

// The bytes that a token of the vocabulary stands for; nothing when one of its characters is not in the
// alphabet.
std::optional<std::string> spelled_bytes(std::string_view token);
// The inverse.
std::string spell_bytes(std::string_view bytes);

}  // namespace headrace::text
