#include "runtime/matmul_plan.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/log.h"
#include "io/cache_folder.h"
#include "ops/matmul.h"

namespace headrace::runtime {
namespace {

// HEADRACE_PLAN, where it is set.
std::optional<std::string> named_plan() {
  const char* named = std::getenv("HEADRACE_PLAN");
  return named == nullptr ? std::nullopt : std::optional<std::string>(named);
}

bool same_but_tokens(const DeviceMatmul& a, const DeviceMatmul& b) {
  return a.dtype == b.dtype && a.out == b.out && a.bias == b.bias && a.n == b.n && a.k == b.k;
}

}  // namespace

std::string matmul_plan_name(std::string_view card) {
  std::string name;
  for (const char c : card) {
    const bool upper = c >= 'A' && c <= 'Z', plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (upper || plain) {
      name += upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  return name + ".plan";
}

std::vector<std::string> matmul_plan_places(std::string_view card) {
  if (const std::optional<std::string> named = named_plan()) {
    return named->empty() ? std::vector<std::string>() : std::vector<std::string>{*named};
  }
  std::vector<std::string> places;
  for (const std::string& folder : {io::cache_folder(), program_folder()}) {
    if (!folder.empty()) places.push_back(folder + "/plans/" + matmul_plan_name(card));
  }
  return places;
}

Result<std::string> matmul_plan_to_write(std::string_view card) {
  if (const std::optional<std::string> named = named_plan(); named && !named->empty()) return *named;
  const std::string folder = io::cache_folder();
  if (!folder.empty()) return folder + "/plans/" + matmul_plan_name(card);
  return error(Code::invalid_argument, "no place for a plan: give --out FILE, or set XDG_CACHE_HOME or HOME to a folder");
}

void load_first_matmul_plan(const Accelerator& accelerator) {
  const Result<DeviceFacts> facts = accelerator.facts();
  if (!facts) return log_warning("no plan of products: {}", facts.error().to_string());
  for (const std::string& place : matmul_plan_places(facts->name)) {
    std::error_code ignored;
    if (!named_plan() && !std::filesystem::exists(place, ignored)) continue;
    const Status loaded = accelerator.load_matmul_plan(place);
    if (loaded.ok()) return log_info("{}: loaded", place);
    log_warning("plan not used: {}. `headrace tune MODEL --device cuda` makes a new one; an empty HEADRACE_PLAN looks for none",
                loaded.message());
  }
}

std::vector<DeviceMatmul> matmul_products(const Graph& graph, const Bindings& most) {
  std::vector<DeviceMatmul> products;
  for (const Node& node : graph.nodes) {
    if (node.dead || (node.op != &ops::matmul_bf16 && node.op != &ops::matmul)) continue;
    const ValueType &x = graph.values[node.inputs[0]].type, &y = graph.values[node.outputs[0]].type;
    const DeviceMatmul product{.dtype = x.dtype,
                               .out = y.dtype,
                               .bias = node.inputs.size() > 2,
                               .n = y.shape[1].eval(most),
                               .k = x.shape[1].eval(most),
                               .tokens = y.shape[0].eval(most)};
    const auto known = std::ranges::find_if(products, [&](const DeviceMatmul& other) { return same_but_tokens(product, other); });
    if (known == products.end()) {
      products.push_back(product);
    } else {
      known->tokens = std::max(known->tokens, product.tokens);
    }
  }
  return products;
}

std::vector<int64_t> tuned_tokens(int64_t tokens) {
  constexpr int64_t kTokens[] = {16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192, 16384};
  std::vector<int64_t> tuned;
  for (const int64_t count : kTokens) {
    tuned.push_back(count);
    if (count >= tokens) break;
  }
  return tuned;
}

}  // namespace headrace::runtime
