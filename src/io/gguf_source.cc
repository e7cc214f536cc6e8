// Presents a GGUF model under Hugging Face names.
#include "io/gguf_source.h"

#include "io/gguf_names.h"
#include "io/indexed_source.h"

namespace headrace::io {
namespace {

class GgufSource : public IndexedSource {
 public:
  GgufSource(GgufModel model, std::string path) : model_(std::move(model)), path_(std::move(path)) {}

  Status load() {
    HR_ASSIGN_OR_RETURN(const Family* family, gguf_family(model_));
    HR_ASSIGN_OR_RETURN(config_, config_from_gguf(model_, *family));
    for (const GgufFile& file : model_.files()) {
      for (const GgufTensor& tensor : file.tensors()) {
        SourceTensor& out = tensors_.emplace_back();
        out.name = hf_name(*family, tensor.name);
        out.format = tensor.format;
        out.bytes = tensor.bytes;
        for (uint32_t axis = tensor.rank; axis-- > 0;)
          out.shape.push_back(static_cast<int64_t>(tensor.dims[axis]));
        places_.push_back({&file, &tensor});
      }
    }
    return index_.build(tensors_);
  }

  Result<std::span<const std::byte>> rows(const SourceTensor& tensor, int64_t begin, int64_t end,
                                          std::vector<std::byte>&) const override {
    const int64_t at = index_.find(tensor.name);
    if (at < 0) return error(Code::not_found, "{}: no tensor '{}'", path_, tensor.name);
    return places_[at].data().subspan(begin * tensor.row_bytes(), (end - begin) * tensor.row_bytes());
  }
  void drop(const SourceTensor& tensor, int64_t begin, int64_t end) const override {
    const int64_t at = index_.find(tensor.name);
    if (at >= 0) places_[at].file->drop(*places_[at].info, begin * tensor.row_bytes(), (end - begin) * tensor.row_bytes());
  }
  Result<VocabMetadata> vocab() const override {
    Result<VocabMetadata> vocab = vocab_from_gguf(model_);
    if (!vocab) return tl::unexpected<Status>(vocab.error().with_context(path_));
    return vocab;
  }
  const std::string& path() const override { return path_; }

 private:
  const GgufModel model_;  // never moves: places_ points into it
  std::string path_;
  std::vector<GgufModel::Tensor> places_;  // of each
};

}  // namespace

Result<std::unique_ptr<ModelSource>> make_gguf_source(GgufModel model, std::string path) {
  auto source = std::make_unique<GgufSource>(std::move(model), path);
  if (Status status = source->load(); !status.ok()) return tl::unexpected<Status>(status.with_context(path));
  return source;
}

}  // namespace headrace::io
