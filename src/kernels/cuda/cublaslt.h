#pragma once
// cuBLASLt, opened at run time: y[T, N] = x[T, K] * weight[N, K]^T (+ bias[N]) with row-major operands. Which of the library's algorithms
// runs is decided once for a product and a bucket of T: by the plan that was loaded, else by the library's own guess, and then kept, so
// that a step searches nothing after its first time. All functions may be called from any thread; products take a lock for the
// microseconds of a launch.
//
// A plan is a device's, and a text file. First line: "headrace-matmul-plan 1 VERSION CARD", VERSION the library's (algorithms of another
// one mean something else), CARD the device's name. Then a line a product: "DTYPE OUT BIAS N K T HEX", DTYPE and OUT f32 or bf16, BIAS 0
// or 1, T the bucket, HEX the 64 bytes of the algorithm. A bucket that the plan lacks takes the algorithm of the next larger one of the
// same product that it has.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/dtype.h"

struct CUstream_st;  // cudaStream_t points to one

namespace headrace::cuda {

// What decides on an algorithm. `dtype` is that of x and the weight, f32 or bf16; the bias has the type of the output.
struct MatmulShape {
  DType dtype = DType::bf16;
  DType out = DType::bf16;
  bool bias = false;
  int64_t n = 0, k = 0;
  int64_t tokens = 0;
  auto operator<=>(const MatmulShape&) const = default;
};
using MatmulAlgorithm = std::array<uint64_t, 8>;  // a cublasLtMatmulAlgo_t

struct MatmulOperands {
  const void* x;
  int64_t x_stride;  // in elements, as y_stride
  const void* weight;
  const void* bias;  // null without
  void* y;
  int64_t y_stride;
  void* workspace;  // matmul_workspace_bytes()
};

// Why the library cannot be used; empty where it can. Opens it at the first call.
const std::string& cublaslt_missing();
// Makes the library's handle for the current device, which allocates: to be called before a step is captured.
void prepare_cublaslt();
// False where the library has no algorithm for these operands: nothing was launched, and somebody else must. Every other failure is the
// step's: take_cublaslt_failure() says what.
bool cublaslt_matmul(const MatmulShape& shape, const MatmulOperands& operands, CUstream_st* stream);
// The first failure since the last call, for the step's error; empty when there was none.
std::string take_cublaslt_failure();

// The number of tokens whose algorithm serves `tokens`.
int64_t matmul_bucket(int64_t tokens);
// What algorithms for an output [tokens, n] may use: room for sixteen partial outputs, 32 MiB at most. Grows with the tokens.
size_t matmul_workspace_bytes(int64_t n, int64_t tokens);
// Replaces the plan of the current device. False with the reason in `why` for a file that cannot be read, is not a plan or is another
// version's or card's.
bool load_matmul_plan(const char* path, std::string* why);
bool save_matmul_plan(const char* path, std::string* why);

struct MatmulTuning {
  double microseconds = 0;        // of the fastest
  double first_microseconds = 0;  // of the library's first guess; 0: it does not run
};
// Measures the library's sixteen best guesses for a product at its bucket on the current device, weights out of its memory, and puts the
// fastest into the device's plan. Allocates, runs for 50 ms to a second and waits. False with the reason in `why`.
bool tune_matmul(MatmulShape shape, MatmulTuning* tuning, std::string* why);

}  // namespace headrace::cuda
