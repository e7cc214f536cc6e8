#include "ops/library_plugin.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

TEST(LibraryPlugin, ThatIsMissingIsUnavailableAndSaysWhy) {
  const auto plugin = load_onednn_plugin("/nowhere/libheadrace_onednn.so");
  ASSERT_FALSE(plugin.has_value());
  EXPECT_EQ(plugin.error().code(), Code::unavailable);
  EXPECT_NE(plugin.error().message().find("/nowhere/libheadrace_onednn.so"), std::string::npos) << plugin.error().message();
}

}  // namespace
}  // namespace headrace
