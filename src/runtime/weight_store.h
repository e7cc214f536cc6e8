#pragma once
// Owns the weights of one model on one device: immutable, packed once and in parallel, each source page dropped as soon as
// it was read. On an accelerator the team packs into pinned memory, from where pieces go to the device while the next are packed. Graphs name a weight by its recipe; two programs that use the same recipe and layout share the bytes.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/buffer.h"
#include "graph/graph.h"
#include "io/model_source.h"
#include "ops/op.h"
#include "runtime/device_queue.h"

namespace headrace::runtime {

struct WeightRequest {
  WeightRecipe recipe;
  WeightLayout layout = WeightLayout::row_major;
};

class WeightStore {
 public:
  // `source` is read during prepare() only; `queue`'s ledger is charged under `model`.
  WeightStore(const io::ModelSource& source, DeviceQueue& queue, std::string model)
      : source_(source), queue_(queue), model_(std::move(model)) {}

  // Packs what is not packed yet. `progress` hears the fraction done, from one thread at a time; may be null.
  // Errors: not_found or malformed (a part that is missing, of another width or format, or holds a scale that is not
  // finite, named), resource_exhausted.
  Status prepare(const std::vector<WeightRequest>& requests, const std::function<void(double)>& progress = {});

  // A weight that prepare() has packed.
  WeightView view(const WeightRecipe& recipe, WeightLayout layout) const;
  uint64_t bytes() const { return bytes_; }

 private:
  struct Part {
    const io::SourceTensor* tensor = nullptr;
    int64_t begin = 0, end = 0;  // rows
  };
  struct Entry {
    WeightView view;  // without data until packed
    std::vector<Part> parts;
    bool is_vector = false;
  };
  Result<Entry> plan(const WeightRequest& request) const;
  // Of one thread.
  struct Scratch {
    std::vector<std::byte> rows, tile;
  };
  Status pack(const Entry& entry, int64_t begin, int64_t end, std::byte* to, Scratch& scratch) const;  // `to`: where row `begin` goes
  // A large weight is many jobs: the team shares it, and little of the file is resident at once.
  struct Planned {
    std::string key;
    Entry entry;
    uint64_t offset = 0;  // in the slab
  };
  struct Job {
    size_t weight;
    int64_t begin, end;  // rows
  };
  static uint64_t bytes_before(const Entry& entry, int64_t row);
  // Packs every job into `slab`, wherever that lies.
  Status pack_all(std::span<const Planned> weights, std::span<const Job> jobs, std::byte* slab, const std::function<void(double)>& progress);
  static std::string key(const WeightRecipe& recipe, WeightLayout layout);

  const io::ModelSource& source_;
  DeviceQueue& queue_;
  const std::string model_;
  std::map<std::string, Entry> entries_;
  std::vector<Buffer> slabs_;
  uint64_t bytes_ = 0;
};

}  // namespace headrace::runtime
