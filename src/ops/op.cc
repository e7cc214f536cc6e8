#include "ops/op.h"

namespace headrace {

void StepErrors::out_of_range(int32_t node, int64_t got, int64_t low, int64_t high) {
  fail(node, make_status(Code::invalid_argument, "index {}: want {} to {}", got, low, high - 1));
}

void StepErrors::fail(int32_t node, Status status) {
  const std::lock_guard lock(mutex_);
  if (!first_.ok()) return;
  first_ = std::move(status);
  node_ = node;
}

Status StepErrors::take(int32_t* node) {
  const std::lock_guard lock(mutex_);
  if (node != nullptr) *node = node_;
  node_ = -1;
  return std::exchange(first_, Status());
}

}  // namespace headrace
