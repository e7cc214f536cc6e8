// fake_server [PORT [STEP_MS [MAX_SEQS]]]: the server and its page over a scripted model, for work on web/ and on clients without a checkpoint.
#include <fmt/core.h>

#include <charconv>
#include <cstring>

#include "server/server.h"
#include "testing/fake_backend.h"

namespace {

constexpr std::string_view kReply =
    "A mill race is the channel that leads water to a mill's wheel and away from it again. The upper part, the *headrace*, "
    "brings water from a pond or a weir; the lower part, the *tailrace*, returns it to the river.\n\n"
    "Its power follows from the flow and the drop:\n\n"
    "```python\ndef power(flow, drop, efficiency=0.7):\n    return 1000 * 9.81 * flow * drop * efficiency  # watts\n```\n\n"
    "With `flow = 0.5` cubic metres per second and a drop of 3 metres that is about 10 kW: enough for a pair of stones.";

}  // namespace

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  uint16_t port = 8000;
  int step_ms = 10, max_seqs = 16;
  const auto parse = [&](int index, auto& value) {
    if (argc > index) std::from_chars(argv[index], argv[index] + std::strlen(argv[index]), value);
  };
  parse(1, port);
  parse(2, step_ms);
  parse(3, max_seqs);
  headrace::testing::FakeModel model;
  model.step_delay = step_ms * 1ms;
  model.max_seqs = max_seqs;
  model.num_blocks = {max_seqs * model.max_context / 16 + 1};
  headrace::engine::EngineConfig config;
  config.max_seqs = max_seqs;
  const auto backend = headrace::testing::make_fake_backend(
      {.name = "fake-model", .model = model, .config = config, .reply = std::string(kReply)});
  const auto server = headrace::server::Server::create(*backend, {.port = port, .stop_on_signals = true});
  if (!server) {
    fmt::print(stderr, "fake_server: {}\n", server.error().message());
    return headrace::exit_code(server.error().code());
  }
  fmt::print("{}\n", (*server)->url());
  std::fflush(stdout);
  (*server)->run();
  return 0;
}
