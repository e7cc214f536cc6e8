#!/usr/bin/env python3
"""Writes, with the `gguf` package, tests/golden/
- tiny_llama.gguf: every metadata type, nested arrays, a llama configuration, a vocabulary of 8 tokens and the tensors
  of one layer in several formats;
- tiny_split-0000N-of-00003.gguf: a llama configuration and five tensors over three shards; each holds its own number.
Needs: numpy, gguf.
"""
import pathlib
import numpy as np
import gguf
from gguf import GGUFValueType as T, GGMLQuantizationType as G, quants

HIDDEN, HEADS, KV_HEADS, MIDDLE, VOCAB = 64, 4, 2, 96, 8
HEAD = HIDDEN // HEADS


GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden"


def main():
    path = GOLDEN / "tiny_llama.gguf"
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(128)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(1)
    w.add_feed_forward_length(MIDDLE)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(500000.0)
    w.add_rope_dimension_count(HEAD)
    w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    w.add_rope_scaling_factor(2.0)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "ab", "\u0120", "\u00e9"])
    w.add_token_types([3, 3, 3, 1, 1, 1, 1, 4])
    w.add_token_scores([0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0, 0.5])
    w.add_token_merges(["a b"])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(False)
    w.add_chat_template("{{ messages }}")
    for name, kind, value in [("u8", T.UINT8, 255), ("i8", T.INT8, -128), ("u16", T.UINT16, 65535),
                              ("i16", T.INT16, -32768), ("u32", T.UINT32, 4294967295), ("i32", T.INT32, -2147483648),
                              ("f32", T.FLOAT32, 0.25), ("bool", T.BOOL, True), ("u64", T.UINT64, (1 << 64) - 1),
                              ("i64", T.INT64, -(1 << 63)), ("f64", T.FLOAT64, 0.1)]:
        w.add_key_value("x." + name, value, kind)
    w.add_array("x.nested", [[1, 2], [3], [4, 5, 6]])
    w.add_array("x.floats", [0.5, -1.5])
    w.add_array("x.bools", [True, False])

    r = np.random.default_rng(0)

    def tensor(name, shape, kind):
        # Multiples of 1/8: sums and products below stay exact whatever the order.
        data = (r.integers(-40, 41, shape) / 8).astype(np.float32)
        w.add_tensor(name, quants.quantize(data, kind), raw_dtype=kind)

    tensor("token_embd.weight", (VOCAB, HIDDEN), G.Q8_0)
    tensor("output_norm.weight", (HIDDEN,), G.F32)
    tensor("blk.0.attn_norm.weight", (HIDDEN,), G.F32)
    tensor("blk.0.attn_q.weight", (HIDDEN, HIDDEN), G.Q4_0)
    tensor("blk.0.attn_k.weight", (KV_HEADS * HEAD, HIDDEN), G.Q4_1)
    tensor("blk.0.attn_v.weight", (KV_HEADS * HEAD, HIDDEN), G.F16)
    tensor("blk.0.attn_output.weight", (HIDDEN, HIDDEN), G.BF16)
    tensor("blk.0.ffn_norm.weight", (HIDDEN,), G.F32)
    tensor("blk.0.ffn_gate.weight", (MIDDLE, HIDDEN), G.Q4_0)
    tensor("blk.0.ffn_up.weight", (MIDDLE, HIDDEN), G.Q4_0)
    tensor("blk.0.ffn_down.weight", (HIDDEN, MIDDLE), G.Q4_0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    for t in gguf.GGUFReader(path).tensors:
        v = quants.dequantize(t.data, t.tensor_type).reshape(-1)
        print(t.name, t.shape, t.tensor_type.name, v[:2], v[-1], v.astype(np.float64).sum())


def split():
    w = gguf.GGUFWriter(GOLDEN / "tiny_split.gguf", "llama", split_max_tensors=2)
    w.add_context_length(128)
    w.add_embedding_length(8)
    w.add_block_count(1)
    w.add_feed_forward_length(8)
    w.add_head_count(2)
    for i, name in enumerate(["token_embd", "output_norm", "blk.0.attn_q", "blk.0.attn_k", "output"]):
        w.add_tensor(name + ".weight", np.full((8,) if "norm" in name else (2, 8), i, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
    split()
