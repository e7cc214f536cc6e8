#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace headrace::cli {
namespace {

TEST(Printable, KeepsTextAndReplacesWhatWouldSteerATerminal) {
  EXPECT_EQ(printable("Grüße,\n\t世界 🌍"), "Grüße,\n\t世界 🌍");
  EXPECT_EQ(printable("a\x1b[2Jb\r\x07\x7f"), "a\uFFFD[2Jb\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(printable("\u009b31m"), "\uFFFD31m");  // the one-character form of ESC [
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\uFFFDx");
}

TEST(Printable, ReplacesIllFormedUtf8) { EXPECT_EQ(printable("a\xff\xc3"), "a\uFFFD\uFFFD"); }

}  // namespace
}  // namespace headrace::cli
