#!/usr/bin/env python3
"""gemma3_greedy.py MODEL.gguf TOKENIZER_FOLDER: writes tests/golden/gemma3_greedy.json.

Reference: transformers (float32, weights dequantized from the GGUF file) and the `tokenizers` library with Gemma 3's own
tokenizer.json. Prompts are continued as they stand (the model is not tuned for chat); one is longer than the window of 512.
`top2_margin` is the least difference between the two likeliest logits on the way: 8-bit activations may decide otherwise
where it is small. Needs: pip install torch transformers accelerate gguf tokenizers
"""
import json
import pathlib
import sys

import torch
import transformers
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

MAX_NEW_TOKENS = 32
PROMPTS = ["The capital of France is", "A mill race is a channel that", "def reverse(text):\n    ", "1, 2, 3, 4,",
           "Die Mühle am Bach"]


@torch.no_grad()
def main() -> None:
    file = pathlib.Path(sys.argv[1])
    tokenizer = Tokenizer.from_file(str(pathlib.Path(sys.argv[2]) / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32).eval()
    golden = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden"
    items = []
    for prompt in PROMPTS + [(golden / "prose.txt").read_text(encoding="utf-8")[:2800]]:
        ids = tokenizer.encode(prompt).ids
        new, margin, cache = [], float("inf"), None
        feed = ids
        for _ in range(MAX_NEW_TOKENS):
            out = model(torch.tensor([feed]), past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            top = torch.topk(out.logits[0, -1], 2)
            margin = min(margin, float(top.values[0] - top.values[1]))
            feed = [int(top.indices[0])]
            new += feed
            if feed[0] == 1:
                break
        items.append({"prompt": prompt, "prompt_ids": ids, "ids": new, "text": tokenizer.decode(new), "top2_margin": round(margin, 4)})
        print(len(ids), repr(items[-1]["text"]), margin)
    (golden / "gemma3_greedy.json").write_text(json.dumps(
        {"reference": f"transformers {transformers.__version__}, torch {torch.__version__}, float32", "items": items},
        ensure_ascii=True, indent=1) + "\n")


if __name__ == "__main__":
    main()
