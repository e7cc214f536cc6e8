#!/usr/bin/env python3
"""Measures Headrace, llama.cpp and OpenVINO GenAI on the CPU, on the same files, turn by turn in one run, and prints the table of
docs/benchmarks.md. Every sample goes to a JSON file as soon as it is there; Ctrl-C prints what there is. A program that fails costs its
own figures: the table says so, and the exit code is 1.

usage: bench/cpu.sh [--rounds N] [--threads N] [--quick] [--only FILE,...] [--rows ROW,...]   (it builds what this program runs)
"""
import argparse
import csv
import dataclasses
import datetime
import io
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

import cpu_table

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILT = ROOT / "build/release"
RUN_LIMIT_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class Source:
    name: str  # in --only and in the targets
    title: str
    model: str  # of the catalogue
    weights: str = ""  # what it is converted to; as published when empty
    peers: tuple = ("llama.cpp",)
    long: bool = False  # measured with a long prompt too


SOURCES = (
    Source("Q4_1", "Q4_1 (as published)", "smollm2", peers=("llama.cpp", "OpenVINO GenAI"), long=True),
    Source("Q4_0", "Q4_0", "smollm2", "q4_0"),
    Source("Q8_0", "Q8_0", "smollm2", "q8_0"),
    Source("BF16", "BF16", "smollm2", "bf16"),
    Source("Gemma", "Gemma 3 270M Q4_K_M", "gemma3-270m"),
)
ROWS = ("prefill", "b1", "b4", "b16", "long", "start", "memory", "gemm")
GEMM_OPS = (("matmul_q8", "int8"), ("matmul_bf16", "bf16"))


@dataclasses.dataclass(frozen=True)
class Shapes:
    prompt: int = 512
    gen: int = 128
    batch_prompt: int = 64
    batch_gen: int = 64
    long_prompt: int = 7680
    long_gen: int = 256
    start_prompt: int = 32
    repeat: int = 3  # of the single sequence; a batch and the long prompt are measured once a round
    start_tries: int = 3
    gemm_seconds: float = 0.2


QUICK = Shapes(prompt=64, gen=16, batch_prompt=16, batch_gen=16, long_prompt=1024, long_gen=32, repeat=1, start_tries=1, gemm_seconds=0.02)


