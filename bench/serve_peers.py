#!/usr/bin/env python3
"""serve_peers.py BUILD VENV [--rounds 3] [--step-ms 50] ...: `headrace bench serve` beside other load generators on one server.

BUILD holds `headrace` and `fake_server`, VENV is a virtual environment with guidellm==0.8.1 and aiperf==0.13.0 (either may be missing).
The server answers with a token a step of --step-ms, so that a step's time bounds what can differ. All send the same number of requests
of the same lengths at the same constant rate, turn by turn; the table shows medians over the rounds of each one's means, and ours beside
them. The rate has no common measure with the step: requests that are sent when others end would all meet the server at the same moment
of a step, at one that depends on how fast the client is, and times to first tokens would differ by up to a step.
What the others call inter-token latency is the mean of a request's (last - first token) / (tokens - 1): our TPOT.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

FIGURES = ["TTFT, ms", "TPOT, ms", "E2E, ms", "output tokens/s", "requests/s"]


def byte_tokenizer(folder: pathlib.Path):
    """A tokenizer.json for which a byte is a token, as the fake server counts."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    vocab, more = {}, 0
    for byte in range(256):
        vocab[chr(byte if byte in printable else 256 + more)] = byte
        more += byte not in printable
    vocab["<|end|>"] = 256
    end = {"id": 256, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [end], "normalizer": None, "pre_tokenizer": level, "decoder": level, "post_processor": None,
        "model": {"type": "BPE", "vocab": vocab, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<|end|>", "model_max_length": 2048}))


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: exit {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")


class Headrace:
    name = "headrace bench serve"

    def __init__(self, build, venv):
        self.program = build / "headrace"

    def measure(self, url, args, folder):
        out = folder / "headrace.json"
        run([self.program, "bench", "serve", "--url", url, "--num-requests", args.requests, "--rate", args.rate,
             "--arrivals", "constant", "--prompt-tokens", args.prompt_tokens, "--output-tokens", args.output_tokens, "--json", out])
        got = json.loads(out.read_text())
        if got["completed"] != args.requests:
            raise RuntimeError(f"headrace: {got['completed']} of {args.requests} answered, errors {got['errors']}")
        return [got["ttft_ms"]["mean"], got["tpot_ms"]["mean"], got["e2e_ms"]["mean"], got["output_tokens_per_s"], got["requests_per_s"]]


class Guidellm:
    name = "guidellm"

    def __init__(self, build, venv):
        self.program = venv / "bin" / "guidellm"

    def measure(self, url, args, folder):
        out = folder / "guidellm.json"
        run([self.program, "run", "--backend", f"kind=openai_http,target={url},model=fake-model,request_format=/v1/completions",
             "--profile", f"kind=constant,rate={args.rate}", "--constraint", f"kind=max_requests,count={args.requests}",
             "--tokenizer", f"kind=huggingface_auto,model={folder}", "--data",
             f"kind=synthetic_text,prompt_tokens={args.prompt_tokens},output_tokens={args.output_tokens}",
             "--output", f"kind=json,path={out}", "--disable-console"])
        metrics = json.loads(out.read_text())["benchmarks"][0]["metrics"]
        if metrics["request_totals"]["successful"] != args.requests:
            raise RuntimeError(f"guidellm: {metrics['request_totals']} of {args.requests}")
        mean = lambda name: metrics[name]["successful"]["mean"]
        return [mean("time_to_first_token_ms"), mean("inter_token_latency_ms"), mean("request_latency") * 1e3,
                mean("output_tokens_per_second"), mean("requests_per_second")]


class Aiperf:
    name = "aiperf"

    def __init__(self, build, venv):
        self.program = venv / "bin" / "aiperf"

    def measure(self, url, args, folder):
        out = folder / "aiperf"
        run([self.program, "profile", "--model", "fake-model", "--url", url, "--endpoint-type", "completions", "--streaming", "--tokenizer",
             folder, "--use-server-token-count", "--use-legacy-max-tokens", "--extra-inputs", "ignore_eos:true", "--extra-inputs",
             "temperature:0", "--prompt-input-tokens-mean", args.prompt_tokens, "--prompt-input-tokens-stddev", 0,
             "--prompt-output-tokens-mean", args.output_tokens, "--prompt-output-tokens-stddev", 0, "--request-rate", args.rate,
             "--arrival-pattern", "constant", "--request-count", args.requests, "--ui-type", "none", "--output-artifact-dir", out, "--workers-max", 1,
             "--no-gpu-telemetry", "--no-server-metrics"])
        got = json.loads((out / "profile_export_aiperf.json").read_text())
        assert got["request_count"]["avg"] == args.requests
        return [got[name]["avg"] for name in ("time_to_first_token", "inter_token_latency", "request_latency", "output_token_throughput",
                                              "request_throughput")]


def version_of(name, venv):
    for path in venv.glob("lib/python*/site-packages"):
        for found in importlib.metadata.distributions(path=[str(path)]):
            if found.metadata["Name"].lower() == name:
                return found.version
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("venv", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step-ms", type=int, default=50)
    parser.add_argument("--requests", type=int, default=96)
    parser.add_argument("--rate", type=float, default=7.03)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--output-tokens", type=int, default=32)
    args = parser.parse_args()
    peers = [kind(args.build, args.venv) for kind in (Headrace, Guidellm, Aiperf)]
    peers = [peer for peer in peers if peer.program.exists()]
    os.environ.pop("HF_HUB_OFFLINE", None)  # aiperf refuses a folder as tokenizer with it
    server = subprocess.Popen([args.build / "fake_server", "0", str(args.step_ms), "64"], stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", server.stdout.readline()).group()
        rows = {peer.name: [] for peer in peers}
        with tempfile.TemporaryDirectory() as folder:
            byte_tokenizer(pathlib.Path(folder))
            for _ in range(args.rounds):
                for peer in peers:
                    rows[peer.name].append(peer.measure(url, args, pathlib.Path(folder)))
    finally:
        server.terminate()
        server.wait()
    print(f"{args.requests} requests, {args.rate} a second, {args.prompt_tokens} + {args.output_tokens} tokens, "
          f"a step of {args.step_ms} ms, medians of {args.rounds} rounds\n")
    print("| | " + " | ".join(FIGURES) + " |\n|---|" + "---|" * len(FIGURES))
    medians = {name: [statistics.median(column) for column in zip(*values)] for name, values in rows.items()}
    ours = medians[Headrace.name]
    for name, values in medians.items():
        version = version_of(name, args.venv)
        cells = [f"{value:.2f}" + ("" if name == Headrace.name else f" ({(own / value - 1) * 100:+.1f}%)") for value, own in zip(values, ours)]
        print(f"| {name} {version} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
