// cuBLASLt behind dlopen: its header gives the types, nothing is linked. Seen in the library's column-major way the product is
// y^T[N, T] = op(weight^T[K, N]) * x^T[K, T], "TN", which is what its kernels like best.
#include "kernels/cuda/cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace headrace::cuda {
namespace {

constexpr int kMaxDevices = 64;
constexpr int kNumGuesses = 16;
constexpr uint32_t kFullAlignment = 16;
constexpr size_t kMaxPlanLine = 512;
constexpr size_t kMaxPlanLines = 65536;

// ---- the library -----------------------------------------------------------------------------------------------

struct Library {
  decltype(&cublasLtGetVersion) GetVersion = nullptr;
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) MatmulAlgoCheck = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy = nullptr;
  std::string missing;  // why it cannot be used
};

// Where the loader looks, the toolkit's folder, and where the wheels of an active environment keep it.
std::vector<std::string> library_places() {
  std::vector<std::string> places = {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"};
  std::vector<std::string> roots = {"/usr/local/lib/python3*/dist-packages", "/usr/lib/python3/dist-packages"};
  if (const char* environment = std::getenv("VIRTUAL_ENV")) {
    roots.insert(roots.begin(), std::string(environment) + "/lib/python3*/site-packages");
  }
  for (const std::string& root : roots) {
    glob_t found{};
    if (glob((root + "/nvidia/*/lib/libcublasLt.so.13").c_str(), 0, nullptr, &found) == 0) {
      places.insert(places.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    globfree(&found);
  }
  places.push_back("libcublasLt.so");
  return places;
}

Library open_library() {
  Library library;
  void* handle = nullptr;
  for (const std::string& place : library_places()) {
    handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    if (library.missing.empty()) library.missing = dlerror();
  }
  if (handle == nullptr) return library;
  library.missing.clear();
  const auto look_up = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) library.missing = std::string("cuBLASLt has no ") + name;
  };
  look_up("cublasLtGetVersion", library.GetVersion);
  look_up("cublasLtCreate", library.Create);
  look_up("cublasLtMatmul", library.Matmul);
  look_up("cublasLtMatmulAlgoGetHeuristic", library.MatmulAlgoGetHeuristic);
  look_up("cublasLtMatmulAlgoCheck", library.MatmulAlgoCheck);
  look_up("cublasLtMatmulDescCreate", library.MatmulDescCreate);
  look_up("cublasLtMatmulDescSetAttribute", library.MatmulDescSetAttribute);
  look_up("cublasLtMatmulDescDestroy", library.MatmulDescDestroy);
  look_up("cublasLtMatrixLayoutCreate", library.MatrixLayoutCreate);
  look_up("cublasLtMatrixLayoutSetAttribute", library.MatrixLayoutSetAttribute);
  look_up("cublasLtMatrixLayoutDestroy", library.MatrixLayoutDestroy);
  look_up("cublasLtMatmulPreferenceCreate", library.MatmulPreferenceCreate);
  look_up("cublasLtMatmulPreferenceSetAttribute", library.MatmulPreferenceSetAttribute);
  look_up("cublasLtMatmulPreferenceDestroy", library.MatmulPreferenceDestroy);
  if (!library.missing.empty()) return library;
  const size_t version = library.GetVersion();
  if (version / 10000 != CUBLAS_VER_MAJOR) {
    library.missing = "cuBLASLt is of version " + std::to_string(version) + ", want " + std::to_string(CUBLAS_VER_MAJOR);
  }
  return library;
}

const Library& library() {
  static const Library library = open_library();
  return library;
}

// ---- one product -----------------------------------------------------------------------------------------------

size_t workspace_bytes(const MatmulShape& shape) { return matmul_workspace_bytes(shape.n, shape.tokens); }

cudaDataType data_type(DType dtype) { return dtype == DType::f32 ? CUDA_R_32F : CUDA_R_16BF; }

// The largest power of two, up to what kernels ask for, that divides every address of a matrix's rows.
uint32_t row_alignment(const void* data, int64_t stride, DType dtype) {
  const uint64_t bits = reinterpret_cast<uint64_t>(data) | uint64_t(stride) * dtype_bytes(dtype) | kFullAlignment;
  return uint32_t(bits & (~bits + 1));
}

// What an algorithm is kept under: the shape at its bucket, the device and how far rows are aligned.
struct Key {
  MatmulShape shape;
  int device = 0;
  uint32_t x_alignment = kFullAlignment, y_alignment = kFullAlignment;
  auto operator<=>(const Key&) const = default;
};

// The library's descriptors of a product, owned.
class Product {
 public:
  Product() = default;
  Product(Product&& other) noexcept { swap(other); }
  Product& operator=(Product&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Product() {
    if (operation != nullptr) library().MatmulDescDestroy(operation);
    for (const cublasLtMatrixLayout_t layout : {weight, x, y}) {
      if (layout != nullptr) library().MatrixLayoutDestroy(layout);
    }
  }

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

 private:
  void swap(Product& other) {
    std::swap(operation, other.operation);
    std::swap(weight, other.weight);
    std::swap(x, other.x);
    std::swap(y, other.y);
    std::swap(algorithm, other.algorithm);
  }
};

using Plan = std::map<MatmulShape, MatmulAlgorithm>;

struct State {
  std::mutex mutex;  // guards all below
  cublasLtHandle_t handles[kMaxDevices] = {};
  std::map<Key, Product> products;
  Plan plans[kMaxDevices];
  std::string failure;

  void forget_products(int device) {
    std::erase_if(products, [&](const auto& kept) { return kept.first.device == device; });
  }
};
State& state() {
  static State* const state = new State;  // the driver may be gone before statics end
  return *state;
}

// The first bad status of a sequence of calls.
class Calls {
 public:
  void operator()(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS || !failure_.empty()) return;
    failure_ = std::string("cuBLASLt: ") + what + ": status " + std::to_string(int(status));
    unsupported_ = status == CUBLAS_STATUS_NOT_SUPPORTED;
  }
  bool unsupported() const { return unsupported_; }  // the first bad status said so
  bool ok() const { return failure_.empty(); }
  const std::string& failure() const { return failure_; }

 private:
  std::string failure_;
  bool unsupported_ = false;
};

cublasLtHandle_t handle_of(int device, Calls& calls) {
  CHECK(device >= 0 && device < kMaxDevices);
  cublasLtHandle_t& handle = state().handles[device];
  if (handle == nullptr) calls(library().Create(&handle), "create");
  return handle;
}

Product make_product(const MatmulShape& shape, Calls& calls) {
  const Library& lt = library();
  Product product;
  calls(lt.MatmulDescCreate(&product.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "operation");
  if (!calls.ok()) return product;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    calls(lt.MatmulDescSetAttribute(product.operation, attribute, &value, sizeof value), "attribute of the operation");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(CUBLAS_OP_T));
  if (shape.bias) set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(CUBLASLT_EPILOGUE_BIAS));
  calls(lt.MatrixLayoutCreate(&product.weight, data_type(shape.dtype), shape.k, shape.n, shape.k), "weight");
  calls(lt.MatrixLayoutCreate(&product.x, data_type(shape.dtype), shape.k, shape.tokens, shape.k), "x");
  calls(lt.MatrixLayoutCreate(&product.y, data_type(shape.out), shape.n, shape.tokens, shape.n), "y");
  return product;
}

