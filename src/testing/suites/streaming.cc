// Suite `streaming`: the bytes of successive tokens -> the text sent after each.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "testing/case_suite.h"
#include "text/stream_decoder.h"

namespace headrace::testing {
namespace {

using nlohmann::json;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

struct Streamed {
  json deltas = json::array();
  std::string text;
  size_t tokens_used = 0;
};

Streamed stream(text::StreamDecoder& decoder, const json& pieces) {
  Streamed out;
  for (const json& piece : pieces) {
    const std::string delta = decoder.push(from_hex(piece));
    out.text += delta;
    out.deltas.push_back(delta);
    ++out.tokens_used;
    if (decoder.stopped()) break;
  }
  return out;
}

}  // namespace

CaseResult run_streaming(const CaseContext& context) {
  const json& in = context.input;
  text::StreamDecoder decoder({.stop = in.value("stop", std::vector<std::string>{}),
                               .include_stop = in.value("include_stop", false)});
  Streamed out = stream(decoder, in.at("pieces"));
  const std::string at_end = decoder.finish();
  out.text += at_end;
  json got;
  if (in.at("op") == "utf8") {
    got = {{"deltas", out.deltas}, {"at_end", at_end}, {"text", out.text}};
  } else {
    if (!decoder.stopped()) out.deltas.push_back(at_end);
    const bool stop = decoder.stopped() || in.at("eos").get<bool>();
    got = {{"deltas", out.deltas},
           {"text", out.text},
           {"finish_reason", stop ? "stop" : "length"},
           {"matched", decoder.matched() ? json(*decoder.matched()) : json(nullptr)},
           {"tokens_used", out.tokens_used}};
  }
  if (got == context.expected) return CaseResult::pass();
  return CaseResult::fail(fmt::format("want {}, got {}", context.expected.dump(), got.dump()));
}

}  // namespace headrace::testing
