#!/usr/bin/env python3
"""Measures Headrace, ONNX Runtime and OpenVINO on the same ONNX models and inputs, turn by turn in one run, and prints the tables of
docs/benchmarks.md. Each turn is a process of its own; before the rounds each has one that does not count and tells how many runs fill a
turn. Every sample goes to a JSON file as soon as it is there; Ctrl-C prints what there is. A program that fails costs its own figures:
the table says so, and the exit code is 1.

usage: bench/graph.sh [--rounds N] [--threads N] [--only MODEL,...] [--engines ENGINE,...] [--write]   (it builds what this program runs)
"""
import argparse
import json
import pathlib
import statistics
import sys

import cpu_table
from cpu import BUILT, ROOT, Clock, Failed, json_of, machine_facts, run, say, stopped

sys.path.insert(0, str(ROOT / "scripts"))
import own_environment  # noqa: E402
import written_part  # noqa: E402

REQUIREMENTS = ROOT / "bench/peers/graph_requirements.txt"
PAGE = ROOT / "docs/benchmarks.md"
BATCHES = {"resnet50": (1, 8), "mobilenet_v2": (1, 8), "bert_base": (1, 8), "minilm": (1, 8), "ppocr_det": (1,), "ppocr_cls": (1,),
           "ppocr_rec": (1,), "silero_vad": (1,)}
