// Three steps: who shares whose storage (views, in-place outputs); how long each storage is alive; where it lies. Placing
// is greedy by size with best fit (Pisarchyk & Lee 2020, arXiv:2001.03288), which reaches the live-set bound on the graphs
// of language models. Where it does not, other orders are tried and the best is kept. Quadratic in the number of storages, with a
// very small constant; graphs of very many are placed in the order of their stages instead.
#include "graph/memory_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <set>

#include "base/check.h"

namespace headrace {
namespace {

// Pairs of storages that are looked at while better places are searched: some 5 ms.
constexpr int64_t kMaxPlacingWork = 6'000'000;
constexpr int kMaxRounds = 200;
// Up to so many storages are placed by size: a tenth of a second.
constexpr size_t kMaxBySize = size_t{1} << 14;

int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

// Bytes that are needed from stage `first` to stage `last`, both included.
struct Storage {
  int64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
  int64_t offset = 0;
  bool overlaps(const Storage& other) const { return first <= other.last && other.first <= last; }
};

// What is free below the end of an arena that grows.
class Holes {
 public:
  // The smallest hole that holds `bytes`, or a place at the end.
  int64_t take(int64_t bytes) {
    const auto found = by_bytes_.lower_bound({bytes, 0});
    if (found == by_bytes_.end()) {
      end_ += bytes;
      return end_ - bytes;
    }
    const auto [size, offset] = *found;
    remove(offset, size);
    if (size > bytes) add(offset + bytes, size - bytes);
    return offset;
  }
  void give(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = remove(next->first, next->second);
    }
    if (next != by_offset_.begin()) {
      const auto [before, size] = *std::prev(next);
      if (before + size == offset) {
        remove(before, size);
        offset = before;
        bytes += size;
      }
    }
    add(offset, bytes);
  }
  int64_t end() const { return end_; }

 private:
  void add(int64_t offset, int64_t bytes) {
    by_offset_[offset] = bytes;
    by_bytes_.insert({bytes, offset});
  }
  std::map<int64_t, int64_t>::iterator remove(int64_t offset, int64_t bytes) {
    by_bytes_.erase({bytes, offset});
    return by_offset_.erase(by_offset_.find(offset));
  }

  int64_t end_ = 0;
  std::map<int64_t, int64_t> by_offset_;           // offset: bytes
  std::set<std::pair<int64_t, int64_t>> by_bytes_;  // bytes, offset
};

class Planner {
 public:
  // `stage` has one entry a node and one behind the last.
  Planner(const Graph& graph, const Bindings& bucket, std::vector<int32_t> stage, const std::vector<int>& overwritten)
      : graph_(graph), stage_(std::move(stage)), overwritten_(overwritten), bytes_(graph.values.size(), 0),
        exact_bytes_(graph.values.size(), 0) {
    storage_of_.resize(graph.values.size());
    std::iota(storage_of_.begin(), storage_of_.end(), 0);
    for (size_t id = 0; id < graph.values.size(); ++id) {
      const ValueType& type = graph.values[id].type;
      if (type.kind != ValueType::Kind::tensor) continue;
      exact_bytes_[id] = type.shape.elements(bucket) * static_cast<int64_t>(dtype_bytes(type.dtype));
      bytes_[id] = aligned(exact_bytes_[id]);
    }
  }

  MemoryPlan plan(const std::vector<int64_t>& scratch_bytes) {
    share_views();
    find_last_uses();
    share_in_place();
    collect(scratch_bytes);
    if (storages_.size() <= kMaxBySize) place();
    else place_by_stage();
    return result();
  }

 private:
  bool owned(ValueId id) const { return graph_.values[id].role == ValueRole::computed; }
  bool is_view(ValueId id) const {
    const NodeId producer = graph_.values[id].producer;
    return producer != kNone && graph_.nodes[producer].op->effects.view;
  }

  void share_views() {
    for (const Node& node : graph_.nodes) {
      if (!node.dead && node.op->effects.view) storage_of_[node.outputs[0]] = storage_of_[node.inputs[0]];
    }
  }

  // The last node that touches each storage: its definition, a read, a read of a view. Outputs are read after the step.
  void find_last_uses() {
    last_.assign(graph_.values.size(), kNone);
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      if (node.dead) continue;
      for (const ValueId output : node.outputs) last_[storage_of_[output]] = static_cast<NodeId>(id);
      for (const ValueId input : node.inputs) {
        if (input != kNone) last_[storage_of_[input]] = static_cast<NodeId>(id);
      }
    }
    for (const GraphOutput& output : graph_.outputs) {
      last_[storage_of_[output.value]] = static_cast<NodeId>(graph_.nodes.size());
    }
  }

