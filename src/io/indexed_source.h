#pragma once
// What every source has besides its bytes: the configuration, the list of tensors, and finding one by name. Names come from
// outside, so the index is a sorted list and not a hash table, which chosen names can slow down.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/model_source.h"

namespace headrace::io {

class TensorIndex {
 public:
  // `tensors` must stay where it is. Errors: malformed when two have one name.
  Status build(std::span<const SourceTensor> tensors) {
    tensors_ = tensors;
    order_.resize(tensors.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::ranges::sort(order_, {}, name_of());
    const auto twice = std::ranges::adjacent_find(order_, {}, name_of());
    if (twice == order_.end()) return Status();
    return make_status(Code::malformed, "two tensors lead to the name '{}'", tensors_[*twice].name);
  }
  // The position in `tensors`, or -1.
  int64_t find(std::string_view name) const {
    const auto at = std::ranges::lower_bound(order_, name, {}, name_of());
    return at == order_.end() || tensors_[*at].name != name ? -1 : int64_t{*at};
  }

 private:
  struct NameOf {
    std::span<const SourceTensor> tensors;
    std::string_view operator()(uint32_t index) const { return tensors[index].name; }
  };
  NameOf name_of() const { return {tensors_}; }

  std::span<const SourceTensor> tensors_;
  std::vector<uint32_t> order_;
};

// A source fills config_ and tensors_ while it opens, then calls index_.build(tensors_).
class IndexedSource : public ModelSource {
 public:
  const ConfigMap& config() const final { return config_; }
  std::span<const SourceTensor> tensors() const final { return tensors_; }
  const SourceTensor* find(std::string_view name) const final {
    const int64_t at = index_.find(name);
    return at < 0 ? nullptr : &tensors_[at];
  }

 protected:
  ConfigMap config_;
  std::vector<SourceTensor> tensors_;
  TensorIndex index_;
};

}  // namespace headrace::io
