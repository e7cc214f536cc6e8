// Golden: tests/golden/tiny_llama.gguf, written with the `gguf` package by tools/make_gguf_goldens.py, which
// prints the values that stand here. Damaged files follow the rules of the GGUF format text.
#include "io/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <numeric>

#include "io/mapped_file.h"
#include "testing/golden.h"

namespace headrace::io {
namespace {

std::string golden_path() {
  return testing::golden_path("tiny_llama.gguf");
}

// Bytes of a GGUF file, put together by hand so that any of them can be wrong.
class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), at, at + sizeof(T));
    return *this;
  }
  Bytes& text(std::string_view value) {
    put<uint64_t>(value.size());
    const auto* at = reinterpret_cast<const std::byte*>(value.data());
    bytes_.insert(bytes_.end(), at, at + value.size());
    return *this;
  }
  Bytes& header(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    return put<uint32_t>(0x46554747).put(version).put(tensors).put(entries);
  }
  Bytes& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    text(name).put<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) put(dim);
    return put(type).put(offset);
  }
  Bytes& pad(size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  Bytes& zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  Result<GgufFile> parse() const { return GgufFile::parse(bytes_); }
  std::string refusal() const {
    const Result<GgufFile> file = parse();
    return file ? "accepted" : file.error().message();
  }

 private:
  std::vector<std::byte> bytes_;
};

TEST(Gguf, ReadsEveryMetadataType) {
  const Result<GgufFile> file = GgufFile::open(golden_path());
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->version(), 3u);
  const auto integer = [&](std::string_view key) { return file->find(key)->integer(); };
  EXPECT_EQ(integer("x.u8"), 255);
  EXPECT_EQ(integer("x.i8"), -128);
  EXPECT_EQ(integer("x.u16"), 65535);
  EXPECT_EQ(integer("x.i16"), -32768);
  EXPECT_EQ(integer("x.u32"), 4294967295);
  EXPECT_EQ(integer("x.i32"), -2147483648);
  EXPECT_EQ(integer("x.i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(integer("x.u64"), std::nullopt);  // over what int64 holds
  EXPECT_EQ(std::get<uint64_t>(file->find("x.u64")->value), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(file->find("x.f32")->number(), 0.25);
  EXPECT_EQ(file->find("x.f64")->number(), 0.1);
  EXPECT_EQ(file->find("x.bool")->boolean(), true);
  EXPECT_EQ(file->find("general.architecture")->string(), "llama");
  EXPECT_EQ(file->find("x.missing"), nullptr);
}

TEST(Gguf, ReadsArraysAndArraysOfArrays) {
  const Result<GgufFile> file = GgufFile::open(golden_path());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->find("x.floats")->array()->numbers(), (std::vector<double>{0.5, -1.5}));
  EXPECT_EQ(file->find("x.bools")->array()->integers(), (std::vector<int64_t>{1, 0}));
  const auto nested = file->find("x.nested")->array()->arrays();
  ASSERT_TRUE(nested);
  ASSERT_EQ(nested->size(), 3u);
  EXPECT_EQ((*nested)[0].integers(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ((*nested)[2].integers(), (std::vector<int64_t>{4, 5, 6}));
  const auto tokens = file->find("tokenizer.ggml.tokens")->array()->strings();
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->at(7), "\xC3\xA9");
  EXPECT_FALSE(file->find("x.floats")->array()->strings());
  EXPECT_FALSE(file->find("tokenizer.ggml.tokens")->array()->numbers());
}

TEST(Gguf, DecodesTensorsOfEveryStoredFormat) {
  struct Want {
    std::string_view name;
    Format format;
    float first, last;
    double sum;
  };
  constexpr Want kWants[] = {
      {"token_embd.weight", Format::q8_0, 3.5037231f, -0.74798584f, 107.14157104492188},
      {"output_norm.weight", Format::f32, -4.875f, 2.75f, 13.75},
      {"blk.0.attn_q.weight", Format::q4_0, -3.75f, -4.375f, -84.578125},
      {"blk.0.attn_k.weight", Format::q4_1, 4.9990234f, 3.6645508f, -156.95458984375},
      {"blk.0.attn_v.weight", Format::f16, 4.0f, 2.25f, 21.125},
      {"blk.0.attn_output.weight", Format::bf16, 2.125f, -3.25f, 78.875}};
  const Result<GgufFile> file = GgufFile::open(golden_path());
  ASSERT_TRUE(file);
  ASSERT_EQ(file->tensors().size(), 11u);
  for (const Want& want : kWants) {
    SCOPED_TRACE(want.name);
    const auto tensors = file->tensors();
    const auto at =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == want.name; });
    ASSERT_NE(at, tensors.end());
    EXPECT_EQ(at->format, want.format);
    std::vector<float> values(at->dims[0] * at->dims[1]);
    format_info(at->format)
        .decode(file->data(*at).data(), static_cast<int64_t>(values.size()), values.data());
    EXPECT_FLOAT_EQ(values.front(), want.first);
    EXPECT_FLOAT_EQ(values.back(), want.last);
    EXPECT_DOUBLE_EQ(std::accumulate(values.begin(), values.end(), 0.0), want.sum);
  }
}