ENGINES = {"headrace": "Headrace", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
PEERS = ("onnxruntime", "openvino")
FIELDS = ("median_ms", "best_ms", "load_s", "peak_bytes")
MAX_RUNS = 1000
# What an engine runs where it cannot read the model: OpenVINO's reader of ONNX refuses the branches of silero_vad, whose authors publish
# the part for 16 kHz alone for it.
INSTEAD = {("openvino", "silero_vad"): "silero_vad_16k"}


class Bench:
    def __init__(self, options):
        self.options = options
        self.turns = [(model, batch) for model in options.only for batch in BATCHES[model]]
        self.inputs, self.runs = {}, {}
        peers = dict(line.split()[0].split("==") for line in REQUIREMENTS.read_text().splitlines() if "==" in line)
        self.record = {"facts": machine_facts(options.bin) | {"threads": options.threads, "rounds": options.rounds,
                                                              "peers": ", ".join(f"{ENGINES[peer]} {peers[peer]}" for peer in PEERS)},
                       "samples": [], "failures": []}

    def prepare(self):
        """Makes the models and the inputs; what a turn runs."""
        import numpy
        import onnx_inputs

        turns = self.turns + [(INSTEAD[engine, model], batch) for engine in self.options.engines for model, batch in self.turns
                              if (engine, model) in INSTEAD]
        run(sys.executable, ROOT / "scripts/onnx_models.py", self.options.models, *dict(turns))
        for model, batch in turns:
            folder = ROOT / f"build/bench/graph/{model}-{batch}"
            folder.mkdir(parents=True, exist_ok=True)
            self.inputs[model, batch] = []
            for name, array in onnx_inputs.bench_inputs(model, batch).items():
                numpy.save(folder / f"{name}.npy", array)
                self.inputs[model, batch] += ["--input", f"{name}={folder / name}.npy"]

    def turn(self, engine, model, batch, runs):
        program = ([self.options.bin / "headrace", "graph", "bench"] if engine == "headrace" else
                   [sys.executable, ROOT / "bench/peers/graph_bench.py", engine])
        model = INSTEAD.get((engine, model), model)
        out = json_of(*program, self.options.models / f"{model}.onnx", *self.inputs[model, batch], "--runs", runs, "--threads",
                      self.options.threads, *(["--json"] if engine == "headrace" else []))
        if any(field not in out for field in FIELDS):
            raise Failed(f"{ENGINES[engine]}: want {', '.join(FIELDS)}, got {', '.join(out)}")
        return {field: out[field] for field in FIELDS}

    def measure(self):
        """Round -1 does not count."""
        for number in range(-1, self.options.rounds):
            for model, batch in self.turns:
                for engine in self.options.engines if number % 2 == 0 else reversed(self.options.engines):
                    key, clock = (engine, model, batch), Clock()
                    if number >= 0 and key not in self.runs:
                        continue  # it has failed
                    where = f"round {number + 1}, {model} x {batch}, {ENGINES[engine]}"
                    try:
                        figures = self.turn(*key, self.runs.get(key, 1))
                    except Failed as failure:
                        self.runs.pop(key, None)
                        self.record["failures"].append(f"{where}: {failure}")
                        say(f"{where}: failed: {failure}")
                        continue
                    if number < 0:
                        self.runs[key] = max(1, min(MAX_RUNS, int(1e3 * self.options.seconds / figures["best_ms"])))
                        continue
                    turn = {"round": number, "engine": engine, "model": model, "batch": batch, "runs": self.runs[key]}
                    self.record["samples"].append({**turn, "others": round(clock.others(), 2), **figures})
                    self.options.out.write_text(json.dumps(self.record, indent=1))
                    say(f"{where}: {figures['median_ms']:.3f} ms ({clock.seconds():.1f} s)")


# ---- the tables

def number(value, digits=3):
    """At least `digits` digits, no exponent."""
    return f"{value:,.{max(0, digits - len(str(int(value))))}f}"


def samples_of(record, engine, model, batch):
    """{round: sample}"""
    return {s["round"]: s for s in record["samples"] if (s["engine"], s["model"], s["batch"]) == (engine, model, batch)}


def better_of(record, model, batch, better):
    """{round: the better peer's}, where `better` picks from the peers' samples."""
    peers = [samples_of(record, peer, model, batch) for peer in PEERS]
    return {n: better([peer[n] for peer in peers if n in peer]) for n in set().union(*peers)}


def ratio(ours, theirs, value):
    """The median of the rounds' ratios."""
    found = [value(ours[n]) / value(theirs[n]) for n in ours if n in theirs]
    return f"{statistics.median(found):.2f}" if found else "-"


def speed(samples, batch):
    if not samples:
        return "-"
    median = statistics.median(1e3 * batch / s["median_ms"] for s in samples.values())
    return f"{number(median)} (best {number(max(1e3 * batch / s['best_ms'] for s in samples.values()))})"


def tables(record):
    keys = list(dict.fromkeys((s["model"], s["batch"]) for s in record["samples"]))
    speeds, costs = [], []
    for model, batch in keys:
        engines = [samples_of(record, engine, model, batch) for engine in ENGINES]
        fastest = better_of(record, model, batch, lambda peers: min(peers, key=lambda s: s["median_ms"]))
        speeds.append([model, str(batch), *(speed(engine, batch) for engine in engines),
                       ratio(engines[0], fastest, lambda s: 1 / s["median_ms"])])
        cost = [model, str(batch)]
        for field, scale in (("peak_bytes", 1e-6), ("load_s", 1)):
            least = better_of(record, model, batch, lambda peers, field=field: min(peers, key=lambda s: s[field]))
            cost += [number(scale * statistics.median(s[field] for s in engine.values())) if engine else "-" for engine in engines]
            cost.append(ratio(engines[0], least, lambda s, field=field: s[field]))
        costs.append(cost)
    names = list(ENGINES.values())
    return "\n".join((
        cpu_table.table(["model", "batch", *(f"{name}, items/s" for name in names), "of the better peer"], speeds),
        cpu_table.table(["model", "batch", *(f"{name}, MB" for name in names), "of the better peer", *(f"{name}, load s" for name in names),
                         "of the better peer"], costs)))


def markdown(record):
    facts, others = record["facts"], [s["others"] for s in record["samples"]]
    rounds = len({s["round"] for s in record["samples"]})
    head = (f"{facts['date']}, {facts['processor']} ({', '.join(facts['features'])}), {facts['processors']} processors, "
            f"{facts['threads']} threads; {rounds} of {facts['rounds']} rounds; Headrace {facts['headrace']}; {facts['peers']}.\n\n"
            f"Processors that others kept busy during a turn: {cpu_table.spread(others, '{:.2f}')}; above {cpu_table.QUIET} in "
            f"{sum(o > cpu_table.QUIET for o in others)} of {len(others)} turns.\n")
    failed = "".join(f"- not measured: {failure}\n" for failure in record["failures"])
    return "\n".join(part for part in (head, tables(record), failed) if part)


def main():
    def listed(known):
        return lambda text: [name for name in text.split(",") if name in known or sys.exit(f"no such name: {name}; {', '.join(known)}")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5, help="of the runs of a turn")
    parser.add_argument("--only", type=listed(BATCHES), default=list(BATCHES), help=",".join(BATCHES))
    parser.add_argument("--engines", type=listed(ENGINES), default=list(ENGINES), help=",".join(ENGINES))
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/bench/graph.json", help="the samples")
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build/onnx_models")
    parser.add_argument("--bin", type=pathlib.Path, default=BUILT)
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    options = parser.parse_args()
    own_environment.enter(options.peers / "graph", REQUIREMENTS)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    code = 130 if stopped(bench.prepare, bench.measure) else 0
    if bench.record["samples"]:
        text = markdown(bench.record)
        print(text)
        if options.write and code == 0:
            written_part.replace(PAGE, "bench/graph.sh --write", text)
    return code or (1 if bench.record["failures"] else 0)


if __name__ == "__main__":
    sys.exit(main())
