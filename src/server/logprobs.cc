#include "server/logprobs.h"

#include <fmt/core.h>

#include <algorithm>

#include "text/utf8.h"

namespace headrace::server {

double finite_logprob(double logprob) {
  return logprob >= -9999.0 ? logprob : -9999.0;
}

std::string token_label(std::string_view bytes) {
  if (text::is_valid_utf8(bytes)) return std::string(bytes);
  std::string label = "bytes:";
  for (const char byte : bytes) label += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return label;
}

int64_t TextOffsets::next(std::string_view bytes) {
  const int64_t start = position_;
  position_ += std::count_if(bytes.begin(), bytes.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
  return start;
}

}  // namespace headrace::server
