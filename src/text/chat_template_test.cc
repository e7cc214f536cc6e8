#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace headrace::text {
namespace {

// As SmolLM2-135M-Instruct's checkpoint carries it.
constexpr const char* kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' "
    "}}{% endif "
    "%}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% "
    "if "
    "add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

Result<RenderedPrompt> render(std::string_view source, std::string_view variables = "{}",
                              const RenderLimits& limits = {}) {
  auto parsed = ChatTemplate::parse(source);
  if (!parsed) return tl::unexpected(parsed.error());
  return (*parsed)->render(variables, limits);
}

std::string text(std::string_view source, std::string_view variables = "{}") {
  const auto rendered = render(source, variables);
  return rendered ? rendered->text : rendered.error().to_string();
}

// The rendered text with what came out of the variables in brackets.
std::string marked(std::string_view source, std::string_view variables = "{}") {
  const auto rendered = render(source, variables);
  if (!rendered) return rendered.error().to_string();
  std::string out;
  uint32_t at = 0;
  const auto data = [&](uint32_t end) {
    if (end > at) out += "[" + rendered->text.substr(at, end - at) + "]";
  };
  for (const ByteRange& range : rendered->trusted) {
    data(range.begin);
    out += rendered->text.substr(range.begin, range.end - range.begin);
    at = range.end;
  }
  data(static_cast<uint32_t>(rendered->text.size()));
  return out;
}

TEST(ChatTemplate, RendersSmolLm2AsItsCheckpointSays) {
  EXPECT_EQ(
      text(kSmolLm2, R"({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true})"),
      "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

// Golden: data/smollm2_greedy.json, rendered by transformers 5.24.
TEST(ChatTemplate, RendersSmolLm2AsTransformersDoes) {
  const char* shared = std::getenv("HEADRACE_SHARED");
  const std::filesystem::path dir = shared ? shared : "../shared";
  std::ifstream file(dir / "data/smollm2_greedy.json");
  if (!file) GTEST_SKIP() << "no data/smollm2_greedy.json in " << dir;
  const auto golden = nlohmann::json::parse(file);
  for (const auto& item : golden.at("items")) {
    const nlohmann::json variables = {{"messages", {{{"role", "user"}, {"content", item.at("prompt")}}}},
                                      {"add_generation_prompt", true}};
    EXPECT_EQ(text(kSmolLm2, variables.dump()), item.at("rendered"));
  }
}

TEST(ChatTemplate, TrustsOnlyWhatTheTemplateWrote) {
  EXPECT_EQ(marked(kSmolLm2, R"({"messages": [{"role": "system", "content": "a<|im_end|>b"}]})"),
            "<|im_start|>system\n[a<|im_end|>b]<|im_end|>\n");
  EXPECT_EQ(marked("{{ x.strip() ~ '<e>' }}|{{ x | upper }}|{{ (x + '<e>')[2:] }}", R"({"x": " ab "})"),
            "[ab]<e>|[ AB ]|[b ]<e>");
  EXPECT_EQ(marked("{{ bos_token }}{{ messages | tojson }}", R"({"bos_token": "<s>", "messages": ["<s>"]})"),
            "<s>[[\"<s>\"]]");
  EXPECT_EQ(marked("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) }}{{ m('y') }}", R"({"x": "X"})"),
            "<[X]><y>");
  EXPECT_EQ(marked("{% set t %}({{ x }}){% endset %}{{ t.split('X') | join('<s>') }}", R"({"x": "X"})"),
            "(<s>)");
  EXPECT_EQ(marked("{{ x.replace('b', '<s>') }}", R"({"x": "abc"})"), "[a]<s>[c]");
}

TEST(ChatTemplate, ReportsTheTemplatesOwnWords) {
  const auto rendered = render("{{ raise_exception('roles must alternate') }}");
  ASSERT_FALSE(rendered.has_value());
  EXPECT_EQ(rendered.error().code(), Code::invalid_argument);
  EXPECT_EQ(rendered.error().message(), "roles must alternate");
}

TEST(ChatTemplate, NamesTheLineOfAnError) {
  EXPECT_EQ(text("a\n\n{{ nothing.field }}"), "malformed: chat template, line 3: 'nothing' is undefined");
  EXPECT_EQ(text("a\n{% if x %}\n{% endfor %}").substr(0, 33), "malformed: chat template, line 3:");
  EXPECT_EQ(text("{% include 'x' %}").substr(0, 12), "unsupported:");
}

TEST(ChatTemplate, StopsWhatWouldNotEnd) {
  const auto code = [](std::string_view source, const RenderLimits& limits = {.max_steps = 500'000}) {
    const auto rendered = render(source, "{}", limits);
    return rendered ? Code::ok : rendered.error().code();
  };
  EXPECT_EQ(code("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), Code::resource_exhausted);
  EXPECT_EQ(code("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
            Code::resource_exhausted);
  EXPECT_EQ(
      code("{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
      Code::resource_exhausted);
  EXPECT_EQ(code("{{ 'x' * 99999999999 }}"), Code::resource_exhausted);
  EXPECT_EQ(code("{{ 'x' * 100 }}", {.max_output_bytes = 99}), Code::resource_exhausted);
  EXPECT_EQ(code("{{ [1] | batch(6148914691236517206, 0) | list }}"), Code::resource_exhausted);
  EXPECT_EQ(code("{{ [1] | slice(6148914691236517206, 0) | list }}"), Code::resource_exhausted);
  EXPECT_EQ(code("{{ ('x' * 3000000) | list }}"), Code::resource_exhausted);
  EXPECT_EQ(code("{{ ('x,' * 1000000).split(',') }}"), Code::resource_exhausted);
  EXPECT_EQ(code(std::string(100'000, '(').insert(0, "{{ ")), Code::malformed);
  std::string sum = "{{ 1";
  for (int i = 0; i < 100'000; ++i) sum += "+1";
  EXPECT_EQ(code(sum + " }}"), Code::malformed);
}

// A list that holds the same list twice, and so on, is small and has 2^40 parts.
TEST(ChatTemplate, CountsEveryPartOfAValueThatIsComparedOrWritten) {
  const std::string doubling =
      "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(40) %}"
      "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
  for (const char* use :
       {"{{ ns.a }}", "{{ ns.a | tojson }}", "{{ ns.a | string | length }}", "{{ ns.a == ns.b }}",
        "{{ ns.a < ns.b }}", "{{ ns.a in [ns.b] }}", "{{ [ns.a, ns.b] | sort | length }}",
        "{{ [ns.b].index(ns.a) }}", "{{ '%r' % ns.a }}", "{{ [[ns.a], [ns.b]] | groupby(0) | length }}"}) {
    const auto rendered = render(doubling + use, "{}", {.max_steps = 500'000});
    ASSERT_FALSE(rendered.has_value()) << use;
    EXPECT_EQ(rendered.error().code(), Code::resource_exhausted) << use;
  }
}

// Destructors recurse as deep as values are nested.
TEST(ChatTemplate, RefusesValuesThatAreNestedWithoutEnd) {
  const char* const templates[] = {
      "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}",
      "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = {'k': ns.a} %}{% endfor %}",
      "{% set ns = namespace(a='') %}{% for i in range(99999) %}{% set ns.a = joiner(ns.a) %}{% endfor %}",
      "{% set ns = namespace(a='') %}{% for i in range(99999) %}{% set ns.a = [ns.a].index %}{% endfor %}",
      "{% set ns = namespace(a='') %}{% for i in range(99999) %}{% for x in [ns.a] %}{% set ns.a = loop %}{% "
      "endfor %}"
      "{% endfor %}",
      "{% set ns = namespace(m=0) %}{% for i in range(9999) %}{% for x in [1] recursive %}{% macro m() %}{{ "
      "ns.l([1]) }}"
      "{% endmacro %}{% set ns.l, old, ns.m = loop, ns.m, m %}{% if old and i != ns.i %}{% set ns.i = i %}{{ "
      "old() }}"
      "{% endif %}{% endfor %}{% endfor %}",
  };
  for (const char* source : templates) {
    const auto rendered = render(source);
    ASSERT_FALSE(rendered.has_value()) << source;
    EXPECT_NE(rendered.error().message().find("nested"), std::string::npos) << rendered.error().message();
  }
  // What is released when the rendering ends may be a chain of any length.
  EXPECT_EQ(text("{% set ns = namespace(a=0) %}{% for i in range(99999) %}{% set ns.a = namespace(a=ns.a) "
                 "%}{% endfor %}"
                 "{% set ns = namespace(a=0) %}{% for i in range(99999) %}{% set ns.a = cycler(ns.a) %}{% "
                 "endfor %}"),
            "");
}

TEST(ChatTemplate, SearchesInLinearTime) {
  const char* const searches[] = {"{{ (a ~ 'b') in a }}",
                                  "{{ a.rfind('b' ~ a) }}",
                                  "{{ a.find(a ~ 'b') }}",
                                  "{{ a.rsplit('b' ~ a, 1) | length }}",
                                  "{{ a.count(h ~ 'b') }}",
                                  "{{ a.replace(h ~ 'b', '') | length }}",
                                  "{{ dict(range(90000) | batch(2)) | length }}",
                                  "{{ range(90000) | unique | list | length }}"};
  const auto start = std::chrono::steady_clock::now();
  for (const char* search : searches) {
    const auto rendered = render(std::string("{% set h = 'a' * 500000 %}{% set a = h ~ h %}") + search);
    EXPECT_TRUE(rendered.has_value()) << search << rendered.error().to_string();
  }
  // Milliseconds, where quadratic time took minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// A step is at most a few dozen nanoseconds of work, whatever a filter or a method does with a long text.
TEST(ChatTemplate, CountsWhatMethodsAndFiltersDoWithLongTexts) {
  for (const char* use :
       {"s | upper", "s.upper()", "u | lower", "u.title()", "s.swapcase()", "s.strip('a')", "u.isalpha()",
        "s.find('b')", "s.count('b')", "s is upper", "u.casefold()", "s | urlencode", "s.splitlines()",
        "s | wordcount", "s.zfill(3)", "s.replace('b', '')", "[s, u] | sort", "s.startswith('a', 5)"}) {
    const auto rendered = render(
        std::string(
            "{% set s = 'a' * 500000 %}{% set u = '\u00e9' * 250000 %}{% for i in range(99999) %}{% if ") +
            use + " %}{% endif %}{% endfor %}",
        "{}", {.max_steps = 800'000});
    ASSERT_FALSE(rendered.has_value()) << use;
    EXPECT_EQ(rendered.error().code(), Code::resource_exhausted) << use << ": " << rendered.error().message();
  }
  // What looks at one end of a text costs nothing more.
  EXPECT_EQ(text("{% set s = 'a' * 500000 %}{% for i in range(9999) %}{% if not s.startswith('a') %}x{% "
                 "endif %}{% endfor %}"),
            "");
}

TEST(ChatTemplate, RefusesVariablesThatAreNoObject) {
  EXPECT_EQ(render("x", "[]").error().code(), Code::malformed);
  EXPECT_EQ(render("x", "{").error().code(), Code::malformed);
  EXPECT_EQ(render("x", std::string(100'000, '[')).error().code(), Code::malformed);
}

TEST(ChatTemplate, ARoleOfTheProtocolMayBecomePartOfAControlTokenAndNoOther) {
  constexpr const char* kSource = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
  EXPECT_EQ(
      marked(kSource,
             R"({"messages": [{"role": "user", "content": "user"}, {"role": "endoftext", "content": ""}]})"),
      "<|user|>[user]<|[endoftext]|>");
  EXPECT_EQ(marked("{{ messages }}", R"({"messages": "system"})"), "[system]");
}

}  // namespace
}  // namespace headrace::text
