#include "base/status.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

Result<int> parse_positive(int x) {
  if (x <= 0) return error(Code::invalid_argument, "x: want a positive number, got {}", x);
  return x;
}

Status use(int x) {
  HR_ASSIGN_OR_RETURN(int value, parse_positive(x));
  return value == x ? Status() : make_status(Code::internal, "lost the value");
}

TEST(Status, AnErrorCarriesCodeMessageAndPlace) {
  const Status status = use(-3);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(), "x: want a positive number, got -3");
  EXPECT_NE(std::string(status.file()).find("status_test.cc"), std::string::npos);
  EXPECT_TRUE(use(3).ok());
}

TEST(Status, ContextStandsInFrontOfTheMessage) {
  EXPECT_EQ(use(0).with_context("--x").message(), "--x: x: want a positive number, got 0");
}

TEST(Status, EveryCodeHasAnExitCodeOfTheContract) {
  EXPECT_EQ(exit_code(Code::ok), 0);
  EXPECT_EQ(exit_code(Code::invalid_argument), 2);
  EXPECT_EQ(exit_code(Code::not_found), 3);
  EXPECT_EQ(exit_code(Code::malformed), 3);
  EXPECT_EQ(exit_code(Code::resource_exhausted), 4);
  EXPECT_EQ(exit_code(Code::internal), 1);
  EXPECT_EQ(http_status(Code::malformed), 400);
}

}  // namespace
}  // namespace headrace