// Tells the descriptors this call's tokens, strides and bias.
void set_operands(const Product& product, int64_t tokens, const MatmulOperands& operands, Calls& calls) {
  const Library& lt = library();
  const auto set = [&](cublasLtMatrixLayout_t layout, uint64_t count, int64_t stride) {
    calls(lt.MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &count, sizeof count), "columns");
    calls(lt.MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD, &stride, sizeof stride), "stride");
  };
  set(product.x, uint64_t(tokens), operands.x_stride);
  set(product.y, uint64_t(tokens), operands.y_stride);
  if (operands.bias != nullptr) {
    calls(lt.MatmulDescSetAttribute(product.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operands.bias, sizeof operands.bias), "bias");
  }
}

// The library's guesses for what the descriptors say, best first.
std::vector<cublasLtMatmulAlgo_t> guesses(cublasLtHandle_t handle, const Product& product, const Key& key, int count, Calls& calls) {
  const Library& lt = library();
  cublasLtMatmulPreference_t preference = nullptr;
  calls(lt.MatmulPreferenceCreate(&preference), "preference");
  if (!calls.ok()) return {};
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    calls(lt.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "attribute of the preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_bytes(key.shape)});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, row_alignment(nullptr, key.shape.k, key.shape.dtype));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.x_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.y_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.y_alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
  int found = 0;
  if (calls.ok()) {
    calls(lt.MatmulAlgoGetHeuristic(handle, product.operation, product.weight, product.x, product.y, product.y, preference, count,
                                    results.data(), &found),
          "no algorithm for a product");
  }
  lt.MatmulPreferenceDestroy(preference);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    if (results[size_t(i)].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(results[size_t(i)].algo);
  }
  if (calls.ok() && algorithms.empty()) calls(CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm for a product");
  return algorithms;
}

cublasStatus_t launch_product(cublasLtHandle_t handle, const Product& product, const cublasLtMatmulAlgo_t& algorithm,
                              const MatmulOperands& operands, size_t workspace, cudaStream_t stream) {
  const float one = 1.0f, zero = 0.0f;
  return library().Matmul(handle, product.operation, &one, operands.weight, product.weight, operands.x, product.x, &zero, operands.y,
                          product.y, operands.y, product.y, &algorithm, operands.workspace, workspace, stream);
}

// The device's plan's algorithm for the product: of its bucket or the next larger one. False where the plan has none, or one that the
// library does not take for these operands.
bool planned_algorithm(cublasLtHandle_t handle, const Key& key, Product& product) {
  const Plan& plan = state().plans[key.device];
  const auto planned = plan.lower_bound(key.shape);  // tokens come last in the order of shapes
  if (planned == plan.end()) return false;
  MatmulShape same_tokens = planned->first;
  same_tokens.tokens = key.shape.tokens;
  if (same_tokens != key.shape) return false;
  static_assert(sizeof product.algorithm == sizeof planned->second);
  std::memcpy(&product.algorithm, planned->second.data(), sizeof product.algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  return library().MatmulAlgoCheck(handle, product.operation, product.weight, product.x, product.y, product.y, &product.algorithm,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= workspace_bytes(key.shape);
}

// The kept product of `key`, or a new one with the plan's algorithm or the library's first guess. Null after an error.
const Product* find_product(cublasLtHandle_t handle, const Key& key, const MatmulOperands& operands, Calls& calls) {
  std::map<Key, Product>& products = state().products;
  if (const auto kept = products.find(key); kept != products.end()) return &kept->second;
  Product product = make_product(key.shape, calls);
  if (calls.ok()) set_operands(product, key.shape.tokens, operands, calls);
  if (!calls.ok()) return nullptr;
  if (!planned_algorithm(handle, key, product)) {
    const std::vector<cublasLtMatmulAlgo_t> found = guesses(handle, product, key, 1, calls);
    if (!calls.ok()) return nullptr;
    product.algorithm = found[0];
  }
  return &products.emplace(key, std::move(product)).first->second;
}

int current_device() {
  int device = 0;
  CHECK(cudaGetDevice(&device) == cudaSuccess && device < kMaxDevices);
  return device;
}

Key key_of(MatmulShape shape, const MatmulOperands& operands) {
  Key key{.shape = shape,
          .device = current_device(),
          .x_alignment = row_alignment(operands.x, operands.x_stride, shape.dtype),
          .y_alignment = row_alignment(operands.y, operands.y_stride, shape.out)};
  key.shape.tokens = matmul_bucket(shape.tokens);
  return key;
}

void keep_failure(const Calls& calls, const MatmulShape& shape) {
  std::string& failure = state().failure;
  if (failure.empty()) {
    failure = calls.failure() + ", for N=" + std::to_string(shape.n) + " K=" + std::to_string(shape.k) +
              " T=" + std::to_string(shape.tokens);
  }
}

}  // namespace

const std::string& cublaslt_missing() { return library().missing; }

void prepare_cublaslt() {
  int device = 0;
  if (!cublaslt_missing().empty() || cudaGetDevice(&device) != cudaSuccess) return;
  const std::lock_guard lock(state().mutex);
  Calls calls;
  handle_of(device, calls);
  if (!calls.ok()) keep_failure(calls, {});
}

bool cublaslt_matmul(const MatmulShape& shape, const MatmulOperands& operands, cudaStream_t stream) {
  const Key key = key_of(shape, operands);
  const std::lock_guard lock(state().mutex);
  Calls calls;
  const cublasLtHandle_t handle = handle_of(key.device, calls);
  const Product* product = calls.ok() ? find_product(handle, key, operands, calls) : nullptr;
  if (product != nullptr) set_operands(*product, shape.tokens, operands, calls);
  if (calls.ok()) {
    calls(launch_product(handle, *product, product->algorithm, operands, workspace_bytes(shape), stream), "a product");
  }
  if (calls.unsupported()) return false;
  if (!calls.ok()) keep_failure(calls, shape);
  return true;
}

std::string take_cublaslt_failure() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().failure, {});
}

int64_t matmul_bucket(int64_t tokens) {
  const int64_t step = tokens <= 64 ? 16 : tokens <= 128 ? 32 : tokens <= 512 ? 64 : 128;
  return (tokens + step - 1) / step * step;
}

size_t matmul_workspace_bytes(int64_t n, int64_t tokens) {
  constexpr int64_t kMost = int64_t{32} << 20, kPartialOutputs = 16;
  return size_t(std::min(kMost, kPartialOutputs * n * matmul_bucket(tokens) * int64_t(sizeof(float))));
}

// ---- the plan --------------------------------------------------------------------------------------------------

namespace {

std::string plan_head() {
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, current_device()) == cudaSuccess);
  return "headrace-matmul-plan 1 " + std::to_string(library().GetVersion()) + ' ' + properties.name;
}

