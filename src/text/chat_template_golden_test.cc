// Goldens: tests/golden/chat_templates and tests/golden/jinja_expressions.json, computed by jinja2 as
// transformers configures it (tools/make_chat_template_goldens.py; the files name the versions).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/golden.h"
#include "text/chat_template.h"

namespace headrace::text {
namespace {

using Json = nlohmann::ordered_json;

std::string read(const std::string& path) {
  std::ifstream file(testing::golden_path(path), std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<RenderedPrompt> render(const std::string& source, const std::string& variables) {
  auto parsed = ChatTemplate::parse(source);
  if (!parsed) return tl::unexpected(parsed.error());
  return (*parsed)->render(variables);
}

// Texts are equal byte for byte; where Jinja fails, so do we, on the same line, and with the template's own
// words when it calls raise_exception.
void expect_as_reference(const std::string& source, const std::string& variables, const Json& expected) {
  const auto rendered = render(source, variables);
  if (expected.contains("text")) {
    ASSERT_TRUE(rendered.has_value()) << rendered.error().to_string();
    EXPECT_EQ(rendered->text, expected.at("text").get<std::string>());
    return;
  }
  ASSERT_FALSE(rendered.has_value()) << "want an error: " << expected.at("message")
                                     << "\ngot: " << rendered->text;
  const std::string message(rendered.error().message());
  if (expected.contains("raised")) {
    EXPECT_EQ(message, expected.at("message").get<std::string>());
  } else if (expected.at("line").is_number()) {
    const std::string line = "line " + expected.at("line").dump() + ":";
    EXPECT_NE(message.find(line), std::string::npos) << message << "\nwant " << expected.dump();
  }
}

TEST(ChatTemplateGoldens, FamiliesRenderAsTransformersDoes) {
  const Json golden = Json::parse(read("chat_templates/expected.json"));
  ASSERT_GE(golden.at("templates").size(), 8u);
  for (const auto& [name, rows] : golden.at("templates").items()) {
    const std::string source = read("chat_templates/" + name + ".jinja");
    for (const auto& [id, expected] : rows.items()) {
      SCOPED_TRACE(name + ", " + id);
      expect_as_reference(source, golden.at("variables").at(id).dump(), expected);
    }
  }
}

TEST(ChatTemplateGoldens, ExpressionsAndStatementsAreJinjas) {
  const Json golden = Json::parse(read("jinja_expressions.json"));
  const std::string variables = golden.at("variables").dump();
  ASSERT_GE(golden.at("rows").size(), 900u);
  for (const Json& row : golden.at("rows")) {
    SCOPED_TRACE(row.at(0).get<std::string>());
    expect_as_reference(row.at(0), variables, row.at(1));
  }
}

}  // namespace
}  // namespace headrace::text