  // An output takes over an input's storage when the input is a whole computed value that dies here, has the same size, and
  // the node reads that storage through no other input (it may read the one after writing the other).
  bool may_take(const Node& node, NodeId id, ValueId output, int input_index) const {
    if (input_index >= static_cast<int>(node.inputs.size())) return false;
    const ValueId input = node.inputs[input_index];
    if (input == kNone || is_view(input)) return false;
    const ValueId storage = storage_of_[input];
    if (!owned(storage) || last_[storage] != id || bytes_[storage] != bytes_[output]) return false;
    if (exact_bytes_[input] != exact_bytes_[output]) return false;  // an operand that is broadcast is read after its place is written
    for (int other = 0; other < static_cast<int>(node.inputs.size()); ++other) {
      if (other == input_index || node.inputs[other] == kNone) continue;
      if (storage_of_[node.inputs[other]] == storage) return false;
    }
    return true;
  }

  void share_in_place() {
    sharers_.resize(graph_.values.size());
    for (size_t id = 0; id < storage_of_.size(); ++id) sharers_[storage_of_[id]].push_back(static_cast<ValueId>(id));
    for (size_t index = 0; index < graph_.nodes.size(); ++index) {
      const Node& node = graph_.nodes[index];
      const auto id = static_cast<NodeId>(index);
      if (node.dead || node.op->effects.view) continue;
      const auto take_over = [&](int output_index, int input_index) {
        if (output_index >= static_cast<int>(node.outputs.size())) return;
        const ValueId output = node.outputs[output_index];
        if (storage_of_[output] != output || !may_take(node, id, output, input_index)) return;
        take(output, storage_of_[node.inputs[input_index]]);
      };
      if (!overwritten_.empty() && overwritten_[index] >= 0) take_over(0, overwritten_[index]);
      if (!node.in_place) continue;
      for (const auto& [output_index, input_index] : node.op->in_place) take_over(output_index, input_index);
    }
  }
  // Views of `output` follow.
  void take(ValueId output, ValueId storage) {
    for (const ValueId sharer : sharers_[output]) storage_of_[sharer] = storage;
    sharers_[storage].insert(sharers_[storage].end(), sharers_[output].begin(), sharers_[output].end());
    sharers_[output].clear();
    last_[storage] = last_[output];
  }

  void collect(const std::vector<int64_t>& scratch_bytes) {
    index_of_value_.assign(graph_.values.size(), kNone);
    index_of_scratch_.assign(graph_.nodes.size(), kNone);
    for (size_t index = 0; index < graph_.nodes.size(); ++index) {
      const Node& node = graph_.nodes[index];
      if (node.dead) continue;
      for (const ValueId output : node.outputs) {
        if (!node.op->effects.view) naive_bytes_ += bytes_[output];
        if (storage_of_[output] != output) continue;
        index_of_value_[output] = static_cast<int32_t>(storages_.size());
        storages_.push_back({bytes_[output], stage_[index], stage_[last_[output]], 0});
      }
      if (scratch_bytes[index] > 0) {
        index_of_scratch_[index] = static_cast<int32_t>(storages_.size());
        storages_.push_back({aligned(scratch_bytes[index]), stage_[index], stage_[index], 0});
        naive_bytes_ += storages_.back().bytes;
      }
    }
  }

