#!/usr/bin/env python3
"""Checks and measures Headrace on a CUDA card: roofs, tests of the device, then the rows of docs/benchmarks.md. Runs out of the folder that
`pack` filled, anywhere. Every sample goes to a JSON file as soon as it is there; what would end after the time limit is left out and said.
A program that fails costs its own figures: the table says so, and the exit code is 1.

usage: bench/cuda.sh pack --requests FILE [--smollm2 FILE]     then, on the machine with the card: bench/cuda.py run --out FILE
       bench/cuda.sh table FILE [--write]
"""
import argparse
import concurrent.futures
import dataclasses
import datetime
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import cuda_table

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent  # of the package; in the repository, its root
SMOLLM2_MARGIN = 0.05  # of the two likeliest tokens: below it either may come first


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    batch: int
    prompt: int
    new: int
    seconds: float  # that it takes about, the start not counted
    repeat: int = 3


MODEL_ROWS = (
    Row("decode b1", 1, 128, 256, 6),
    Row("decode b4", 4, 128, 256, 6),
    Row("decode b16", 16, 128, 256, 6),
    Row("decode b64", 64, 128, 256, 8),
    Row("decode b256", 256, 128, 256, 16),
    Row("decode b64 after 1024", 64, 1024, 256, 16),
    Row("prefill 1 x 8000", 1, 8000, 1, 3, 5),
    Row("prefill 16 x 1024", 16, 1024, 1, 4, 5),
)
PARTS = ("checks", "attention", *(row.name for row in MODEL_ROWS), "requests", "start")
SANITIZERS = ("memcheck", "racecheck")  # of CUDA's compute-sanitizer, over the operators' tests: minutes, so only when asked for
MAX_BATCHED_TOKENS = 8192  # of a step, with every row
KV_TOKENS = 262144         # of the requests: all of the file at once, 34 GB


