#!/usr/bin/env python3
"""Makes tests/golden/onnx_models: small ONNX models and what ONNX Runtime 1.31.0 computes from them on the CPU, with its defaults.

Run by hand:  tools/golden/onnx_models.py tests/golden/onnx_models
The packages of scripts/onnx_models.txt go into build/onnx_models/.venv. NAME.onnx is one of scripts/onnx_graphs.py's; NAME.safetensors
has the runs, numbered from 0 (those of vad_tiny follow each other, each with the state that the one before it gave):
  N.input.NAME   i64 or f32
  N.output.NAME  f32
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import own_environment  # noqa: E402


def main():
    own_environment.enter(ROOT / "build/onnx_models/.venv", ROOT / "scripts/onnx_models.txt")

    import onnx_graphs
    import onnx_inputs
    import onnxruntime
    from safetensors.numpy import save_file

    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (onnx_graphs.SMALL | onnx_graphs.QUANTIZED).items():
        model = make().SerializeToString()
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        golden, count = {}, 0
        for case in onnx_inputs.cases(name):
            for inputs, outputs in case.runs(lambda inputs: dict(zip(names, session.run(names, inputs)))):
                golden |= {f"{count}.input.{key}": value for key, value in inputs.items()}
                golden |= {f"{count}.output.{key}": value for key, value in outputs.items()}
                count += 1
        (folder / f"{name}.onnx").write_bytes(model)
        save_file(golden, folder / f"{name}.safetensors", metadata={"reference": f"onnxruntime {onnxruntime.__version__}"})
        print(f"{name}: {len(model)} bytes, {count} runs")


if __name__ == "__main__":
    main()