const char* float_name(DType dtype) { return dtype == DType::f32 ? "f32" : "bf16"; }
bool parse_float(const char* name, DType& dtype) {
  dtype = std::strcmp(name, "f32") == 0 ? DType::f32 : DType::bf16;
  return std::strcmp(name, float_name(dtype)) == 0;
}

// False at the end, and at a line that is longer than any of a plan.
bool read_line(std::istream& file, std::string& line) {
  char text[kMaxPlanLine];
  if (!file.getline(text, sizeof text)) return false;
  line = text;
  return true;
}

bool parse_plan_line(const std::string& line, MatmulShape& shape, MatmulAlgorithm& algorithm) {
  char dtype[8], out[8], words[129];
  int bias = 0, used = 0;
  if (std::sscanf(line.c_str(), "%7s %7s %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %128[0-9a-f]%n", dtype, out, &bias, &shape.n, &shape.k,
                  &shape.tokens, words, &used) != 7) {
    return false;
  }
  if (size_t(used) != line.size() || std::strlen(words) != 128 || bias < 0 || bias > 1) return false;
  for (size_t i = 0; i < algorithm.size(); ++i) {
    algorithm[i] = std::strtoull(std::string(words + 16 * i, 16).c_str(), nullptr, 16);
  }
  shape.bias = bias == 1;
  return parse_float(dtype, shape.dtype) && parse_float(out, shape.out);
}

}  // namespace