class Failed(Exception):
    """A program did not give what it was run for."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def library_path():
    """Folders where CUDA's libraries may lie; the package's own programs look in lib/ first."""
    places = [*glob.glob("/usr/local/cuda*/lib64"), *glob.glob("/usr/local/cuda*/targets/x86_64-linux/lib")]
    for base in sys.path:
        places += [f"{base}/nvidia/cu13/lib", f"{base}/nvidia/cudnn/lib"]
    return ":".join([place for place in places if os.path.isdir(place)] + [os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")


class Bench:
    def __init__(self, options):
        self.options = options
        self.begin = time.monotonic()
        self.environment = {**os.environ, "LD_LIBRARY_PATH": library_path()}
        self.headrace = FOLDER / "headrace"
        self.model = HERE / "llama3_8b"
        self.load_seconds = 30.0  # a guess until a model was loaded
        packed = json.loads((HERE / "packed.json").read_text())
        self.record = {"facts": {"date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC", **packed}, "roof": {},
                       "checks": [], "attention": [], "samples": {}, "failures": [], "left_out": []}

    # ---- running programs ----

    def left(self):
        return self.options.minutes * 60 - (time.monotonic() - self.begin)

    def run(self, *command, **environment):
        """(exit code, standard output, standard error), within the time that is left."""
        command = [str(part) for part in command]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=max(5, self.left()), check=False,
                                  env=self.environment | environment, cwd=FOLDER)
        except OSError as error:
            raise Failed(f"{command[0]} cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(command)} had not ended when the time was over") from error
        return done.returncode, done.stdout, done.stderr

    def json_of(self, *command):
        code, out, err = self.run(*command)
        if code != 0:
            raise Failed(f"{' '.join(map(str, command))} ended with {code}: {' '.join(err.split())[-400:]}")
        try:
            return json.loads(out)
        except ValueError as error:
            raise Failed(f"{command[0]}: want JSON on its output, got {out[:100]!r}") from error

    def save(self):
        self.options.out.parent.mkdir(parents=True, exist_ok=True)
        self.options.out.write_text(json.dumps(self.record, indent=1))

    def part(self, name, seconds, measure):
        """One part of the run: its failure is its own."""
        if name not in self.options.only:
            return
        if seconds > self.left():
            self.record["left_out"].append(name)
            say(f"{name}: left out, {self.left():.0f} s are left")
            self.save()
            return
        start = time.monotonic()
        try:
            said = measure()
        except Failed as failure:
            self.record["failures"].append(f"{name}: {failure}")
            said = f"FAILED: {failure}"
        say(f"{name}: {said} ({time.monotonic() - start:.1f} s)")
        self.save()

    # ---- what is measured ----

    def facts(self):
        query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
        code, out, err = self.run("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
        if code != 0:
            raise Failed(f"nvidia-smi ended with {code}: {err or out}")
        self.record["facts"]["nvidia_smi"] = out.strip()
        say(out.strip())
        self.record["roof"] = roof = self.json_of(self.headrace, "roof", "--device", "cuda", "--json")
        products = ", ".join(f"{p['m']}x{p['n']}x{p['k']} {p['bf16_tflop_per_s']:.0f}" for p in roof["matmul"]) or roof["matmul_error"]
        say(f"read {roof['read_gb_per_s']:.0f} GB/s, copy {roof['copy_gb_per_s']:.0f} GB/s, bf16 {products} TFLOP/s, an empty kernel of a "
            f"graph {roof['graph_overlapped_kernel_us']:.2f} us overlapped, {roof['graph_kernel_us']:.2f} us in turn")
        self.save()

    def checks(self):
        failed = 0
        for program in sorted(FOLDER.glob("*_cuda_test")):
            code, out, err = self.sharded(program)
            bad = [line.split("]", 1)[1].strip() for line in out.splitlines() if line.startswith("[  FAILED  ]")]
            counts = [int(line.split()[-3]) for line in out.splitlines() if line.endswith("cases held")]
            held = [f"{sum(counts)} cases of {len(counts)} kernels held"] if counts else []
            skipped = "[  SKIPPED ]" in out
            self.record["checks"].append({"program": program.name, "exit": code, "failed": bad, "skipped": skipped, "said": held})
            if code != 0 or skipped:
                failed += 1
                self.record["failures"].append(f"{program.name}: exit {code}, {len(bad)} failed" + (", skipped" if skipped else ""))
                (self.options.out.parent / f"{program.name}.txt").write_text(out[-200_000:] + err[-20_000:])
        if (HERE / "smollm2.gguf").exists():
            failed += not self.smollm2()
        return f"{len(self.record['checks'])} programs, {failed} failed"

    def sharded(self, program):
        """A program of tests in several processes, each with its part: most of the time is the references' on the host."""
        count = max(1, min(8, os.cpu_count() or 1))
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            runs = list(pool.map(lambda shard: self.run(program, GTEST_TOTAL_SHARDS=str(count), GTEST_SHARD_INDEX=str(shard)), range(count)))
        return max(run[0] for run in runs), "".join(run[1] for run in runs), "".join(run[2] for run in runs)

    def smollm2(self):
        """Greedy ids on the device beside the CPU's exact ones: equal up to a step where two tokens were as likely."""
        wrong = 0
        for item in json.loads((FOLDER / "tests/golden/smollm2_greedy.json").read_text())["items"]:
            ids = {}
            for device, more in (("cpu", ["--exact"]), ("cuda", [])):
                ids[device] = self.json_of(self.headrace, "run", HERE / "smollm2.gguf", item["prompt"], "--max-tokens", 64, "--json", "--device",
                                           device, *more)["token_ids"]
            step = next((i for i, (a, b) in enumerate(zip(ids["cpu"], ids["cuda"])) if a != b), None)
            wrong += step is not None and item["hf_fp32_top2_margin"][step] >= SMOLLM2_MARGIN
        self.record["checks"].append({"program": "SmolLM2, greedy, beside the CPU's --exact", "exit": int(wrong > 0), "failed": [], "skipped": False,
                                      "said": [f"{wrong} of 5 prompts differ"]})
        if wrong:
            self.record["failures"].append(f"SmolLM2: {wrong} of 5 prompts differ where the margin is {SMOLLM2_MARGIN} or more")
        return wrong == 0

    def sanitizer(self, tool):
        code, out, err = self.run("compute-sanitizer", "--tool", tool, "--error-exitcode", 9, FOLDER / "op_driver_cuda_test")
        summary = [line.strip("= ") for line in (out + err).splitlines() if "SUMMARY" in line]
        self.record["checks"].append({"program": f"op_driver_cuda_test under {tool}", "exit": code, "failed": [], "skipped": "SKIPPED" in out,
                                      "said": summary})
        if code != 0:
            self.record["failures"].append(f"{tool}: exit {code}")
            (self.options.out.parent / f"{tool}.txt").write_text((out + err)[-200_000:])
        return "; ".join(summary)

    def attention(self):
        code, out, err = self.run(FOLDER / "op_bench", "--device", "cuda", "--op", "attention", "--phase", "h200", "--cold", "--seconds", 0.5,
                                  "--roof-gb-per-s", self.record["roof"]["read_gb_per_s"])
        if code != 0:
            raise Failed(f"op_bench ended with {code}: {err[-400:]}")
        self.record["attention"] = [json.loads(line) for line in out.splitlines()]
        return "; ".join(f"{row['case']} {row['median_us']:.1f} us" for row in self.record["attention"])

    def model_row(self, row):
        start = time.time()
        found = self.json_of(self.headrace, "bench", self.model, "--device", "cuda", "--dummy-weights", "--batch", row.batch, "--prompt-tokens",
                             row.prompt, "--gen-tokens", row.new, "--repeat", row.repeat, "--max-batched-tokens",
                             max(MAX_BATCHED_TOKENS, row.prompt), "--json", *self.options.engine)
        self.load_seconds = found["ready_unix_ms"] / 1000 - start
        self.record["samples"][row.name] = {"batch": row.batch, "prompt": row.prompt, "new": row.new, "samples": found["samples"]} | {
            key: found[key] for key in ("kv_bytes_per_token", "flops_per_token", "load_seconds", "peak_device_bytes")}
        return cuda_table.described(self.record, row.name)

    def requests(self):
        runs = [self.json_of(self.headrace, "bench", self.model, "--device", "cuda", "--dummy-weights", "--requests", HERE / "requests.json",
                             "--max-seqs", 512, "--kv-tokens", KV_TOKENS, "--max-batched-tokens", MAX_BATCHED_TOKENS, "--json",
                             *self.options.engine) for _ in range(self.options.requests_repeat)]
        lengths = json.loads((HERE / "requests.json").read_text())
        self.record["samples"]["requests"] = {"lengths": [lengths["prompt"], lengths["output"]], "samples": runs}
        return cuda_table.described(self.record, "requests")

    def start(self):
        """From before the process exists until it can take requests, the checkpoint in the page cache; the first is not counted."""
        work = pathlib.Path(tempfile.mkdtemp(prefix="headrace_start_", dir=self.options.work))
        try:
            begin = time.monotonic()
            code, _, err = self.run(self.headrace, "dummy-checkpoint", self.model, work / "model")
            if code != 0:
                raise Failed(f"dummy-checkpoint ended with {code}: {err[-400:]}")
            made = time.monotonic() - begin
            samples = []
            for _ in range(4):
                begin = time.time()
                found = self.json_of(self.headrace, "bench", work / "model", "--device", "cuda", "--prompt-tokens", 16, "--gen-tokens", 1,
                                     "--repeat", 1, "--json", *self.options.engine)
                samples.append({"seconds": found["ready_unix_ms"] / 1000 - begin, "load_seconds": found["load_seconds"]})
            size = sum(file.stat().st_size for file in (work / "model").iterdir())
        finally:
            shutil.rmtree(work)
        self.record["samples"]["start"] = {"bytes": size, "made_seconds": made, "first": samples[0], "samples": samples[1:]}
        return cuda_table.described(self.record, "start")

    def measure(self):
        try:
            self.facts()
        except Failed as failure:
            raise SystemExit(f"error: {failure}") from failure
        self.part("checks", 20, self.checks)
        for tool in SANITIZERS:
            self.part(tool, 60, lambda tool=tool: self.sanitizer(tool))
        self.part("attention", 20, self.attention)
        for row in MODEL_ROWS:
            self.part(row.name, self.load_seconds + row.seconds, lambda row=row: self.model_row(row))
        if (HERE / "requests.json").exists():
            self.part("requests", self.options.requests_repeat * (self.load_seconds + 15), self.requests)
        elif "requests" in self.options.only:
            self.record["left_out"].append("requests")
        self.part("start", 4 * self.load_seconds + 30, self.start)


