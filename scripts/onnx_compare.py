#!/usr/bin/env python3
"""onnx_compare.py MODELS_DIR [NAME...] [--headrace PATH] [--skip-pass NAME...] [--quick]: the models that scripts/onnx_models.py
made, by `headrace graph run` and by ONNX Runtime on the CPU, on the same inputs.

An output passes when each element lies within 1e-3 of its size and 1e-4 of the largest in the output, both of ONNX Runtime as it
optimizes by default and of it without optimizations. A row names the largest error, that error as a part of the
output's range, and how far the two of ONNX Runtime are from each other; of classes also how many best ones are the same, and texts must
be read alike. --quick takes the first case of each model, --skip-pass goes to `headrace graph run` as it is. The exit code is 1 when
something fails. Needs Python 3.11; the packages go into MODELS_DIR/.venv.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import own_environment

HERE = pathlib.Path(__file__).resolve().parent
RTOL, ATOL_OF_LARGEST = 1e-3, 1e-4
CLASSES = {"resnet50", "mobilenet_v2", "resnet_tiny", "mobilenet_tiny", "ppocr_cls", "ppocr_rec"}  # the last axis is scores


class Failed(Exception):
    """What Headrace gave instead of outputs."""


class OnnxRuntime:
    def __init__(self, path, optimized):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if not optimized:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, inputs):
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, inputs)))


class Headrace:
    def __init__(self, program, path, names, more, folder):
        self.program, self.path, self.names, self.more, self.folder = program, path, names, more, folder

    def run(self, inputs):
        import numpy as np

        command = [str(self.program), "graph", "run", str(self.path), "--out", str(self.folder / "out"), *self.more]
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
            command += ["--input", f"{name}={self.folder / name}.npy"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"headrace ended with {done.returncode}: {' '.join(done.stderr.split())[-400:]}")
        return {name: np.load(self.folder / "out" / f"{self.file_name(name)}.npy") for name in self.names}

    @staticmethod
    def file_name(name):
        kept = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "_" for c in name)
        return "_" + kept[1:] if kept.startswith(".") else kept


def difference(key, got, want):
    """(largest error, as a part of the output's range, passed). Raises Failed where no element can be compared."""
    import numpy as np

    if got.dtype != want.dtype or got.shape != want.shape:
        raise Failed(f"output {key}: want {want.dtype} {list(want.shape)}, got {got.dtype} {list(got.shape)}")
    if not np.isfinite(want).all():
        raise Failed(f"output {key}: the reference is not finite: the model or its inputs are wrong")
    error, largest = np.abs(got.astype(np.float64) - want), np.abs(want).max()
    scale = np.ptp(want) if want.size > 1 else largest
    passed = error <= RTOL * np.abs(want) + ATOL_OF_LARGEST * largest  # a NaN does not
    return float(error.max()), float(error.max() / max(scale, 1e-30)), bool(passed.all())


def read_texts(scores, characters):
    """Greedy CTC: the best of each place, repetitions and blanks dropped."""
    texts = []
    for best in scores.argmax(-1):
        kept = [index for at, index in enumerate(best) if index != 0 and (at == 0 or index != best[at - 1])]
        texts.append("".join(characters[index] for index in kept))
    return texts


class Row:
    """What the steps of a case come to."""

    def __init__(self, name):
        self.name, self.error, self.relative, self.spread = name, 0.0, 0.0, 0.0
        self.passed, self.same, self.of, self.notes = True, 0, 0, []

    def add(self, got, want, second, characters):
        for key, reference in want.items():
            error, relative, passed = difference(key, got[key], reference)
            also = difference(key, got[key], second[key])
            self.error, self.relative = max(self.error, error), max(self.relative, relative)
            self.spread = max(self.spread, difference(key, second[key], reference)[0])
            self.passed &= passed and also[2]
            if self.name in CLASSES:
                best, best_wanted = got[key].argmax(-1), reference.argmax(-1)
                self.same, self.of = self.same + int((best == best_wanted).sum()), self.of + best.size
            if characters:
                texts, wanted = read_texts(got[key], characters), read_texts(reference, characters)
                self.passed &= texts == wanted
                self.notes.append(f"reads {texts}" + ("" if texts == wanted else f", wanted {wanted}"))

    def text(self):
        best = [f"best {self.same}/{self.of}"] if self.of else []
        return f"error {self.error:.2e}, {self.relative:.2e} of the range (ONNX Runtime's own {self.spread:.2e})" + "".join(
            f"; {note}" for note in best + self.notes)


def compare(name, case, engines, characters):
    row = Row(name)
    for (_, got), (_, want), (_, second) in zip(*(case.runs(engine.run) for engine in engines)):
        row.add(got, want, second, characters)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--headrace", type=pathlib.Path, default=HERE.parent / "build/release/headrace")
    parser.add_argument("--skip-pass", action="append", default=[], metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    own_environment.enter(options.models / ".venv", HERE / "onnx_models.txt")

    import onnx_inputs

    names = options.names or [name for name in onnx_inputs.CASES if (options.models / f"{name}.onnx").exists()]
    if not options.headrace.exists() or not names:
        sys.exit(f"error: {options.models if options.headrace.exists() else options.headrace} is not there, or empty")
    counts = {True: 0, False: 0}
    more = [part for name in options.skip_pass for part in ("--skip-pass", name)]
    for name in names:
        path = options.models / f"{name}.onnx"
        if name not in onnx_inputs.CASES or not path.exists():
            sys.exit(f"error: {path} is not there, or no model of scripts/onnx_models.py")
        references = [OnnxRuntime(path, optimized) for optimized in (True, False)]
        outputs = [output.name for output in references[0].session.get_outputs()]
        listed = references[0].session.get_modelmeta().custom_metadata_map.get("character")
        characters = ["", *listed.splitlines(), " "] if listed else None
        for case in onnx_inputs.cases(name)[:1 if options.quick else None]:
            begin = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                headrace = Headrace(options.headrace, path, outputs, more, pathlib.Path(folder))
                try:
                    row = compare(name, case, [headrace, *references], characters)
                    passed, text = row.passed, row.text()
                except Failed as failure:
                    passed, text = False, str(failure)
            counts[passed] += 1
            print(f"{'ok' if passed else 'FAILED':6} {name} ({case.label}): {text}; {time.monotonic() - begin:.1f} s", flush=True)
    print(f"{counts[True]} passed, {counts[False]} failed")
    sys.exit(1 if counts[False] else 0)


if __name__ == "__main__":
    main()
