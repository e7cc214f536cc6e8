#include "testing/op_case_data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numbers>

#include "base/check.h"
#include "core/half.h"
#include "ops/device_plugin.h"

namespace headrace::testing {
namespace {

// ---- random numbers -----------------------------------------------------------------------------

// SplitMix64: the state is a counter, so every input has a stream of its own.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    const double angle = 2.0 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

uint64_t seed_of(std::string_view op, std::string_view name, size_t index) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const std::string_view text : {op, name}) {
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  }
  return hash + index;
}

// ---- dtypes -------------------------------------------------------------------------------------

int64_t count_of(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

void store_value(DType dtype, double value, std::byte* at) {
  const auto put = [&](auto stored) { std::memcpy(at, &stored, sizeof stored); };
  switch (dtype) {
    case DType::f32:
      return put(static_cast<float>(value));
    case DType::f16:
      return put(to_f16(static_cast<float>(value)));
    case DType::bf16:
      return put(to_bf16(static_cast<float>(value)));
    case DType::i8:
      return put(static_cast<int8_t>(value));
    case DType::u8:
      return put(static_cast<uint8_t>(value));
    case DType::boolean:
      return put(static_cast<uint8_t>(value != 0));
    case DType::i32:
      return put(static_cast<int32_t>(value));
    case DType::i64:
      return put(static_cast<int64_t>(value));
    case DType::f64:
      return put(value);
    default:
      CHECK(false);  // no kernel computes such numbers, and those that move them look at their size alone
  }
}

double load_value(DType dtype, const std::byte* at) {
  const auto get = [&]<class T>(T stored) {
    std::memcpy(&stored, at, sizeof stored);
    return stored;
  };
  switch (dtype) {
    case DType::f32:
      return get(float{});
    case DType::f16:
      return to_float(get(f16{}));
    case DType::bf16:
      return to_float(get(bf16{}));
    case DType::i8:
      return get(int8_t{});
    case DType::u8:
    case DType::boolean:
      return get(uint8_t{});
    case DType::i32:
      return get(int32_t{});
    case DType::i64:
      return static_cast<double>(get(int64_t{}));
    case DType::f64:
      return get(double{});
    default:
      CHECK(false);
  }
  return 0;
}

double rounded(DType dtype, double value) {
  std::byte stored[8];
  store_value(dtype, value, stored);
  return load_value(dtype, stored);
}

// ---- inputs -------------------------------------------------------------------------------------

HostTensor make_tensor(const CaseInput& input, Random random) {
  HostTensor tensor{input.dtype, input.dims, input.values};
  const int64_t count = count_of(input.dims);
  CHECK(input.values.empty() || static_cast<int64_t>(input.values.size()) == count);
  tensor.values.resize(count);
  for (double& value : tensor.values) {
    if (input.values.empty()) {
      const bool real = is_float(input.dtype) || input.dtype == DType::f64;
      value = real ? random.normal() * input.scale : std::floor(random.uniform() * input.scale);
    }
    value = rounded(input.dtype, value);
  }
  return tensor;
}

// Blocks of a format that nothing writes: random bytes, kept when they decode to numbers of about the wanted
// size.
void random_blocks(const FormatInfo& info, int64_t blocks, double scale, Random& random, std::byte* out) {
  std::vector<float> decoded(info.block_elements);
  for (int64_t block = 0; block < blocks; ++block) {
    std::byte* bytes = out + block * info.block_bytes;
    float peak = 0;
    do {
      for (int i = 0; i < info.block_bytes; ++i) bytes[i] = static_cast<std::byte>(random.bits());
      info.decode(bytes, info.block_elements, decoded.data());
      peak = 0;
      for (const float value : decoded)
        peak = std::isfinite(value) ? std::max(peak, std::fabs(value)) : INFINITY;
    } while (!(peak < 8 * scale && peak > 0.05 * scale));
  }
}

std::vector<std::byte> encode_weight(const CaseInput& input, int64_t rows, int64_t columns, Random random) {
  const FormatInfo& info = format_info(input.format);
  const int64_t blocks = columns / info.block_elements;
  std::vector<std::byte> bytes(static_cast<size_t>(rows * blocks * info.block_bytes));
  std::vector<float> row(columns);
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* to = bytes.data() + r * blocks * info.block_bytes;
    if (info.encode == nullptr) {
      random_blocks(info, blocks, input.scale, random, to);
      continue;
    }
    for (int64_t i = 0; i < columns; ++i) {
      row[i] = static_cast<float>(input.values.empty() ? random.normal() * input.scale
                                                       : input.values[r * columns + i]);
    }
    info.encode(row.data(), columns, to);
  }
  return bytes;
}

