#include "cli/options.h"

#include <gtest/gtest.h>

namespace headrace::cli {
namespace {

struct Sample {
  std::string model, prompt, isa = "generic";
  std::vector<std::string> stops;
  int64_t tokens = 7;
  double temperature = 0;
  bool json = false;
  Options options{"sample", "about", "examples\n"};

  Sample() {
    options.positional(model, "MODEL", "a model");
    options.positional(prompt, "PROMPT", "a prompt", false);
    options.integer(tokens, "--tokens", "N", "how many", 1, 100);
    options.number(temperature, "--temperature", "T", "how warm", 0, 2);
    options.choice(isa, "--isa", {"generic", "avx2"}, "which");
    options.texts(stops, "--stop", "S", "where to stop");
    options.flag(json, "--json", "as JSON");
  }
  std::string error(const std::vector<std::string>& args) {
    const Result<Options::Parsed> parsed = options.parse(args);
    return parsed ? "" : std::string(parsed.error().message());
  }
};

TEST(Options, ReadsPositionalsValuesListsAndFlagsInAnyOrder) {
  Sample s;
  ASSERT_EQ(s.error({"--json", "m.gguf", "--tokens", "5", "a prompt", "--stop", "x", "--temperature=0.5", "--stop", "-"}), "");
  EXPECT_EQ(s.model, "m.gguf");
  EXPECT_EQ(s.prompt, "a prompt");
  EXPECT_EQ(s.tokens, 5);
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.stops, (std::vector<std::string>{"x", "-"}));
  EXPECT_TRUE(s.json);
  EXPECT_TRUE(s.options.given("PROMPT"));
  EXPECT_FALSE(s.options.given("--isa"));
}

TEST(Options, TakesAnyTextAsAPositional) {
  for (const std::string text : {"", "[a, b]", "{x}", "a b", "a=b", "%s", "\xff", "what?\nyes"}) {
    Sample s;
    ASSERT_EQ(s.error({"m", text}), "") << text;
    EXPECT_EQ(s.prompt, text);
    EXPECT_TRUE(s.options.given("PROMPT"));
  }
  Sample s;
  ASSERT_EQ(s.error({"m", "--", "--json"}), "");
  EXPECT_EQ(s.prompt, "--json");
}

TEST(Options, TakesTheLastOfRepeatedValues) {
  Sample s;
  ASSERT_EQ(s.error({"m", "--tokens", "5", "--tokens", "6"}), "");
  EXPECT_EQ(s.tokens, 6);
}

TEST(Options, NamesTheFlagTheRangeAndTheValue) {
  EXPECT_EQ(Sample().error({"m", "--tokens", "0"}), "--tokens: want a whole number from 1 to 100, got \"0\"");
  EXPECT_EQ(Sample().error({"m", "--tokens", "5x"}), "--tokens: want a whole number from 1 to 100, got \"5x\"");
  EXPECT_EQ(Sample().error({"m", "--tokens", "99999999999999999999"}),
            "--tokens: want a whole number from 1 to 100, got \"99999999999999999999\"");
  EXPECT_EQ(Sample().error({"m", "--temperature", "nan"}), "--temperature: want a number from 0 to 2, got \"nan\"");
  EXPECT_EQ(Sample().error({"m", "--temperature", "inf"}), "--temperature: want a number from 0 to 2, got \"inf\"");
  EXPECT_EQ(Sample().error({"m", "--temperature", "-1"}), "--temperature: want a number from 0 to 2, got \"-1\"");
  EXPECT_EQ(Sample().error({"m", "--isa", "sse"}), "--isa: want generic or avx2, got \"sse\"");
}

TEST(Options, ExplainsAnArgumentThatItDoesNotKnow) {
  EXPECT_EQ(Sample().error({"m", "--tokns", "5"}), "no such option: \"--tokns\"; did you mean --tokens?");
  EXPECT_EQ(Sample().error({"m", "one", "two"}),
            "one argument too many: \"two\"; put quotes around a text of several words");
  EXPECT_NE(Sample().error({}), "");
  EXPECT_NE(Sample().error({"m", "--tokens"}), "");
}

TEST(Options, HelpNeedsNoOtherArgument) {
  Sample s;
  testing::internal::CaptureStdout();
  const Result<Options::Parsed> parsed = s.options.parse({"--help"});
  const std::string text = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, Options::Parsed::help_shown);
  EXPECT_NE(text.find("Usage: headrace sample MODEL [PROMPT] [options]"), std::string::npos);
  EXPECT_NE(text.find("--temperature T"), std::string::npos);
}

}  // namespace
}  // namespace headrace::cli
