// Chat templates: parses the bytes before the first NUL as a template and renders it with the JSON after it
// (with a conversation of its own when that is none). The limits must hold, and a second rendering must equal
// the first.
#include <cstdlib>
#include <string_view>

#include "reached.h"
#include "text/chat_template.h"
#include "text/utf8.h"

namespace headrace::fuzz {
namespace {

constexpr text::RenderLimits kLimits{.max_steps = 200'000, .max_output_bytes = 1 << 20};

constexpr std::string_view kConversation =
    R"({"messages":[{"role":"system","content":" Be <b>\n"},{"role":"user","content":[{"type":"text","text":"\u00e9"}]},)"
    R"({"role":"assistant","content":null,"tool_calls":[{"id":"123456789","type":"function","function":{"name":"f",)"
    R"("arguments":{"a":[1,2.5,true,null],"b":{"c":"\ud83d\ude00"}}}}]},{"role":"tool","content":"3","name":"f"}],)"
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],)"
    R"("bos_token":"<s>","eos_token":"</s>","add_generation_prompt":true})";

void check(const text::RenderedPrompt& prompt) {
  if (prompt.text.size() > kLimits.max_output_bytes || !text::is_valid_utf8(prompt.text)) std::abort();
  uint32_t at = 0;
  for (const text::ByteRange& range : prompt.trusted) {
    if (range.begin < at || range.end <= range.begin || range.end > prompt.text.size()) std::abort();
    at = range.end;
  }
}

}  // namespace
}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  static fuzz::Reached reached("the end of a rendering");
  reached.input();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const auto parsed = text::ChatTemplate::parse(input.substr(0, nul));
  if (!parsed) {
    if (parsed.error().message().empty()) std::abort();
    return 0;
  }
  Result<text::RenderedPrompt> first = error(Code::malformed, "no variables");
  std::string_view variables = nul == input.npos ? fuzz::kConversation : input.substr(nul + 1);
  first = (*parsed)->render(variables, fuzz::kLimits);
  if (!first && first.error().message().starts_with("template variables")) {
    variables = fuzz::kConversation;
    first = (*parsed)->render(variables, fuzz::kLimits);
  }
  if (!first) return 0;
  reached.hit();
  fuzz::check(*first);
  // The clock may tick between the two.
  if (input.find("strftime_now") != input.npos) return 0;
  const auto second = (*parsed)->render(variables, fuzz::kLimits);
  if (!second || second->text != first->text || second->trusted != first->trusted) std::abort();
  return 0;
}
