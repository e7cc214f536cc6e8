#!/usr/bin/env python3
"""Makes tests/golden/chat_folders: the text files of two small checkpoints, and the ids that transformers makes of chats.

Run by hand (pip install transformers tokenizers):  tools/golden/chat_folders.py tests/golden/chat_folders
Each case is a folder: tokenizer.json, tokenizer_config.json (and chat_template.jinja, special_tokens_map.json), and
golden.json, a list of {"messages": [...], "ids": [...]} by apply_chat_template(..., add_generation_prompt=True). Vocabularies
fit the checkpoint tests/golden/tiny_decoders/tied.
"""
import json
import pathlib
import sys

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CHATS = [
    [{"role": "user", "content": "what is a mill race ?"}],
    [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
    [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "a mill"}, {"role": "user", "content": "what ?"}],
]
# Begins with the token that the configuration names, ends each answer with the other.
TEMPLATE = """{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{{ eos_token }}
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}{% if pad_token is defined %}{{ pad_token }}{% endif %}"""
OTHER = "{{ raise_exception('this one is not the default') }}"
MARKS = ["<s>", "</s>", "<pad>", "<|system|>", "<|user|>", "<|assistant|>"]
WORDS = "? be brief hello what is a mill race the water system user assistant".split()


def tokenizer():
    vocab = {token: i for i, token in enumerate(["<unk>", *MARKS, *WORDS])}
    made = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.decoder = decoders.WordPiece(prefix="##")
    made.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    return made


def write(folder, config, files):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"), pretty=False)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False} | config
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    for name, text in files.items():
        (folder / name).write_text(text)
    auto = transformers.AutoTokenizer.from_pretrained(folder)
    golden = [{"messages": chat, "ids": auto.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)} for chat in CHATS]
    (folder / "golden.json").write_text(
        json.dumps({"made_with": f"transformers {transformers.__version__}", "chats": golden}) + "\n")
    for item in golden:
        print(folder.name, item["ids"])


def main():
    out = pathlib.Path(sys.argv[1])
    # A template of its own file; tokens as objects; no pad token.
    token = {"__type": "AddedToken", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    write(out / "own_file", {"bos_token": token | {"content": "<s>"}, "eos_token": token | {"content": "</s>"},
                             "chat_template": OTHER}, {"chat_template.jinja": TEMPLATE})
    # A list of templates in the configuration; some tokens only in special_tokens_map.json.
    write(out / "named_list", {"eos_token": "</s>", "chat_template": [{"name": "tool_use", "template": OTHER},
                                                                      {"name": "default", "template": TEMPLATE}]},
          {"special_tokens_map.json": json.dumps({"bos_token": "<s>", "eos_token": "<pad>", "pad_token": {"content": "<pad>"}})})


if __name__ == "__main__":
    main()
