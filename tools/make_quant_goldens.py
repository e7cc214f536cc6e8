#!/usr/bin/env python3
"""Writes tests/golden/quant_formats.txt: what the `gguf` package decodes and encodes.

Inputs come from a 64-bit linear congruential generator that src/quant/format_test.cc repeats, so that the file holds
only hashes (FNV-1a, 64 bits) of many blocks and, for people, one block of each format in full.
Needs: numpy, gguf.
"""
import pathlib
import numpy as np
import gguf
from gguf import quants, GGMLQuantizationType as G

FORMATS = ["f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q6_k",
           "q2_k", "q3_k", "q5_k", "iq4_nl", "iq4_xs", "mxfp4"]
ENCODED = ["f16", "bf16", "q4_0", "q4_1", "q8_0"]
BLOCKS = 512


class Random:
    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        return self.state

    def bytes(self, count):
        return np.array([self.next() >> 56 for _ in range(count)], np.uint8)

    def floats(self, count, block):
        """Sums of four 10-bit uniforms, exact in float32; the magnitude changes with the block; block 3 is zeros."""
        out = []
        for i in range(count):
            total = 0
            for _ in range(4):
                total += (self.next() >> 54) - 511
            k = i // block
            out.append(0.0 if k == 3 else total * 2.0 ** -(k % 24))
        return np.array(out, np.float32)


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & (1 << 64) - 1
    return value


def main():
    lines = ["# Written by tools/make_quant_goldens.py with gguf " + gguf_version()]
    for index, name in enumerate(FORMATS):
        kind = G[name.upper()]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        raw = Random(index).bytes(BLOCKS * size)
        with np.errstate(all="ignore"):
            values = quants.dequantize(raw.reshape(-1, size), kind).reshape(-1).astype(np.float32)
        bits = values.view(np.uint32).copy()
        bits[np.isnan(values)] = 0x7FC00000
        lines.append(f"decode {name} {index} {BLOCKS} {fnv(bits.tobytes()):016x}")
        if elements > 1:
            finite = next(b for b in range(BLOCKS) if np.isfinite(values[b * elements:(b + 1) * elements]).all())
            lines.append(f"block {name} {raw[finite * size:(finite + 1) * size].tobytes().hex()} "
                         + " ".join(f"{v:.9g}" for v in values[finite * elements:(finite + 1) * elements][:8]))
    for index, name in enumerate(ENCODED):
        kind = G[name.upper()]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        values = Random(100 + index).floats(BLOCKS * elements, elements)
        coded = quants.quantize(values.reshape(1, -1), kind)
        lines.append(f"encode {name} {100 + index} {BLOCKS} {fnv(coded.tobytes()):016x}")
    path = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden" / "quant_formats.txt"
    path.write_text("\n".join(lines) + "\n")


def gguf_version():
    from importlib.metadata import version
    return version("gguf")


if __name__ == "__main__":
    main()