HostTensor decode_weight(const CaseInput& input, int64_t columns, const std::vector<std::byte>& bytes) {
  HostTensor tensor{DType::f32, input.dims, {}};
  const int64_t count = count_of(input.dims);
  std::vector<float> row(columns);
  const FormatInfo& info = format_info(input.format);
  tensor.values.reserve(count);
  for (int64_t r = 0; columns > 0 && r < count / columns; ++r) {
    info.decode(bytes.data() + r * (columns / info.block_elements) * info.block_bytes, columns, row.data());
    tensor.values.insert(tensor.values.end(), row.begin(), row.end());
  }
  return tensor;
}

// A vector as an i8 pool holds it: codes whose largest is 127, times a float32 scale. So the scale can be told from the values.
void round_to_codes(double* values, int64_t count) {
  double peak = 0;
  for (int64_t i = 0; i < count; ++i) peak = std::max(peak, std::fabs(values[i]));
  const auto scale = static_cast<double>(static_cast<float>(peak / 127));
  for (int64_t i = 0; i < count; ++i) values[i] = scale == 0 ? 0 : std::nearbyint(values[i] / scale) * scale;
}

// Block 0 is what padding writes: NaN there shows in every result that reads it.
std::shared_ptr<HostKv> make_kv(const CaseInput& input, Random random, bool filled) {
  auto kv = std::make_shared<HostKv>();
  kv->spec = input.kv;
  kv->num_blocks = input.dims.at(0);
  if (!filled) return kv;
  const int64_t per_block = int64_t{input.kv.heads} * kKvBlockTokens * input.kv.head_dim;
  for (std::vector<double>* part : {&kv->keys, &kv->values}) {
    part->resize(static_cast<size_t>(kv->num_blocks * per_block), std::numeric_limits<double>::quiet_NaN());
    for (size_t i = static_cast<size_t>(per_block); i < part->size(); ++i) {
      (*part)[i] = random.normal() * input.scale;
      if (input.kv.dtype != DType::i8) (*part)[i] = rounded(input.kv.dtype, (*part)[i]);
    }
    const int64_t dim = input.kv.head_dim;
    for (int64_t i = per_block; input.kv.dtype == DType::i8 && i < kv->num_blocks * per_block; i += dim) {
      round_to_codes(part->data() + i, dim);
    }
  }
  return kv;
}

Shape shape_of(const std::vector<int64_t>& dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  return shape;
}

ValueType type_of(const CaseInput& input) {
  switch (input.kind) {
    case ValueType::Kind::tensor:
      return ValueType::tensor(input.dtype, shape_of(input.dims));
    case ValueType::Kind::weight:
      return ValueType::weight(input.format, shape_of(input.dims));
    case ValueType::Kind::kv:
      return ValueType::kv_layer(input.kv);
  }
  return {};
}

}  // namespace

Result<CaseData> make_case_data(const Op& op, const OpCase& declared, bool host_values) {
  CaseData data{.op = &op, .declared = &declared};
  data.encoded.resize(declared.inputs.size());
  for (size_t i = 0; i < declared.inputs.size(); ++i) {
    const CaseInput& input = declared.inputs[i];
    const Random random(seed_of(op.name, declared.name, i));
    data.input_types.push_back(type_of(input));
    HostValue value;
    if (input.kind == ValueType::Kind::weight) {
      const int64_t columns = input.dims.back();
      const int64_t rows = input.dims.size() == 1 ? 1 : input.dims[0];
      data.encoded[i] = encode_weight(input, rows, columns, random);
      if (host_values) value.tensor = decode_weight(input, columns, data.encoded[i]);
    } else if (input.kind == ValueType::Kind::kv) {
      value.kv = make_kv(input, random, host_values);
    } else {
      value.tensor = make_tensor(input, random);
    }
    data.inputs.push_back(std::move(value));
  }
  HR_ASSIGN_OR_RETURN(data.output_types, op.infer(data.input_types, declared.attrs));
  return data;
}

