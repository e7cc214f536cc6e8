// fake_server [PORT]: the server and its page over a scripted model, for work on web/ and on clients without a checkpoint.
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
  if (argc > 1) std::from_chars(argv[1], argv[1] + std::strlen(argv[1]), port);
  const auto backend = headrace::testing::make_fake_backend(
      {.name = "fake-model", .model = {.step_delay = 10ms}, .reply = std::string(kReply)});
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
