#pragma once
// Beam search over the answers to one prompt, from the best tokens of each beam: which beams go on, which hypotheses have ended,
// when nothing can change any more. The rules are those of transformers' generate(num_beams=...). Knows neither sequences nor
// memory. Not thread-safe.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"

namespace headrace::engine {

class BeamSearch {
 public:
  struct Hypothesis {
    std::vector<TokenLogprob> tokens;  // without the id that ended it
    int32_t end_token = -1;            // that id; -1: max_tokens was reached
    double sum = 0;                    // of log-probabilities, that id's included
    double score = 0;                  // sum / length^length_penalty, that id counted
  };
  // One live beam becomes `token` after beam `parent` of the step before.
  struct Move {
    int32_t parent = 0, token = 0;
  };

  // `stop_ids` is sorted. `num_listed`: so many of the best are kept in each TokenLogprob.
  BeamSearch(const BeamParams& params, std::vector<int32_t> stop_ids, int32_t min_tokens, int32_t max_tokens, int32_t num_listed);

  // So many of the best tokens of each beam advance() wants to see.
  int32_t num_candidates() const { return params_.width + static_cast<int32_t>(stop_ids_.size()); }
  // Beams that go on; 1 before the first step.
  int32_t num_live() const { return static_cast<int32_t>(live_.size()); }
  // `candidates[beam].top`: the best tokens after each live beam. The moves are the next live beams; none when the search is over.
  std::vector<Move> advance(std::span<const TokenLogprob> candidates);
  // The best hypotheses, best first; after the end.
  const std::vector<Hypothesis>& results() const { return ended_; }

 private:
  struct Option {
    int32_t parent, token;
    double sum;
    bool ends;
  };
  Hypothesis extend(const Option& option, const TokenLogprob& candidates) const;
  void end(const Option& option, const TokenLogprob& candidates);
  bool is_over() const;

  const BeamParams params_;
  const std::vector<int32_t> stop_ids_;
  const int32_t min_tokens_, max_tokens_, num_listed_;
  int32_t length_ = 0;            // tokens of each live beam
  std::vector<Hypothesis> live_;  // best first
  std::vector<Hypothesis> ended_;  // at most width, best first
};

}  // namespace headrace::engine