bool load_matmul_plan(const char* path, std::string* why) {
  if (!cublaslt_missing().empty()) return *why = cublaslt_missing(), false;
  std::ifstream file(path);
  std::string line;
  if (!file) return *why = std::string(path) + ": cannot be read", false;
  if (!read_line(file, line) || line != plan_head()) {
    return *why = std::string(path) + ": first line: want \"" + plan_head() + "\", got \"" + line.substr(0, 128) + "\"", false;
  }
  Plan plan;
  size_t number = 2;
  const auto malformed = [&] {
    *why = std::string(path) + ": line " + std::to_string(number) + " is not a product of a plan";
    return false;
  };
  for (; read_line(file, line); ++number) {
    MatmulShape shape;
    MatmulAlgorithm algorithm;
    if (number > kMaxPlanLines || !parse_plan_line(line, shape, algorithm)) return malformed();
    plan[shape] = algorithm;
  }
  if (!file.eof()) return malformed();
  const std::lock_guard lock(state().mutex);
  state().plans[current_device()] = std::move(plan);
  state().forget_products(current_device());
  return true;
}

bool save_matmul_plan(const char* path, std::string* why) {
  if (!cublaslt_missing().empty()) return *why = cublaslt_missing(), false;
  const std::lock_guard lock(state().mutex);
  std::ofstream file(path);
  file << plan_head() << '\n';
  for (const auto& [shape, algorithm] : state().plans[current_device()]) {
    file << float_name(shape.dtype) << ' ' << float_name(shape.out) << ' ' << int(shape.bias) << ' ' << shape.n << ' ' << shape.k << ' '
         << shape.tokens << ' ';
    for (const uint64_t word : algorithm) {
      char digits[17];
      std::snprintf(digits, sizeof digits, "%016" PRIx64, word);
      file << digits;
    }
    file << '\n';
  }
  file.flush();
  if (!file) *why = std::string(path) + ": cannot be written";
  return bool(file);
}