class Failed(Exception):
    """A program did not give what it was run for."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(*command, text=None):
    command = [str(part) for part in command]
    name = pathlib.Path(command[0]).name
    try:
        done = subprocess.run(command, input=text, stdin=None if text is not None else subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=RUN_LIMIT_SECONDS, check=False)
    except OSError as error:
        raise Failed(f"{name} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{name} had not ended after {RUN_LIMIT_SECONDS} s") from error
    if done.returncode != 0:
        raise Failed(f"{name} ended with {done.returncode}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout


def json_of(*command, text=None):
    out = run(*command, text=text)
    try:
        return json.loads(out)
    except ValueError as error:
        raise Failed(f"{pathlib.Path(str(command[0])).name}: want JSON on its output, got {out[:100]!r}") from error


def roof_of(row, isa):
    """A row of `headrace roof`: bandwidth in GB/s, peaks in 10^12 operations/s; None where the instruction set has none."""
    peak = next(p for p in row["peak"] if p["isa"] == isa)
    return {"read": next(r["gb_per_s"] for r in row["read"] if r["level"] == "memory"), "int8": peak["int8_top_per_s"],
            "bf16": peak["bf16_tflop_per_s"], "f32": peak["f32_tflop_per_s"]}


class Clock:
    """Seconds since it was made, and how many processors others kept busy meanwhile (a hypervisor's other guests too)."""

    def __init__(self):
        self.wall, self.busy = time.monotonic(), self.busy_seconds()

    @staticmethod
    def busy_seconds():
        own = resource.getrusage(resource.RUSAGE_CHILDREN)
        user, nice, system, _, _, *interrupts_and_stolen = map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
        return (user + nice + system + sum(interrupts_and_stolen)) / os.sysconf("SC_CLK_TCK") - own.ru_utime - own.ru_stime

    def seconds(self):
        return time.monotonic() - self.wall

    def others(self):
        return max(0, (self.busy_seconds() - self.busy) / self.seconds())


def stopped(*steps):
    """Runs the steps of a measurement; whether Ctrl-C ended them. Failed out of a step ends the program."""
    try:
        for step in steps:
            step()
    except Failed as failure:
        raise SystemExit(f"error: {failure}") from failure
    except KeyboardInterrupt:
        say("stopped: what there is follows")
        return True
    return False


def machine_facts(programs):
    """The hour, the processor, and the commit that Headrace's `programs` are of."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^([^\t:]+?)\s*: (.*)$", info.split("\n\n")[0], re.M))
    flags = fields.get("flags", "").split()
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True, check=False)
    headrace = commit.stdout.strip() or "of no commit"
    if programs != BUILT:
        headrace += " (its programs were built elsewhere)"
    return {"date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
            "processor": f"{fields.get('model name', 'a processor')} family {fields.get('cpu family', '?')} model {fields.get('model', '?')}",
            "features": [f for f in ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8") if f in flags],
            "processors": len(os.sched_getaffinity(0)), "headrace": headrace}


def described(row, figures):
    if "tokens_per_s" in figures:
        return f"{row} {figures['tokens_per_s']:,.0f} tokens/s"
    return f"{row} {figures['seconds']:.3f} s" if "seconds" in figures else f"{row} {figures['bytes'] * 1e-6:.0f} MB"


class Bench:
    def __init__(self, options):
        self.options = options
        self.shapes = QUICK if options.quick else Shapes()
        self.headrace, self.op_bench = options.bin / "headrace", options.bin / "op_bench"
        self.llama = options.peers / "llama.cpp/build/bin"
        self.paths, self.prompts = {}, {}
        shapes = self.shapes
        self.record = {
            "facts": {}, "quick": options.quick, "rounds": options.rounds, "shapes": dataclasses.asdict(shapes), "files": {}, "samples": [],
            "failures": [],
            "titles": {"prefill": f"prefill {shapes.prompt}", **{b: f"decode {b}" for b in cpu_table.BATCHES},
                       "long prefill": f"prompt of {shapes.long_prompt:,}", "long decode": f"decode {shapes.long_gen} after it"}}

    # ---- what is measured ----

    def prepare(self):
        """Finds or makes the files; what the table needs to know of them."""
        for source in self.options.sources:
            path = pathlib.Path(run(sys.executable, ROOT / "scripts/fetch_model.py", source.model).strip())
            if source.weights:
                published, path = path, ROOT / f"build/bench/{source.model}-{source.weights}.gguf"
                if not path.exists():
                    say(f"writing {path.name}")
                    run(self.headrace, "convert", published, "--weights", source.weights, "--out", path)
            self.paths[source.name] = path
            layers = head = 0
            for tensor in json_of(self.headrace, "inspect", path, "--tensors", "--json")["tensors"]:
                if len(tensor["shape"]) != 2:
                    continue
                size = tensor["shape"][0] * tensor["shape"][1]
                if tensor["name"].startswith("blk."):
                    layers += size
                elif tensor["name"] == "output.weight" or (tensor["name"] == "token_embd.weight" and head == 0):
                    head = size  # the embedding is the head where there is no other
            bench = json_of(self.headrace, "bench", path, "--json", "--threads", self.options.threads, "--prompt-tokens", 1, "--gen-tokens", 1,
                            "--repeat", 1)
            self.record["files"][source.name] = {
                "title": source.title, "bytes": path.stat().st_size, "weight_bytes": bench["weight_bytes"],
                "kv_bytes_per_token": bench["kv_bytes_per_token"], "layer_parameters": layers, "head_parameters": head,
                "arithmetic": "bf16" if source.weights == "bf16" else "int8"}
            self.record["facts"]["isa"] = bench["isa"]

    def facts(self):
        llama = re.search(r"llama-cpp-python==(\S+)", (self.options.peers / "llama.cpp/pin").read_text()).group(1)
        openvino = re.search(r"openvino-genai==(\S+)", (self.options.peers / "openvino/pin").read_text()).group(1)
        self.record["facts"] |= machine_facts(self.options.bin) | {
            "threads": self.options.threads,
            "peers": f"llama.cpp from the source package of llama-cpp-python {llama}, OpenVINO GenAI {openvino}"}

    # ---- a program's figures, each as a list of (row, figures) ----

    def bench_headrace(self, file, prompt, gen, batch, repeat):
        out = json_of(self.headrace, "bench", self.paths[file], "--json", "--threads", self.options.threads, "--prompt-tokens", prompt,
                      "--gen-tokens", gen, "--batch", batch, "--repeat", repeat)
        roof = roof_of(out["roof"], out["isa"])
        return [(row, {"tokens_per_s": out[key]["median"], "min": out[key]["min"], "max": out[key]["max"], "prompt_tokens": prompt, "roof": roof})
                for row, key in (("prefill", "prefill_tokens_per_s"), (f"b{batch}", "decode_tokens_per_s"))]

    def llama_batched(self, file, prompt, gen, batch):
        """(prompt tokens/s, tokens/s). Its sequences share the context evenly, each in steps of 256."""
        context = batch * ((prompt + gen + 255) // 256) * 256
        out = json_of(self.llama / "llama-batched-bench", "-m", self.paths[file], "-t", self.options.threads, "-c", context, "-b", 2048,
                      "-ub", 512, "-npp", prompt, "-ntg", gen, "-npl", batch, "--output-format", "jsonl")
        return out["speed_pp"], out["speed_tg"]

    def headrace_single(self, file):
        return self.bench_headrace(file, self.shapes.prompt, self.shapes.gen, 1, self.shapes.repeat)

    def llama_single(self, file):
        """The better of its two programs. llama-bench decodes after an empty prompt, which is a little less work."""
        prompt, gen = self.shapes.prompt, self.shapes.gen
        out = run(self.llama / "llama-bench", "-m", self.paths[file], "-t", self.options.threads, "-p", prompt, "-n", gen, "-r", self.shapes.repeat,
                  "-o", "csv")
        single = {"prefill" if int(row["n_prompt"]) else "b1": float(row["avg_ts"]) for row in csv.DictReader(io.StringIO(out))}
        if set(single) != {"prefill", "b1"}:
            raise Failed(f"llama-bench: want a row of {prompt} prompt tokens and one of {gen} generated, got {sorted(single)}")
        batched = dict(zip(("prefill", "b1"), self.llama_batched(file, prompt, gen, 1)))
        return [(row, {"tokens_per_s": max(single[row], batched[row]), "llama-bench": single[row], "llama-batched-bench": batched[row]})
                for row in ("prefill", "b1")]

    def openvino_single(self, file):
        out = json_of(self.options.peers / "openvino/bin/python", ROOT / "bench/peers/openvino_bench.py", self.paths[file], "--threads",
                      self.options.threads, "--prompt-tokens", self.shapes.prompt, "--gen-tokens", self.shapes.gen, "--repeat", self.shapes.repeat)
        return [("prefill", {"tokens_per_s": self.shapes.prompt * 1e3 / statistics.median(out["ttft_ms"]), "ttft_ms": out["ttft_ms"]}),
                ("b1", {"tokens_per_s": 1e3 / statistics.median(out["tpot_ms"]), "tpot_ms": out["tpot_ms"]})]

    def headrace_batch(self, file, batch):
        return self.bench_headrace(file, self.shapes.batch_prompt, self.shapes.batch_gen, batch, 1)[1:]

    def llama_batch(self, file, batch):
        return [(f"b{batch}", {"tokens_per_s": self.llama_batched(file, self.shapes.batch_prompt, self.shapes.batch_gen, batch)[1]})]

    def prompt(self, file, tokens):
        """A text of so many tokens, whose endless list keeps a model from ending its answer."""
        cycle = "one two three four five six seven eight nine ten".split()
        words = tokens
        for _ in range(3):
            if (file, tokens) in self.prompts:
                return self.prompts[file, tokens]
            text = " ".join(cycle[i % len(cycle)] for i in range(words))
            got = len(run(self.headrace, "tokenize", self.paths[file], text=text).split())
            if got == tokens:
                self.prompts[file, tokens] = text
            words += tokens - got
        raise Failed(f"no text of {tokens} tokens was found for {file}")

    def run_headrace(self, file, prompt, gen):
        """What `headrace run --json` says, and the memory sample that it makes."""
        out = json_of(self.headrace, "run", self.paths[file], "-", "--raw", "--json", "--threads", self.options.threads, "--max-tokens", gen,
                      text=self.prompt(file, prompt))
        if out["prompt_tokens"] != prompt or out["completion_tokens"] < gen // 2:
            raise Failed(f"headrace run: want {prompt} tokens read and {gen} made, got {out['prompt_tokens']} and {out['completion_tokens']}")
        facts, tokens = self.record["files"][file], out["prompt_tokens"] + out["completion_tokens"]
        limit = facts["bytes"] + facts["kv_bytes_per_token"] * tokens + 96 * 2**20
        return out, [("memory", {"tokens": prompt + gen, "bytes": out["peak_rss_bytes"], "limit": limit})]

    def headrace_long(self, file):
        out, memory = self.run_headrace(file, self.shapes.long_prompt, self.shapes.long_gen + 1)
        return [("long prefill", {"tokens_per_s": self.shapes.long_prompt * 1e3 / out["ttft_ms"], "ttft_ms": out["ttft_ms"]}),
                ("long decode", {"tokens_per_s": 1e3 / out["tpot_ms"], "completion_tokens": out["completion_tokens"]}), *memory]

    def llama_long(self, file):
        speeds = self.llama_batched(file, self.shapes.long_prompt, self.shapes.long_gen, 1)
        return [(row, {"tokens_per_s": speed}) for row, speed in zip(("long prefill", "long decode"), speeds)]

    def headrace_memory(self, file):
        return self.run_headrace(file, self.shapes.prompt, self.shapes.gen)[1]

    def headrace_start(self, file):
        """From before the process exists to its first byte of text."""
        command = [self.headrace, "run", self.paths[file], self.prompt(file, self.shapes.start_prompt), "--raw", "--max-tokens", "1", "--threads",
                   str(self.options.threads)]
        tries = []
        for _ in range(self.shapes.start_tries):
            begin = time.perf_counter()
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                first = process.stdout.read(1)
                tries.append(time.perf_counter() - begin)
                _, said = process.communicate()
            counted = re.search(rb"\[(\d+) prompt tokens, (\d+) tokens", said)
            if process.returncode != 0 or not first or counted is None or int(counted[1]) != self.shapes.start_prompt:
                raise Failed(f"headrace run: want an answer to {self.shapes.start_prompt} tokens, got exit code {process.returncode}, "
                             f"{first!r} and {said.decode(errors='replace')[-200:].strip()}")
        return [("start", {"seconds": statistics.median(tries), "tries": tries})]

    def headrace_gemm(self, _):
        isa = self.record["facts"]["isa"]
        roof = roof_of(json_of(self.headrace, "roof", "--threads", self.options.threads, "--json")["rows"][-1], isa)
        found = []
        for op, arithmetic in GEMM_OPS:
            out = run(self.op_bench, "--op", op, "--case", "T=512", "--isa", isa, "--threads", self.options.threads, "--seconds",
                      self.shapes.gemm_seconds)
            kind = arithmetic if roof[arithmetic] else "f32"
            for row in map(json.loads, out.splitlines()):
                found.append(("gemm", {"case": f"{op} {row['case']}", "top_per_s": row["tflop_per_s"], "peak": roof[kind], "arithmetic": kind,
                                       "roof": roof}))
        return found

    # ---- the rounds ----

    def turns(self, number):
        """A round as (file, program, label, measure). Who measures the same rows does so one after the other, in reverse in every second round."""
        wanted = set(self.options.rows)
        for source in self.options.sources:
            groups = []
            if wanted & {"prefill", "b1"}:
                peers = {"llama.cpp": self.llama_single, "OpenVINO GenAI": self.openvino_single}
                groups.append([("Headrace", "single", self.headrace_single), *((p, "single", peers[p]) for p in source.peers)])
            for row in sorted(wanted & {"b4", "b16"}, key=len):
                batch = cpu_table.BATCHES[row]
                groups.append([("Headrace", row, lambda file, batch=batch: self.headrace_batch(file, batch)),
                               ("llama.cpp", row, lambda file, batch=batch: self.llama_batch(file, batch))])
            if "long" in wanted and source.long:
                groups.append([("Headrace", "long", self.headrace_long), ("llama.cpp", "long", self.llama_long)])
            if "start" in wanted:
                groups.append([("Headrace", "start", self.headrace_start)])
            if "memory" in wanted:
                groups.append([("Headrace", "memory", self.headrace_memory)])
            for group in groups:
                for program, label, measure in group if number % 2 == 0 else reversed(group):
                    yield source.name, program, label, measure
        if "gemm" in wanted:
            yield "", "Headrace", "gemm", self.headrace_gemm

    def measure(self):
        total, done, begin = sum(1 for _ in self.turns(0)) * self.options.rounds, 0, time.monotonic()
        for number in range(self.options.rounds):
            for file, program, label, measure in self.turns(number):
                clock, where = Clock(), f"round {number + 1}, {file} {label}, {program}".replace(",  ", ", ")
                try:
                    found = [(row, figures) for row, figures in measure(file) if row.split()[0] in self.options.rows]
                    said = ", ".join(described(row, figures) for row, figures in found if row != "gemm")
                except Failed as failure:
                    found, said = [], f"failed: {failure}"
                    self.record["failures"].append(f"{where}: {failure}")
                turn = {"round": number, "file": file, "program": program, "turn_seconds": round(clock.seconds(), 2),
                        "others": round(clock.others(), 2)}
                self.record["samples"] += [{**turn, "row": row, **figures} for row, figures in found]
                self.save()
                done += 1
                left = (time.monotonic() - begin) / done * (total - done)
                say(f"[{done} of {total}, about {left / 60:.0f} min left] {where}: {said or 'done'} ({turn['turn_seconds']:.1f} s)")

    def save(self):
        """Whole or not at all: a run may be stopped at any moment."""
        partial = self.options.out.with_suffix(".partial")
        partial.write_text(json.dumps(self.record, indent=1) + "\n")
        os.replace(partial, self.options.out)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="bench/cpu.sh", description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [source.name for source in SOURCES]
    parser.add_argument("--rounds", type=int, default=5, help="measurements of everything (5)")
    parser.add_argument("--threads", type=int, default=2, help="of every program (2)")
    parser.add_argument("--quick", action="store_true", help="small shapes: tries the programs out, measures nothing")
    parser.add_argument("--only", metavar="FILE,...", default=",".join(names), help=f"of {', '.join(names)}")
    parser.add_argument("--rows", metavar="ROW,...", default=",".join(ROWS), help=f"of {', '.join(ROWS)}; decode is b1,b4,b16")
    parser.add_argument("--bin", type=pathlib.Path, default=BUILT, help="where headrace and op_bench are; they are not built then")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers", help="what bench/peers/setup.sh has made; it is not run then")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench/cpu.json", help="every sample (build/bench/cpu.json)")
    parser.add_argument("--print", dest="shown", metavar="FILE", type=pathlib.Path, help="measures nothing, prints the table of such a file")
    options = parser.parse_args(arguments)
    chosen, rows = options.only.split(","), options.rows.replace("decode", "b1,b4,b16").split(",")
    for name, known, flag in [(n, names, "--only") for n in chosen] + [(r, ROWS, "--rows") for r in rows]:
        if name not in known:
            parser.error(f"{flag}: no such name: {name!r}; there are {', '.join(known)}")
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads: want 1 or more")
    options.sources, options.rows = [s for s in SOURCES if s.name in chosen], rows
    return options


def main():
    options = parse(sys.argv[1:])
    if options.shown:
        print(cpu_table.markdown(json.loads(options.shown.read_text())))
        return 0
    for needed, maker in ((options.bin / "headrace", "bench/cpu.sh"), (options.bin / "op_bench", "bench/cpu.sh"),
                          (options.peers / "llama.cpp/done", "bench/peers/setup.sh"), (options.peers / "openvino/done", "bench/peers/setup.sh")):
        if not needed.exists():
            raise SystemExit(f"error: {needed} is not there; {maker} makes it")
    for folder in (ROOT / "build/bench", options.out.parent):
        folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    code = 130 if stopped(bench.facts, bench.prepare, bench.measure) else 0
    if bench.record["samples"]:
        print(cpu_table.markdown(bench.record))
    return code or (1 if bench.record["failures"] else 0)


if __name__ == "__main__":
    sys.exit(main())
