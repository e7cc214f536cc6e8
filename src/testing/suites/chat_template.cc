// Suite `chat_template`: template + variables -> text, or an error.
#include "text/chat_template.h"

#include <fmt/core.h>

#include <fstream>
#include <string>

#include "testing/case_suite.h"

namespace headrace::testing {

namespace {

// The variables as JSON text, their keys in the file's order: tojson writes them in that order.
std::string variables_of(const CaseContext& context) {
  static const nlohmann::ordered_json suite = [&] {
    std::ifstream file(context.suite_dir / "cases.json");
    return nlohmann::ordered_json::parse(file);
  }();
  for (const auto& row : suite.at("cases")) {
    if (row.at("id") == context.input.at("id")) return row.at("vars").dump();
  }
  return "{}";
}

}  // namespace

CaseResult run_chat_template(const CaseContext& context) {
  const nlohmann::json& want = context.expected;
  const std::string source = context.input.at("template").get<std::string>();
  const auto parsed = text::ChatTemplate::parse(source);
  Result<text::RenderedPrompt> rendered;
  if (parsed) {
    rendered = (*parsed)->render(variables_of(context));
  } else {
    rendered = tl::unexpected(parsed.error());
  }
  if (!want.contains("error")) {
    if (!rendered) return CaseResult::fail(rendered.error().to_string());
    if (rendered->text == want.at("text")) return CaseResult::pass();
    return CaseResult::fail(
        fmt::format("want {}, got {}", want.at("text").dump(), nlohmann::json(rendered->text).dump()));
  }
  if (rendered) return CaseResult::fail(fmt::format("want an error, got \"{}\"", rendered->text));
  // What the template gives to raise_exception must reach the caller.
  if (want.at("kind") == "TemplateError" && rendered.error().message() != want.at("message")) {
    return CaseResult::fail(
        fmt::format("want the words {}, got {}", want.at("message").dump(), rendered.error().message()));
  }
  return CaseResult::pass();
}

}  // namespace headrace::testing
