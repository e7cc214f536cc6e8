#include "testing/fake_accelerator.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/team.h"
#include "ops/op_table.h"

namespace headrace::testing {
namespace {

constexpr int kMaxKernels = 64;

FakeAcceleratorCounts g_counts;
FakeMatmulPlan g_plan;
const char* g_last_error = "the fake device is lost";
int g_calls_until_failure = 0;
std::map<void*, size_t> g_held;  // bytes by address
std::array<const Kernel*, kMaxKernels> g_cpu_kernels{};

// One launch with its own copy of the views.
struct Launch {
  const Kernel* kernel;
  StepContext step;
  std::vector<Arg> inputs, outputs;
  const Attrs* attrs;
  std::byte* scratch;

  void run() const {
    TeamState one(1);
    Team self(one, 0);
    kernel->run({.step = step.step}, NodeArgs{inputs, outputs, *attrs, scratch}, self);
    ++g_counts.launches;
  }
};
using Graph = std::vector<Launch>;
struct Stream {
  std::unique_ptr<Graph> recording;
};

template <int kIndex>
void run_on_fake(const StepContext& step, const NodeArgs& args, Team&) {
  auto* stream = static_cast<Stream*>(step.stream);
  CHECK(stream != nullptr && args.state == nullptr);
  Launch launch{g_cpu_kernels[kIndex], step, {args.inputs.begin(), args.inputs.end()}, {args.outputs.begin(), args.outputs.end()}, &args.attrs,
                args.scratch};
  if (stream->recording == nullptr) return launch.run();
  stream->recording->push_back(std::move(launch));
}

using Run = void (*)(const StepContext&, const NodeArgs&, Team&);
template <int... kIndex>
constexpr std::array<Run, kMaxKernels> runs_of(std::integer_sequence<int, kIndex...>) {
  return {run_on_fake<kIndex>...};
}
constexpr std::array<Run, kMaxKernels> kRuns = runs_of(std::make_integer_sequence<int, kMaxKernels>());

bool synchronized() { return g_calls_until_failure == 0 || --g_calls_until_failure > 0; }

int device_count() { return 1; }
bool allocate(int, size_t bytes, void** memory) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*memory == nullptr) return false;
  std::memset(*memory, 0xFF, bytes);  // NaN
  g_held[*memory] = bytes;
  g_counts.allocated += static_cast<int64_t>(bytes);
  return true;
}
void release(int, void* memory) {
  g_counts.allocated -= static_cast<int64_t>(g_held.at(memory));
  g_held.erase(memory);
  std::free(memory);
}
bool allocate_shared(size_t bytes, void** memory) { return allocate(0, bytes, memory); }
void release_shared(void* memory) { release(0, memory); }
bool make_stream(int, void** stream) {
  *stream = new Stream();
  return true;
}
void drop_stream(int, void* stream) { delete static_cast<Stream*>(stream); }
bool copy(void* to, const void* from, size_t bytes, void*) {
  std::memcpy(to, from, bytes);
  return true;
}
bool synchronize(void*) { return synchronized(); }
const char* last_error() { return std::exchange(g_last_error, "the fake device is lost"); }
bool facts(int, DeviceFacts* facts) {
  *facts = {"fake", 1, 1 << 20, uint64_t{1} << 30, 1};
  return true;
}
bool free_memory(int, uint64_t* bytes) {
  *bytes = uint64_t{1} << 30;
  return true;
}
bool clear(void* memory, size_t bytes, void*) {
  std::memset(memory, 0, bytes);
  return true;
}
bool copy_on_device(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t rows, void*) {
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(static_cast<std::byte*>(to) + row * to_pitch, static_cast<const std::byte*>(from) + row * from_pitch, width);
  }
  return true;
}
bool make_event(int, void** event) {
  *event = new int();
  return true;
}
void drop_event(void* event) { delete static_cast<int*>(event); }
bool record_event(void*, void*) { return true; }
bool wait_event(void*) { return synchronized(); }
bool stream_wait_event(void*, void*) { return true; }
bool elapsed_ms(void*, void*, float* ms) {
  *ms = 0;
  return true;
}
bool begin_capture(void* stream) {
  static_cast<Stream*>(stream)->recording = std::make_unique<Graph>();
  return true;
}
bool end_capture(void* stream, void** graph) {
  *graph = static_cast<Stream*>(stream)->recording.release();
  ++g_counts.recorded;
  return true;
}
bool launch_graph(void* graph, void*) {
  for (const Launch& launch : *static_cast<Graph*>(graph)) launch.run();
  ++g_counts.replayed;
  return true;
}
void drop_graph(void* graph) { delete static_cast<Graph*>(graph); }

