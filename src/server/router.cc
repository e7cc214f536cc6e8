#include "server/router.h"

#include <exception>

#include "base/log.h"

namespace headrace::server {
namespace {

enum class Access : uint8_t { open, key };

struct Route {
  std::string_view name, method, path;
  Access access;
  void (*handle)(ServerContext&, const HttpRequest&, std::shared_ptr<Responder>);

  bool matches(std::string_view target) const {
    if (!path.ends_with("/*")) return target == path;
    const std::string_view stem = path.substr(0, path.size() - 1);
    return target.size() > stem.size() && target.starts_with(stem) &&
           target.find('/', stem.size()) == target.npos;
  }
};

constexpr Route kRoutes[] = {
#define HR_ENDPOINT(name, method, path, access) {#name, method, path, Access::access, &handle_##name},
#include "server/endpoints.def"
#undef HR_ENDPOINT
};

const Route* find_route(const HttpRequest& request) {
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  for (const Route& route : kRoutes) {
    if (route.method == method && route.matches(request.path)) return &route;
  }
  return nullptr;
}

// Counts the answer's status, and passes everything on.
class CountingResponder final : public Responder {
 public:
  CountingResponder(std::shared_ptr<Responder> inner, Metrics& metrics, std::string_view endpoint)
      : inner_(std::move(inner)), metrics_(metrics), endpoint_(endpoint) {}

  void send(HttpResponse response) override {
    metrics_.count_answer(endpoint_, response.status);
    inner_->send(std::move(response));
  }
  void start_stream(HttpResponse head) override {
    metrics_.count_answer(endpoint_, head.status);
    inner_->start_stream(std::move(head));
  }
  bool write(std::string_view bytes) override { return inner_->write(bytes); }
  void finish() override { inner_->finish(); }
  void on_disconnect(std::function<void()> gone) override { inner_->on_disconnect(std::move(gone)); }
  void post(std::function<void()> task) override { inner_->post(std::move(task)); }

 private:
  const std::shared_ptr<Responder> inner_;
  Metrics& metrics_;
  const std::string_view endpoint_;
};

// "Bearer KEY" -> KEY; the scheme in any case.
std::string_view bearer(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() < kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if ((header[i] | 0x20) != kScheme[i]) return {};
  }
  return header.substr(kScheme.size());
}

}  // namespace

bool equal_keys(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(key.empty() ? 1 : key[i % key.size()]);
  }
  return difference == 0;
}

std::optional<HttpResponse> Router::admit(const HttpRequest& head) {
  const Route* route = find_route(head);
  if (route == nullptr) {
    for (const Route& other : kRoutes) {
      if (!other.matches(head.path)) continue;
      HttpResponse answer =
          ApiError{.status = 405,
                   .message = fmt::format("{} takes {}, got {}", head.path, other.method, head.method),
                   .code = "method_not_allowed"}
              .response();
      answer.headers.emplace_back("Allow", other.method == "GET" ? "GET, HEAD" : std::string(other.method));
      return answer;
    }
    return ApiError{.status = 404,
                    .message = fmt::format("no such path: {} {}", head.method, head.path),
                    .code = "unknown_url"}
        .response();
  }
  // A browser says when another site's page sends a request: such a page must not use a server on the user's
  // machine.
  if (head.method == "POST" && head.header("sec-fetch-site") == "cross-site") {
    return ApiError{
        .status = 403, .message = "requests from pages of other sites are refused", .code = "cross_site"}
        .response();
  }
  if (route->access == Access::key && !api_key_.empty()) {
    const std::string_view given = bearer(head.header("authorization").value_or(""));
    if (!equal_keys(given, api_key_)) {
      return ApiError{.status = 401,
                      .message = given.empty() ? "this server wants an API key: Authorization: Bearer KEY"
                                               : "the API key is not the one this server was started with",
                      .code = "invalid_api_key"}
          .response();
    }
  }
  return std::nullopt;
}

void Router::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  const Route& route = *find_route(request);  // admit() has found it
  const auto counting =
      std::make_shared<CountingResponder>(std::move(responder), context_.metrics, route.name);
  try {
    route.handle(context_, request, counting);
  } catch (const std::exception& e) {
    log_error("{} {}: exception: {}", request.method, request.path, e.what());
    counting->send(
        ApiError{.status = 500, .message = "internal error; the server's log says more"}.response());
  }
}

HttpResponse Router::protocol_error(int status, std::string_view message) {
  return ApiError{.status = status, .message = std::string(message)}.response();
}

}  // namespace headrace::server
