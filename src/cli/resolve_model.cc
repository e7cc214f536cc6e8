// The order of the three kinds of names, and the picture of a download.
#include "cli/resolve_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "io/catalogue.h"
#include "io/hub.h"

namespace headrace::cli {
namespace {

// A path that was mistyped is no reason to ask a hub: ./x, /x, ~/x, and x/y.gguf, which names a repository for nobody.
bool is_meant_as_path(std::string_view name, const io::HubName& hub) {
  if (name.starts_with('.') || name.starts_with('/') || name.starts_with('~')) return true;
  return hub.file.empty() &&
         (hub.repo.ends_with(".gguf") || hub.repo.ends_with(".safetensors") || hub.repo.ends_with(".json"));
}

std::string megabytes(uint64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) * 1e-6); }

class DownloadPicture {
 public:
  DownloadPicture(const std::string& name, const std::string& endpoint) : name_(name), endpoint_(endpoint) {}

  bool show(const io::HubProgress& news) {
    using Phase = io::HubProgress::Phase;
    if (InterruptGuard::interrupted()) return false;
    if (news.phase == Phase::downloading && !told_) {
      told_ = true;
      start_ = Clock::now();
      done_at_start_ = news.done;
      note("Fetching {} from {}\n", printable(name_), printable(endpoint_));
    }
    const double fraction = news.total == 0 ? 0 : static_cast<double>(news.done) / static_cast<double>(news.total);
    bar_.update(fraction, describe(news));
    return true;
  }

 private:
  std::string describe(const io::HubProgress& news) const {
    using Phase = io::HubProgress::Phase;
    const std::string file = printable(news.file);
    switch (news.phase) {
      case Phase::asking: return "asking the hub " + file;
      case Phase::waiting: return file + ": another process is fetching it";
      case Phase::checking: return file + ": checking";
      case Phase::downloading: break;
    }
    const double seconds = std::max(seconds_between(start_, Clock::now()), 0.001);
    const auto per_second = static_cast<uint64_t>(static_cast<double>(news.done - std::min(news.done, done_at_start_)) / seconds);
    return fmt::format("{} of {} MB, {} MB/s, {}", megabytes(news.done), megabytes(news.total), megabytes(per_second), file);
  }

  const std::string name_, endpoint_;
  ProgressBar bar_{"fetching"};
  bool told_ = false;
  TimePoint start_{};
  uint64_t done_at_start_ = 0;
};

Result<std::string> from_hub(const std::string& text, const io::HubName& name) {
  HR_ASSIGN_OR_RETURN(io::HubOptions options, io::hub_options_from_environment());
  const InterruptGuard interrupts(InterruptGuard::Mode::once);
  DownloadPicture picture(text, options.endpoint);
  options.progress = [&](const io::HubProgress& news) { return picture.show(news); };
  Result<std::string> path = io::resolve_hub_model(name, options);
  if (path) return path;
  if (path.error().code() == Code::cancelled) {
    return error(Code::cancelled, "{}: the download was stopped; the same command goes on from there", text);
  }
  const Code code = path.error().code();
  if (code != Code::not_found && code != Code::unauthenticated && code != Code::unavailable) return path;
  return error(code, "{}: no such file or folder, and no name of the catalogue ({}); as a name on a hub: {}", text,
               io::catalogue_names(), path.error().message());
}

}  // namespace

Result<std::string> resolve_model(const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) return name;
  if (const io::CatalogueEntry* entry = io::find_in_catalogue(name)) return io::locate(*entry);
  const Result<io::HubName> hub = io::parse_hub_name(name);
  if (hub && !is_meant_as_path(name, *hub)) return from_hub(name, *hub);
  return error(Code::not_found,
               "cannot open {}: No such file or directory. It is no name of the catalogue ({}) and none on a hub "
               "(org/name, org/name:revision or org/name/file.gguf) either", name, io::catalogue_names());
}

}  // namespace headrace::cli
