#!/usr/bin/env python3
"""onnx_report.py MODELS_DIR [--headrace PATH] [--page FILE]: what the compiler makes of the models that scripts/onnx_models.py made.

Each model that is there is compiled by `headrace graph explain --json` for batch 1 (texts of 128 tokens). Nodes, hits of passes and the
bytes of the memory plan go into FILE (docs/onnx.md) between the lines that say so. Models that hold graphs are run, for only a run
tells what becomes of those; their plans are added up. Needs Python 3.11 alone. The exit code is 1 when a plan takes more than 1.05 of
its largest live set and more than 64 KiB beyond it.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import written_part

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIM = "p2o.DynamicDimension"
TEXT = ["--dim", "batch=1", "--dim", "seq=128"]
# NAME: the size that is compiled. The rate that silero_vad is given chooses a branch: a scalar in a file of numpy.
MODELS = {
    "resnet50": ["--dim", "batch=1"],
    "mobilenet_v2": ["--dim", "batch=1"],
    "bert_base": TEXT,
    "bert_large": TEXT,
    "minilm": TEXT,
    "ppocr_det": ["--dim", f"{DIM}.0=1", "--dim", f"{DIM}.1=640", "--dim", f"{DIM}.2=640"],
    "ppocr_cls": ["--dim", "x.0=1", "--dim", "x.2=48", "--dim", "x.3=192"],
    "ppocr_rec": ["--dim", f"{DIM}.0=1", "--dim", "x.2=48", "--dim", f"{DIM}.1=320"],
    "silero_vad": ["--random", "1", "--dim", "input.0=1", "--dim", "input.1=576", "--dim", "state.1=1"],
    "silero_vad_16k": ["--random", "1"],
}


def write_rate(path, rate):
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (), }"
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<q", rate))


def explain(program, model, size):
    command = [str(program), "graph", "explain", str(model), "--json", "--threads", "1", *size]
    if "--random" in size:
        command += ["--runs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def row_of(name, page):
    programs = [part["program"] for part in page["parts"] if part["program"]]
    nodes = [node for program in programs for node in program["nodes"]]
    between = sum(len(part["host"]) for part in page["parts"])
    # The largest plan stands for the model; one that takes too much is named whichever it is.
    memory = max((program["memory"] for program in programs), key=lambda plan: plan["planned_peak_bytes"])
    hits = {}
    for program in programs:
        for done in program["passes"]:
            hits[done["name"]] = hits.get(done["name"], 0) + done["hits"]
    return {
        "name": name,
        "file": page["nodes"] if between == 0 else sum(program["file_nodes"] for program in programs) + between,
        "run": sum(node["kernel"] != "view" for node in nodes) + between,
        "views": sum(node["kernel"] == "view" for node in nodes),
        "reference": sum(node["reference"] for node in nodes),
        "between": between,
        "hits": hits,
        "memory": memory,
        "over": [plan for plan in (program["memory"] for program in programs) if too_much(plan)],
    }


def too_much(plan):
    planned, bound = plan["planned_peak_bytes"], plan["live_set_bound_bytes"]
    return planned > 1.05 * bound and planned > bound + 65536


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def page_of(rows):
    passes = [name for name in rows[0]["hits"] if any(row["hits"].get(name) for row in rows)]
    work = table(["model", "nodes in the file", "nodes run", "views", "by reference", "between programs"],
                 [[f"`{row['name']}`", row["file"], row["run"], row["views"], row["reference"], row["between"]] for row in rows])
    hits = table(["hits of the pass", *(f"`{row['name']}`" for row in rows)],
                 [[f"`{name}`", *(row["hits"].get(name, 0) or "" for row in rows)] for name in passes])
    plans = []
    for row in rows:
        planned, bound, naive = (row["memory"][key] for key in ("planned_peak_bytes", "live_set_bound_bytes", "naive_bytes"))
        plans.append([f"`{row['name']}`", f"{planned:,}", f"{bound:,}", f"{planned / bound:.3f}" if bound else "-", f"{naive:,}",
                      f"{naive / planned:.1f}" if planned else "-"])
    memory = table(["model", "planned peak, bytes", "largest live set", "ratio", "naive sum", "naive / planned"], plans)
    return f"{work}\n\n{hits}\n\n{memory}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--headrace", type=pathlib.Path, default=ROOT / "build/release/headrace")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/onnx.md")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        rate = pathlib.Path(folder) / "rate.npy"
        write_rate(rate, 16000)
        for name, size in MODELS.items():
            model = options.models / f"{name}.onnx"
            if not model.exists():
                print(f"{name}: not there, left out", file=sys.stderr)
                continue
            given = ["--input", f"sr={rate}"] if name == "silero_vad" else []
            rows.append(row_of(name, explain(options.headrace, model, [*size, *given])))
            print(f"{name}: {rows[-1]['file']} nodes -> {rows[-1]['run']}", file=sys.stderr)
    if not rows:
        raise SystemExit(f"{options.models}: none of the models is there")
    written_part.replace(options.page, "scripts/onnx_report.py", page_of(rows))
    for row in rows:
        for plan in row["over"]:
            print(f"{row['name']}: a plan takes too much: {plan}", file=sys.stderr)
    return 1 if any(row["over"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
