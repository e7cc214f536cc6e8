#include "runtime/weight_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/check.h"

namespace headrace::runtime {
namespace {

constexpr uint64_t kWeightAlignment = 256;  // what a device copies and loads best by
constexpr int64_t kBytesAtOnce = int64_t{1} << 20;  // of the source
constexpr int64_t kBytesAtOnceToDevice = int64_t{4} << 20;

template <class T>
T align_up(T value, T multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

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

// Rows [begin, end) of the merged weight; `begin` and, but for the last, `end` are whole tiles.
Status WeightStore::pack(const Entry& entry, int64_t begin, int64_t end, std::byte* to, Scratch& scratch) const {
  const WeightView& view = entry.view;
  const int64_t stride = row_bytes(view.format, view.columns);
  const bool tiles = view.layout == WeightLayout::tile16;
  const uint64_t tile_bytes = tiles ? tile16_bytes(view.format, view.columns) : 0;
  // Parts may end inside a tile: rows of such a tile gather here until it is full.
  if (tiles) scratch.tile.resize(static_cast<size_t>(stride) * kTileRows);
  int64_t row = begin, part_begin = 0;
  for (const Part& part : entry.parts) {
    const int64_t part_end = part_begin + part.end - part.begin;
    const int64_t count = std::min(end, part_end) - row;
    if (count <= 0) {
      part_begin = part_end;
      continue;
    }
    const int64_t first = part.begin + row - part_begin;  // in the tensor
    part_begin = part_end;
    HR_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, source_.rows(*part.tensor, first, first + count, scratch.rows));
    if (Status status = check_finite_blocks(view.format, bytes); !status.ok()) {
      return status.with_context(fmt::format("weight {}, rows from {}", part.tensor->name, first));
    }
    const std::byte* from = bytes.data();
    switch (view.layout) {
      case WeightLayout::row_major:
        std::memcpy(to + (row - begin) * stride, from, count * stride);
        row += count;
        break;
      case WeightLayout::dense_f32:
        format_info(view.format)
            .decode(from, count * view.columns, reinterpret_cast<float*>(to) + (row - begin) * view.columns);
        row += count;
        break;
      case WeightLayout::tile16:
        for (int64_t i = 0; i < count;) {
          std::array<const std::byte*, kTileRows> rows{};
          const int64_t in_tile = row % kTileRows;
          if (in_tile == 0 && count - i >= kTileRows) {  // a whole tile straight from the source
            for (int r = 0; r < kTileRows; ++r) rows[r] = from + (i + r) * stride;
            pack_tile16(view.format, view.columns, rows, to + (row - begin) / kTileRows * tile_bytes);
            i += kTileRows;
            row += kTileRows;
            continue;
          }
          std::memcpy(scratch.tile.data() + in_tile * stride, from + i * stride, stride);
          ++i;
          ++row;
          if (row % kTileRows == 0 || row == view.rows) {
            for (int r = 0; r <= in_tile; ++r) rows[r] = scratch.tile.data() + r * stride;
            pack_tile16(view.format, view.columns, rows, to + (row - begin - 1) / kTileRows * tile_bytes);
          }
        }
        break;
    }
    source_.drop(*part.tensor, first, first + count);
  }
  CHECK(row == end);
  return Status();
}

// Where row `row` begins, the first of a tile; all bytes where it is the count of rows.
uint64_t WeightStore::bytes_before(const Entry& entry, int64_t row) {
  return layout_bytes(entry.view.layout, entry.view.format, row, entry.view.columns);
}

Status WeightStore::pack_all(std::span<const Planned> weights, std::span<const Job> jobs, std::byte* slab,
                             const std::function<void(double)>& progress) {
  std::unique_ptr<Uploader> uploader;
  if (queue_.accelerator() != nullptr) {
    uint64_t largest = 0;
    for (const Job& job : jobs) {
      const Entry& entry = weights[job.weight].entry;
      largest = std::max(largest, bytes_before(entry, job.end) - bytes_before(entry, job.begin));
    }
    HR_ASSIGN_OR_RETURN(uploader, Uploader::make(*queue_.accelerator(), queue_.threads(), largest));
  }
  const auto run_job = [&](const Job& job, int member, Scratch& scratch) -> Status {
    const Planned& weight = weights[job.weight];
    const uint64_t first = bytes_before(weight.entry, job.begin);
    std::byte* const to = slab + weight.offset + first;
    if (uploader == nullptr) return pack(weight.entry, job.begin, job.end, to, scratch);
    HR_ASSIGN_OR_RETURN(std::byte* const piece, uploader->piece(member));
    HR_RETURN_IF_ERROR(pack(weight.entry, job.begin, job.end, piece, scratch));
    return uploader->send(member, to, bytes_before(weight.entry, job.end) - first);
  };
  std::mutex mutex;  // guards first_error, done and progress
  Status first_error;
  size_t done = 0;
  std::atomic<bool> failed{false};
  queue_.run([&](Team& team) {
    Scratch scratch;
    for (int64_t i = team.claim(int64_t(jobs.size())); i >= 0 && !failed; i = team.claim(int64_t(jobs.size()))) {
      Status status = run_job(jobs[i], team.rank(), scratch);
      const std::lock_guard lock(mutex);
      if (!status.ok()) {
        if (first_error.ok()) first_error = std::move(status);
        failed = true;
      }
      ++done;
      if (progress) progress(double(done) / double(jobs.size()));
    }
  });
  if (uploader != nullptr) {
    Status sent = uploader->finish();
    if (first_error.ok()) first_error = std::move(sent);
  }
  return first_error;
}

Status WeightStore::prepare(const std::vector<WeightRequest>& requests, const std::function<void(double)>& progress) {
  const int64_t bytes_at_once = queue_.accelerator() != nullptr ? kBytesAtOnceToDevice : kBytesAtOnce;
  std::vector<Planned> weights;
  std::vector<Job> jobs;
  uint64_t total = 0;
  for (const WeightRequest& request : requests) {
    std::string name = key(request.recipe, request.layout);
    if (entries_.count(name) != 0) continue;
    if (std::any_of(weights.begin(), weights.end(), [&](const Planned& weight) { return weight.key == name; })) continue;
    HR_ASSIGN_OR_RETURN(Entry entry, plan(request));
    const WeightView& view = entry.view;
    const int64_t rows_at_once =
        align_up<int64_t>(bytes_at_once / std::max<int64_t>(1, row_bytes(view.format, view.columns)) + 1, kTileRows);
    for (int64_t row = 0; row < view.rows; row += rows_at_once) {
      jobs.push_back({weights.size(), row, std::min(view.rows, row + rows_at_once)});
    }
    const uint64_t bytes = bytes_before(entry, view.rows);
    weights.push_back({std::move(name), std::move(entry), total});
    total += align_up(bytes, kWeightAlignment);
  }
  if (weights.empty()) return Status();
  HR_ASSIGN_OR_RETURN(Buffer slab, Buffer::allocate(queue_.ledger(), Account::weights, model_, total));
  HR_RETURN_IF_ERROR(pack_all(weights, jobs, slab.data(), progress));

  for (Planned& weight : weights) {
    // Pages on the borders of jobs have stayed.
    for (const Part& part : weight.entry.parts) source_.drop(*part.tensor, part.begin, part.end);
    WeightView& view = weight.entry.view;
    view.data = slab.data() + weight.offset;
    if (weight.entry.is_vector) std::swap(view.rows, view.columns);
    entries_.emplace(std::move(weight.key), std::move(weight.entry));
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
