#pragma once
// What an operator is, apart from how it is computed. Each op has one header (attributes and `extern const Op x;`) and
// one source (inference, cost, effects, float64 reference, tolerance, cases); kernels stand in kernels/ and are found
// through op_table.h. From this declaration the drivers in testing/ make every op's tests, bench rows and support
// line. Everything here is immutable after static initialization and thread-safe.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/kv_view.h"
#include "core/shape.h"
#include "core/team.h"
#include "core/tensor.h"
#include "quant/format.h"
#include "quant/layout.h"

namespace headrace {

// ---- types of a node's inputs and outputs ----------------------------------------------------------------------

struct ValueType {
  enum class Kind : uint8_t {
    tensor,  // activations and metadata: dtype, shape
    weight,  // immutable, from the WeightStore: format, shape [out_features, in_features] or [features]
    kv,      // one layer's part of a KV pool: kv
  };
  Kind kind = Kind::tensor;
  DType dtype = DType::f32;
  Format format{};
  Shape shape;
  KvSpec kv;

  static ValueType tensor(DType dtype, Shape shape) { return {Kind::tensor, dtype, Format{}, shape, {}}; }
  static ValueType weight(Format format, Shape shape) { return {Kind::weight, DType::f32, format, shape, {}}; }
  static ValueType kv_layer(const KvSpec& spec) { return {Kind::kv, spec.dtype, Format{}, {}, spec}; }
  bool operator==(const ValueType&) const = default;
};

// ---- attributes ------------------------------------------------------------------------------------------------

// An immutable attribute struct of any op. T needs operator== and `std::string describe() const` (what `inspect --plan`
// prints, e.g. "eps=1e-5").
class Attrs {
 public:
  Attrs() = default;
  template <class T>
    requires(!std::is_same_v<std::decay_t<T>, Attrs>)
  Attrs(T value) : holder_(std::make_shared<const HolderOf<T>>(std::move(value))) {}  // NOLINT: implicit by design

  template <class T>
  const T& as() const {
    CHECK(holder_ != nullptr && holder_->type() == typeid(T));
    return static_cast<const HolderOf<T>&>(*holder_).value;
  }
  bool operator==(const Attrs& other) const {
    if (holder_ == nullptr || other.holder_ == nullptr) return holder_ == other.holder_;
    return holder_->equals(*other.holder_);
  }
  std::string describe() const { return holder_ == nullptr ? std::string() : holder_->describe(); }

 private:
  struct Holder {
    virtual ~Holder() = default;
    virtual const std::type_info& type() const = 0;
    virtual bool equals(const Holder& other) const = 0;
    virtual std::string describe() const = 0;
  };
  template <class T>
  struct HolderOf final : Holder {
    explicit HolderOf(T v) : value(std::move(v)) {}
    const std::type_info& type() const override { return typeid(T); }
    bool equals(const Holder& other) const override {
      return other.type() == typeid(T) && static_cast<const HolderOf&>(other).value == value;
    }
    std::string describe() const override { return value.describe(); }
    T value;
  };
  std::shared_ptr<const Holder> holder_;
};

// ---- kernels ---------------------------------------------------------------------------------------------------

// A weight as its kernel's layout stores it. `data` is shared and immutable.
struct WeightView {
  const std::byte* data = nullptr;
  Format format{};
  WeightLayout layout{};
  int64_t rows = 0;     // out_features
  int64_t columns = 0;  // in_features; for a vector rows is 1 and columns its length
};

// One input or output of a running node; the member that the value's kind names is set.
struct Arg {
  TensorView tensor;
  WeightView weight;
  KvView kv;
};

// What a kernel keeps for one node at fixed sizes from run to run: descriptors, packed constants. Made by Kernel::prepare; a run reads it.
class KernelState {
 public:
  virtual ~KernelState() = default;
  // Whether a run reads the bytes of input `input`, where that is a constant: not those that it has packed.
  virtual bool reads(int input) const { return input >= 0; }
};

struct NodeArgs {
  std::span<const Arg> inputs;
  std::span<const Arg> outputs;
  const Attrs& attrs;
  std::byte* scratch = nullptr;        // scratch_bytes() long, 64-byte aligned, shared by the team
  const KernelState* state = nullptr;  // of kernels that prepare
  int32_t node = -1;                   // whose error it is
};

// What only the data shows: an index outside its axis, an operator on the host that fails. A kernel that reports goes on without
// touching memory that is not its own; the step's results are then void. The first report is kept. Thread-safe.
class StepErrors {
 public:
  void out_of_range(int32_t node, int64_t got, int64_t low, int64_t high);  // want low <= got < high
  void fail(int32_t node, Status status);
  // The first error, or ok, and forgets it.
  Status take(int32_t* node);