  // Until the bound is reached or the work is spent: by size, by size times stages alive, by stages alive, each with both kinds of
  // gap; then the best of them with the storage that makes the peak moved to the front, again and again.
  void place() {
    const int64_t bound = live_set_bound();
    const auto by = [&](auto weight) {
      std::vector<int32_t> order(storages_.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return weight(storages_[a]) > weight(storages_[b]); });
      return order;
    };
    const auto stages = [](const Storage& storage) { return int64_t{storage.last} - storage.first + 1; };
    std::vector<int32_t> order = by([](const Storage& storage) { return storage.bytes; });
    bool smallest_gap = true;
    arena_bytes_ = place_in(order, smallest_gap);
    std::vector<Storage> best = storages_;
    const auto count = static_cast<int64_t>(storages_.size());
    int64_t tries = kMaxPlacingWork / std::max<int64_t>(1, count * count);
    const auto attempt = [&](const std::vector<int32_t>& other, bool gap) {
      if (arena_bytes_ == bound || tries-- <= 0) return;
      const int64_t bytes = place_in(other, gap);
      if (bytes >= arena_bytes_) return;
      arena_bytes_ = bytes;
      best = storages_;
      order = other;
      smallest_gap = gap;
    };
    const std::vector<int32_t> by_size = order, by_area = by([&](const Storage& storage) { return storage.bytes * stages(storage); });
    const std::vector<int32_t> by_stages = by(stages);
    attempt(by_size, false);
    for (const bool gap : {true, false}) {
      attempt(by_area, gap);
      attempt(by_stages, gap);
    }
    std::vector<int32_t> moved = order;
    storages_ = best;
    for (int round = 0; round < kMaxRounds && arena_bytes_ > bound && tries > 0; ++round) {
      const auto last = std::max_element(moved.begin(), moved.end(), [&](int32_t a, int32_t b) { return end_of(a) < end_of(b); });
      std::rotate(moved.begin(), last, last + 1);
      attempt(moved, smallest_gap);
    }
    storages_ = std::move(best);
  }
  int64_t end_of(int32_t index) const { return storages_[index].offset + storages_[index].bytes; }

  // Gives each storage its offset, in this order; returns where the last of them ends.
  int64_t place_in(const std::vector<int32_t>& order, bool smallest_gap) {
    std::vector<const Storage*> placed;  // by rising offset
    placed.reserve(storages_.size());
    int64_t end = 0;
    for (const int32_t index : order) {
      Storage& storage = storages_[index];
      storage.offset = find_gap(placed, storage, smallest_gap);
      end = std::max(end, storage.offset + storage.bytes);
      const auto at = std::upper_bound(placed.begin(), placed.end(), storage.offset,
                                       [](int64_t offset, const Storage* other) { return offset < other->offset; });
      placed.insert(at, &storage);
    }
    return end;
  }
  void place_by_stage() {
    std::vector<int32_t> by_first(storages_.size());
    std::iota(by_first.begin(), by_first.end(), 0);
    std::ranges::stable_sort(by_first, {}, [&](int32_t index) { return storages_[index].first; });
    using End = std::pair<int32_t, int32_t>;  // last stage, storage
    std::priority_queue<End, std::vector<End>, std::greater<>> alive;
    Holes holes;
    for (const int32_t index : by_first) {
      Storage& storage = storages_[index];
      if (storage.bytes == 0) continue;
      for (; !alive.empty() && alive.top().first < storage.first; alive.pop()) {
        const Storage& gone = storages_[alive.top().second];
        holes.give(gone.offset, gone.bytes);
      }
      storage.offset = holes.take(storage.bytes);
      alive.emplace(storage.last, index);
    }
    arena_bytes_ = holes.end();
  }
  // The smallest hole, or else the first, among the storages alive at the same time, that holds it; without one behind the last of them.
  static int64_t find_gap(const std::vector<const Storage*>& placed, const Storage& storage, bool smallest) {
    int64_t best = -1, best_size = 0, end = 0;
    for (const Storage* other : placed) {
      if (!other->overlaps(storage)) continue;
      const int64_t gap = other->offset - end;
      if (gap >= storage.bytes && (best < 0 || (smallest && gap < best_size))) {
        best = end;
        best_size = gap;
      }
      end = std::max(end, other->offset + other->bytes);
    }
    return best >= 0 ? best : end;
  }

  int64_t live_set_bound() const {
    std::vector<int64_t> change(graph_.nodes.size() + 2, 0);
    for (const Storage& storage : storages_) {
      change[storage.first] += storage.bytes;
      change[storage.last + 1] -= storage.bytes;
    }
    int64_t alive = 0, most = 0;
    for (const int64_t bytes : change) most = std::max(most, alive += bytes);
    return most;
  }

  MemoryPlan result() {
    MemoryPlan plan;
    plan.value_offset.assign(graph_.values.size(), -1);
    plan.scratch_offset.assign(graph_.nodes.size(), -1);
    for (size_t id = 0; id < graph_.values.size(); ++id) {
      if (index_of_value_[id] != kNone) plan.value_offset[id] = storages_[index_of_value_[id]].offset;
    }
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      if (index_of_scratch_[id] != kNone) plan.scratch_offset[id] = storages_[index_of_scratch_[id]].offset;
    }
    plan.storage_of = std::move(storage_of_);
    plan.arena_bytes = arena_bytes_;
    plan.live_set_bound = live_set_bound();
    plan.naive_bytes = naive_bytes_;
    plan.num_stages = stage_.back();
    return plan;
  }

  const Graph& graph_;
  std::vector<int32_t> stage_;        // by node
  const std::vector<int>& overwritten_;
  std::vector<int64_t> bytes_;        // by value, aligned
  std::vector<int64_t> exact_bytes_;  // before they are rounded up
  std::vector<ValueId> storage_of_;   // by value
  std::vector<std::vector<ValueId>> sharers_;  // by storage: the values in it
  std::vector<NodeId> last_;          // by storage
  std::vector<Storage> storages_;
  std::vector<int32_t> index_of_value_, index_of_scratch_;
  int64_t arena_bytes_ = 0, naive_bytes_ = 0;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const Bindings& bucket, const std::vector<int64_t>& scratch_bytes,
                       const std::vector<int32_t>& stage_of_node, const std::vector<int>& overwritten) {
  CHECK(scratch_bytes.size() == graph.nodes.size());
  CHECK(stage_of_node.empty() || stage_of_node.size() == graph.nodes.size());
  std::vector<int32_t> stage = stage_of_node;
  if (stage.empty()) {
    stage.resize(graph.nodes.size());
    std::iota(stage.begin(), stage.end(), 0);
  }
  stage.push_back(stage.empty() ? 0 : stage.back() + 1);
  CHECK(overwritten.empty() || overwritten.size() == graph.nodes.size());
  return Planner(graph, bucket, std::move(stage), overwritten).plan(scratch_bytes);
}

}  // namespace headrace
