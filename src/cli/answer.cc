#include "cli/answer.h"

#include <cstdio>

#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/terminal.h"

namespace headrace::cli {

Result<Answer> answer(engine::ServingModel& model, std::vector<int32_t> prompt, const AnswerOptions& options, bool stream) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = options.max_tokens;
  request.sampling = options.sampling;
  request.starts_text = options.starts_text;

  Answer out;
  const auto on_delta = [&](const engine::TextDelta& delta) {
    out.text += delta.text;
    out.token_ids.insert(out.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    if (delta.finish != engine::FinishReason::none) out.finish = delta.finish;
    if (delta.end_token >= 0) out.token_ids.push_back(delta.end_token);
    if (!stream || delta.text.empty()) return;
    const std::string shown = printable(delta.text);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    std::fflush(stdout);
  };
  const auto cancelled = [] { return InterruptGuard::interrupted() || std::ferror(stdout) != 0; };
  HR_ASSIGN_OR_RETURN(const engine::TextDelta last,
                      engine::generate(model, std::move(request), options.stop, on_delta, cancelled));
  out.timing = last.timing;
  return out;
}

std::string figures_line(const engine::RequestTiming& timing) {
  return fmt::format("{} prompt tokens, {} tokens; TTFT {:.1f} ms, TPOT {:.2f} ms, {:.1f} tokens/s; peak memory {:.0f} MB",
                     timing.prompt_tokens, timing.completion_tokens, timing.ttft_ms(), timing.tpot_ms(),
                     timing.tokens_per_s(), static_cast<double>(peak_rss_bytes()) * 1e-6);
}

}  // namespace headrace::cli