 private:
  std::mutex mutex_;
  Status first_;      // guarded by mutex_
  int32_t node_ = -1;
};

// What a kernel may know about the step beyond its arguments: nothing that changes results.
struct StepContext {
  uint64_t step = 0;
  void* stream = nullptr;        // where a device kernel launches (cudaStream_t); null on the CPU
  StepErrors* errors = nullptr;  // null where no node of the program can fail
};

// A node's types with sizes: what cost() and scratch_bytes() look at.
struct NodeSizes {
  std::span<const ValueType> inputs;
  std::span<const ValueType> outputs;
  const Attrs& attrs;
  const Bindings& bindings;
};

// Packed forms of constants, kept by whoever runs several programs over the same constants (one plan for each input shape), so that a
// constant is packed once. Thread-safe.
class PackedConstants {
 public:
  virtual ~PackedConstants() = default;
  // The bytes kept for (constant, form), made by `pack` at the first call: it fills `bytes` bytes, 64-byte aligned. `form` says all that
  // the packed bytes depend on, beside the bytes of `constant`: those of two plans may lie in different places. Errors: resource_exhausted.
  virtual Result<std::shared_ptr<const std::byte[]>> get(std::span<const std::byte> constant, std::string form, uint64_t bytes,
                                                         const std::function<void(std::byte*)>& pack) = 0;
};

// What prepare() sees of a node.
struct NodeSetup {
  NodeSizes sizes;
  std::span<const std::byte* const> constants;  // by input: the bytes of a constant, null for every other input
  int threads = 1;
  PackedConstants& packed;
  int overwritten = -1;  // the input of Kernel::overwrites, where output 0 lies in its place; -1: apart from all inputs
};

struct Op;

struct Kernel {
  const Op* op = nullptr;
  std::string_view name;                // "avx512_vnni"; unique within an op
  DeviceKind device = DeviceKind::cpu;
  Isa isa = Isa::generic;               // the least level that runs it (CPU)
  int priority = 0;                     // the highest supported one is taken
  bool row_invariant = true;            // a row's bits depend on that row's inputs alone: the driver proves it
  // Member m writes the rows of share(T) of each output and reads no other row of its tensors (the driver proves it); it claims
  // nothing. Such kernels follow each other without a barrier.
  bool by_rows = false;
  WeightLayout layout = WeightLayout::row_major;  // how it wants its matrices; vectors always come as dense_f32
  // Types it computes; null: all that infer() accepts.
  bool (*supports)(std::span<const ValueType> inputs, std::span<const ValueType> outputs, const Attrs& attrs) = nullptr;
  // Upper bound for the sizes given; null: none.
  size_t (*scratch_bytes)(const NodeSizes& sizes, int team_size) = nullptr;
  // What run() finds in args.state, for the sizes of a bucket; null: nothing. KernelState::reads says which constants run() reads.
  // Errors: resource_exhausted, internal.
  Result<std::shared_ptr<const KernelState>> (*prepare)(const NodeSetup& setup) = nullptr;
  // The input whose place output 0 may take where it is the last to read it, beside what the op allows to all kernels; -1: none. Null:
  // none. prepare() is told (NodeSetup::overwritten): a kernel that overwrites has a prepare().
  int (*overwrites)(const Attrs& attrs) = nullptr;
  // Run by the calling thread, with a team of one, while the team rests: libraries with threads of their own, operators on the host.
  bool outside_team = false;
  bool of_library = false;  // a library's, out of a plug-in: set when it is registered
  // Runs on every member of the team. Sizes come from the views: a row count of 0 is valid. No allocation, no errors.
  void (*run)(const StepContext& step, const NodeArgs& args, Team& team) = nullptr;

