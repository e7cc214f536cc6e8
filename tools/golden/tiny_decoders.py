#!/usr/bin/env python3
"""Makes tests/golden/tiny_decoders: tiny random checkpoints of every decoder family and kind of rotary embedding, and what
transformers computes from them.

Run by hand (pip install torch transformers safetensors):  tools/golden/tiny_decoders.py tests/golden/tiny_decoders [CASE...]
Each case is a folder: config.json, model.safetensors (bf16 weights), golden.safetensors with, for two prompts,
  ids.P i32 [T]          the prompt
  logits.P f32 [T, V]    logits of every prompt token, computed in float64
  hidden.1.P f32 [T, H]  the residual stream after the first layer
  greedy.P i32 [N]       the next N tokens by arg-max; the script refuses seeds where a choice is close
"""
import copy
import functools
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.gemma3 import modeling_gemma3

COMMON = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "num_hidden_layers": 2,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2,
}
SMALL = {
    "vocab_size": 67, "hidden_size": 64, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rope_theta": 10000.0, "tie_word_embeddings": True,
}
GEMMA = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "vocab_size": 71, "hidden_size": 64,
    "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32,
    "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 24,
    "sliding_window": 8, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True, "attention_bias": False,
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
    # A window that every prompt but the short one exceeds.
    "mistral_window": COMMON | SMALL | {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 7},
    "qwen2": COMMON | SMALL | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rms_norm_eps": 1e-6,
                               "use_sliding_window": False, "sliding_window": 8},
    "qwen2_window": COMMON | SMALL | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
                                      "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    "qwen3": COMMON | SMALL | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 24,
                               "rms_norm_eps": 1e-6, "attention_bias": False, "tie_word_embeddings": False},
    # Two windowed layers to one full, both tables of rotations, a query scale of its own.
    "gemma3": COMMON | GEMMA,
    "gemma3_softcaps": COMMON | GEMMA | {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 20.0,
                                         "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "rope_linear": COMMON | SMALL | {"rope_scaling": {"rope_type": "linear", "factor": 2.5}},
    # The table depends on the longest sequence that may come: the prompts are as long as the test allows.
    "rope_dynamic": COMMON | SMALL | {"max_position_embeddings": 32, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    "rope_yarn": COMMON | SMALL | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                                                    "original_max_position_embeddings": 32}},
    "rope_longrope": COMMON | SMALL | {"max_position_embeddings": 128, "original_max_position_embeddings": 32, "rope_scaling": {
        "rope_type": "longrope", "short_factor": [1.0 + 0.1 * i for i in range(8)],
        "long_factor": [1.5 + 0.7 * i for i in range(8)], "original_max_position_embeddings": 32}},
}
# Prompts that differ from PROMPT_LENGTHS: the reference computes a rotation that changes with the length of what it sees.
LENGTHS = {"rope_dynamic": (64, 64), "rope_longrope": (37, 40)}
NOT_GREEDY = {"rope_dynamic"}
PROMPT_LENGTHS = (37, 5)
EAGER_ATTENTION = modeling_gemma3.eager_attention_forward
NUM_GREEDY = 8
MIN_MARGIN = 1e-2


def randomize(model, generator):
    """Scales that keep activations near 1 and attention far from uniform; values are exact in bf16."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if "norm" in name:  # Gemma stores the weight less one
            value = 0.2 * noise if "gemma" in model.config.model_type else 1.0 + 0.2 * noise
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
def make_case(name, config, seed):
    generator = torch.Generator().manual_seed(seed)
    settings = AutoConfig.for_model(**copy.deepcopy(config))
    model = AutoModelForCausalLM.from_config(settings, attn_implementation="eager").double().eval()
    # transformers 5.24 reads this key, and its attention knows the soft cap, but the layer does not pass it on.
    if cap := config.get("attn_logit_softcapping"):
        modeling_gemma3.eager_attention_forward = functools.partial(EAGER_ATTENTION, softcap=cap)
    else:
        modeling_gemma3.eager_attention_forward = EAGER_ATTENTION
    randomize(model, generator)
    golden = {}
    for index, length in enumerate(LENGTHS.get(name, PROMPT_LENGTHS)):
        ids = torch.randint(0, config["vocab_size"], (length,), generator=generator).tolist()
        out = model(torch.tensor([ids]), output_hidden_states=True)
        chosen = [] if name in NOT_GREEDY else greedy(model, ids)
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
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        for seed in range(100):
            weights, golden = make_case(name, config, seed)
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