Result<std::vector<HostTensor>> output_tensors(const CaseData& data, std::span<const HostValue> inputs) {
  std::vector<ValueType> types = data.input_types;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].kind == ValueType::Kind::tensor) types[i].shape = shape_of(inputs[i].tensor.dims);
  }
  HR_ASSIGN_OR_RETURN(const std::vector<ValueType> output_types, data.op->infer(types, data.declared->attrs));
  std::vector<HostTensor> outputs;
  for (const ValueType& type : output_types) {
    HostTensor tensor{type.dtype, {}, {}};
    for (const Dim& dim : type.shape) tensor.dims.push_back(dim.constant());
    tensor.values.resize(static_cast<size_t>(count_of(tensor.dims)));
    outputs.push_back(std::move(tensor));
  }
  return outputs;
}

// ---- memory -------------------------------------------------------------------------------------

namespace {
constexpr size_t kGuardBytes = 128;
constexpr int64_t kRowGap = 5;  // elements; keeps rows of floats off vector alignment
constexpr auto kGuard = std::byte{0xA5};
}  // namespace

struct KernelMemory::Block {
  std::string name;
  std::byte* data = nullptr;
  size_t bytes = 0;
  std::unique_ptr<std::byte, void (*)(std::byte*)> memory{nullptr, nullptr};
  std::vector<bool> owned;        // per byte: belongs to a tensor that the kernel may write
  std::vector<std::byte> before;  // what stood there
};

namespace {

// The plug-in has been loaded: its kernel is what the memory is for.
std::byte* allocate(DeviceKind device, size_t bytes) {
  if (device == DeviceKind::cpu) return new std::byte[bytes];
  void* memory = nullptr;
  CHECK((*load_cuda_plugin())->allocate_shared(bytes, &memory));
  return static_cast<std::byte*>(memory);
}

void release_shared(std::byte* memory) { (*load_cuda_plugin())->release_shared(memory); }
void release_device(std::byte* memory) { (*load_cuda_plugin())->release(0, memory); }

}  // namespace

KernelMemory::~KernelMemory() = default;

KernelMemory::Block& KernelMemory::add_block(std::string name, size_t bytes) {
  auto block = std::make_unique<Block>();
  block->name = std::move(name);
  block->bytes = bytes;
  const DeviceKind made_for = for_timing_ ? DeviceKind::cpu : device_;  // move_to_device() follows
  block->memory = {allocate(made_for, bytes + 2 * kGuardBytes + 64),
                   made_for == DeviceKind::cuda ? release_shared : [](std::byte* memory) { delete[] memory; }};
  const auto address = reinterpret_cast<uintptr_t>(block->memory.get()) + kGuardBytes;
  block->data = block->memory.get() + ((address + 63) / 64 * 64 - (address - kGuardBytes));
  std::memset(block->data - kGuardBytes, static_cast<int>(kGuard), bytes + 2 * kGuardBytes);
  if (!for_timing_) block->owned.assign(bytes + 2 * kGuardBytes, false);
  blocks_.push_back(std::move(block));
  return *blocks_.back();
}

namespace {

// Calls use(index, place) for each element: its number in order, and where it lies, in elements.
template <class Use>
void each_element(const TensorView& view, Use use) {
  if (view.rank == 0) return use(0, 0);
  const int64_t width = view.dims[view.rank - 1], rows = view.elements() / std::max<int64_t>(1, width);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t place = 0, rest = row;
    for (int axis = view.rank - 2; axis >= 0; --axis) {
      place += rest % view.dims[axis] * view.strides[axis];
      rest /= view.dims[axis];
    }
    for (int64_t i = 0; i < width; ++i) use(row * width + i, place + i);
  }
}

}  // namespace

Result<std::shared_ptr<const std::byte[]>> OwnPacked::get(std::span<const std::byte>, std::string form, uint64_t bytes,
                                                          const std::function<void(std::byte*)>& pack) {
  forms.push_back(std::move(form));
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
  pack(memory);
  return std::shared_ptr<const std::byte[]>(memory, [](const std::byte* p) { std::free(const_cast<std::byte*>(p)); });
}

TensorView KernelMemory::add_tensor(std::string name, const HostTensor& tensor, bool strided) {
  TensorView view;
  view.dtype = tensor.dtype;
  view.rank = static_cast<uint8_t>(tensor.dims.size());
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    view.dims[axis] = tensor.dims[axis];
    view.strides[axis] = stride;
    stride *= tensor.dims[axis];
    if (strided && axis == view.rank - 1 && view.rank >= 2) stride += kRowGap;
  }
  const auto size = static_cast<int64_t>(dtype_bytes(tensor.dtype));
  Block& block = add_block(std::move(name), static_cast<size_t>(stride * size));
  view.data = block.data;
  each_element(view, [&](int64_t index, int64_t place) {
    store_value(tensor.dtype, tensor.values[index], block.data + place * size);
    for (int64_t byte = 0; byte < size && !for_timing_; ++byte) block.owned[kGuardBytes + place * size + byte] = true;
  });
  return view;
}