bool load_matmul_plan(int, const char* path) {
  g_plan.loaded.push_back(path);
  std::ifstream file(path);
  std::string line;
  if (std::getline(file, line) && line == "fake plan") return true;
  g_last_error = "this is no fake plan";
  return false;
}
bool save_matmul_plan(int, const char* path) {
  g_plan.saved.push_back(path);
  std::ofstream file(path);
  file << "fake plan\n" << std::flush;
  if (!file) g_last_error = "the fake plan was not written";
  return bool(file);
}
bool tune_matmul(int, const DeviceMatmul* product, DeviceTuning* tuning) {
  g_plan.tuned.push_back(*product);
  *tuning = {.us = 2, .first_guess_us = 3};
  return true;
}

// The generic kernels of language models' ops, under this device.
std::vector<Kernel> fake_kernels() {
  std::vector<Kernel> kernels;
  for (const std::string_view name :
       {"select_tokens", "embed", "rms_norm", "add_rms_norm", "matmul", "rope", "kv_write", "attention", "add", "mul", "unary", "gated_activation",
        "gather_rows", "sample", "logprobs", "layer_norm", "add_layer_norm", "attention_ragged", "pool_rows", "l2_normalize"}) {
    for (const Kernel* kernel : kernels_of(*find_op(name))) {
      if (kernel->device != DeviceKind::cpu || kernel->isa != Isa::generic || kernel->outside_team) continue;
      CHECK(kernels.size() < kMaxKernels);
      g_cpu_kernels[kernels.size()] = kernel;
      Kernel fake = *kernel;
      fake.name = "fake";
      fake.device = DeviceKind::cuda;
      fake.run = kRuns[kernels.size()];
      kernels.push_back(fake);
    }
  }
  return kernels;
}

}  // namespace

std::shared_ptr<runtime::DeviceQueue> fake_device_queue(int threads, uint64_t memory_limit) {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> made = fake_kernels();
    return made;
  }();
  static const bool registered = (register_kernels(kernels), true);
  CHECK(registered);
  static const DevicePlugin plugin{.abi = kDevicePluginAbi,
                                   .kind = DeviceKind::cuda,
                                   .name = "fake",
                                   .kernels = nullptr,
                                   .num_kernels = 0,
                                   .device_count = device_count,
                                   .allocate = allocate,
                                   .release = release,
                                   .allocate_shared = allocate_shared,
                                   .release_shared = release_shared,
                                   .make_stream = make_stream,
                                   .drop_stream = drop_stream,
                                   .copy_to_device = copy,
                                   .copy_to_host = copy,
                                   .synchronize = synchronize,
                                   .last_error = last_error,
                                   .facts = facts,
                                   .free_memory = free_memory,
                                   .clear = clear,
                                   .copy_on_device = copy_on_device,
                                   .make_event = make_event,
                                   .drop_event = drop_event,
                                   .record_event = record_event,
                                   .wait_event = wait_event,
                                   .stream_wait_event = stream_wait_event,
                                   .elapsed_ms = elapsed_ms,
                                   .begin_capture = begin_capture,
                                   .end_capture = end_capture,
                                   .launch_graph = launch_graph,
                                   .drop_graph = drop_graph,
                                   .load_matmul_plan = load_matmul_plan,
                                   .save_matmul_plan = save_matmul_plan,
                                   .tune_matmul = tune_matmul};
  return std::make_shared<runtime::DeviceQueue>(std::make_shared<runtime::Accelerator>(plugin, 0), threads, memory_limit);
}

const FakeAcceleratorCounts& fake_device_counts() { return g_counts; }
FakeMatmulPlan& fake_matmul_plan() { return g_plan; }
void fail_fake_device_after(int count) { g_calls_until_failure = count; }

}  // namespace headrace::testing
