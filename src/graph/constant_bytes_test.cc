#include "graph/constant_bytes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace headrace {
namespace {

// The bytes of another constant, each one more.
class OneMore final : public ConstantSource {
 public:
  OneMore(ConstantBytes of, uint64_t bytes, int& writes) : ConstantSource(bytes, of.depth()), of_(std::move(of)), writes_(writes) {}
  void write(std::byte* to) const override {
    of_.write(to, bytes());
    for (uint64_t i = 0; i < bytes(); ++i) to[i] = static_cast<std::byte>(static_cast<int>(to[i]) + 1);
    ++writes_;
  }

 private:
  ConstantBytes of_;
  int& writes_;
};

ConstantBytes bytes_of(std::string_view text) {
  const std::shared_ptr<std::byte[]> bytes(new std::byte[text.size()]);
  std::memcpy(bytes.get(), text.data(), text.size());
  return bytes;
}

TEST(ConstantBytes, OfASourceAreMadeWhenTheyAreWantedAndGoWithTheirHolder) {
  int writes = 0;
  const ConstantBytes made = std::make_shared<OneMore>(bytes_of("HAL"), 3, writes);
  EXPECT_TRUE(made.has_value());
  EXPECT_FALSE(made.in_memory());
  EXPECT_EQ(made.get(), nullptr);
  EXPECT_EQ(writes, 0);
  const std::weak_ptr<const std::byte[]> gone = made.hold();
  EXPECT_TRUE(gone.expired());
  const auto held = made.hold();
  EXPECT_EQ(std::memcmp(held.get(), "IBM", 3), 0);
  EXPECT_EQ(writes, 2);
}

TEST(ConstantBytes, CopiesAreOneAndTheSame) {
  int writes = 0;
  for (const ConstantBytes& bytes : {bytes_of("a"), ConstantBytes(std::make_shared<OneMore>(bytes_of("a"), 1, writes))}) {
    const bool before = ConstantBytes(bytes).is_shared();
    EXPECT_TRUE(before);
    EXPECT_EQ(ConstantBytes(bytes).id(), bytes.id());
    EXPECT_NE(bytes_of("a").id(), bytes.id());
  }
  EXPECT_EQ(ConstantBytes().id(), nullptr);
  EXPECT_FALSE(ConstantBytes().has_value());
}

// A model decides how many rewrites follow each other: their sources must not call each other as deep.
TEST(ConstantBytes, ALongChainOfSourcesStaysFlat) {
  int writes = 0, deepest = 0;
  ConstantBytes bytes = bytes_of(std::string(1, '\0'));
  for (int i = 0; i < 1000; ++i) {
    bytes = std::make_shared<OneMore>(bytes, 1, writes);
    deepest = std::max(deepest, bytes.depth());
  }
  EXPECT_LE(deepest, 8);
  EXPECT_EQ(static_cast<int>(bytes.hold()[0]), 1000 % 256);
}

}  // namespace
}  // namespace headrace