namespace {

HostTensor read_tensor(const TensorView& view) {
  HostTensor tensor{view.dtype, {view.dims.begin(), view.dims.begin() + view.rank}, {}};
  const auto size = static_cast<int64_t>(dtype_bytes(view.dtype));
  each_element(view, [&](int64_t, int64_t place) {
    tensor.values.push_back(load_value(view.dtype, static_cast<const std::byte*>(view.data) + place * size));
  });
  return tensor;
}

HostTensor garbage(const HostTensor& like) {
  HostTensor tensor = like;
  const double value = is_float(like.dtype) || like.dtype == DType::f64 ? std::numeric_limits<double>::quiet_NaN() : 77;
  std::fill(tensor.values.begin(), tensor.values.end(), value);
  return tensor;
}

WeightLayout layout_of(const Kernel& kernel, const CaseInput& input) {
  return input.dims.size() == 1 ? WeightLayout::dense_f32 : kernel.layout;
}

void pack(const CaseInput& input, WeightLayout layout, int64_t rows, int64_t columns,
          const std::vector<std::byte>& encoded, std::byte* out) {
  const FormatInfo& info = format_info(input.format);
  const int64_t row_bytes = columns / info.block_elements * info.block_bytes;
  switch (layout) {
    case WeightLayout::row_major:
      std::memcpy(out, encoded.data(), encoded.size());
      return;
    case WeightLayout::dense_f32:
      if (!encoded.empty()) info.decode(encoded.data(), rows * columns, reinterpret_cast<float*>(out));
      return;
    case WeightLayout::tile16:
      for (int64_t tile = 0; tile * kTileRows < rows; ++tile) {
        const std::byte* sources[kTileRows] = {};
        for (int64_t r = 0; r < kTileRows && tile * kTileRows + r < rows; ++r) {
          sources[r] = encoded.data() + (tile * kTileRows + r) * row_bytes;
        }
        pack_tile16(input.format, columns, sources, out + tile * tile16_bytes(input.format, columns));
      }
  }
}

// One head's key or value of one token where a pool holds it.
struct KvVector {
  std::byte* first;
  int64_t step;      // bytes from one number to the next
  std::byte* scale;  // of an i8 pool
};

std::byte* block_of(const KvView& view, int64_t block) {
  return view.data + block / kKvRunBlocks * view.run_stride + block % kKvRunBlocks * view.block_stride;
}

// use(index of the vector's first number in a HostKv's arrays, key, value), for each token and head of a pool. A CPU's keys are the lanes
// of a register, a device's lie token by token.
template <class Use>
void each_vector(const KvView& view, DeviceKind device, Use use) {
  const auto size = static_cast<int64_t>(dtype_bytes(view.spec.dtype));
  const int64_t dim = view.spec.head_dim;
  const int64_t numbers = (kKvBlockTokens * dim * size + 63) / 64 * 64;  // bytes of a head's keys, and of its values
  const int64_t scales = view.spec.dtype == DType::i8 ? kKvBlockTokens * 4 : 0;
  int64_t index = 0;
  for (int64_t block = 0; block < view.num_blocks; ++block) {
    std::byte* keys = block_of(view, block);
    for (int64_t head = 0; head < view.spec.heads; ++head, keys += 2 * (numbers + scales)) {
      std::byte* values = keys + numbers + scales;
      for (int64_t place = 0; place < kKvBlockTokens; ++place, index += dim) {
        const KvVector key = device == DeviceKind::cpu ? KvVector{keys + place * size, kKvBlockTokens * size, keys + numbers + place * 4}
                                                       : KvVector{keys + place * dim * size, size, keys + numbers + place * 4};
        use(index, key, KvVector{values + place * dim * size, size, values + numbers + place * 4});
      }
    }
  }
}

// An i8 vector that is not a number: no code may count.
constexpr double kCodeOfNan = 85;

void store_vector(const KvSpec& spec, const double* values, const KvVector& to) {
  if (spec.dtype != DType::i8) {
    for (int d = 0; d < spec.head_dim; ++d) store_value(spec.dtype, values[d], to.first + d * to.step);
    return;
  }
  double peak = 0;
  for (int d = 0; d < spec.head_dim; ++d) peak = std::isnan(values[d]) ? values[d] : std::max(std::fabs(values[d]), peak);
  const double scale = peak / 127;
  store_value(DType::f32, scale, to.scale);
  for (int d = 0; d < spec.head_dim; ++d) {
    const double code = std::isnan(scale) ? kCodeOfNan : scale == 0 ? 0 : std::nearbyint(values[d] / scale);
    store_value(DType::i8, code, to.first + d * to.step);
  }
}

void load_vector(const KvSpec& spec, const KvVector& from, std::vector<double>& values) {
  const double scale = spec.dtype == DType::i8 ? load_value(DType::f32, from.scale) : 1.0;
  for (int d = 0; d < spec.head_dim; ++d) values.push_back(load_value(spec.dtype, from.first + d * from.step) * scale);
}

// Random numbers for timing: a few blocks, over and over.
void fill_pool(const KvView& view, DeviceKind device, Random random) {
  constexpr int64_t kBlocks = 8;
  KvView few = view;
  few.num_blocks = std::min(kBlocks, view.num_blocks);
  std::vector<double> numbers(static_cast<size_t>(view.spec.head_dim));
  each_vector(few, device, [&](int64_t, const KvVector& key, const KvVector& value) {
    for (const KvVector& vector : {key, value}) {
      for (double& number : numbers) number = random.normal();
      store_vector(view.spec, numbers.data(), vector);
    }
  });
  for (int64_t block = kBlocks; block < view.num_blocks; ++block) {
    std::memcpy(block_of(view, block), block_of(view, block % kBlocks), static_cast<size_t>(view.spec.block_bytes()));
  }
}

}  // namespace

