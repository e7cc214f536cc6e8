// The environment variables that Hugging Face tools share, as HubOptions.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "io/hub.h"

namespace headrace::io {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string trimmed(std::string text) {
  const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  text.erase(std::find_if_not(text.rbegin(), text.rend(), blank).base(), text.end());
  return text;
}

// What may stand in a header or a URL as it is.
bool is_plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 32 && c < 127; });
}

bool is_yes(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text == "1" || text == "on" || text == "yes" || text == "true";
}

// The first line of the file, at most 4 KiB; "" without one.
std::string token_file(const std::string& path) {
  std::ifstream file(path);
  char text[4096];
  file.read(text, sizeof text);
  std::string token(text, static_cast<size_t>(file.gcount()));
  return trimmed(token.substr(0, token.find('\n')));
}

}  // namespace

Result<HubOptions> hub_options_from_environment() {
  HubOptions options;
  if (std::string endpoint = trimmed(variable("HF_ENDPOINT")); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (!is_plain(endpoint) || !(endpoint.starts_with("https://") || endpoint.starts_with("http://"))) {
      return error(Code::invalid_argument, "HF_ENDPOINT: want a URL such as {}, got '{}'", HubOptions().endpoint, endpoint);
    }
    options.endpoint = endpoint;
  }
  std::string home = variable("HF_HOME");
  if (home.empty()) {
    std::string cache = variable("XDG_CACHE_HOME");
    if (cache.empty()) {
      const std::string user = variable("HOME");
      if (user.empty()) {
        return error(Code::invalid_argument, "no place for models: set HF_HOME, XDG_CACHE_HOME or HOME to a folder");
      }
      cache = user + "/.cache";
    }
    home = cache + "/huggingface";
  }
  options.cache = variable("HF_HUB_CACHE");
  if (options.cache.empty()) options.cache = home + "/hub";
  options.offline = is_yes(variable("HF_HUB_OFFLINE"));
  options.token = trimmed(variable("HF_TOKEN"));
  if (options.token.empty()) {
    const std::string path = variable("HF_TOKEN_PATH");
    options.token = token_file(path.empty() ? home + "/token" : path);
  }
  // The token itself stands in no message.
  if (!is_plain(options.token)) return error(Code::invalid_argument, "HF_TOKEN: want one word of ASCII characters");
  return options;
}

}  // namespace headrace::io