TEST(Gguf, EveryShorterFileIsRefused) {
  const Result<MappedFile> file = MappedFile::open(golden_path());
  ASSERT_TRUE(file);
  // Copies, so that the address sanitizer sees a read past the end. All header bytes, then steps through the
  // data.
  const size_t size = file->bytes().size();
  for (size_t length = 0; length < size; length += length < 3000 ? 1 : 997) {
    const std::vector<std::byte> cut(file->bytes().begin(),
                                     file->bytes().begin() + static_cast<ptrdiff_t>(length));
    EXPECT_FALSE(GgufFile::parse(cut)) << length;
  }
}

TEST(Gguf, ReadsVersion2AndRefusesOthersByNumber) {
  EXPECT_TRUE(Bytes().header(0, 0, 2).parse());
  EXPECT_EQ(Bytes().header(0, 0, 1).refusal(), "GGUF version 1; Headrace reads 2 and 3");
  EXPECT_EQ(Bytes().header(0, 0, 0x03000000).refusal(),
            "big-endian GGUF (version 3); convert it to little-endian");
}

TEST(Gguf, CountsThatTheFileCannotHoldAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_EQ(Bytes().header(0, uint64_t{1} << 62).refusal(),
            "the header announces 4611686018427387904 metadata entries, but only 0 bytes follow");
  EXPECT_NE(Bytes().header(~uint64_t{0}, 0).refusal().find("18446744073709551615 tensors"),
            std::string::npos);
  const std::string array =
      Bytes().header(0, 1).text("k").put<uint32_t>(9).put<uint32_t>(10).put(uint64_t{1} << 61).refusal();
  EXPECT_NE(array.find("an array of 2305843009213693952 u64"), std::string::npos) << array;
}

TEST(Gguf, DeepNestingIsRefused) {
  Bytes bytes;
  bytes.header(0, 1).text("k").put<uint32_t>(9);
  for (int depth = 0; depth < 1000; ++depth) bytes.put<uint32_t>(9).put<uint64_t>(1);
  EXPECT_NE(bytes.refusal().find("nested more than 8 deep"), std::string::npos) << bytes.refusal();
}

TEST(Gguf, ATensorOutsideTheFileOrOnAnotherIsRefusedByName) {
  const auto two = [](uint64_t second_offset, size_t data) {
    return Bytes()
        .header(2, 0)
        .tensor("a", {16}, 0, 0)
        .tensor("b", {16}, 0, second_offset)
        .pad(32)
        .zeros(data);
  };
  EXPECT_EQ(two(64, 128).refusal(), "accepted");
  EXPECT_EQ(two(32, 128).refusal(), "tensors 'a' and 'b' overlap");
  EXPECT_NE(
      two(64, 127).refusal().find("tensor 'b': want 64 bytes at offset 64 of the data, the file has 63"),
      std::string::npos);
  EXPECT_NE(two(uint64_t{1} << 63, 128).refusal().find("the file has 0 there"), std::string::npos);
  EXPECT_EQ(two(65, 128).refusal(), "tensor 'b': offset 65 is not a multiple of the alignment 32");
}

TEST(Gguf, AlignmentMustBeAU32MultipleOfEight) {
  const auto with = [](uint32_t type, auto value) {
    return Bytes().header(0, 1).text("general.alignment").put(type).put(value).refusal();
  };
  EXPECT_EQ(with(4, uint32_t{64}), "accepted");
  EXPECT_EQ(with(4, uint32_t{0}), "general.alignment is 0; want a multiple of 8 above 0");
  EXPECT_EQ(with(4, uint32_t{12}), "general.alignment is 12; want a multiple of 8 above 0");
  EXPECT_EQ(with(10, uint64_t{32}), "general.alignment is a u64; want a u32");
}

TEST(Gguf, ATensorTypeThatIsNotReadIsNamedWithThoseThatAre) {
  const std::string message = Bytes().header(1, 0).tensor("w", {256}, 16, 0).pad(32).zeros(66).refusal();
  EXPECT_NE(message.find("tensor 'w': type 16 (IQ2_XXS); Headrace reads f32 f16"), std::string::npos)
      << message;
}

TEST(Gguf, ANameCannotSendControlBytesToTheTerminal) {
  const std::string message = Bytes().header(1, 0).tensor("\x1b[2J", {0}, 0, 0).refusal();
  EXPECT_NE(message.find("tensor '?[2J'"), std::string::npos) << message;
}

TEST(MappedFile, SaysWhatIsWrongWithAPath) {
  EXPECT_EQ(MappedFile::open("/nonexistent/file").error().code(), Code::not_found);
  EXPECT_EQ(MappedFile::open("/tmp").error().message(), "/tmp is a directory; want a file");
  EXPECT_EQ(MappedFile::open("/dev/null").error().code(), Code::malformed);
}

TEST(MappedFile, DroppedPagesComeBackFromTheFile) {
  const std::string path = ::testing::TempDir() + "headrace_mapped_file_test";
  std::ofstream(path) << std::string(100000, 'x');
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file);
  file->drop(10, 99990);
  file->drop(200000, 5);
  EXPECT_EQ(std::count(file->bytes().begin(), file->bytes().end(), std::byte{'x'}), 100000);
  std::ofstream(path, std::ios::trunc).close();
  const Result<MappedFile> empty = MappedFile::open(path);
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->bytes().empty());
  std::remove(path.c_str());
}

}  // namespace
}  // namespace headrace::io
