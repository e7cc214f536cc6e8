// The bytes are those of numpy 2.4: np.save of np.array([[1.5, -2, 3]], 'f4') and the like.
#include "onnx/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::onnx {
namespace {

using ::testing::HasSubstr;

std::string file(const std::string& dictionary, const std::string& data) {
  std::string header = dictionary + std::string(118 - 1 - dictionary.size(), ' ') + "\n";
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data;
}

std::string refusal(const std::string& bytes) {
  const auto tensor = parse_npy(std::as_bytes(std::span(bytes)));
  return tensor ? "read" : tensor.error().message();
}

const std::string kFloats = file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }",
                                 std::string("\x00\x00\xc0\x3f\x00\x00\x00\xc0\x00\x00\x40\x40", 12));

TEST(Npy, ReadsWhatNumpyWrites) {
  const auto tensor = parse_npy(std::as_bytes(std::span(kFloats)));
  ASSERT_TRUE(tensor.has_value()) << tensor.error().message();
  EXPECT_EQ(tensor->dims(), (Dims{1, 3}));
  EXPECT_EQ(tensor->data<float>()[1], -2.0f);
  const std::string scalar = file("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "\x07");
  EXPECT_EQ(parse_npy(std::as_bytes(std::span(scalar)))->dims(), Dims());
}

TEST(Npy, WritesTheBytesThatNumpyWrites) {
  EXPECT_EQ(npy_bytes(Tensor::of<float>({1, 3}, {1.5f, -2, 3})).value(), kFloats);
  EXPECT_EQ(npy_bytes(Tensor::of<int8_t>({2}, {1, 2})).value(), file("{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }", "\1\2"));
  EXPECT_THAT(npy_bytes(Tensor(DType::bf16, {1})).error().message(), HasSubstr("numpy has no type bf16"));
}

TEST(Npy, RefusesWhatItCannotRead) {
  EXPECT_THAT(refusal(""), HasSubstr("not an npy file"));
  EXPECT_THAT(refusal(kFloats.substr(0, kFloats.size() - 1)), HasSubstr("want 12 bytes, got 11"));
  EXPECT_THAT(refusal(kFloats.substr(0, 60)), HasSubstr("ends in its header"));
  EXPECT_THAT(refusal(file("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd")), HasSubstr("elements of type '>f4'"));
  EXPECT_THAT(refusal(file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", std::string(16, 'a'))),
              HasSubstr("Fortran order"));
  EXPECT_THAT(refusal(file("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999, 9999999999999), }", "")),
              HasSubstr("elements"));
  EXPECT_THAT(refusal(file("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, ), }", "")), HasSubstr("want none below 0"));
  EXPECT_THAT(refusal(file("{'descr': '<f4', 'fortran_order': False, 'shape': (x), }", "")), HasSubstr("want dims"));
  for (size_t size = 0; size < kFloats.size(); ++size) EXPECT_NE(refusal(kFloats.substr(0, size)), "read") << size;
}

}  // namespace
}  // namespace headrace::onnx
