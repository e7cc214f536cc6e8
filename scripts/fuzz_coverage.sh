#!/usr/bin/env bash
# scripts/fuzz_coverage.sh [CORPUS]: how many lines of each parser the fuzz targets reach on the seeds and the corpora
# that scripts/fuzz.sh left (CORPUS/NAME, default build/fuzz/corpus): the table of docs/fuzzing.md. Needs clang-16 and llvm-16.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
corpus=${1:-build/fuzz/corpus}
dir=build/fuzz-coverage
tools=/usr/lib/llvm-16/bin

mkdir -p "$dir"
cmake --preset fuzz-coverage > "$dir/configure.log" 2>&1 || { cat "$dir/configure.log"; exit 1; }
[ -d build/fuzz/seeds ] || die "no build/fuzz/seeds: scripts/fuzz.sh makes them"
build "$dir" gguf_fuzz safetensors_fuzz config_fuzz vocabulary_fuzz tokenizer_json_fuzz template_fuzz

# report NAME FILE...: runs the target NAME once over its inputs and prints a row for each FILE.
report() {
  local name=$1 inputs=("build/fuzz/seeds/$1")
  shift
  [ ! -d "$corpus/$name" ] || inputs+=("$corpus/$name")
  LLVM_PROFILE_FILE="$dir/$name.profraw" "$dir/${name}_fuzz" "${inputs[@]}" -runs=0 2> "$dir/$name.log"
  "$tools/llvm-profdata" merge -sparse "$dir/$name.profraw" -o "$dir/$name.profdata"
  # Columns 8 to 10 are lines, missed lines and the share of lines.
  "$tools/llvm-cov" report "$dir/${name}_fuzz" "-instr-profile=$dir/$name.profdata" |
    awk -v target="$name" -v files=" $* " \
      'index(files, " " $1 " ") {printf "| %s | %s | %s of %s | %s |\n", target, $1, $8 - $9, $8, $10; target = ""}'
  echo "$name: $(grep ^reached "$dir/$name.log")" >&2
}

echo "| target | file | lines reached | share |"
echo "|---|---|---|---|"
report gguf src/io/gguf.cc src/io/gguf_model.cc src/io/gguf_names.cc
report safetensors src/io/safetensors.cc
report config src/io/config_map.cc
report vocabulary src/io/gguf.cc src/io/gguf_names.cc src/text/load_vocab.cc
report tokenizer_json src/text/load_tokenizer_json.cc src/text/json_lists.cc src/text/pipeline_tokenizer.cc src/text/added_tokens.cc \
  src/text/normalizer.cc src/text/pre_tokenizer.cc src/text/decoder.cc src/text/bpe.cc src/text/unigram.cc src/text/wordpiece.cc
report template src/text/chat_template.cc src/text/jinja/*.cc
