#!/usr/bin/env python3
"""Makes tests/golden/llama_tiny: tiny random Llama checkpoints and what transformers' LlamaForCausalLM computes from them.

Run by hand (pip install torch transformers safetensors):  tools/golden/llama_tiny.py tests/golden/llama_tiny
Each case is a folder: config.json, model.safetensors (bf16 weights), golden.safetensors with, for two prompts,
  ids.P i32 [T]          the prompt
  logits.P f32 [T, V]    logits of every prompt token, computed in float64
  hidden.1.P f32 [T, H]  the residual stream after the first layer
  greedy.P i32 [N]       the next N tokens by arg-max; the script refuses seeds where a choice is close
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

COMMON = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "num_hidden_layers": 2,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2,
}
CASES = {
    # Grouped queries, tied head, head_dim from hidden_size, an odd vocabulary.
    "tied": COMMON | {
        "vocab_size": 131, "hidden_size": 96, "intermediate_size": 160, "num_attention_heads": 6,
        "num_key_value_heads": 2, "rope_theta": 10000.0, "tie_word_embeddings": True,
        "attention_bias": False, "mlp_bias": False,
    },
    # Separate head, every bias, an explicit head_dim that is not hidden_size / heads, another activation.
    "untied_biases": COMMON | {
        "vocab_size": 100, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 48, "rope_theta": 500.0, "tie_word_embeddings": False,
        "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu_pytorch_tanh",
    },
    # llama3 frequency scaling whose three bands all occur; prompts run past the original context.
    "llama3_rope": COMMON | {
        "vocab_size": 64, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 4, "rope_theta": 10000.0, "tie_word_embeddings": True,
        "attention_bias": False, "mlp_bias": False,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32},
    },
}
PROMPT_LENGTHS = (37, 5)
NUM_GREEDY = 8
MIN_MARGIN = 1e-2


def randomize(model, generator):
    """Scales that keep activations near 1 and attention far from uniform; values are exact in bf16."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if "norm" in name:
            value = 1.0 + 0.2 * noise
        elif name.endswith(".bias"):
            value = 0.3 * noise
        elif "embed_tokens" in name:
            value = noise
        else:
            value = noise * 1.5 / parameter.shape[-1] ** 0.5
        parameter.data = value.to(torch.bfloat16).to(torch.float64)


def greedy(model, ids):
    chosen = []
    for _ in range(NUM_GREEDY):
        logits = model(torch.tensor([ids + chosen])).logits[0, -1]
        top = torch.topk(logits, 2)
        if top.values[0] - top.values[1] < MIN_MARGIN:
            return None
        chosen.append(int(top.indices[0]))
    return chosen


@torch.no_grad()
def make_case(config, seed):
    generator = torch.Generator().manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig.from_dict(dict(config), attn_implementation="eager")).double().eval()
    randomize(model, generator)
    golden = {}
    for index, length in enumerate(PROMPT_LENGTHS):
        ids = torch.randint(0, config["vocab_size"], (length,), generator=generator).tolist()
        out = model(torch.tensor([ids]), output_hidden_states=True)
        chosen = greedy(model, ids)
        if chosen is None:
            return None, None
        golden[f"ids.{index}"] = torch.tensor(ids, dtype=torch.int32)
        golden[f"logits.{index}"] = out.logits[0].float().contiguous()
        golden[f"hidden.1.{index}"] = out.hidden_states[1][0].float().contiguous()
        golden[f"greedy.{index}"] = torch.tensor(chosen, dtype=torch.int32)
    weights = {name: parameter.data.to(torch.bfloat16).contiguous() for name, parameter in model.named_parameters()}
    return weights, golden


def main():
    root = pathlib.Path(sys.argv[1])
    for name, config in CASES.items():
        for seed in range(100):
            weights, golden = make_case(config, seed)
            if weights is not None:
                break
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        save_file(weights, folder / "model.safetensors")
        save_file(golden, folder / "golden.safetensors")
        print(f"{name}: seed {seed}, greedy {golden['greedy.0'].tolist()} {golden['greedy.1'].tolist()}")


if __name__ == "__main__":
    main()
