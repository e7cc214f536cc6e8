#pragma once
// How likely a model finds a given text: the log-probability of each token after those before it, from the same step program
// that serves. One text at a time, from one thread.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/serving_model.h"
#include "runtime/local_runner.h"

namespace headrace::engine {

class Scorer {
 public:
  // `context`: the longest text. Of the options the sizes of batches and cache do not count. Errors: those of ServingModel::open;
  // unsupported for an embedder.
  static Result<std::unique_ptr<Scorer>> open(const std::string& path, const ServingOptions& options, int64_t context);

  // Errors: not_found where the checkpoint has none.
  Result<const text::Tokenizer*> tokenizer() const;
  // The natural logarithm of the probability of ids[i + 1] after ids[0] to ids[i], for i from `first` to the last but one. The
  // values depend neither on `first` nor on earlier calls. Errors: invalid_argument for more than `context` ids, malformed when
  // logits are not finite.
  Result<std::vector<float>> score(std::span<const int32_t> ids, int64_t first);

 private:
  Scorer() = default;
  // Tokens [begin, end) of ids enter the cache; `first` and what follows is scored.
  Status step(std::span<const int32_t> ids, int64_t begin, int64_t end, int64_t first, std::vector<float>& out);

  std::string path_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<runtime::LocalRunner> runner_;
  runtime::StepPlan plan_;
  uint64_t step_ = 0;
};

}  // namespace headrace::engine
