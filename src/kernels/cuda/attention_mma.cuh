#pragma once
// Matrix instructions on bfloat16 tiles in shared memory. A tile's rows are kDim numbers; the 16-byte pieces of row r stand in the order
// piece ^ (r % 8), so that eight rows of one column of pieces lie in eight different bank groups.

#include <cstdint>

#include "kernels/cuda/mma.cuh"

namespace headrace::cuda {

constexpr int kPieceBytes = 16;
constexpr int kPieceElements = 8;

template <int kDim>
__device__ inline uint32_t piece_at(int row, int piece) {
  return uint32_t(row * kDim * 2 + ((piece ^ (row & 7)) * kPieceBytes));
}

// Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(uint32_t (&out)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&out)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

// c += a * b, 16 x 8 from 16 x 16 and 16 x 8. Lane l holds rows l / 4 (c[0], c[1]) and l / 4 + 8 (c[2], c[3]), columns 2 * (l % 4) and
// the next.
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// ---- fragments of tiles of kDim columns ---------------------------------------------------------

// Rows first_row .. + 15, columns 16 * k .. + 15, as the left factor.
template <int kDim>
__device__ inline void load_left(uint32_t (&out)[4], uint32_t tile, int first_row, int k) {
  const int lane = int(threadIdx.x) % 32, matrix = lane / 8;
  load_matrices(out, tile + piece_at<kDim>(first_row + matrix % 2 * 8 + lane % 8, 2 * k + matrix / 2));
}
// Keys first_row .. + 15 at columns 16 * k .. + 15, as the right factor of queries times keys: out[0], out[1] for the first eight keys.
template <int kDim>
__device__ inline void load_keys(uint32_t (&out)[4], uint32_t tile, int first_row, int k) {
  const int lane = int(threadIdx.x) % 32, matrix = lane / 8;
  load_matrices(out, tile + piece_at<kDim>(first_row + matrix / 2 * 8 + lane % 8, 2 * k + matrix % 2));
}
// Values of 16 keys at columns 16 * n .. + 15, as the right factor of weights times values: out[0], out[1] for the first eight columns.
template <int kDim>
__device__ inline void load_values(uint32_t (&out)[4], uint32_t tile, int first_row, int n) {
  const int lane = int(threadIdx.x) % 32, matrix = lane / 8;
  load_matrices_transposed(out, tile + piece_at<kDim>(first_row + matrix % 2 * 8 + lane % 8, 2 * n + matrix / 2));
}

}  // namespace headrace::cuda
