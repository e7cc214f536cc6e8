// Bits of encode() are held by quant/format_test.cc against the `gguf` package; here is which tensors it is asked for.
#include "io/requantized_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "io/indexed_source.h"
#include "testing/golden.h"

namespace headrace::io {
namespace {

// Tensors of float32 values in memory; counts what is dropped.
class InMemory final : public IndexedSource {
 public:
  // Values run in waves, so that no two blocks are equal.
  void add(std::string name, std::vector<int64_t> shape) {
    int64_t elements = 1;
    for (const int64_t dim : shape) elements *= dim;
    std::vector<float>& tensor = values.emplace_back(elements);
    for (int64_t i = 0; i < elements; ++i) tensor[i] = std::sin(0.37f * static_cast<float>(i)) * (1 + static_cast<float>(i % 7));
    tensors_.push_back({std::move(name), Format::f32, std::move(shape), static_cast<uint64_t>(elements) * 4});
  }
  Status finish() { return index_.build(tensors_); }
  Result<std::span<const std::byte>> rows(const SourceTensor& tensor, int64_t begin, int64_t end,
                                          std::vector<std::byte>&) const override {
    const std::vector<float>& of = values[index_.find(tensor.name)];
    return std::as_bytes(std::span(of)).subspan(begin * tensor.row_bytes(), (end - begin) * tensor.row_bytes());
  }
  void drop(const SourceTensor& tensor, int64_t begin, int64_t end) const override {
    dropped += fmt::format("{} {}..{};", tensor.name, begin, end);
  }
  const std::string& path() const override { return path_; }

  std::vector<std::vector<float>> values;
  mutable std::string dropped;

 private:
  std::string path_ = "memory";
};

std::unique_ptr<InMemory> model() {
  auto source = std::make_unique<InMemory>();
  source->add("model.embed_tokens.weight", {5, 64});
  source->add("model.norm.weight", {64});
  source->add("model.layers.0.mlp.up_proj.weight", {300, 64});
  source->add("model.layers.0.mlp.up_proj.bias", {300});
  source->add("model.layers.0.mlp.narrow.weight", {4, 48});
  source->add("embeddings.position_embeddings.weight", {8, 64});
  source->add("embeddings.token_type_embeddings.weight", {2, 64});
  EXPECT_TRUE(source->finish().ok());
  return source;
}

std::unique_ptr<ModelSource> rounded(std::unique_ptr<ModelSource> source, Format format) {
  auto result = requantize(std::move(source), format);
  EXPECT_TRUE(result) << result.error().message();
  return *std::move(result);
}

std::string formats(const ModelSource& source) {
  std::string out;
  for (const SourceTensor& tensor : source.tensors()) out += fmt::format("{} ", format_info(tensor.format).name);
  return out;
}

TEST(RequantizedSource, MatricesTakeTheFormatAndTheRestStays) {
  //                                                       embedding, norm, up, bias, 48 wide, positions, segments
  EXPECT_EQ(formats(*rounded(model(), Format::q8_0)), "q8_0 f32 q8_0 f32 f32 f32 f32 ");
  EXPECT_EQ(formats(*rounded(model(), Format::q4_0)), "q8_0 f32 q4_0 f32 f32 f32 f32 ");
  EXPECT_EQ(formats(*rounded(model(), Format::q4_1)), "q8_0 f32 q4_1 f32 f32 f32 f32 ");
  EXPECT_EQ(formats(*rounded(model(), Format::bf16)), "bf16 f32 bf16 f32 bf16 f32 f32 ");
  const auto source = rounded(model(), Format::q4_0);
  const SourceTensor* up = source->find("model.layers.0.mlp.up_proj.weight");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->bytes, 300u * 64 / 32 * 18);
}

TEST(RequantizedSource, RowsAreTheEncodedRowsWhereverTheyAreCut) {
  const auto source = rounded(model(), Format::q4_1);
  const SourceTensor& up = *source->find("model.layers.0.mlp.up_proj.weight");
  auto plain = model();
  std::vector<std::byte> want(up.bytes);
  format_info(Format::q4_1).encode(plain->values[2].data(), 300 * 64, want.data());
  for (const auto& [begin, end] : {std::pair{0, 300}, {0, 1}, {299, 300}, {17, 217}, {5, 5}}) {
    std::vector<std::byte> scratch;
    const auto rows = source->rows(up, begin, end, scratch);
    ASSERT_TRUE(rows) << rows.error().message();
    ASSERT_EQ(rows->size(), (end - begin) * up.row_bytes());
    EXPECT_TRUE(std::equal(rows->begin(), rows->end(), want.begin() + begin * up.row_bytes()));
  }
}

TEST(RequantizedSource, WhatHasTheFormatPassesAsItLies) {
  const std::string path = testing::golden_path("tiny_llama.gguf");
  auto plain = ModelSource::open(path);
  ASSERT_TRUE(plain);
  const auto source = rounded(*ModelSource::open(path), Format::q4_1);
  const SourceTensor& k = *source->find("model.layers.0.self_attn.k_proj.weight");
  ASSERT_EQ((*plain)->find(k.name)->format, Format::q4_1);
  std::vector<std::byte> scratch, none;
  const auto got = source->bytes(k, scratch);
  const auto want = (*plain)->bytes(*(*plain)->find(k.name), none);
  EXPECT_TRUE(std::ranges::equal(*got, *want));
  EXPECT_TRUE(scratch.empty());
  EXPECT_EQ(source->vocab()->tokens.size(), 8u);
  EXPECT_EQ(source->path(), path);
  EXPECT_EQ(source->config().get_int("hidden_size", 1, 100), 64);
}

TEST(RequantizedSource, RowsThatWereReadAreDroppedBelow) {
  auto plain = model();
  const InMemory& below = *plain;
  const auto source = rounded(std::move(plain), Format::q8_0);
  source->drop(*source->find("model.norm.weight"), 0, 64);
  source->drop(*source->find("model.layers.0.mlp.up_proj.weight"), 10, 20);
  EXPECT_EQ(below.dropped, "model.norm.weight 0..64;model.layers.0.mlp.up_proj.weight 10..20;");
}

TEST(RequantizedSource, ValuesThatRoundingWouldHideAreRefused) {
  for (const auto& [value, want] :
       {std::pair{std::numeric_limits<float>::quiet_NaN(), "NaN"}, {1e30f, "values that q8_0 is too narrow for"}}) {
    auto plain = model();
    plain->values[2][70] = value;
    const auto source = rounded(std::move(plain), Format::q8_0);
    std::vector<std::byte> scratch;
    const auto rows = source->bytes(*source->find("model.layers.0.mlp.up_proj.weight"), scratch);
    ASSERT_FALSE(rows);
    EXPECT_NE(rows.error().message().find("weight model.layers.0.mlp.up_proj.weight"), std::string::npos);
    EXPECT_NE(rows.error().message().find(want), std::string::npos) << rows.error().message();
  }
}

TEST(RequantizedSource, AFormatThatNothingWritesIsRefused) {
  EXPECT_EQ(parse_weight_format("q4_1"), Format::q4_1);
  for (const char* name : {"q6_k", "fp8_e4m3", "Q4_1", ""}) {
    const auto format = parse_weight_format(name);
    ASSERT_FALSE(format);
    EXPECT_EQ(format.error().code(), Code::invalid_argument);
    EXPECT_EQ(format.error().message(), fmt::format("want f32, f16, bf16, q4_0, q4_1, q8_0, got \"{}\"", name));
  }
}

}  // namespace
}  // namespace headrace::io
