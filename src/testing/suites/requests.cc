// Suite `requests`: bytes sent to the HTTP server -> status of the answer, whether the connection ends, and
// that the server serves on. The server is the product's; the model behind it is the fake runner.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "testing/case_suite.h"
#include "testing/raw_http.h"
#include "testing/test_server.h"

namespace headrace::testing {
namespace {

using nlohmann::json;

constexpr std::string_view kKey = "k-0123456789abcdef";
constexpr std::string_view kGood = R"({"model":"m","prompt":"a","max_tokens":1})";

// One server for all cases, so that each has to survive those before it.
TestServer& served() {
  static TestServer server({.name = "m", .model = {.max_context = 128, .num_blocks = {65}}},
                           {.api_key = std::string(kKey)});
  return server;
}

bool allows(const json& statuses, int status) {
  return std::any_of(statuses.begin(), statuses.end(),
                     [&](const json& allowed) { return allowed == status; });
}

// Why the answer is not what was expected, or "".
std::string judge(const json& in, const json& expected) {
  RawConnection connection(served().port());
  const std::string bytes = in.contains("raw") ? in["raw"].get<std::string>()
                                               : http_request("POST", in["path"].get<std::string>(),
                                                              in["json"].get<std::string>(), kKey);
  if (!connection.send(bytes)) return "the request could not be sent";
  const std::optional<RawResponse> answer = connection.read_response();
  const json& statuses = expected.at("status");
  if (!answer) return statuses.empty() ? "" : "no answer";
  if (!answer->complete) return "the answer's body is cut off";
  if (!statuses.empty() && !allows(statuses, answer->status)) {
    return fmt::format("want status {}, got {}: {}", statuses.dump(), answer->status, answer->body);
  }
  if (answer->status >= 400) {
    const json body = json::parse(answer->body, nullptr, false);
    if (!body.is_object() || !body.contains("error") || !body["error"].is_object()) {
      return fmt::format("the error's body has no error object: {}", answer->body);
    }
  }
  if ((expected.contains("closed") || expected.contains("answers")) && !connection.closed_by_peer()) {
    return "the connection is not closed after one answer";
  }
  return "";
}

// Why the server is not well after the case, or "".
std::string check_alive() {
  const RawResponse health = fetch(served().port(), "GET", "/health");
  if (health.status != 200) return fmt::format("afterwards GET /health answers {}", health.status);
  const RawResponse completion = fetch(served().port(), "POST", "/v1/completions", kGood, kKey);
  if (completion.status != 200) return fmt::format("afterwards a completion answers {}", completion.status);
  return "";
}

}  // namespace

CaseResult run_requests(const CaseContext& context) {
  std::string why = judge(context.input, context.expected);
  if (why.empty()) why = check_alive();
  return why.empty() ? CaseResult::pass() : CaseResult::fail(std::move(why));
}

}  // namespace headrace::testing
