#!/usr/bin/env python3
"""Adds llama.cpp's greedy ids to tests/golden/gemma3_greedy.json, which gemma3_greedy.py has made.

Run by hand (pip install xllamacpp gguf numpy):  tools/golden/gemma3_llama_cpp.py GEMMA.gguf tests/golden/gemma3_greedy.json
  llama_cpp_f32_ids  weights decoded to float32 (a file written here), float32 KV, no flash attention: no rounding of activations
  llama_cpp_ids      the file as it is: llama.cpp rounds activations to 8 bits, so ids may leave the others where two are close
"""
import json
import pathlib
import sys
import tempfile

import gguf
import numpy as np
import xllamacpp as llama


def decode_to_f32(source, target):
    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(target, "gemma3")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(field.name, field.contents())
        else:
            writer.add_key_value(field.name, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def greedy(path, items, exact):
    params = llama.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.warmup, params.n_gpu_layers = 2048, 1, False, 0
    if exact:
        params.cache_type_k = params.cache_type_v = llama.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = llama.Server(params)
    answers = []
    for item in items:
        answer = server.handle_completions({"prompt": item["prompt_ids"], "max_tokens": len(item["ids"]), "temperature": 0, "top_k": 1,
                                            "samplers": ["top_k"], "cache_prompt": False, "return_tokens": True, "verbose": True})
        answer = answer[0] if isinstance(answer, list) else answer
        answers.append(answer.get("__verbose", answer)["tokens"])
    return answers


def main():
    model, golden_path = map(pathlib.Path, sys.argv[1:])
    golden = json.loads(golden_path.read_text())
    with tempfile.TemporaryDirectory() as folder:
        decoded = pathlib.Path(folder) / "f32.gguf"
        decode_to_f32(model, decoded)
        for key, path in (("llama_cpp_f32_ids", decoded), ("llama_cpp_ids", model)):
            for item, ids in zip(golden["items"], greedy(path, golden["items"], path == decoded)):
                item[key] = ids
    golden["llama_cpp"] = "xllamacpp 2026.10.11549"
    golden_path.write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
