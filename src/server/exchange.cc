#include "server/exchange.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <ctime>
#include <iterator>

namespace headrace::server {

std::string serialize_head(const HttpResponse& response, const Framing& framing, bool stream) {
  std::string head;
  const auto out = std::back_inserter(head);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", response.status,
                 http_reason(response.status), fmt::gmtime(std::time(nullptr)));
  if (!response.content_type.empty()) fmt::format_to(out, "Content-Type: {}\r\n", response.content_type);
  for (const auto& [name, value] : response.headers) fmt::format_to(out, "{}: {}\r\n", name, value);
  if (!stream) {
    fmt::format_to(out, "Content-Length: {}\r\n", response.body.size());
  } else if (framing.chunked) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  head += framing.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

class Exchange::Handle final : public Responder {
 public:
  Handle(std::shared_ptr<Exchange> exchange, HttpResponse if_abandoned)
      : exchange_(std::move(exchange)), if_abandoned_(std::move(if_abandoned)) {}

  ~Handle() override {
    send(std::move(if_abandoned_));
    Exchange& x = *exchange_;
    const std::lock_guard lock(x.mutex_);
    if (x.state_ != State::streaming) return;
    x.broken_ = true;
    x.signal();
  }

  void send(HttpResponse response) override {
    Exchange& x = *exchange_;
    const std::lock_guard lock(x.mutex_);
    if (x.state_ != State::waiting) return;
    x.head_ = serialize_head(response, x.framing_, false);
    if (!x.framing_.head_only) x.body_ = std::move(response.body);
    x.state_ = State::complete;
    x.terminated_ = true;  // Content-Length bounds it
    x.signal();
  }

  void start_stream(HttpResponse head) override {
    Exchange& x = *exchange_;
    const std::lock_guard lock(x.mutex_);
    if (x.state_ != State::waiting) return;
    x.head_ = serialize_head(head, x.framing_, true);
    x.state_ = State::streaming;
    x.signal();
  }

  bool write(std::string_view bytes) override {
    Exchange& x = *exchange_;
    const std::lock_guard lock(x.mutex_);
    if (x.closed_ || x.broken_ || x.state_ != State::streaming) return false;
    if (x.framing_.head_only || bytes.empty()) return true;
    if (x.body_.size() + bytes.size() > x.max_unsent_bytes_) {
      x.broken_ = true;
      x.signal();
      return false;
    }
    x.body_ += bytes;
    x.signal();
    return true;
  }

  void finish() override {
    Exchange& x = *exchange_;
    const std::lock_guard lock(x.mutex_);
    if (x.state_ != State::streaming) return;
    x.state_ = State::complete;
    x.signal();
  }

  void on_disconnect(std::function<void()> gone) override {
    Exchange& x = *exchange_;
    {
      const std::lock_guard lock(x.mutex_);
      if (!x.closed_) {
        std::swap(x.on_disconnect_, gone);
        return;
      }
      if (!x.gone_) return;
    }
    gone();
  }

  void post(std::function<void()> task) override {
    Exchange& x = *exchange_;
    const std::lock_guard lock(x.mutex_);
    if (!x.closed_) x.run_(std::move(task));
  }

 private:
  std::shared_ptr<Exchange> exchange_;
  HttpResponse if_abandoned_;
};

Exchange::Exchange(Framing framing, size_t max_unsent_bytes, Wake wake, Run run)
    : framing_(framing), max_unsent_bytes_(max_unsent_bytes), wake_(std::move(wake)), run_(std::move(run)) {}

std::shared_ptr<Responder> Exchange::responder(std::shared_ptr<Exchange> exchange,
                                               HttpResponse if_abandoned) {
  return std::make_shared<Handle>(std::move(exchange), std::move(if_abandoned));
}

void Exchange::signal() {
  if (closed_ || signalled_) return;
  signalled_ = true;
  wake_();
}

Exchange::Outgoing Exchange::take() {
  const std::lock_guard lock(mutex_);
  signalled_ = false;
  Outgoing out;
  out.broken = broken_;
  out.complete = state_ == State::complete;
  out.bytes = std::exchange(head_, {});
  const bool chunked = framing_.chunked && !framing_.head_only && !terminated_;
  if (chunked && !body_.empty()) fmt::format_to(std::back_inserter(out.bytes), "{:x}\r\n", body_.size());
  const bool had_body = !body_.empty();
  out.bytes += body_;
  body_.clear();
  if (chunked && had_body) out.bytes += "\r\n";
  if (chunked && out.complete) {
    out.bytes += "0\r\n\r\n";
    terminated_ = true;
  }
  return out;
}

void Exchange::close(bool gone) {
  std::function<void()> on_disconnect;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    gone_ = gone;
    on_disconnect = std::exchange(on_disconnect_, nullptr);
    wake_ = nullptr;
    run_ = nullptr;
    head_.clear();
    body_.clear();
  }
  if (gone && on_disconnect) on_disconnect();
}

}  // namespace headrace::server
