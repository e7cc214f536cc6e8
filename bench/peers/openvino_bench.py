#!/usr/bin/env python3
"""Times OpenVINO GenAI on a GGUF file, on the CPU, and prints one JSON object: the time to the first token and the time per token
after it, of each repeat, by the library's own clock. One more repeat comes first and is not counted.

usage: openvino_bench.py FILE [--prompt-tokens N] [--gen-tokens N] [--repeat N] [--threads N]   (setup.sh makes its environment)
"""
import argparse
import json

import numpy
import openvino
import openvino_genai


def prompt(tokens, repeat):
    """Made-up ids, other ones each time from the first on: the library keeps what it has computed of a prefix that it has seen."""
    ids = numpy.random.default_rng(repeat).integers(1000, 40000, size=(1, tokens), dtype=numpy.int64)
    return openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--gen-tokens", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    pipeline = openvino_genai.LLMPipeline(options.file, "CPU", INFERENCE_NUM_THREADS=options.threads)
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = options.gen_tokens, True, False
    row = {"version": openvino_genai.__version__, "ttft_ms": [], "tpot_ms": []}
    for repeat in range(options.repeat + 1):
        metrics = pipeline.generate(prompt(options.prompt_tokens, repeat), config).perf_metrics
        counted = metrics.get_num_input_tokens(), metrics.get_num_generated_tokens()
        if counted != (options.prompt_tokens, options.gen_tokens):
            raise SystemExit(f"openvino_bench: want {options.prompt_tokens} tokens read and {options.gen_tokens} made, got {counted}")
        if repeat > 0:
            row["ttft_ms"].append(metrics.get_ttft().mean)
            row["tpot_ms"].append(metrics.get_tpot().mean)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
