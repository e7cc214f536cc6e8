#!/usr/bin/env python3
"""Times one engine on one ONNX model, in a process of its own, and prints one JSON object, as `headrace graph bench --json` has it:
median_ms and best_ms of --runs runs after one that does not count; load_s, from opening the model until that first run was done;
peak_bytes, the most that was resident until then, less what the interpreter and the inputs held before the engine's library was loaded.

usage: graph_bench.py onnxruntime|openvino MODEL --input NAME=FILE.npy... [--runs N] [--threads N]   (bench/graph.py makes its environment)
"""
import argparse
import json
import pathlib
import re
import statistics
import time

import numpy


def resident(field):
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", pathlib.Path("/proc/self/status").read_text()).group(1))


# Each gives the moment at which it began, its library loaded, and what runs the model.

def load_onnxruntime(path, threads, inputs):
    import onnxruntime

    begin = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return begin, lambda: session.run(None, inputs)


def load_openvino(path, threads, inputs):
    import openvino

    begin = time.perf_counter()
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(path, "CPU", config).create_infer_request()
    return begin, lambda: request.infer(inputs, share_inputs=True, share_outputs=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=("onnxruntime", "openvino"))
    parser.add_argument("model")
    parser.add_argument("--input", action="append", default=[])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    inputs = {name: numpy.load(file) for name, file in (text.split("=", 1) for text in options.input)}
    before = resident("VmRSS")
    load = load_onnxruntime if options.engine == "onnxruntime" else load_openvino
    begin, run = load(options.model, options.threads, inputs)
    run()
    row = {"load_s": time.perf_counter() - begin, "peak_bytes": resident("VmHWM") - before}
    milliseconds = []
    for _ in range(options.runs):
        begin = time.perf_counter()
        run()
        milliseconds.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({**row, "runs": options.runs, "median_ms": statistics.median(milliseconds), "best_ms": min(milliseconds)}))


if __name__ == "__main__":
    main()
