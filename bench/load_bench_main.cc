// load_bench [STREAMS] [TOKENS_PER_S] [SECONDS]: what the load generator itself costs. A second process replays streams of
// events, a chunk a token, each in a write of its own and on time; this one measures them. Prints a JSON line: tokens/s that
// came, processor time a token, and the inter-token latency beside the one that was sent.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "load/client.h"
#include "testing/scripted_server.h"

namespace {

using namespace headrace;

// As Headrace's own chunks: 200 bytes.
std::string chunk(std::string_view finish) {
  return fmt::format(
      R"({{"id":"cmpl-7f3b1c9e2d4a5b60","object":"text_completion","created":1700000000,"model":"SmolLM2-135M-Instruct",)"
      R"("choices":[{{"index":0,"text":" wheel","logprobs":null,"finish_reason":{}}}],"usage":null}})",
      finish);
}

[[noreturn]] void replay(int port_pipe, int tokens, std::chrono::microseconds gap) {
  testing::ScriptedReply reply{{testing::stream_head()}};
  for (int i = 0; i < tokens; ++i) reply.pieces.push_back(testing::stream_event(chunk(i + 1 < tokens ? "null" : "\"length\""), gap));
  reply.pieces.push_back(
      testing::stream_event(fmt::format(R"({{"choices":[],"usage":{{"prompt_tokens":16,"completion_tokens":{}}}}})", tokens)));
  reply.pieces.push_back(testing::stream_event("[DONE]"));
  reply.pieces.push_back(testing::stream_end());
  testing::ScriptedServer server([&reply](const testing::ScriptedRequest&) { return reply; });
  const uint16_t port = server.port();
  if (::write(port_pipe, &port, sizeof(port)) != sizeof(port)) std::_Exit(1);
  for (;;) ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  const int streams = argc > 1 ? std::atoi(argv[1]) : 200;
  const double rate = argc > 2 ? std::atof(argv[2]) : 20'000;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 5;
  if (streams < 1 || !(rate > 0) || !(seconds > 0)) {
    fmt::print(stderr, "load_bench [STREAMS] [TOKENS_PER_S] [SECONDS]: want numbers over 0\n");
    return 2;
  }
  const double gap_s = streams / rate;
  const int tokens = std::max(2, static_cast<int>(seconds / gap_s));
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  const pid_t server = ::fork();
  if (server == 0) replay(ends[1], tokens, std::chrono::microseconds(static_cast<int64_t>(gap_s * 1e6)));
  uint16_t port = 0;
  if (server < 0 || ::read(ends[0], &port, sizeof(port)) != sizeof(port)) return 1;
  load::LoadOptions options;
  options.endpoint.host = "127.0.0.1";
  options.endpoint.port = std::to_string(port);
  options.max_requests = streams;
  // Streams start one after the other over a gap, as they would in life, and not in step.
  options.next_arrival = [next = -gap_s / streams, step = gap_s / streams]() mutable { return next += step; };
  options.request = [](int64_t) { return load::Sending{R"({"prompt":"x","stream":true})", 16}; };
  const auto run = load::run_load(options);
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  if (!run) {
    fmt::print(stderr, "{}\n", run.error().message());
    return 1;
  }
  const load::Figures f = load::figures_of(*run, {});
  fmt::print(
      R"({{"bench":"load","streams":{},"completed":{},"tokens_per_s":{:.0f},"cpu_us_per_token":{:.3f},"cpu_share":{:.3f},)"
      R"("itl_sent_ms":{:.3f},"itl_mean_ms":{:.3f},"itl_p99_ms":{:.3f}}})"
      "\n",
      streams, f.completed, f.output_tokens_per_s,
      run->cpu_seconds * 1e6 / static_cast<double>(std::max<int64_t>(1, f.output_tokens)), run->cpu_seconds / run->seconds,
      gap_s * 1e3, f.itl_ms.mean, f.itl_ms.p99);
  return f.completed == streams ? 0 : 1;
}
