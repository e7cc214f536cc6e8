// tokenizer_bench TOKENIZER TEXT [THREADS]: how fast a tokenizer.json loads, encodes the lines of TEXT and decodes them again,
// and how long one word of 1 MB takes. One JSON object on standard output. bench/tokenizer_peers.py runs it beside its peers.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "text/tokenizer.h"

namespace {

using headrace::text::Encoding;
using headrace::text::Tokenizer;

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fmt::print(stderr, "{}: cannot be read\n", path);
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Run>
double seconds(const Run& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Run>
double best_of(int times, const Run& run) {
  double best = seconds(run);
  for (int i = 1; i < times; ++i) best = std::min(best, seconds(run));
  return best;
}

// work(i) for every i below n, on so many threads.
template <class Work>
void spread(size_t n, size_t num_threads, const Work& work) {
  std::atomic<size_t> next{0};
  const auto loop = [&] {
    for (size_t i; (i = next.fetch_add(1)) < n;) work(i);
  };
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < num_threads; ++i) threads.emplace_back(loop);
  loop();
}

// Letters that follow no language: no cache helps, and many merges are tried.
std::string long_word() {
  std::string word;
  uint64_t state = 1;
  while (word.size() < 1'000'000) {
    state = state * 6364136223846793005 + 1442695040888963407;
    word += static_cast<char>('a' + (state >> 33) % 26);
  }
  return word;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: tokenizer_bench TOKENIZER TEXT [THREADS]\n");
    return 2;
  }
  const std::string file = read_file(argv[1]), text = read_file(argv[2]);
  const size_t num_threads = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : std::thread::hardware_concurrency();
  std::unique_ptr<Tokenizer> tokenizer;
  const double load = best_of(3, [&] {
    auto loaded = Tokenizer::from_tokenizer_json(file);
    if (!loaded) {
      fmt::print(stderr, "{}\n", loaded.error().to_string());
      std::exit(1);
    }
    tokenizer = *std::move(loaded);
  });
  std::vector<std::string_view> lines;
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(std::string_view(text).substr(begin, end - begin));
  }
  std::vector<Encoding> encodings(lines.size());
  std::vector<std::string> texts(lines.size());
  const auto encode = [&](size_t i) {
    if (auto encoding = tokenizer->encode(lines[i], {.add_special_tokens = false})) encodings[i] = *std::move(encoding);
  };
  const auto decode = [&](size_t i) { texts[i] = tokenizer->decode(encodings[i].ids, false); };
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  const double encode_1 = best_of(3, [&] { spread(lines.size(), 1, encode); });
  const double encode_all = best_of(3, [&] { spread(lines.size(), num_threads, encode); });
  const double decode_1 = best_of(3, [&] { spread(lines.size(), 1, decode); });
  const double decode_all = best_of(3, [&] { spread(lines.size(), num_threads, decode); });
  const std::string word = long_word(), same(word.size(), 'a');
  const auto one = [&](const std::string& w) {
    return best_of(3, [&] { (void)tokenizer->encode(w, {.add_special_tokens = false}); });
  };
  size_t num_ids = 0;
  for (const Encoding& encoding : encodings) num_ids += encoding.ids.size();
  fmt::print("{{\"load_ms\": {:.1f}, \"encode_mb_s\": {:.2f}, \"encode_all_mb_s\": {:.2f}, \"decode_mb_s\": {:.2f}, "
             "\"decode_all_mb_s\": {:.2f}, \"threads\": {}, \"word_ms\": {:.1f}, \"same_letter_ms\": {:.1f}, \"ids\": {}}}\n",
             load * 1e3, megabytes / encode_1, megabytes / encode_all, megabytes / decode_1, megabytes / decode_all, num_threads,
             one(word) * 1e3, one(same) * 1e3, num_ids);
}
