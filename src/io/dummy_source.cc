// Dummy weights: the tensors that a config.json implies, filled with random numbers when they are read.
// Measures speed and memory of models whose weights are not at hand.
#include <array>
#include <filesystem>

#include "io/mapped_file.h"
#include "io/model_source.h"
#include "io/random_weights.h"
#include "io/indexed_source.h"
#include "io/weight_names.h"

namespace headrace::io {
namespace {

constexpr float kDeviation = 0.02f;
constexpr int64_t kMaxDim = int64_t{1} << 24;

struct Extents {
  std::array<int64_t, 7> values{};
  int64_t& operator[](Extent extent) { return values[static_cast<size_t>(extent)]; }
};

Result<Extents> read_extents(const ConfigMap& config) {
  Extents out;
  HR_ASSIGN_OR_RETURN(out[Extent::vocab], config.get_int("vocab_size", 1, kMaxDim));
  HR_ASSIGN_OR_RETURN(out[Extent::hidden], config.get_int("hidden_size", 1, kMaxDim));
  HR_ASSIGN_OR_RETURN(out[Extent::intermediate], config.get_int("intermediate_size", 1, kMaxDim));
  HR_ASSIGN_OR_RETURN(const int64_t heads, config.get_int("num_attention_heads", 1, 1 << 12));
  HR_ASSIGN_OR_RETURN(const int64_t kv_heads, config.get_int_or("num_key_value_heads", heads, 1, 1 << 12));
  HR_ASSIGN_OR_RETURN(out[Extent::head_dim],
                      config.get_int_or("head_dim", out[Extent::hidden] / heads, 1, 1 << 12));
  out[Extent::q_heads] = heads * out[Extent::head_dim];
  out[Extent::kv_heads] = kv_heads * out[Extent::head_dim];
  return out;
}

std::string writable_formats() {
  std::string names;
  for (const FormatInfo& info : all_formats()) {
    if (info.encode == nullptr) continue;
    names += names.empty() ? "" : ", ";
    names += info.name;
  }
  return names;
}

class DummySource : public IndexedSource {
 public:
  DummySource(std::string path, uint64_t seed, Format format)
      : path_(std::move(path)), seed_(seed), format_(format) {}

  Status load(std::string_view json) {
    if (format_info(format_).encode == nullptr) {
      return make_status(Code::invalid_argument, "dummy weights cannot be made in {}; choose {}",
                         format_info(format_).name, writable_formats());
    }
    HR_ASSIGN_OR_RETURN(config_, ConfigMap::from_json(json));
    HR_ASSIGN_OR_RETURN(const std::string model_type, config_.get_string("model_type"));
    HR_ASSIGN_OR_RETURN(const Family* family, family_of_model_type(model_type));
    HR_ASSIGN_OR_RETURN(Extents extents, read_extents(config_));
    HR_ASSIGN_OR_RETURN(const int64_t layers, config_.get_int("num_hidden_layers", 1, 1024));
    HR_ASSIGN_OR_RETURN(const bool tied, config_.get_bool_or("tie_word_embeddings", false));
    for (const WeightRow& row : weight_rows()) {
      if (!belongs(row, *family) || (row.optional && (row.hf != "lm_head" || tied))) continue;
      for (int64_t layer = 0; layer < (row.per_layer ? layers : 1); ++layer) {
        const std::string prefix = row.per_layer ? fmt::format("model.layers.{}.", layer) : "";
        HR_RETURN_IF_ERROR(
            add(fmt::format("{}{}.weight", prefix, row.hf), extents[row.rows], extents[row.columns]));
      }
    }
    return index_.build(tensors_);
  }

  Result<std::span<const std::byte>> rows(const SourceTensor& tensor, int64_t first, int64_t last,
                                          std::vector<std::byte>& scratch) const override {
    const FormatInfo& info = format_info(tensor.format);
    const uint64_t key = random_key(seed_, tensor.name);
    const bool norm = tensor.shape.size() == 1;
    scratch.resize((last - first) * tensor.row_bytes());
    // A piece fits the first-level cache together with its encoded form.
    constexpr uint64_t kPiece = 4096;
    std::array<float, kPiece + 4> values;
    const uint64_t start = first * tensor.row_bytes() / info.block_bytes * info.block_elements;
    const uint64_t elements = scratch.size() / info.block_bytes * info.block_elements;
    const uint64_t skip = start % 4;  // fill_normal begins at a multiple of 4
    for (uint64_t begin = 0; begin < elements; begin += kPiece) {
      const uint64_t count = std::min(kPiece, elements - begin);
      fill_normal(key, start + begin - skip, norm ? 1.0f : 0.0f, kDeviation, std::span(values).first(count + skip));
      info.encode(values.data() + skip, static_cast<int64_t>(count),
                  scratch.data() + begin / info.block_elements * info.block_bytes);
    }
    return std::span<const std::byte>(scratch);
  }
  void drop(const SourceTensor&, int64_t, int64_t) const override {}
  const std::string& path() const override { return path_; }

 private:
  // Vectors are norms, which every checkpoint keeps in float32.
  Status add(std::string name, int64_t rows, int64_t columns) {
    SourceTensor tensor{.name = std::move(name), .format = columns == 0 ? Format::f32 : format_};
    tensor.shape = columns == 0 ? std::vector<int64_t>{rows} : std::vector<int64_t>{rows, columns};
    const FormatInfo& info = format_info(tensor.format);
    if (tensor.shape.back() % info.block_elements != 0) {
      return make_status(Code::invalid_argument,
                         "{}: rows of {} elements are not whole {} blocks of {}; choose another format",
                         tensor.name, tensor.shape.back(), info.name, info.block_elements);
    }
    // Both dimensions are at most 2^24: no product here can overflow.
    HR_ASSIGN_OR_RETURN(
        tensor.bytes,
        format_bytes(tensor.format, static_cast<uint64_t>(rows * std::max<int64_t>(columns, 1))));
    tensors_.push_back(std::move(tensor));
    return Status();
  }

  std::string path_;
  uint64_t seed_;
  Format format_;
};

}  // namespace

Result<std::unique_ptr<ModelSource>> ModelSource::open_dummy(const std::string& path, uint64_t seed,
                                                             Format format) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string file_path = folder ? (std::filesystem::path(path) / "config.json").string() : path;
  HR_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(file_path));
  auto source = std::make_unique<DummySource>(path, seed, format);
  if (Status status = source->load(file.text()); !status.ok())
    return tl::unexpected<Status>(status.with_context(file_path));
  return source;
}

}  // namespace headrace::io
