#include "runtime/weight_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/check.h"

namespace headrace::runtime {
namespace {

constexpr uint64_t kWeightAlignment = 64;

uint64_t align_up(uint64_t bytes) { return (bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment; }

int64_t row_bytes(Format format, int64_t columns) {
  const FormatInfo& info = format_info(format);
  return columns / info.block_elements * info.block_bytes;
}

}  // namespace

std::string WeightStore::key(const WeightRecipe& recipe, WeightLayout layout) {
  return fmt::format("{}@{}", recipe.describe(), static_cast<int>(layout));
}

Result<WeightStore::Entry> WeightStore::plan(const WeightRequest& request) const {
  Entry entry;
  entry.view.layout = request.layout;
  for (const WeightPart& part : request.recipe.parts) {
    const io::SourceTensor* tensor = source_.find(part.source);
    if (tensor == nullptr) return error(Code::not_found, "weight {}: not in {}", part.source, source_.path());
    if (tensor->shape.empty() || tensor->shape.size() > 2) {
      return error(Code::malformed, "weight {}: want 1 or 2 dimensions, got {}", part.source, tensor->shape.size());
    }
    // A vector (norm, bias) is a column of rows here, so that parts join along the same axis as those of a matrix.
    const int64_t rows = tensor->shape[0];
    const int64_t columns = tensor->shape.size() == 2 ? tensor->shape[1] : 1;
    const int64_t end = part.end < 0 ? rows : part.end;
    if (part.begin < 0 || part.begin > end || end > rows) {
      return error(Code::malformed, "weight {}: rows {} to {} wanted, it has {}", part.source, part.begin, end, rows);
    }
    if (entry.parts.empty()) {
      entry.view.format = tensor->format;
      entry.view.columns = columns;
    } else if (tensor->format != entry.view.format || columns != entry.view.columns) {
      return error(Code::malformed, "weight {}: cannot be joined to {}: {} of width {} and {} of width {}", part.source,
                   entry.parts[0].tensor->name, format_info(tensor->format).name, columns,
                   format_info(entry.view.format).name, entry.view.columns);
    }
    if (columns % format_info(tensor->format).block_elements != 0) {
      return error(Code::malformed, "weight {}: width {} is not a multiple of the {} of a {} block", part.source, columns,
                   format_info(tensor->format).block_elements, format_info(tensor->format).name);
    }
    entry.parts.push_back({tensor, part.begin, end});
    entry.view.rows += end - part.begin;
    entry.is_vector = tensor->shape.size() == 1;
  }
  return entry;
}

Status WeightStore::pack(const Entry& entry, std::byte* to, std::vector<std::byte>& scratch) const {
  const WeightView& view = entry.view;
  const int64_t stride = row_bytes(view.format, view.columns);
  // Rows of the merged weight gather here until a tile is full; parts may end inside a tile, so tile rows of an earlier
  // part are copied before its bytes go away.
  std::vector<std::byte> tile_rows(view.layout == WeightLayout::tile16 ? size_t(stride) * kTileRows : 0);
  const uint64_t tile_bytes = view.layout == WeightLayout::tile16 ? tile16_bytes(view.format, view.columns) : 0;
  int64_t row = 0;
  for (const Part& part : entry.parts) {
    HR_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, source_.bytes(*part.tensor, scratch));
    const std::byte* from = bytes.data() + part.begin * stride;
    const int64_t count = part.end - part.begin;
    if (Status status = check_finite_blocks(view.format, {from, size_t(count * stride)}); !status.ok()) {
      return status.with_context(fmt::format("weight {}", part.tensor->name));
    }
    switch (view.layout) {
      case WeightLayout::row_major:
        std::memcpy(to + row * stride, from, count * stride);
        row += count;
        break;
      case WeightLayout::dense_f32:
        format_info(view.format)
            .decode(from, count * view.columns, reinterpret_cast<float*>(to) + row * view.columns);
        row += count;
        break;
      case WeightLayout::tile16:
        for (int64_t i = 0; i < count;) {
          std::array<const std::byte*, kTileRows> rows{};
          const int64_t in_tile = row % kTileRows;
          if (in_tile == 0 && count - i >= kTileRows) {  // a whole tile straight from the source
            for (int r = 0; r < kTileRows; ++r) rows[r] = from + (i + r) * stride;
            pack_tile16(view.format, view.columns, rows, to + row / kTileRows * tile_bytes);
            i += kTileRows;
            row += kTileRows;
            continue;
          }
          std::memcpy(tile_rows.data() + in_tile * stride, from + i * stride, stride);
          ++i;
          ++row;
          if (row % kTileRows == 0 || row == view.rows) {
            for (int r = 0; r <= in_tile; ++r) rows[r] = tile_rows.data() + r * stride;
            pack_tile16(view.format, view.columns, rows, to + (row - 1) / kTileRows * tile_bytes);
          }
        }
        break;
    }
  }
  CHECK(row == view.rows);
  for (const Part& part : entry.parts) source_.drop(*part.tensor);
  return Status();
}

Status WeightStore::prepare(const std::vector<WeightRequest>& requests, const std::function<void(double)>& progress) {
  struct Job {
    std::string key;
    Entry entry;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  std::vector<Job> jobs;
  uint64_t total = 0;
  for (const WeightRequest& request : requests) {
    std::string name = key(request.recipe, request.layout);
    if (entries_.count(name) != 0) continue;
    if (std::any_of(jobs.begin(), jobs.end(), [&](const Job& job) { return job.key == name; })) continue;
    HR_ASSIGN_OR_RETURN(Entry entry, plan(request));
    const WeightView& view = entry.view;
    const uint64_t bytes = layout_bytes(view.layout, view.format, view.rows, view.columns);
    jobs.push_back({std::move(name), std::move(entry), total, bytes});
    total += align_up(bytes);
  }
  if (jobs.empty()) return Status();
  HR_ASSIGN_OR_RETURN(Buffer slab, Buffer::allocate(queue_.ledger(), Account::weights, model_, total));

  std::mutex mutex;  // guards first_error, done and progress
  Status first_error;
  uint64_t done = 0;
  std::atomic<bool> failed{false};
  queue_.run([&](Team& team) {
    std::vector<std::byte> scratch;
    for (int64_t i = team.claim(int64_t(jobs.size())); i >= 0 && !failed; i = team.claim(int64_t(jobs.size()))) {
      Status status = pack(jobs[i].entry, slab.data() + jobs[i].offset, scratch);
      const std::lock_guard lock(mutex);
      if (!status.ok()) {
        if (first_error.ok()) first_error = std::move(status);
        failed = true;
      }
      done += jobs[i].bytes;
      if (progress) progress(double(done) / double(total));
    }
  });
  HR_RETURN_IF_ERROR(first_error);

  for (Job& job : jobs) {
    WeightView& view = job.entry.view;
    view.data = slab.data() + job.offset;
    if (job.entry.is_vector) std::swap(view.rows, view.columns);
    entries_.emplace(std::move(job.key), std::move(job.entry));
  }
  bytes_ += total;
  slabs_.push_back(std::move(slab));
  return Status();
}

WeightView WeightStore::view(const WeightRecipe& recipe, WeightLayout layout) const {
  const auto entry = entries_.find(key(recipe, layout));
  CHECK(entry != entries_.end());
  return entry->second.view;
}

}  // namespace headrace::runtime
