// libcurl's easy interface; no other file includes its headers.
#include "io/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/clock.h"
#include "io/shown_name.h"

namespace headrace::io {
namespace {

constexpr int kMaxRedirects = 8;
constexpr size_t kMaxHeaderBytes = size_t{256} << 10;
constexpr size_t kMaxRefusalBytes = size_t{64} << 10;  // of the body of an answer that nobody reads

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, ListDeleter>;

// "https://host:443"; nothing for what is not an http or https URL.
std::optional<std::string> origin_of(const std::string& url) {
  const std::unique_ptr<CURLU, UrlDeleter> parsed(curl_url());
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return std::string();
    std::string out(text);
    curl_free(text);
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
    return out;
  };
  const std::string scheme = part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return std::nullopt;
  return scheme + "://" + part(CURLUPART_HOST) + ":" + part(CURLUPART_PORT);
}

void append(HeaderList& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  CHECK(longer != nullptr);
  list.release();
  list.reset(longer);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return text;
}

// A storage's URL may be signed: what follows the question mark is nobody's business.
std::string shown_url(const std::string& url) { return shown_name(url.substr(0, url.find('?'))); }

// What one hop has brought so far.
struct Hop {
  const HttpRequest* request;
  const HttpClientOptions* options;
  const std::string& url;
  CURL* curl;
  HttpReply reply;
  size_t header_bytes = 0, refusal_bytes = 0;
  bool head_seen = false;
  curl_off_t seen_bytes = 0;
  TimePoint seen_at = Clock::now();
  Status failure;  // of a callback

  bool accepted() const { return reply.status >= 200 && reply.status < 300; }
  Status enter_body() {
    if (head_seen) return {};
    head_seen = true;
    return request->on_head && accepted() ? request->on_head(reply) : Status();
  }
};

size_t on_header(char* data, size_t, size_t size, void* user) {
  Hop& hop = *static_cast<Hop*>(user);
  hop.header_bytes += size;
  if (hop.header_bytes > kMaxHeaderBytes) {
    hop.failure = make_status(Code::malformed, "more than {} bytes of headers", kMaxHeaderBytes);
    return 0;
  }
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) {  // also after a "100 Continue"
    hop.reply.headers.clear();
    long status = 0;
    curl_easy_getinfo(hop.curl, CURLINFO_RESPONSE_CODE, &status);
    hop.reply.status = static_cast<int>(status);
  } else if (const size_t colon = line.find(':'); colon != line.npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    hop.reply.headers[name] = trimmed(line.substr(colon + 1));
  }
  return size;
}

size_t on_data(char* data, size_t, size_t size, void* user) {
  Hop& hop = *static_cast<Hop*>(user);
  if (!hop.accepted()) {
    hop.refusal_bytes += size;
    return hop.refusal_bytes > kMaxRefusalBytes ? 0 : size;
  }
  hop.failure = hop.enter_body();
  if (hop.failure.ok() && hop.request->on_body) hop.failure = hop.request->on_body({data, size});
  return hop.failure.ok() ? size : 0;
}

// Called by libcurl about once a second, and more often while bytes come.
int on_progress(void* user, curl_off_t, curl_off_t now_bytes, curl_off_t, curl_off_t) {
  Hop& hop = *static_cast<Hop*>(user);
  const TimePoint now = Clock::now();
  if (now_bytes + static_cast<curl_off_t>(hop.header_bytes) != hop.seen_bytes) {
    hop.seen_bytes = now_bytes + static_cast<curl_off_t>(hop.header_bytes);
    hop.seen_at = now;
  }
  const double silent = seconds_between(hop.seen_at, now);
  if (silent * 1000 > static_cast<double>(hop.options->stall_ms)) {
    hop.failure = make_status(Code::unavailable, "{}: nothing came for {:.0f} s", shown_url(hop.url), silent);
    return 1;
  }
  return hop.options->keep_going && !hop.options->keep_going() ? 1 : 0;
}

