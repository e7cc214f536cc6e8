// What a server sends to the load generator: an HTTP response, the events in its body and their JSON. However the network cuts the
// bytes, the same must be read; the first two bytes of the input say where they are cut.
#include <cstdlib>
#include <string_view>
#include <vector>

#include "load/event_stream.h"
#include "load/http_response.h"
#include "reached.h"

namespace headrace::fuzz {
namespace {

struct Read {
  std::vector<std::string> events;
  int tokens = 0, status = 0;
  bool done = false, failed = false, keep_alive = false;
  size_t rest = 0;
  bool operator==(const Read&) const = default;
};

Read read(std::string_view bytes, size_t cut) {
  load::HttpResponse http;
  load::EventStream stream;
  Read out;
  for (std::string_view part : {bytes.substr(0, cut), bytes.substr(cut)}) {
    while (!part.empty() && !http.done() && !http.failed()) {
      std::string_view piece = http.take(part), data;
      while (stream.next(piece, data)) {
        out.events.emplace_back(data);
        const auto chunk = load::stream_chunk_of(data);
        if (chunk && chunk->token) ++out.tokens;
      }
    }
    out.rest += part.size();
  }
  http.close();
  out.done = http.done();
  out.failed = http.failed();
  out.status = http.status();
  out.keep_alive = http.keep_alive();
  return out;
}

}  // namespace
}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace;
  static fuzz::Reached reached("a token");
  reached.input();
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t cut = (size_t{data[0]} << 8 | data[1]) % (bytes.size() + 1);
  const fuzz::Read whole = fuzz::read(bytes, 0);
  if (whole.done == whole.failed) std::abort();
  if (!(fuzz::read(bytes, cut) == whole)) std::abort();
  if (whole.tokens > 0) reached.hit();
  return 0;
}