  WeightLayout layout_of(const ValueType& weight) const {
    return weight.shape.rank() == 1 ? WeightLayout::dense_f32 : layout;
  }
};

// ---- what the op is --------------------------------------------------------------------------------------------

struct Effects {
  bool reads_state = false;   // a kv pool or device state is read
  bool writes_state = false;  // a kv pool or device state is written: order is kept, never dead
  bool random = false;
  bool communicates = false;
  bool view = false;          // output 0 is a window of input 0: no kernel, no storage; see Op::view
  bool pure() const { return !writes_state && !random && !communicates; }
};

struct Cost {
  double flops = 0;  // multiply and add counted apart; integer operations too
  double bytes = 0;  // the fewest that memory must move: each input read once, each output written once
};

// A value on the host in double, for references. Integers are exact; weights are decoded to [rows, columns].
struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;
  std::vector<double> values;
};
struct HostKv {
  KvSpec spec;
  int64_t num_blocks = 0;
  std::vector<double> keys;    // [block][head][token in block][head_dim]
  std::vector<double> values;  // the same
};
struct HostValue {
  HostTensor tensor;
  std::shared_ptr<HostKv> kv;  // set for kv inputs; a reference that writes the pool changes it here
  // Set for tensor inputs of an op that writes state: a copy of `tensor` that the reference changes.
  std::shared_ptr<HostTensor> state;
};

// An input of a case: either filled from a seed or given.
struct CaseInput {
  ValueType::Kind kind = ValueType::Kind::tensor;
  DType dtype = DType::f32;
  Format format{};               // weights
  std::vector<int64_t> dims;
  KvSpec kv;                     // kv: dims = {num_blocks}
  double scale = 1.0;            // floats: normal with this standard deviation
  std::vector<double> values;    // when not empty: exactly these (any dtype)
  bool strided = false;          // rows are stored with a gap
};

struct OpCase {
  std::string name;
  Attrs attrs;
  std::vector<CaseInput> inputs;
  bool bench = false;  // a real shape that the bench measures
  // Names the phase a bench row belongs to: "prefill", "decode" or "".
  std::string phase;
};

// |got - want| <= absolute + relative * |want|, per element.
struct Tolerance {
  double absolute = 1e-5;
  double relative = 1e-5;
};

struct Op {
  std::string_view name;
  Effects effects;
  // Output types, or an error that names the input, what was wanted and what was got.
  Result<std::vector<ValueType>> (*infer)(std::span<const ValueType> inputs, const Attrs& attrs) = nullptr;
  Cost (*cost)(const NodeSizes& sizes) = nullptr;
  // Plain loops in double. Outputs come with dtype and dims set and values sized.
  void (*reference)(const Attrs& attrs, std::span<const HostValue> inputs, std::span<HostTensor> outputs) = nullptr;
  // For view ops: output 0's window into input 0.
  TensorView (*view)(const Attrs& attrs, const TensorView& input) = nullptr;
  // Pairs (output, input): the output may take the input's storage when nothing reads that input later.
  std::vector<std::pair<int, int>> in_place = {};
  // By the dtype of output 0.
  Tolerance (*tolerance)(std::span<const ValueType> inputs, const Attrs& attrs) = nullptr;
  std::vector<OpCase> (*cases)() = nullptr;
  // The inputs with which row `row` of output 0 is computed alone: it is then the last row. Empty: that row cannot stand
  // alone. Null: slice axis 0 of every tensor input as long as output 0.
  std::vector<HostValue> (*row_alone)(const Attrs& attrs, std::span<const HostValue> inputs, int64_t row) = nullptr;
};

}  // namespace headrace