def pack(options):
    """Puts what a run needs into the folder that the target package_cuda made."""
    bench = options.package / "bench"
    if not (options.package / "headrace").exists():
        raise SystemExit(f"error: {options.package}: want the folder of the target package_cuda")
    bench.mkdir(exist_ok=True)
    for file in ("cuda.py", "cuda_table.py"):
        shutil.copy(HERE / file, bench)
    shutil.copytree(HERE / "llama3_8b", bench / "llama3_8b", dirs_exist_ok=True)
    shutil.copytree(FOLDER / "tests/golden/tiny_decoders", options.package / "tests/golden/tiny_decoders", dirs_exist_ok=True)
    shutil.copy(FOLDER / "tests/golden/smollm2_greedy.json", options.package / "tests/golden")
    if options.requests:
        shutil.copy(options.requests, bench / "requests.json")
    if options.smollm2:
        shutil.copy(options.smollm2, bench / "smollm2.gguf")
    commit = subprocess.run(["git", "-C", FOLDER, "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True, check=False)
    (bench / "packed.json").write_text(json.dumps({"headrace": commit.stdout.strip() or "of no commit"}))
    size = sum(file.stat().st_size for file in options.package.rglob("*") if file.is_file())
    say(f"{options.package}: {size / 2**20:.1f} MiB; there: python3 {options.package.name}/bench/cuda.py run --out FILE")


def main():
    known = PARTS + SANITIZERS

    def listed(text):
        return [name for name in text.split(",") if name in known or sys.exit(f"no such part: {name}; {', '.join(known)}")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("pack", help="fill the folder")
    command.add_argument("--package", type=pathlib.Path, default=FOLDER / "build/cuda/package")
    command.add_argument("--requests", type=pathlib.Path, help="lengths of many requests: JSON with the lists prompt and output")
    command.add_argument("--smollm2", type=pathlib.Path, help="SmolLM2-135M-Instruct.Q4_1.gguf, 98 MB")
    command = commands.add_parser("run", help="check and measure")
    command.add_argument("--only", type=listed, default=list(PARTS), help=f"{', '.join(known)}; the last {len(SANITIZERS)} when named alone")
    command.add_argument("--minutes", type=float, default=8)
    command.add_argument("--out", type=pathlib.Path, required=True, help="the samples")
    command.add_argument("--work", help="where 16 GB find room (the folder of temporary files)")
    command.add_argument("--requests-repeat", type=int, default=3)
    command.add_argument("--engine", action="append", default=[], metavar="OPTION", help="an option for every row, as --engine=--deterministic")
    command = commands.add_parser("table", help="the tables of a run")
    command.add_argument("record", type=pathlib.Path)
    command.add_argument("--write", action="store_true", help="put them into docs/benchmarks.md")
    options = parser.parse_args()
    if options.command == "pack":
        pack(options)
        return 0
    if options.command == "run":
        options.out = options.out.resolve()
        bench = Bench(options)
        try:
            bench.measure()
        except KeyboardInterrupt:
            say("stopped: what there is follows")
        print(cuda_table.markdown(bench.record))
        return 1 if bench.record["failures"] else 0
    text = cuda_table.markdown(json.loads(options.record.read_text()))
    print(text)
    if options.write:
        sys.path.insert(0, str(FOLDER / "scripts"))
        import written_part
        written_part.replace(FOLDER / "docs/benchmarks.md", "bench/cuda.sh table --write", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