void KernelMemory::add_input(const CaseData& data, const Kernel& kernel, const HostValue& value, size_t index,
                             bool overwritten) {
  const CaseInput& declared = data.declared->inputs[index];
  const std::string name = fmt::format("input {}", index);
  Arg arg;
  bool writable = overwritten || data.op->effects.writes_state;
  if (declared.kind == ValueType::Kind::weight) {
    const int64_t columns = declared.dims.back();
    const int64_t rows = declared.dims.size() == 1 ? 1 : declared.dims[0];
    const WeightLayout layout = layout_of(kernel, declared);
    Block& block = add_block(name, layout_bytes(layout, declared.format, rows, columns));
    pack(declared, layout, rows, columns, data.encoded[index], block.data);
    arg.weight = {block.data, declared.format, layout, rows, columns};
    writable = false;
  } else if (declared.kind == ValueType::Kind::kv) {
    const HostKv& kv = *value.kv;
    const int64_t stride = (kv.spec.block_bytes() + 63) / 64 * 64 + (for_timing_ ? 0 : 64);
    const int64_t runs = (kv.num_blocks + kKvRunBlocks - 1) / kKvRunBlocks, run_stride = kKvRunBlocks * stride + (for_timing_ ? 0 : 128);
    Block& block = add_block(name, static_cast<size_t>(runs * run_stride));
    arg.kv = {kv.spec, block.data, stride, run_stride, kv.num_blocks};
    if (kv.keys.empty()) {
      CHECK(for_timing_);
      fill_pool(arg.kv, device_, Random(index));
      inputs_.push_back(arg);
      return;
    }
    const auto own = [&](const std::byte* first, size_t size) {
      if (for_timing_) return;
      std::fill_n(block.owned.begin() + static_cast<int64_t>(kGuardBytes) + (first - block.data), size, true);
    };
    each_vector(arg.kv, device_, [&](int64_t i, const KvVector& key, const KvVector& val) {
      store_vector(kv.spec, &kv.keys[i], key);
      store_vector(kv.spec, &kv.values[i], val);
      for (const KvVector& vector : {key, val}) {
        for (int d = 0; d < kv.spec.head_dim; ++d) own(vector.first + d * vector.step, dtype_bytes(kv.spec.dtype));
        if (kv.spec.dtype == DType::i8) own(vector.scale, sizeof(float));
      }
    });
  } else {
    arg.tensor = add_tensor(name, value.tensor, declared.strided);
  }
  Block& block = *blocks_.back();
  if (!writable) block.owned.assign(block.owned.size(), false);
  inputs_.push_back(arg);
}

