#pragma once
// One device of a plug-in (ops/device_plugin.h) as the runtime uses it: its memory, streams, events and recorded graphs as owned objects,
// its errors as Status. Thread-safe but for objects that are used by one thread at a time.

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/device_memory.h"
#include "ops/device_plugin.h"

namespace headrace::runtime {

class Accelerator final : public DeviceMemory {
 public:
  // Device `index` of the CUDA plug-in, with its plan of products where there is one (runtime/matmul_plan.h). Errors: unavailable
  // without a driver, a plug-in or that device.
  static Result<std::shared_ptr<Accelerator>> cuda(int index);
  // Of a plug-in whose kernels are registered already: for tests.
  Accelerator(const DevicePlugin& plugin, int index) : plugin_(plugin), index_(index) {}

  const DevicePlugin& plugin() const { return plugin_; }
  int index() const { return index_; }
  Result<DeviceFacts> facts() const;
  Result<uint64_t> free_memory() const;

  // The plan of its products. Errors: malformed for a file that is none, or that is not this card's or its library's.
  Status load_matmul_plan(const std::string& path) const;
  // `path` is replaced when the plan is whole; its folder is made. Errors: unavailable.
  Status save_matmul_plan(const std::string& path) const;
  // Puts the fastest algorithm of a product into the plan; takes up to a second. Errors: unavailable.
  Result<DeviceTuning> tune_matmul(const DeviceMatmul& product) const;

  Result<void*> allocate(uint64_t bytes) override;
  void release(void* memory) override { plugin_.release(index_, memory); }

  // What the plug-in says of its last error on this thread: internal.
  Status failed(const char* what) const;
  Status check(bool done, const char* what) const { return done ? Status() : failed(what); }

  // An object of the plug-in, dropped with its owner.
  struct Dropper {
    const Accelerator* accelerator = nullptr;
    void (*drop)(const Accelerator&, void*) = nullptr;
    void operator()(void* object) const { drop(*accelerator, object); }
  };
  using Handle = std::unique_ptr<void, Dropper>;
  Result<Handle> make_stream() const;
  Result<Handle> make_event() const;
  // What was launched since begin_capture on `stream`.
  Result<Handle> end_capture(void* stream) const;
  // Host memory that copies to and from the device run from without a stop.
  Result<Handle> make_pinned(uint64_t bytes) const;

 private:
  const DevicePlugin& plugin_;
  const int index_;
};

// Sends bytes that the host makes piece by piece: each member of a team fills one of its two pinned pieces while the other is on its way.
class Uploader {
 public:
  static Result<std::unique_ptr<Uploader>> make(const Accelerator& accelerator, int members, uint64_t piece_bytes);
  // A piece of `member` that may be written: waits until what it held has arrived.
  Result<std::byte*> piece(int member);
  // Sends the first `bytes` of that piece to `to`.
  Status send(int member, void* to, uint64_t bytes);
  // Waits for all.
  Status finish();

 private:
  explicit Uploader(const Accelerator& accelerator) : accelerator_(accelerator) {}
  struct Piece {
    Accelerator::Handle memory, arrived;
    bool on_its_way = false;
  };
  struct Member {
    Accelerator::Handle stream;
    Piece pieces[2];
    int next = 0;
  };
  const Accelerator& accelerator_;
  std::vector<Member> members_;
};

}  // namespace headrace::runtime
