#pragma once
// What the compiled graphs of one session share: the device's queue, one arena, packed constants, and the choices of the build.

#include <array>
#include <atomic>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "graph/passes.h"
#include "ops/op.h"
#include "ops/op_table.h"
#include "runtime/device_queue.h"
#include "runtime/program.h"

namespace headrace::onnx {

struct CompileOptions {
  std::set<std::string, std::less<>> skip_passes;  // names of graph/passes.def; "all" skips every one
  Isa isa = detect_isa();
  bool library_kernels = true;  // kernels of libraries (oneDNN) where they are there
  // A graph whose nodes would run by reference operators is refused: unsupported, with the node and the reason.
  bool strict = false;
};

// Constants of a session's plans, as they are and in the forms that kernels want: each once, as long as a plan uses it, whichever plan made
// it. They are told apart by a hash of 128 bits over their bytes. Charged to the ledger. Thread-safe.
class ConstantStore final : public PackedConstants {
 public:
  ConstantStore(MemoryLedger& ledger, std::string model) : ledger_(ledger), model_(std::move(model)) {}
  Result<std::shared_ptr<const std::byte[]>> get(std::span<const std::byte> constant, std::string form, uint64_t bytes,
                                                 const std::function<void(std::byte*)>& pack) override;
  // The bytes of an equal constant that is kept, or `bytes` themselves. `of_model`: every plan has them at this address, and they are not
  // read here. Errors: resource_exhausted.
  Result<std::shared_ptr<const std::byte[]>> keep(std::shared_ptr<const std::byte[]> bytes, uint64_t size, bool of_model);

 private:
  struct Key {
    std::array<uint64_t, 2> hash;
    uint64_t bytes;    // of the constant
    std::string form;  // "": as it is; "model": as it is, and the hash is its address
    auto operator<=>(const Key&) const = default;
  };
  // What is kept under a key. It is made under its own mutex, so that threads pack different constants at once.
  struct Entry {
    std::mutex mutex;
    std::weak_ptr<const std::byte[]> bytes;  // guarded by mutex
  };
  std::shared_ptr<Entry> entry_of(Key key);
  // The bytes under `key`, or those that `make` gives.
  Result<std::shared_ptr<const std::byte[]>> find_or_make(Key key, const std::function<Result<std::shared_ptr<const std::byte[]>>()>& make);

  MemoryLedger& ledger_;
  const std::string model_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<Key, std::shared_ptr<Entry>> entries_;
  size_t sweep_at_ = 0;  // how many entries there are when those of closed plans are looked for
};

// Nodes of plans that are kept, counted as long as this lives.
class PlanShare {
 public:
  PlanShare() = default;
  PlanShare(std::atomic<int64_t>& total, int64_t nodes) : total_(&total), nodes_(nodes) { total += nodes; }
  PlanShare(PlanShare&& other) noexcept { *this = std::move(other); }
  PlanShare& operator=(PlanShare&& other) noexcept {
    std::swap(total_, other.total_);
    std::swap(nodes_, other.nodes_);
    return *this;
  }
  ~PlanShare() {
    if (total_ != nullptr) *total_ -= nodes_;
  }

 private:
  std::atomic<int64_t>* total_ = nullptr;
  int64_t nodes_ = 0;
};

class SessionRuntime {
 public:
  SessionRuntime(std::shared_ptr<runtime::DeviceQueue> queue, std::string model, CompileOptions options);

  const CompileOptions& options() const { return options_; }
  KernelTarget target() const { return {DeviceKind::cpu, options_.isa, false, options_.library_kernels}; }
  runtime::DeviceQueue& queue() { return *queue_; }
  ConstantStore& constants() { return constants_; }
  const std::string& model() const { return model_; }
  LentThreads lent_threads() const { return lent_; }
  // Why no library's kernels are there; ok where they are, or are not wanted.
  const Status& library_status() const { return library_status_; }

  // A plan of `nodes` nodes, and what all plans of the session have.
  PlanShare count_plan(int64_t nodes) { return PlanShare(planned_nodes_, nodes); }
  int64_t planned_nodes() const { return planned_nodes_; }

  // Runs a program that has been prepared. Its outputs are read by `read` while nobody else uses the arena. `node_seconds` as
  // Program::run has it. Errors: resource_exhausted for the arena; what kernels report, with the node's name.
  Status run(runtime::Program& program, const std::vector<void*>& inputs, std::vector<double>* node_seconds,
             const std::function<void()>& read);
  int64_t arena_bytes() const;

  // Set while no run goes on: each run then adds what its programs' nodes took to their reports.
  bool time_nodes = false;

 private:
  const std::shared_ptr<runtime::DeviceQueue> queue_;
  const std::string model_;
  const CompileOptions options_;
  ConstantStore constants_;
  std::atomic<int64_t> planned_nodes_ = 0;
  LentThreads lent_ = nullptr;
  Status library_status_;
  mutable std::mutex mutex_;
  Buffer arena_;  // guarded by mutex_: as large as the largest plan that ran
};

}  // namespace headrace::onnx
