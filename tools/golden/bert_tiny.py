#!/usr/bin/env python3
"""Makes tests/golden/bert_tiny: tiny random BERT encoders and what transformers' BertModel computes from them.

Run by hand (pip install torch transformers safetensors):  tools/golden/bert_tiny.py tests/golden/bert_tiny
Each case is a folder: config.json, model.safetensors (bf16 weights), for one of them the files with which
sentence-transformers says how it pools, and golden.safetensors with, for texts of several lengths,
  ids.P i32 [T]          the text
  hidden.1.P f32 [T, H]  the hidden states after the first layer, computed in float64; not for the long text
  hidden.2.P f32 [T, H]  after the last
  embedding.P f32 [H]    the text's embedding
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel

COMMON = {
    "architectures": ["BertModel"], "model_type": "bert", "num_hidden_layers": 2, "layer_norm_eps": 1e-12,
    "max_position_embeddings": 320, "position_embedding_type": "absolute", "pad_token_id": 0,
}
CASES = {
    # An odd head size and vocabulary; nothing beside the weights says how to pool: mean, normalized.
    "mean": {
        "config": COMMON | {
            "vocab_size": 97, "hidden_size": 60, "intermediate_size": 80, "num_attention_heads": 5,
            "hidden_act": "gelu", "type_vocab_size": 2,
        },
        "lengths": (37, 5, 300),  # the last spans two chunks of attention
    },
    # Names below "bert.", as checkpoints with a head have them; the first token's state, as it is.
    "cls": {
        "config": COMMON | {
            "architectures": ["BertForMaskedLM"], "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
            "num_attention_heads": 2, "hidden_act": "gelu_new", "type_vocab_size": 1, "layer_norm_eps": 1e-6,
        },
        "lengths": (18, 2),
        "prefix": "bert.",
        "files": {
            "modules.json": [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            ],
            "1_Pooling/config.json": {
                "word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False,
                "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False,
            },
            "sentence_bert_config.json": {"max_seq_length": 24, "do_lower_case": False},
        },
    },
}
LONG = 64


def randomize(model, generator):
    """Scales that keep activations near 1 and attention far from uniform; values are exact in bf16."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if name.endswith("LayerNorm.weight"):
            value = 1.0 + 0.2 * noise
        elif name.endswith(".bias"):
            value = 0.3 * noise
        elif "embeddings" in name:
            value = noise
        else:
            value = noise * 1.5 / parameter.shape[-1] ** 0.5
        parameter.data = value.to(torch.bfloat16).to(torch.float64)


@torch.no_grad()
def make_case(case):
    config = case["config"]
    generator = torch.Generator().manual_seed(0)
    model = BertModel(BertConfig.from_dict(dict(config), attn_implementation="eager"), add_pooling_layer=False)
    model = model.double().eval()
    randomize(model, generator)
    golden = {}
    for index, length in enumerate(case["lengths"]):
        ids = torch.randint(0, config["vocab_size"], (length,), generator=generator).tolist()
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        golden[f"ids.{index}"] = torch.tensor(ids, dtype=torch.int32)
        if length <= LONG:
            for layer in (1, 2):
                golden[f"hidden.{layer}.{index}"] = states[layer][0].float().contiguous()
        if "files" in case:
            embedding = states[-1][0, 0]
        else:
            embedding = torch.nn.functional.normalize(states[-1][0].mean(dim=0), dim=0)
        golden[f"embedding.{index}"] = embedding.float().contiguous()
    prefix = case.get("prefix", "")
    weights = {prefix + name: parameter.data.to(torch.bfloat16).contiguous()
               for name, parameter in model.named_parameters()}
    return weights, golden


def main():
    root = pathlib.Path(sys.argv[1])
    for name, case in CASES.items():
        weights, golden = make_case(case)
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in (case.get("files", {}) | {"config.json": case["config"]}).items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(json.dumps(content, indent=2) + "\n")
        save_file(weights, folder / "model.safetensors")
        save_file(golden, folder / "golden.safetensors")
        print(f"{name}: {len(weights)} tensors, embedding {golden['embedding.0'][:4].tolist()}")


if __name__ == "__main__":
    main()
