#pragma once
// The handlers of endpoints.def and what they have in common. A handler runs on a worker thread, answers
// through the responder, now or later, and may throw: the router answers 500 then.

#include <cstdint>
#include <memory>
#include <optional>

#include "server/api_error.h"
#include "server/backend.h"
#include "server/http.h"
#include "server/metrics.h"

namespace headrace::server {

struct ServerContext {
  Backend& backend;
  Metrics& metrics;
  int64_t started = 0;         // Unix seconds
  bool allow_special = false;  // what a chat that does not say gets
};

#define HR_ENDPOINT(name, method, path, access)                          \
  void handle_##name(ServerContext& context, const HttpRequest& request, \
                     std::shared_ptr<Responder> responder);
#include "server/endpoints.def"
#undef HR_ENDPOINT

// 404 unless `model` is what the server serves.
std::optional<ApiError> check_model(const ServerContext& context, const std::string& model);
// 400 where the model that is served is an embedder.
std::optional<ApiError> check_generates(const ServerContext& context);

}  // namespace headrace::server
