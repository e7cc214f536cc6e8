#pragma once
// A checkpoint's own vocabulary, as io reads it, in the words of text, and back: neither folder knows the other. Header alone, so that a
// fuzz target needs no engine.

#include <utility>

#include "io/vocab_metadata.h"
#include "text/tokenizer.h"

namespace headrace::engine {

inline text::VocabSpec to_spec(io::VocabMetadata vocab) {
  text::VocabSpec spec;
  spec.model = std::move(vocab.model);
  spec.pre = std::move(vocab.pre);
  spec.tokens = std::move(vocab.tokens);
  spec.scores = std::move(vocab.scores);
  spec.types = std::move(vocab.types);
  spec.merges = std::move(vocab.merges);
  spec.bos_id = vocab.bos_id;
  spec.eos_id = vocab.eos_id;
  spec.unk_id = vocab.unk_id;
  spec.pad_id = vocab.pad_id;
  spec.add_bos = vocab.add_bos;
  spec.add_eos = vocab.add_eos;
  spec.add_space_prefix = vocab.add_space_prefix;
  spec.cls_id = vocab.cls_id;
  spec.sep_id = vocab.sep_id;
  spec.remove_extra_whitespaces = vocab.remove_extra_whitespaces;
  spec.lowercase = vocab.lowercase;
  spec.strip_accents = vocab.strip_accents;
  spec.precompiled_charsmap = std::move(vocab.precompiled_charsmap);
  return spec;
}

// Of the kinds gpt2 and llama.
inline io::VocabMetadata to_metadata(text::VocabSpec spec) {
  io::VocabMetadata vocab;
  vocab.model = std::move(spec.model);
  vocab.pre = std::move(spec.pre);
  vocab.tokens = std::move(spec.tokens);
  vocab.scores = std::move(spec.scores);
  vocab.types = std::move(spec.types);
  vocab.merges = std::move(spec.merges);
  vocab.bos_id = spec.bos_id;
  vocab.eos_id = spec.eos_id;
  vocab.unk_id = spec.unk_id;
  vocab.pad_id = spec.pad_id;
  vocab.add_bos = spec.add_bos;
  vocab.add_eos = spec.add_eos;
  vocab.add_space_prefix = spec.add_space_prefix;
  return vocab;
}

}  // namespace headrace::engine
