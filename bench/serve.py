#!/usr/bin/env python3
"""Measures Headrace's server beside llama.cpp's under the same load, turn by turn in one run; its engine on the lengths of a file beside
static left-padded batches; what a cached prefix and a target for TPOT do. Prints the tables of docs/benchmarks.md, medians over the rounds.

usage: bench/serve.sh [--rounds N] [--threads N] [--only FILE,...] [--rows ROW,...] [--lengths FILE]   (it builds what this program runs)
"""
import argparse
import contextlib
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

from cpu import BUILT, ROOT, SOURCES, Clock, Failed, json_of, run, say

ROWS = ("streams", "lengths", "prefix", "stall")
FILES = ("Q4_1", "Q4_0")
STREAMS = (16, 64)
PROMPT, GEN = 64, 128
READY_SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server(*command, port):
    """A server process, ready to answer; gone at the end."""
    command = [str(part) for part in command]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + READY_SECONDS
            while True:
                if process.poll() is not None:
                    raise Failed(f"{command[0]} ended with {process.returncode} before it was ready")
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                        if answer.status == 200:
                            break
                except OSError:
                    pass
                if time.monotonic() > end:
                    raise Failed(f"{command[0]} was not ready after {READY_SECONDS} s")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


class Bench:
    def __init__(self, options):
        self.options = options
        self.headrace = options.bin / "headrace"
        self.llama = options.peers / "llama.cpp/build/bin/llama-server"
        self.samples, self.failures, self.paths = [], [], {}

    def path_of(self, name):
        if name not in self.paths:
            source = next(source for source in SOURCES if source.name == name)
            path = pathlib.Path(run(sys.executable, ROOT / "scripts/fetch_model.py", source.model).strip())
            if source.weights:
                published, path = path, ROOT / f"build/bench/{source.model}-{source.weights}.gguf"
                if not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    run(self.headrace, "convert", published, "--weights", source.weights, "--out", path)
            self.paths[name] = path
        return self.paths[name]

    def serve_headrace(self, file, *more):
        port = free_port()
        return server(self.headrace, "serve", self.path_of(file), "--port", port, "--threads", self.options.threads, *more, port=port)

    def serve_llama(self, file, slots):
        # Its slots share the context evenly; 256 tokens hold a prompt and an answer of this load.
        port = free_port()
        return server(self.llama, "-m", self.path_of(file), "--port", port, "-t", self.options.threads, "-tb", self.options.threads, "-np", slots,
                      "-c", slots * 256, "--no-warmup", port=port)

    def load(self, url, *more):
        out = json_of(self.headrace, "bench", "serve", "--url", url, "--json", "-", *more)
        if out["errors"] or out["completed"] == 0:
            raise Failed(f"bench serve: {out['completed']} requests answered, errors {out['errors']}")
        return out

    # ---- what is measured; each gives a list of (row, figures)

    def streams(self, file, program, count):
        """`count` streams kept busy: three requests each."""
        serve = self.serve_headrace(file, "--max-seqs", count) if program == "Headrace" else self.serve_llama(file, count)
        with serve as url:
            self.load(url, "--num-requests", 2, "--concurrency", 2, "--prompt-tokens", PROMPT, "--output-tokens", 8, "--seed", 99)
            out = self.load(url, "--num-requests", 3 * count, "--concurrency", count, "--prompt-tokens", PROMPT, "--output-tokens", GEN)
        return {"total_tokens_per_s": out["total_tokens_per_s"], "output_tokens_per_s": out["output_tokens_per_s"],
                "ttft_ms": out["ttft_ms"]["p50"], "tpot_ms": out["tpot_ms"]["p50"], "itl_p99_ms": out["itl_ms"]["p99"]}

    def lengths(self, *more):
        return json_of(self.headrace, "bench", self.path_of("Q4_1"), "--requests", self.options.lengths, "--threads", self.options.threads,
                       "--json", *more)

    def prefix(self):
        """The same prompt of 2,000 tokens and a question, twice."""
        with self.serve_headrace("Q4_1") as url:
            self.load(url, "--num-requests", 2, "--prompt-tokens", PROMPT, "--output-tokens", 8, "--seed", 99)
            first, again = (self.load(url, "--num-requests", 1, "--shared-prefix", 2000, "--prompt-tokens", 16, "--output-tokens", 4)
                            for _ in range(2))
        return {"first_ms": first["ttft_ms"]["mean"], "again_ms": again["ttft_ms"]["mean"]}

    def stall(self, target):
        """Four streams, and a prompt of 7,000 tokens that arrives while they run."""
        found = {}
        with self.serve_headrace("Q4_1", "--target-tpot-ms", target) as url:
            self.load(url, "--num-requests", 2, "--prompt-tokens", PROMPT, "--output-tokens", 8, "--seed", 99)

            def long_prompt():
                time.sleep(0.5)
                found["long"] = self.load(url, "--num-requests", 1, "--prompt-tokens", 7000, "--output-tokens", 2, "--seed", 5)

            other = threading.Thread(target=long_prompt)
            other.start()
            out = self.load(url, "--num-requests", 4, "--concurrency", 4, "--prompt-tokens", PROMPT, "--output-tokens", 1000)
            other.join()
        if "long" not in found:
            raise Failed("the long prompt was not answered")
        return {"itl_p50_ms": out["itl_ms"]["p50"], "itl_p99_ms": out["itl_ms"]["p99"], "itl_max_ms": out["itl_ms"].get("max"),
                "long_ttft_ms": found["long"]["ttft_ms"]["mean"]}

    def turns(self, number):
        rows = set(self.options.rows)
        if "streams" in rows:
            for file in self.options.only:
                for count in STREAMS:
                    programs = ["Headrace", "llama.cpp"] if count == STREAMS[0] else ["Headrace"]
                    for program in programs if number % 2 == 0 else reversed(programs):
                        yield ("streams", file, program, count), lambda f=file, p=program, c=count: self.streams(f, p, c)
        if "lengths" in rows:
            yield ("lengths", "continuous"), lambda: self.lengths("--max-seqs", 32)
            yield ("lengths", "static"), lambda: self.lengths("--static", 16)
        if "prefix" in rows:
            yield ("prefix",), self.prefix
        if "stall" in rows:
            for target in (50, 0):
                yield ("stall", target), lambda t=target: self.stall(t)

    def measure(self):
        out = ROOT / "build/bench/serve.json"
        out.parent.mkdir(parents=True, exist_ok=True)
        total = sum(1 for _ in self.turns(0)) * self.options.rounds
        for number in range(self.options.rounds):
            for key, measure in self.turns(number):
                clock = Clock()
                try:
                    figures = measure()
                except Failed as error:
                    self.failures.append(f"{key}: {error}")
                    say(f"{key} failed: {error}")
                    continue
                self.samples.append({"key": key, "figures": figures, "seconds": clock.seconds(), "others": clock.others()})
                out.write_text(json.dumps({"samples": self.samples, "failures": self.failures}, indent=1))
                say(f"{len(self.samples)}/{total} round {number + 1} {' '.join(map(str, key))}: {clock.seconds():.0f} s, others "
                    f"{clock.others():.2f}; " + ", ".join(f"{k} {v:.5g}" for k, v in figures.items() if isinstance(v, (int, float)))[:300])

    # ---- the tables

    def median(self, *key):
        """Of each figure that is a number, over the rounds; None where nothing was measured."""
        found = [sample["figures"] for sample in self.samples if tuple(sample["key"]) == key]
        if not found:
            return None
        return {name: statistics.median(f[name] for f in found) for name, value in found[0].items() if isinstance(value, (int, float))}

    def print(self):
        print(f"Medians of {self.options.rounds} rounds, {self.options.threads} threads; client and server on the same cores.\n")
        if "streams" in self.options.rows:
            print(f"Prompt {PROMPT}, {GEN} new, three requests a stream, one after the other.\n")
            print("| file | streams | | total tokens/s | TTFT p50, ms | TPOT p50, ms | ITL p99, ms |\n|---|---|---|---|---|---|---|")
            for file in self.options.only:
                for count in STREAMS:
                    for program in ("Headrace", "llama.cpp"):
                        if (row := self.median("streams", file, program, count)) is not None:
                            print(f"| {file} | {count} | {program} | {row['total_tokens_per_s']:,.0f} | {row['ttft_ms']:,.0f} | "
                                  f"{row['tpot_ms']:.1f} | {row['itl_p99_ms']:.1f} |")
                own, other, wide = (self.median("streams", file, *key) for key in (("Headrace", 16), ("llama.cpp", 16), ("Headrace", 64)))
                if own and other and wide:
                    print(f"| {file} | | ratio | {own['total_tokens_per_s'] / other['total_tokens_per_s']:.2f}; 64 streams "
                          f"{wide['total_tokens_per_s'] / own['total_tokens_per_s']:.0%} of 16 | {own['ttft_ms'] / other['ttft_ms']:.2f} | | |")
            print()
        own, static = self.median("lengths", "continuous"), self.median("lengths", "static")
        if own and static:
            print(f"The {own['completed']:.0f} requests of {self.options.lengths.name}, all at once: {own['output_tokens_per_s']:,.0f} output tokens/s, "
                  f"{own['total_tokens_per_s']:,.0f} in all; static left-padded batches of 16: {static['output_tokens_per_s']:,.0f} "
                  f"({own['output_tokens_per_s'] / static['output_tokens_per_s']:.2f} times). KV use {own['kv_use']:.1%}, "
                  f"{own['kv_use_if_longest_reserved']:.1%} if each sequence had the longest's room; {own['preemptions']:.0f} preemptions.\n")
        if (row := self.median("prefix")) is not None:
            print(f"A prompt of 2,000 tokens and a question: first token after {row['first_ms']:.0f} ms, when repeated after "
                  f"{row['again_ms']:.1f} ms ({row['again_ms'] / row['first_ms']:.1%}).\n")
        for target in (50, 0):
            if (row := self.median("stall", target)) is not None:
                print(f"Four streams while a prompt of 7,000 tokens comes in, --target-tpot-ms {target}: between tokens p50 {row['itl_p50_ms']:.1f}, "
                      f"p99 {row['itl_p99_ms']:.1f} ms; the long prompt's first token after {row['long_ttft_ms']:,.0f} ms.\n")
        for failure in self.failures:
            print(f"Failed: {failure}\n")


def main():
    listed = lambda all_of: lambda text: [name for name in text.split(",") if name in all_of or sys.exit(f"no such name: {name}; {all_of}")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", type=listed(FILES), default=list(FILES), help=",".join(FILES))
    parser.add_argument("--rows", type=listed(ROWS), default=list(ROWS), help=",".join(ROWS))
    parser.add_argument("--lengths", type=pathlib.Path, help="JSON with the lists `prompt` and `output`; without it the row `lengths` is left out")
    parser.add_argument("--bin", type=pathlib.Path, default=BUILT)
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    options = parser.parse_args()
    if options.lengths is None:
        options.rows = [row for row in options.rows if row != "lengths"]
    bench = Bench(options)
    try:
        bench.measure()
    except KeyboardInterrupt:
        say("interrupted: what was measured follows")
    bench.print()
    sys.exit(1 if bench.failures else 0)


if __name__ == "__main__":
    main()
