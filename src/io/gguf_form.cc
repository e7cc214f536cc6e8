#include "io/gguf_form.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/log.h"
#include "io/indexed_source.h"
#include "io/shown_name.h"

namespace headrace::io {
namespace {

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

class GgufFormSource final : public IndexedSource {
 public:
  GgufFormSource(std::unique_ptr<ModelSource> source, const GgufForm& form) : source_(std::move(source)), form_(form) {}

  Status load() {
    config_ = source_->config();
    HR_ASSIGN_OR_RETURN(const int64_t heads, config_.get_int("num_attention_heads", 1, 1 << 16));
    HR_ASSIGN_OR_RETURN(const int64_t kv_heads, config_.get_int_or("num_key_value_heads", heads, 1, 1 << 16));
    const bool no_head = source_->find("lm_head.weight") == nullptr;
    HR_ASSIGN_OR_RETURN(const bool tied, config_.get_bool_or("tie_word_embeddings", no_head));
    for (const SourceTensor& tensor : source_->tensors()) {
      const std::string name = gguf_name(*form_.family, tensor.name);
      if (!form_.from_hugging_face) {
        add(tensor, name.empty() ? tensor.name : name);
        continue;
      }
      if (name.empty() || (tied && tensor.name == "lm_head.weight")) {
        log_info("{}: left out: a {} model in GGUF has no such tensor", shown_name(tensor.name), form_.family->gguf_architecture);
        continue;
      }
      Origin& origin = add(tensor, name);
      if (tensor.shape.size() == 1) make_f32(origin);
      origin.plus = form_.family->gguf_norms_plus_one && tensor.name.ends_with("norm.weight") ? 1.0f : 0.0f;
      if (!form_.family->gguf_rope_interleaved) continue;
      if (tensor.name.find(".q_proj.") != std::string::npos) origin.heads = heads;
      if (tensor.name.find(".k_proj.") != std::string::npos) origin.heads = kv_heads;
      if (origin.heads > 0 && tensor.rows() % (2 * origin.heads) != 0) {
        return make_status(Code::malformed, "{}: {} rows are not {} heads of an even width", shown_name(tensor.name), tensor.rows(),
                           origin.heads);
      }
    }
    if (tensors_.empty()) return make_status(Code::unsupported, "{} holds no weights of a {} model", path(), form_.family->model_type);
    if (!form_.rope_factors.empty()) {
      const auto count = static_cast<int64_t>(form_.rope_factors.size());
      tensors_.push_back({std::string(kRopeFactors), Format::f32, {count}, static_cast<uint64_t>(count) * sizeof(float)});
      origins_.push_back({});
    }
    return index_.build(tensors_);
  }

  Result<std::span<const std::byte>> rows(const SourceTensor& tensor, int64_t begin, int64_t end,
                                          std::vector<std::byte>& scratch) const override {
    const int64_t at = index_.find(tensor.name);
    if (at < 0) return error(Code::not_found, "{}: no tensor '{}'", path(), tensor.name);
    const Origin& origin = origins_[at];
    if (origin.tensor == nullptr) {
      return std::as_bytes(std::span(form_.rope_factors)).subspan(begin * sizeof(float), (end - begin) * sizeof(float));
    }
    const bool same_rows = origin.heads == 0, same_values = !origin.to_f32;
    if (same_rows && same_values) return source_->rows(*origin.tensor, begin, end, scratch);
    const FormatInfo& stored = format_info(origin.tensor->format);
    const auto row_bytes = static_cast<int64_t>(tensor.row_bytes());
    scratch.resize(static_cast<size_t>((end - begin) * row_bytes));
    std::vector<std::byte> inner;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = same_rows ? row : row_in_halves(row, tensor.rows() / origin.heads);
      HR_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, source_->rows(*origin.tensor, from, from + 1, inner));
      std::byte* to = scratch.data() + (row - begin) * row_bytes;
      if (same_values) {
        std::memcpy(to, bytes.data(), bytes.size());
        continue;
      }
      // A row of a vector is one value.
      float value = 0;
      stored.decode(bytes.data(), 1, &value);
      value += origin.plus;
      std::memcpy(to, &value, sizeof value);
    }
    return std::span<const std::byte>(scratch);
  }
  void drop(const SourceTensor& tensor, int64_t begin, int64_t end) const override {
    const int64_t at = index_.find(tensor.name);
    // Rows move within their head: those of a range lie near it, and a page that is dropped too early is read once more.
    if (at >= 0 && origins_[at].tensor != nullptr) source_->drop(*origins_[at].tensor, begin, end);
  }
  const std::string& path() const override { return source_->path(); }

 private:
  struct Origin {
    const SourceTensor* tensor = nullptr;  // null: rope_factors
    int64_t heads = 0;                     // more than 0: rows of each head are ordered anew
    bool to_f32 = false;
    float plus = 0;                        // added to each value, after decoding
  };

  Origin& add(const SourceTensor& tensor, std::string name) {
    tensors_.push_back({std::move(name), tensor.format, tensor.shape, tensor.bytes});
    return origins_.emplace_back(Origin{.tensor = &tensor});
  }
  void make_f32(Origin& origin) {
    origin.to_f32 = true;
    tensors_.back().format = Format::f32;
    tensors_.back().bytes = static_cast<uint64_t>(tensors_.back().shape[0]) * sizeof(float);
  }
  // GGUF keeps a rotation's pair in neighbours (2i, 2i + 1), Hugging Face in the halves of a head (i, i + width / 2): the row
  // there of `row` here.
  static int64_t row_in_halves(int64_t row, int64_t width) {
    const int64_t in_head = row % width;
    return row - in_head + in_head % 2 * (width / 2) + in_head / 2;
  }

  const std::unique_ptr<ModelSource> source_;
  const GgufForm form_;
  std::vector<Origin> origins_;  // of each tensor
};

}  // namespace

Result<std::unique_ptr<ModelSource>> gguf_form(std::unique_ptr<ModelSource> source, const GgufForm& form) {
  auto out = std::make_unique<GgufFormSource>(std::move(source), form);
  HR_RETURN_IF_ERROR(out->load());
  return out;
}

void add_file_type(const ModelSource& source, GgufMetadata& metadata) {
  // llama.cpp's numbers of "mostly FORMAT".
  constexpr std::pair<Format, uint32_t> kNumbers[] = {{Format::f32, 0},  {Format::f16, 1},  {Format::q4_0, 2}, {Format::q4_1, 3},
                                                      {Format::q8_0, 7}, {Format::bf16, 32}};
  std::map<Format, double> elements;
  double total = 0;
  bool quantized = false;
  for (const SourceTensor& tensor : source.tensors()) {
    const FormatInfo& info = format_info(tensor.format);
    const double count = static_cast<double>(tensor.bytes) / info.block_bytes * info.block_elements;
    quantized |= info.block_elements > 1;
    if (!tensor.name.starts_with("blk.")) continue;  // embedding and head often keep more bits
    elements[tensor.format] += count;
    total += count;
  }
  for (const auto& [format, number] : kNumbers) {
    if (elements[format] > total / 2) metadata.add_u32("general.file_type", number);
  }
  constexpr uint32_t kQuantizationVersion = 2;  // of the block formats' bits
  if (quantized) metadata.add_u32("general.quantization_version", kQuantizationVersion);
}

}  // namespace headrace::io
