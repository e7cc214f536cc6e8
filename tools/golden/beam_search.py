#!/usr/bin/env python3
"""Makes tests/golden/beam_search.json: what transformers' beam search finds on the tiny checkpoints of tests/golden/tiny_decoders.

Run by hand (pip install torch transformers safetensors):  tools/golden/beam_search.py tests/golden/tiny_decoders tests/golden/beam_search.json
Each case: checkpoint, prompt, width, n, length_penalty, early_stopping, min_tokens, max_tokens, stop (ids that end a hypothesis) and
  sequences [n]  the ids of each hypothesis, the one that ended it included
  scores [n]     transformers' sequences_scores, computed in float64
The script leaves out cases whose neighbours in the final order are closer than 1e-4.
"""
import json
import pathlib
import random
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM


def load(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    return model.eval()


@torch.no_grad()
def search(model, case):
    ids = torch.tensor([case["prompt"]])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=case["width"], num_return_sequences=case["n"],
        length_penalty=case["length_penalty"], early_stopping=case["early_stopping"], max_new_tokens=case["max_tokens"],
        min_new_tokens=case["min_tokens"] or None, eos_token_id=case["stop"] or None, pad_token_id=0, return_dict_in_generate=True,
        output_scores=True)
    sequences = []
    for row in out.sequences.tolist():
        row = row[len(case["prompt"]):]
        ends = [i for i, token in enumerate(row) if token in case["stop"] and i + 1 > case["min_tokens"]]
        sequences.append(row[:ends[0] + 1] if ends else row)
    return sequences, out.sequences_scores.tolist()


def main(folder, out):
    rng = random.Random(7)
    cases = []
    for name in ["untied_biases", "llama3_rope", "mistral_window", "gemma3", "qwen2_window", "qwen3"]:
        path = pathlib.Path(folder) / name
        model = load(path)
        model.generation_config = transformers.GenerationConfig()
        vocab = AutoConfig.from_pretrained(path).vocab_size
        for index in range(10):
            width = rng.choice([2, 3, 4, 6])
            case = {
                "checkpoint": name, "prompt": [rng.randrange(3, vocab) for _ in range(rng.choice([1, 5, 16, 21, 40]))],
                "width": width, "n": rng.randint(1, width), "length_penalty": rng.choice([1.0, 1.0, 0.0, 2.0, -0.5]),
                "early_stopping": rng.random() < 0.4, "min_tokens": rng.choice([0, 0, 4]), "max_tokens": rng.choice([1, 8, 20]),
                "stop": [],
            }
            # Ids that the search without them comes across.
            found = sorted({token for row in search(model, case | {"n": width})[0] for token in row[1:]})
            case["stop"] = sorted(rng.sample(found, min(len(found), rng.choice([0, 1, 2, 4]))))
            if case["min_tokens"] > case["max_tokens"]:
                case["min_tokens"] = 0
            sequences, scores = search(model, case)
            if any(a - b < 1e-4 for a, b in zip(scores, scores[1:])):
                continue
            cases.append(case | {"sequences": sequences, "scores": [round(score, 7) for score in scores]})
    made = {"about": f"transformers {transformers.__version__}, torch {torch.__version__}, float64; tools/golden/beam_search.py"}
    text = ",\n".join(json.dumps(case) for case in cases)
    pathlib.Path(out).write_text(f'{{"about": {json.dumps(made["about"])}, "cases": [\n{text}\n]}}\n')
    print(len(cases), "cases,", sum(any(row[-1] in case["stop"] for row in case["sequences"]) for case in cases), "with a stop id")


if __name__ == "__main__":
    main(*sys.argv[1:])