// ---- tuning ----------------------------------------------------------------------------------------------------

namespace {

constexpr size_t kColdBytes = size_t{256} << 20;  // several times the L2 cache
constexpr int kRounds = 3;
constexpr double kMinMicroseconds = 1000;  // of a measured stretch

struct FreeMemory {
  void operator()(void* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<void, FreeMemory>;

DeviceMemory device_memory(size_t bytes) {
  void* memory = nullptr;
  return DeviceMemory(cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr);
}

// Numbers spread evenly around 0: zeros, or numbers of one exponent, would let the chip run faster than it does. 8 MiB of them, repeated.
bool fill(void* memory, size_t bytes, DType dtype) {
  constexpr size_t kPiece = size_t{8} << 20;
  static const std::vector<uint32_t> floats = [] {
    std::vector<uint32_t> bits(2 * kPiece / 4);
    uint32_t seed = 1;
    for (uint32_t& word : bits) {
      seed = seed * 1664525u + 1013904223u;
      word = std::bit_cast<uint32_t>(float(int32_t(seed)) * 0x1p-31f);
    }
    return bits;
  }();
  std::vector<uint32_t> words(floats.begin(), floats.begin() + kPiece / 4);
  if (dtype == DType::bf16) {
    for (size_t i = 0; i < words.size(); ++i) words[i] = floats[2 * i] >> 16 | (floats[2 * i + 1] & 0xFFFF0000u);
  }
  for (size_t at = 0; at < bytes; at += kPiece) {
    if (cudaMemcpy(static_cast<char*>(memory) + at, words.data(), std::min(kPiece, bytes - at), cudaMemcpyHostToDevice) != cudaSuccess) {
      return false;
    }
  }
  return true;
}

// A product with as many copies of the weight as do not fit the cache, and the stream and events that time it.
class TuningBench {
 public:
  explicit TuningBench(const MatmulShape& shape) {
    const size_t x_bytes = size_t(shape.tokens * shape.k) * dtype_bytes(shape.dtype);
    weight_bytes_ = size_t(shape.n * shape.k) * dtype_bytes(shape.dtype);
    copies_ = kColdBytes / weight_bytes_ + 1;
    x_ = device_memory(x_bytes);
    weights_ = device_memory(weight_bytes_ * copies_);
    bias_ = device_memory(size_t(shape.n) * sizeof(float));
    y_ = device_memory(size_t(shape.tokens * shape.n) * dtype_bytes(shape.out));
    workspace_size_ = workspace_bytes(shape);
    workspace_ = device_memory(workspace_size_);
    ok_ = x_ && weights_ && bias_ && y_ && workspace_ && fill(x_.get(), x_bytes, shape.dtype) &&
          fill(weights_.get(), weight_bytes_ * copies_, shape.dtype) && fill(bias_.get(), size_t(shape.n) * sizeof(float), shape.out) &&
          cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess && cudaEventCreate(&begin_) == cudaSuccess &&
          cudaEventCreate(&end_) == cudaSuccess;
    operands_ = {.x = x_.get(), .x_stride = shape.k, .weight = weights_.get(), .bias = shape.bias ? bias_.get() : nullptr,
                 .y = y_.get(), .y_stride = shape.n, .workspace = workspace_.get()};
  }
  ~TuningBench() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  TuningBench(const TuningBench&) = delete;
  TuningBench& operator=(const TuningBench&) = delete;

  bool ok() const { return ok_; }
  const MatmulOperands& operands() const { return operands_; }

  // Microseconds of one product: the best of some rounds. Negative when the algorithm does not run.
  double measure(cublasLtHandle_t handle, const Product& product, const cublasLtMatmulAlgo_t& algorithm) {
    double best = stretch(handle, product, algorithm, 2);  // also loads its code
    if (best < 0) return -1;
    const int count = int(std::clamp(kMinMicroseconds / std::max(best, 1.0), 3.0, 100.0));
    best = stretch(handle, product, algorithm, count);
    for (int round = 1; round < kRounds && best >= 0; ++round) best = std::min(best, stretch(handle, product, algorithm, count));
    return best;
  }

 private:
  double stretch(cublasLtHandle_t handle, const Product& product, const cublasLtMatmulAlgo_t& algorithm, int count) {
    bool ok = cudaEventRecord(begin_, stream_) == cudaSuccess;
    for (int i = 0; i < count && ok; ++i) {
      MatmulOperands now = operands_;
      now.weight = static_cast<const char*>(weights_.get()) + next_++ % copies_ * weight_bytes_;
      ok = launch_product(handle, product, algorithm, now, workspace_size_, stream_) == CUBLAS_STATUS_SUCCESS;
    }
    float milliseconds = 0;
    ok = cudaEventRecord(end_, stream_) == cudaSuccess && ok;
    ok = cudaEventSynchronize(end_) == cudaSuccess && ok && cudaEventElapsedTime(&milliseconds, begin_, end_) == cudaSuccess;
    return ok ? 1000.0 * double(milliseconds) / count : -1.0;
  }

  size_t weight_bytes_ = 0, copies_ = 1, next_ = 0, workspace_size_ = 0;
  DeviceMemory x_, weights_, bias_, y_, workspace_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  MatmulOperands operands_{};
  bool ok_ = false;
};

}  // namespace

bool tune_matmul(MatmulShape shape, MatmulTuning* tuning, std::string* why) {
  if (!cublaslt_missing().empty()) return *why = cublaslt_missing(), false;
  CHECK(shape.n > 0 && shape.k > 0 && shape.tokens > 0);
  shape.tokens = matmul_bucket(shape.tokens);
  TuningBench bench(shape);
  if (!bench.ok()) return *why = std::string("tuning a product: ") + cudaGetErrorString(cudaGetLastError()), false;
  const Key key = key_of(shape, bench.operands());
  const std::lock_guard lock(state().mutex);
  Calls calls;
  const cublasLtHandle_t handle = handle_of(key.device, calls);
  const Product product = make_product(shape, calls);
  if (calls.ok()) set_operands(product, shape.tokens, bench.operands(), calls);
  const std::vector<cublasLtMatmulAlgo_t> found =
      calls.ok() ? guesses(handle, product, key, kNumGuesses, calls) : std::vector<cublasLtMatmulAlgo_t>{};
  if (!calls.ok()) return *why = calls.failure(), false;
  const cublasLtMatmulAlgo_t* fastest = nullptr;
  *tuning = {};
  for (const cublasLtMatmulAlgo_t& algorithm : found) {
    const double now = bench.measure(handle, product, algorithm);
    if (now < 0) continue;
    if (&algorithm == &found[0]) tuning->first_microseconds = now;
    if (fastest != nullptr && now >= tuning->microseconds) continue;
    fastest = &algorithm;
    tuning->microseconds = now;
  }
  if (fastest == nullptr) return *why = "tuning a product: none of the library's algorithms ran", false;
  std::memcpy(state().plans[key.device][shape].data(), fastest, sizeof *fastest);
  state().forget_products(key.device);
  return true;
}

}  // namespace headrace::cuda
