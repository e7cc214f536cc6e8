// Reads GPTQ and AWQ matrices. Sizes are checked once, in check_sizes(); the loops after it index within
// them.
#include "quant/int4_group.h"

#include <array>

namespace headrace {
namespace {

// Bits [index * bits, (index + 1) * bits) of a stream of 32-bit words, low bits first; `stride` words lie
// between neighbours of the stream. A 3-bit code may straddle two words.
uint32_t field(std::span<const int32_t> words, int64_t first, int64_t stride, int64_t index, int bits) {
  const int64_t bit = index * bits;
  const int64_t word = bit / 32;
  const int offset = static_cast<int>(bit % 32);
  uint64_t pair = static_cast<uint32_t>(words[first + word * stride]);
  if (offset + bits > 32)
    pair |= static_cast<uint64_t>(static_cast<uint32_t>(words[first + (word + 1) * stride])) << 32;
  return static_cast<uint32_t>(pair >> offset) & ((1u << bits) - 1);
}

Status check_count(std::string_view name, size_t got, int64_t rows, int64_t columns) {
  if (static_cast<int64_t>(got) == rows * columns) return Status();
  return make_status(Code::malformed, "{}: want {} x {} = {} values, got {}", name, rows, columns,
                     rows * columns, got);
}

// What holds for both kinds. Dimensions stay under 2^31, so that their products fit an int64.
Status check_sizes(const GroupQuantized& m, int64_t weight_rows, int64_t weight_columns) {
  HR_RETURN_IF_ERROR(check_count("qweight", m.qweight.size(), weight_rows, weight_columns));
  HR_RETURN_IF_ERROR(check_count("qzeros", m.qzeros.size(), m.groups, m.out_features * m.bits / 32));
  HR_RETURN_IF_ERROR(check_count("scales", m.scales.size(), m.groups, m.out_features));
  if (!m.g_idx.empty()) {
    HR_RETURN_IF_ERROR(check_count("g_idx", m.g_idx.size(), m.in_features, 1));
    for (size_t row = 0; row < m.g_idx.size(); ++row) {
      if (m.g_idx[row] < 0 || m.g_idx[row] >= m.groups) {
        return make_status(Code::malformed, "g_idx[{}] is {}; want a group in 0..{}", row, m.g_idx[row],
                           m.groups - 1);
      }
    }
  } else if (m.group_size <= 0 || (m.in_features + m.group_size - 1) / m.group_size > m.groups) {
    return make_status(Code::malformed, "group_size {}: {} rows need more than the {} groups that are there",
                       m.group_size, m.in_features, m.groups);
  }
  return Status();
}

Status check_dimensions(const GroupQuantized& m) {
  constexpr int64_t kMax = int64_t{1} << 31;
  for (const int64_t dim : {m.in_features, m.out_features, m.groups}) {
    if (dim <= 0 || dim >= kMax) {
      return make_status(Code::malformed,
                         "a group-quantized matrix of {} x {} in {} groups: want each in 1..2^31-1",
                         m.in_features, m.out_features, m.groups);
    }
  }
  return Status();
}

// Codes along one side of a matrix fill whole words.
Status check_words(std::string_view side, int64_t codes, int bits) {
  if (codes * bits % 32 == 0) return Status();
  return make_status(Code::malformed, "{} {} codes of {} bits do not fill whole 32-bit words", codes, side,
                     bits);
}

int64_t group_of(const GroupQuantized& m, int64_t row) {
  return m.g_idx.empty() ? row / m.group_size : m.g_idx[row];
}

}  // namespace

Result<std::vector<float>> unpack_gptq(const GroupQuantized& m, GptqZeros zeros) {
  if (m.bits != 2 && m.bits != 3 && m.bits != 4 && m.bits != 8) {
    return error(Code::unsupported, "GPTQ with {} bits; Headrace reads 2, 3, 4 and 8", m.bits);
  }
  HR_RETURN_IF_ERROR(check_dimensions(m));
  HR_RETURN_IF_ERROR(check_words("input", m.in_features, m.bits));
  HR_RETURN_IF_ERROR(check_words("output", m.out_features, m.bits));
  HR_RETURN_IF_ERROR(check_sizes(m, m.in_features * m.bits / 32, m.out_features));
  const int64_t zero_words = m.out_features * m.bits / 32;
  const int zero_offset = zeros == GptqZeros::minus_one ? 1 : 0;
  std::vector<float> out(static_cast<size_t>(m.in_features * m.out_features));
  for (int64_t row = 0; row < m.in_features; ++row) {
    const int64_t group = group_of(m, row);
    for (int64_t column = 0; column < m.out_features; ++column) {
      const int code = static_cast<int>(field(m.qweight, column, m.out_features, row, m.bits));
      const int zero = static_cast<int>(field(m.qzeros, group * zero_words, 1, column, m.bits)) + zero_offset;
      out[row * m.out_features + column] =
          static_cast<float>(code - zero) * m.scales[group * m.out_features + column];
    }
  }
  return out;
}

Result<std::vector<float>> unpack_awq(const GroupQuantized& m) {
  if (m.bits != 4) return error(Code::unsupported, "AWQ with {} bits; Headrace reads 4", m.bits);
  HR_RETURN_IF_ERROR(check_dimensions(m));
  HR_RETURN_IF_ERROR(check_words("output", m.out_features, m.bits));
  const int64_t words = m.out_features / 8;
  HR_RETURN_IF_ERROR(check_sizes(m, m.in_features, words));
  // Where column c of a word's eight lies: the inverse of 0, 2, 4, 6, 1, 3, 5, 7.
  constexpr std::array<int, 8> kField = {0, 4, 1, 5, 2, 6, 3, 7};
  std::vector<float> out(static_cast<size_t>(m.in_features * m.out_features));
  for (int64_t row = 0; row < m.in_features; ++row) {
    const int64_t group = group_of(m, row);
    for (int64_t column = 0; column < m.out_features; ++column) {
      const int64_t at = column / 8 * 8 + kField[column % 8];
      const int code = static_cast<int>(field(m.qweight, row * words, 1, at, 4));
      const int zero = static_cast<int>(field(m.qzeros, group * words, 1, at, 4));
      out[row * m.out_features + column] =
          static_cast<float>(code - zero) * m.scales[group * m.out_features + column];
    }
  }
  return out;
}

}  // namespace headrace
