// Decodes and encodes rows in pieces that stay in the first-level cache.
#include "io/requantized_source.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/log.h"
#include "io/indexed_source.h"
#include "io/shown_name.h"

namespace headrace::io {
namespace {

constexpr int64_t kPiece = 4096;  // elements: whole blocks of every format

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// FP8 would need a scale beside the tensor.
bool rounds_to(const FormatInfo& info) { return info.encode != nullptr && info.gguf_type >= 0; }

// The format in which a tensor of the checkpoint is asked for.
Format wanted_format(const SourceTensor& tensor, Format format) {
  const bool looked_up = ends_with_any(tensor.name, {"position_embeddings.weight", "token_type_embeddings.weight"});
  if (tensor.shape.size() != 2 || !tensor.name.ends_with(".weight") || looked_up) return tensor.format;
  const bool of_vocabulary = ends_with_any(tensor.name, {"embed_tokens.weight", "word_embeddings.weight", "lm_head.weight"});
  return of_vocabulary && (format == Format::q4_0 || format == Format::q4_1) ? Format::q8_0 : format;
}

class RequantizedSource final : public IndexedSource {
 public:
  explicit RequantizedSource(std::unique_ptr<ModelSource> source) : source_(std::move(source)) {}

  Status load(Format format) {
    config_ = source_->config();
    tensors_.assign(source_->tensors().begin(), source_->tensors().end());
    for (SourceTensor& tensor : tensors_) {
      const FormatInfo& wanted = format_info(wanted_format(tensor, format));
      if (wanted.format == tensor.format) continue;
      if (tensor.shape[1] % wanted.block_elements != 0) {
        log_info("{}: stays {}: rows of {} elements are not whole {} blocks of {}", shown_name(tensor.name),
                 format_info(tensor.format).name, tensor.shape[1], wanted.name, wanted.block_elements);
        continue;
      }
      HR_ASSIGN_OR_RETURN(tensor.bytes, format_bytes(wanted.format, static_cast<uint64_t>(tensor.shape[0] * tensor.shape[1])));
      tensor.format = wanted.format;
    }
    return index_.build(tensors_);
  }

  Result<std::span<const std::byte>> rows(const SourceTensor& tensor, int64_t begin, int64_t end,
                                          std::vector<std::byte>& scratch) const override {
    const SourceTensor* stored = source_->find(tensor.name);
    if (stored == nullptr) return error(Code::not_found, "{}: no tensor '{}'", path(), tensor.name);
    if (stored->format == tensor.format) return source_->rows(*stored, begin, end, scratch);
    std::vector<std::byte> made_up;  // filled by sources without a file alone
    HR_ASSIGN_OR_RETURN(const std::span<const std::byte> from, source_->rows(*stored, begin, end, made_up));
    if (Status status = check_finite_blocks(stored->format, from); !status.ok()) {
      return tl::unexpected<Status>(status.with_context(fmt::format("weight {}, rows from {}", tensor.name, begin)));
    }
    const FormatInfo& in = format_info(stored->format);
    const FormatInfo& out = format_info(tensor.format);
    scratch.resize((end - begin) * tensor.row_bytes());
    const int64_t elements = (end - begin) * tensor.shape[1];
    std::array<float, kPiece> values;
    for (int64_t at = 0; at < elements; at += kPiece) {
      const int64_t count = std::min(kPiece, elements - at);
      in.decode(from.data() + at / in.block_elements * in.block_bytes, count, values.data());
      out.encode(values.data(), count, scratch.data() + at / out.block_elements * out.block_bytes);
    }
    if (!check_finite_blocks(tensor.format, scratch).ok()) {
      return error(Code::unsupported, "weight {}, rows {} to {}: values that {} is too narrow for; choose another format",
                   tensor.name, begin, end, out.name);
    }
    return std::span<const std::byte>(scratch);
  }
  void drop(const SourceTensor& tensor, int64_t begin, int64_t end) const override {
    if (const SourceTensor* stored = source_->find(tensor.name)) source_->drop(*stored, begin, end);
  }
  Result<VocabMetadata> vocab() const override { return source_->vocab(); }
  const std::string& path() const override { return source_->path(); }

 private:
  std::unique_ptr<ModelSource> source_;
};

}  // namespace

Result<Format> parse_weight_format(std::string_view name) {
  const std::optional<Format> format = format_from_name(name);
  if (format && rounds_to(format_info(*format))) return *format;
  return error(Code::invalid_argument, "want {}, got \"{}\"", weight_formats(", "), shown_name(name));
}

std::string weight_formats(std::string_view separator) {
  std::string names;
  for (const FormatInfo& info : all_formats()) {
    if (!rounds_to(info)) continue;
    names += names.empty() ? "" : separator;
    names += info.name;
  }
  return names;
}

Result<std::unique_ptr<ModelSource>> requantize(std::unique_ptr<ModelSource> source, Format format) {
  CHECK(rounds_to(format_info(format)));
  auto requantized = std::make_unique<RequantizedSource>(std::move(source));
  HR_RETURN_IF_ERROR(requantized->load(format));
  return requantized;
}

}  // namespace headrace::io