Status curl_failure(CURLcode code, const std::string& full_url, const char* detail) {
  const std::string url = shown_url(full_url);
  const std::string why = *detail != '\0' ? detail : curl_easy_strerror(code);
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK: return make_status(Code::cancelled, "stopped");
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return make_status(Code::unauthenticated, "{}: the server's certificate is not trusted: {}", url, why);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return make_status(Code::malformed, "{}: {}", url, why);
    default: return make_status(Code::unavailable, "{}: {}", url, why);
  }
}

}  // namespace

struct HttpClient::Impl {
  HttpClientOptions options;
  CURL* curl = nullptr;

  Result<HttpReply> hop(const HttpRequest& request, const std::string& url, std::string& redirect);
};

HttpClient::HttpClient(HttpClientOptions options) : impl_(std::make_unique<Impl>()) {
  static std::once_flag once;
  std::call_once(once, [] { CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); });
  impl_->options = std::move(options);
  impl_->curl = curl_easy_init();
  CHECK(impl_->curl != nullptr);
}

HttpClient::~HttpClient() { curl_easy_cleanup(impl_->curl); }

Result<HttpReply> HttpClient::Impl::hop(const HttpRequest& request, const std::string& url, std::string& redirect) {
  Hop hop{.request = &request, .options = &options, .url = url, .curl = curl};
  HeaderList headers;
  append(headers, "Accept-Encoding: identity");  // sizes and ranges are those of the file
  const auto origin = origin_of(url);
  if (!options.token.empty() && origin && origin == origin_of(options.token_url)) {
    append(headers, "Authorization: Bearer " + options.token);
  }
  if (request.range_begin > 0) append(headers, fmt::format("Range: bytes={}-", request.range_begin));

  char detail[CURL_ERROR_SIZE] = "";
  curl_easy_reset(curl);  // keeps the connections
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOBODY, request.head ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "headrace");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_ms));
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &hop);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &hop);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &hop);
  if (const char* bundle = std::getenv("SSL_CERT_FILE")) curl_easy_setopt(curl, CURLOPT_CAINFO, bundle);

  const CURLcode code = curl_easy_perform(curl);
  if (!hop.failure.ok()) return tl::unexpected(hop.failure);
  // A refusal whose long text was cut off is a refusal all the same.
  const bool cut_refusal = code == CURLE_WRITE_ERROR && hop.refusal_bytes > kMaxRefusalBytes;
  if (code != CURLE_OK && !cut_refusal) return tl::unexpected(curl_failure(code, url, detail));
  HR_RETURN_IF_ERROR(hop.enter_body());  // an answer without a body

  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
  hop.reply.retry_after_seconds = static_cast<double>(retry_after);
  char* target = nullptr;
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &target);
  redirect = target == nullptr ? "" : target;
  return std::move(hop.reply);
}

Result<HttpReply> HttpClient::perform(const HttpRequest& request) {
  std::string url = request.url;
  for (int hops = 0; hops <= kMaxRedirects; ++hops) {
    std::string redirect;
    HR_ASSIGN_OR_RETURN(HttpReply reply, impl_->hop(request, url, redirect));
    const bool stop = !request.stop_at_header.empty() && reply.headers.contains(request.stop_at_header);
    if (redirect.empty() || reply.status < 300 || reply.status >= 400 || stop) return reply;
    if (!origin_of(redirect) || (url.starts_with("https://") && !redirect.starts_with("https://"))) {
      return error(Code::malformed, "{}: redirected to {}, which is not https", shown_url(url), shown_url(redirect));
    }
    url = redirect;
  }
  return error(Code::malformed, "{}: more than {} redirects", shown_url(request.url), kMaxRedirects);
}

std::string_view HttpReply::header(std::string_view name) const {
  const auto at = headers.find(std::string(name));
  return at == headers.end() ? std::string_view() : std::string_view(at->second);
}

std::string encode_path(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string out;
  for (const char c : text) {
    if (kPlain.find(c) != kPlain.npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace headrace::io
