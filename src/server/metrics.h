#pragma once
// Figures for Prometheus, in its text format. What the engine and the HTTP server count themselves is read
// when a scrape asks; latencies are histograms filled as requests finish. Thread-safe.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/backend.h"
#include "server/http_server.h"

namespace headrace::server {

class Metrics {
 public:
  // `backend` must outlive the object; its observer is set here and may live longer.
  explicit Metrics(Backend& backend);
  ~Metrics();

  void set_http_stats(std::function<HttpStats()> stats);
  // One answer of `endpoint` with this HTTP status.
  void count_answer(std::string_view endpoint, int status);
  std::string text() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::server
