#include "engine/embedding.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>

#include "base/check.h"

namespace headrace::engine {
namespace {

// Gathers a request's vectors until its last event.
class Gatherer final : public EventSink {
 public:
  explicit Gatherer(size_t inputs) { out_.vectors.resize(inputs); }

  void on_event(Event event) override {
    const std::lock_guard lock(mutex_);
    if (event.finish == FinishReason::error) status_ = event.status;
    if (event.finish == FinishReason::abort) status_ = make_status(Code::cancelled, "the engine is shutting down");
    out_.vectors[static_cast<size_t>(event.choice)] = std::move(event.embedding);
    out_.timing = event.timing;
    done_ = event.last;
    if (done_) arrived_.notify_one();
  }
  Result<Embeddings> wait() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return done_; });
    if (!status_.ok()) return tl::unexpected(status_);
    return std::move(out_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  Embeddings out_;
  Status status_;
  bool done_ = false;
};

}  // namespace

Result<std::vector<int32_t>> encode_truncated(const text::Tokenizer& tokenizer, std::string_view text, int32_t max_tokens) {
  HR_ASSIGN_OR_RETURN(text::Encoding framed, tokenizer.encode(text));
  const auto limit = static_cast<size_t>(max_tokens);
  if (framed.ids.size() <= limit) return std::move(framed.ids);
  text::EncodeOptions alone;
  alone.add_special_tokens = false;
  HR_ASSIGN_OR_RETURN(text::Encoding bare, tokenizer.encode(text, alone));
  const size_t added = framed.ids.size() - bare.ids.size();
  if (added > limit) {
    return error(Code::invalid_argument, "the tokenizer adds {} tokens to a text, the model takes {}", added, limit);
  }
  // What was added stands before and after the text's own ids.
  const auto [own, behind] = std::ranges::search(framed.ids, bare.ids);
  CHECK(behind - own == static_cast<ptrdiff_t>(bare.ids.size()));
  std::vector<int32_t> ids(framed.ids.begin(), own);
  ids.insert(ids.end(), bare.ids.begin(), bare.ids.begin() + static_cast<ptrdiff_t>(limit - added));
  ids.insert(ids.end(), behind, framed.ids.end());
  return ids;
}

void shorten(std::vector<float>& embedding, int64_t dimensions) {
  if (dimensions >= static_cast<int64_t>(embedding.size())) return;
  embedding.resize(static_cast<size_t>(dimensions));
  double squares = 0;
  for (const float x : embedding) squares += static_cast<double>(x) * static_cast<double>(x);
  if (squares == 0) return;
  for (float& x : embedding) x = static_cast<float>(static_cast<double>(x) / std::sqrt(squares));
}

Result<Embeddings> embed(Engine& engine, std::vector<std::vector<int32_t>> inputs) {
  const auto gatherer = std::make_shared<Gatherer>(inputs.size());
  Request request;
  request.kind = RequestKind::embed;
  request.inputs = std::move(inputs);
  HR_ASSIGN_OR_RETURN([[maybe_unused]] const RequestId id, engine.submit(std::move(request), gatherer));
  return gatherer->wait();
}

}  // namespace headrace::engine
