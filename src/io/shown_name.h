#pragma once
// Names from a file, made fit for a message.

#include <string>
#include <string_view>

namespace headrace::io {

// Short, and without bytes that a terminal would act on.
inline std::string shown_name(std::string_view name) {
  constexpr size_t kMax = 80;
  std::string text;
  for (const char c : name.substr(0, kMax)) text += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  if (name.size() > kMax) text += "...";
  return text;
}

}  // namespace headrace::io
