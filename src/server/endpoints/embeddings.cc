// POST /v1/embeddings: one vector for each input, as OpenAI's API gives them. All inputs of a request are one request of the
// engine, which batches them with those of others.
#include <fmt/format.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/embedding.h"
#include "server/endpoints/common.h"

namespace headrace::server {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 carries little-endian floats");

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j) word = word << 8 | (j < count ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out.push_back(j <= count ? kAlphabet[word >> (18 - 6 * j) & 63] : '=');
  }
  return out;
}

// As few digits as give the same float again.
std::string to_json(const std::vector<float>& embedding, bool base64) {
  if (base64) {
    return fmt::format("\"{}\"", to_base64({reinterpret_cast<const char*>(embedding.data()),
                                            embedding.size() * sizeof(float)}));
  }
  return fmt::format("[{}]", fmt::join(embedding, ","));
}

// Everything but on_event runs in the responder's tasks, one at a time.
class EmbeddingJob final : public engine::EventSink, public std::enable_shared_from_this<EmbeddingJob> {
 public:
  EmbeddingJob(Backend& backend, std::shared_ptr<Responder> responder, const EmbeddingRequest& request)
      : backend_(backend),
        responder_(std::move(responder)),
        base64_(request.base64),
        dimensions_(request.dimensions),
        items_(request.inputs.size()) {}

  void start(std::vector<std::vector<int32_t>> inputs) {
    engine::Request request;
    request.kind = engine::RequestKind::embed;
    request.inputs = std::move(inputs);
    const auto id = backend_.submit(std::move(request), shared_from_this());
    if (!id) {
      const bool about_input = id.error().code() == Code::invalid_argument;
      return responder_->send(ApiError::from(id.error(), about_input ? "input" : "").response());
    }
    responder_->on_disconnect([&backend = backend_, id = *id] { backend.abort(id); });
  }

  void on_event(engine::Event event) override {
    responder_->post([self = shared_from_this(), event = std::move(event)]() mutable { self->take(std::move(event)); });
  }

 private:
  void take(engine::Event event) {
    if (event.finish == engine::FinishReason::error) return fail(ApiError::from(event.status));
    if (event.finish == engine::FinishReason::abort) {
      return fail({.status = 503, .message = "the server is shutting down", .code = "unavailable"});
    }
    if (dimensions_) engine::shorten(event.embedding, *dimensions_);
    items_[static_cast<size_t>(event.choice)] = to_json(event.embedding, base64_);
    if (event.last && !over_) answer(event.timing.prompt_tokens);
  }

  // The first failure is the answer.
  void fail(const ApiError& error) {
    if (std::exchange(over_, true)) return;
    responder_->send(error.response());
  }

  void answer(int32_t tokens) {
    over_ = true;
    std::string data;
    for (size_t i = 0; i < items_.size(); ++i) {
      data += fmt::format("{}{{\"object\":\"embedding\",\"index\":{},\"embedding\":{}}}", i == 0 ? "" : ",", i, items_[i]);
    }
    responder_->send({.body = fmt::format("{{\"object\":\"list\",\"data\":[{}],\"model\":{},\"usage\":{{\"prompt_tokens\":{},"
                                          "\"total_tokens\":{}}}}}",
                                          data, nlohmann::json(backend_.card().id).dump(), tokens, tokens)});
  }

  Backend& backend_;
  const std::shared_ptr<Responder> responder_;
  const bool base64_;
  const std::optional<int64_t> dimensions_;
  std::vector<std::string> items_;  // JSON, by input
  bool over_ = false;
};

ApiError no_embedder(const ServerContext& context) {
  return {.status = 400,
          .message = fmt::format("model: \"{}\" generates text and makes no embeddings", context.backend.card().id),
          .param = "model",
          .code = "unsupported_model"};
}

}  // namespace

void handle_embeddings(ServerContext& context, const HttpRequest& request, std::shared_ptr<Responder> responder) {
  Backend& backend = context.backend;
  ParseLimits limits = parse_limits(backend);
  const bool embeds = limits.embedding_size > 0;
  if (!embeds) limits.embedding_size = std::numeric_limits<int32_t>::max();  // the model is what is wrong, not dimensions
  const auto parsed = parse_embedding_request(request.body, limits);
  if (!parsed) return responder->send(parsed.error().response());
  if (auto wrong = check_model(context, parsed->model)) return responder->send(wrong->response());
  if (!embeds) return responder->send(no_embedder(context).response());

  std::vector<std::vector<int32_t>> inputs;
  for (const Prompt& input : parsed->inputs) {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&input)) {
      inputs.push_back(*ids);
      continue;
    }
    auto ids = backend.encode_input(std::get<std::string>(input));
    if (!ids) return responder->send(ApiError::from(ids.error(), "input").response());
    inputs.push_back(std::move(*ids));
  }
  std::make_shared<EmbeddingJob>(backend, std::move(responder), *parsed)->start(std::move(inputs));
}

}  // namespace headrace::server
