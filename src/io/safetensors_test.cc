// Rules of the safetensors format text; the reference package's verdicts on whole files are the suite
// `model_files`.
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

namespace headrace::io {
namespace {

class Bytes {
 public:
  Bytes(std::string_view header, size_t data) : bytes_(8 + header.size() + data) {
    const uint64_t length = header.size();
    std::memcpy(bytes_.data(), &length, 8);
    std::memcpy(bytes_.data() + 8, header.data(), header.size());
  }
  Result<SafetensorsFile> parse() const { return SafetensorsFile::parse(bytes_); }
  std::string refusal() const {
    const Result<SafetensorsFile> file = parse();
    return file ? "accepted" : file.error().message();
  }

 private:
  std::vector<std::byte> bytes_;
};

TEST(Safetensors, ReadsEveryPlainDtypeByItsName) {
  for (const FormatInfo& info : all_formats()) {
    if (info.safetensors.empty()) continue;
    const Bytes file(fmt::format(R"({{"w":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})",
                                 info.safetensors, 3 * info.block_bytes),
                     3 * static_cast<size_t>(info.block_bytes));
    const auto parsed = file.parse();
    ASSERT_TRUE(parsed) << info.safetensors;
    EXPECT_EQ(parsed->tensors()[0].format, info.format);
    EXPECT_EQ(parsed->data(parsed->tensors()[0]).size(), 3u * info.block_bytes);
  }
}

TEST(Safetensors, MetadataAndUnknownFieldsStandBesideTheTensors) {
  const Bytes file(
      R"({"__metadata__":{"format":"pt"},"b":{"data_offsets":[2,4],"extra":{"x":[1,{}]},"dtype":"BF16","shape":[]},)"
      R"("a":{"dtype":"U8","shape":[2,1],"data_offsets":[0,2]},"none":{"dtype":"F32","shape":[0,9],"data_offsets":[2,2]}} )",
      4);
  const auto parsed = file.parse();
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(parsed->metadata().at("format"), "pt");
  ASSERT_EQ(parsed->tensors().size(), 3u);
  EXPECT_EQ(parsed->tensors()[0].name, "a");
  EXPECT_EQ(parsed->tensors()[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(parsed->tensors()[2].name, "b");
}

TEST(Safetensors, ARefusalSaysWhichTensorAndWhy) {
  const auto one = [](std::string_view fields, size_t data = 4) {
    return Bytes(fmt::format(R"({{"w":{{{}}}}})", fields), data).refusal();
  };
  EXPECT_EQ(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "accepted");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[1])"), "tensor 'w': lacks data_offsets");
  EXPECT_EQ(one(R"("dtype":"F24","shape":[1],"data_offsets":[0,4])"),
            "tensor 'w': dtype 'F24' is not one of the format");
  EXPECT_EQ(one(R"("dtype":"F4","shape":[8],"data_offsets":[0,4])"),
            "tensor 'w': dtype 'F4' is not one that Headrace reads");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
            "tensor 'w': its shape and dtype want 8 bytes, data_offsets give 4");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"),
            "tensor 'w': data_offsets 0 to 8; want begin <= end <= 4 (the data's size)");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,4])"),
            "tensor 'w': its shape has 2^63 elements or more");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4])"),
            "tensor 'w' has the field shape twice");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 5),
            "the data has 5 bytes, the tensors cover 4");
  EXPECT_NE(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])").find("holds a negative number"),
            std::string::npos);
  EXPECT_NE(one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])").find("holds a fraction"),
            std::string::npos);
  EXPECT_NE(one(R"("dtype":7,"shape":[1],"data_offsets":[0,4])").find("holds a number"), std::string::npos);
}

TEST(Safetensors, GapsOverlapsAndRepeatedNamesAreRefused) {
  const auto two = [](std::string_view first, int first_begin, std::string_view second, int second_begin) {
    return Bytes(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[2],"data_offsets":[{},{}]}},)"
                             R"("{}":{{"dtype":"U8","shape":[2],"data_offsets":[{},{}]}}}})",
                             first, first_begin, first_begin + 2, second, second_begin, second_begin + 2),
                 5)
        .refusal();
  };
  EXPECT_EQ(two("a", 0, "b", 3), "tensor 'b' begins at 3 of the data; the one before it ends at 2");
  EXPECT_EQ(two("a", 1, "b", 0), "tensor 'a' begins at 1 of the data; the one before it ends at 2");
  EXPECT_EQ(two("a", 0, "a", 2), "tensor 'a' appears twice");
  EXPECT_EQ(two("a", 0, "b", 2), "the data has 5 bytes, the tensors cover 4");
}

TEST(Safetensors, BottomlessJsonIsRefused) {
  std::string deep = R"({"w":{"x":)";
  deep += std::string(1000000, '[');
  EXPECT_NE(Bytes(deep, 0).refusal().find("not valid JSON"), std::string::npos);
  EXPECT_NE(Bytes("{\"a\":[", 0).refusal().find("holds a list"), std::string::npos);
  EXPECT_NE(Bytes("{\"a\":", 0).refusal().find("not valid JSON"), std::string::npos);
  EXPECT_NE(Bytes("[]", 0).refusal().find("does not begin"), std::string::npos);
  EXPECT_EQ(Bytes("{}", 0).refusal(), "accepted");
}

}  // namespace
}  // namespace headrace::io