KernelMemory::KernelMemory(const CaseData& data, const Kernel& kernel, std::span<const HostValue> inputs,
                           std::span<const HostTensor> outputs, const Options& options)
    : attrs_(data.declared->attrs), device_(kernel.device), for_timing_(options.for_timing) {
  std::vector<ValueType> input_types = data.input_types;
  std::vector<ValueType> output_types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    add_input(data, kernel, inputs[i], i, static_cast<int>(i) == options.in_place_input);
    if (input_types[i].kind == ValueType::Kind::tensor)
      input_types[i].shape = shape_of(inputs[i].tensor.dims);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    Arg arg;
    if (static_cast<int>(i) == options.in_place_output) {
      arg.tensor = inputs_[options.in_place_input].tensor;
    } else {
      arg.tensor = add_tensor(fmt::format("output {}", i), garbage(outputs[i]), options.strided_outputs);
    }
    outputs_.push_back(arg);
    output_types.push_back(ValueType::tensor(outputs[i].dtype, shape_of(outputs[i].dims)));
  }
  const Bindings bindings;
  const NodeSizes sizes{input_types, output_types, attrs_, bindings};
  if (kernel.scratch_bytes != nullptr) {
    const size_t scratch_bytes = kernel.scratch_bytes(sizes, options.team_size);
    Block& scratch = add_block("scratch", scratch_bytes);
    if (!for_timing_) std::fill_n(scratch.owned.begin() + kGuardBytes, scratch_bytes, true);
    scratch_ = scratch.data;
  }
  if (kernel.prepare != nullptr) prepare(kernel, sizes, options);
  if (for_timing_) {
    if (device_ == DeviceKind::cuda) move_to_device();
    return;
  }
  for (const auto& block : blocks_) {
    block->before.assign(block->data - kGuardBytes, block->data + block->bytes + kGuardBytes);
  }
}

void KernelMemory::prepare(const Kernel& kernel, const NodeSizes& sizes, const Options& options) {
  std::vector<const std::byte*> constants(inputs_.size());
  for (size_t i = 1; i < inputs_.size() && options.constants; ++i) {
    if (sizes.inputs[i].kind == ValueType::Kind::tensor) constants[i] = static_cast<const std::byte*>(inputs_[i].tensor.data);
  }
  OwnPacked packed;
  Result<std::shared_ptr<const KernelState>> state = kernel.prepare({sizes, constants, options.team_size, packed});
  CHECK(state.has_value());
  state_ = *std::move(state);
}

// Every block's bytes go to memory of the device; whatever points into a block follows.
void KernelMemory::move_to_device() {
  const DevicePlugin& plugin = **load_cuda_plugin();
  for (const auto& block : blocks_) {
    void* memory = nullptr;
    CHECK(plugin.allocate(0, std::max<size_t>(block->bytes, 1), &memory));
    CHECK(plugin.copy_to_device(memory, block->data, block->bytes, nullptr) && plugin.synchronize(nullptr));
    const std::byte *first = block->data, *last = first + block->bytes;
    auto* const to = static_cast<std::byte*>(memory);
    const auto follow = [&](auto*& pointer) {
      const auto* place = reinterpret_cast<const std::byte*>(pointer);
      if (place >= first && place <= last && place != nullptr) pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(to + (place - first));
    };
    for (std::vector<Arg>* args : {&inputs_, &outputs_}) {
      for (Arg& arg : *args) {
        follow(arg.tensor.data);
        follow(arg.weight.data);
        follow(arg.kv.data);
      }
    }
    follow(scratch_);
    block->memory = {to, release_device};
    block->data = to;
  }
}

size_t KernelMemory::bytes() const {
  size_t total = 0;
  for (const auto& block : blocks_) total += block->bytes;
  return total;
}

HostTensor KernelMemory::output(int index) const {
  return read_tensor(outputs_[index].tensor);
}
HostTensor KernelMemory::input_tensor(int index) const {
  return read_tensor(inputs_[index].tensor);
}

HostKv KernelMemory::input_kv(int index) const {
  const KvView& view = inputs_[index].kv;
  HostKv kv{view.spec, view.num_blocks, {}, {}};
  each_vector(view, device_, [&](int64_t, const KvVector& key, const KvVector& value) {
    load_vector(view.spec, key, kv.keys);
    load_vector(view.spec, value, kv.values);
  });
  return kv;
}

std::string KernelMemory::damage() const {
  for (const auto& block : blocks_) {
    const std::byte* now = block->data - kGuardBytes;
    for (size_t i = 0; i < block->before.size(); ++i) {
      if (block->owned[i] || now[i] == block->before[i]) continue;
      return fmt::format("{}: byte {} of {} was written, which is not the kernel's to write", block->name,
                         static_cast<int64_t>(i) - static_cast<int64_t>(kGuardBytes), block->bytes);
    }
  }
  return {};
}

}  // namespace headrace::testing
