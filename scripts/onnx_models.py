#!/usr/bin/env python3
"""onnx_models.py OUT [NAME...]: makes or fetches ONNX models, OUT/NAME.onnx, each once and whole or not at all; all without a NAME.

  resnet50, mobilenet_v2      torchvision's architectures, 224x224, weights drawn from a seed
  bert_base, bert_large       as PyTorch exports them; bert_base's norms and Gelus are primitive operators, bert_large's weights (1.3 GB)
                              lie beside it
  minilm                      all-MiniLM-L6-v2 with its own weights (scripts/fetch_model.py)
  ppocr_det, ppocr_cls, ppocr_rec, silero_vad, silero_vad_16k
                              published models, out of the packages that scripts/models/ pins; the last is the file that Silero
                              publishes for OpenVINO: one sample rate, no If
  resnet_tiny, mobilenet_tiny, bert_tiny, ocr_tiny, vad_tiny
                              below 1 MB each; those of tests/golden/onnx_models

Needs Python 3.11; the packages go into OUT/.venv. Progress goes to standard error, the paths to standard output.
"""
import json
import os
import pathlib
import shutil
import sys

import fetch_model
import own_environment

HERE = pathlib.Path(__file__).resolve().parent
EXTERNAL_BYTES = 1 << 30  # from here on weights lie beside the model: a file of protobuf ends at 2 GiB
RAPIDOCR = "PP-OCR is (c) PaddlePaddle Authors and RapidAI, Apache-2.0."
SILERO = "Silero VAD is (c) Silero Team, MIT."
# NAME: (package of scripts/models, its member, SHA-256, notice)
PUBLISHED = {
    "ppocr_det": ("rapidocr", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                  "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9", RAPIDOCR),
    "ppocr_cls": ("rapidocr", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                  "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c", RAPIDOCR),
    "ppocr_rec": ("rapidocr", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                  "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b", RAPIDOCR),
    "silero_vad": ("silero_vad", "silero_vad/data/silero_vad.onnx",
                   "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3", SILERO),
    "silero_vad_16k": ("silero_vad", "silero_vad/data/silero_vad_openvino_16k.onnx",
                       "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87", SILERO),
}


def make_minilm():
    import onnx_graphs
    from safetensors.numpy import load_file

    folder = fetch_model.fetch("minilm")
    facts = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    config = onnx_graphs.Bert(hidden=facts["hidden_size"], layers=facts["num_hidden_layers"], heads=facts["num_attention_heads"],
                              inner=facts["intermediate_size"], vocabulary=facts["vocab_size"], positions=facts["max_position_embeddings"],
                              types=facts["type_vocab_size"], epsilon=facts["layer_norm_eps"])
    return onnx_graphs.bert("minilm", config, lambda name, shape: tensors[name])


def save(model, path: pathlib.Path) -> None:
    """Writes beside `path` and renames: the data first, the model that reads it last."""
    import onnx

    part = path.parent / f".{path.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    if model.ByteSize() < EXTERNAL_BYTES:
        onnx.save_model(model, part / path.name)
    else:
        onnx.save_model(model, part / path.name, save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)
        os.rename(part / f"{path.name}.data", path.parent / f"{path.name}.data")
    os.rename(part / path.name, path)
    shutil.rmtree(part)


def fetch_published(name: str, path: pathlib.Path) -> None:
    package, member, digest, notice = PUBLISHED[name]
    print(notice, file=sys.stderr)
    packages = path.parent / ".packages" / package
    packages.mkdir(parents=True, exist_ok=True)
    part = path.parent / f".{path.name}.part"
    model = fetch_model.Model(name, path.name, (("", (member,), digest),))
    fetch_model.unpack(model, fetch_model.download(package, packages), part)
    os.rename(part, path)


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = pathlib.Path(sys.argv[1]).resolve()
    own_environment.enter(out / ".venv", HERE / "onnx_models.txt")

    import onnx_graphs

    makers = onnx_graphs.SMALL | onnx_graphs.LARGE | {"minilm": make_minilm}
    known = [*makers, *PUBLISHED]
    names = sys.argv[2:] or known
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"error: no model is called {unknown[0]}; there are {', '.join(known)}")
    for name in names:
        path = out / f"{name}.onnx"
        if not path.exists():
            print(f"{name}: making it", file=sys.stderr, flush=True)
            if name in PUBLISHED:
                fetch_published(name, path)
            else:
                save(makers[name](), path)
        print(path, flush=True)


if __name__ == "__main__":
    main()
