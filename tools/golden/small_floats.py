#!/usr/bin/env python3
"""small_floats.py: prints the rows of src/core/small_floats_test.cc, as the packages ml_dtypes and onnx convert.

A row digests (FNV-1a, 64 bits) what every code is worth as binary32, and the codes of all binary16 values but NaN in their order, without
and with saturation. For e8m0: the codes of the positive finite ones, for each rounding. Needs Python 3.11, onnx 1.23.2, ml_dtypes 0.6.0.
"""
import ml_dtypes
import numpy as np
from onnx import numpy_helper

FORMATS = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
}


def digest(array: np.ndarray) -> str:
    value = 0xCBF29CE484222325
    for byte in array.tobytes():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"0x{value:016x}"


def worth(codes: int, dtype) -> str:
    values = np.arange(codes, dtype=np.uint8).view(dtype).astype(np.float32)
    bits = values.view(np.uint32).copy()
    bits[np.isnan(values)] = 0x7FC00000
    return digest(bits.astype("<u4"))


def main() -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves = halves[~np.isnan(halves)]
    for name, dtype in FORMATS.items():
        plain = halves.astype(dtype).view(np.uint8)
        saturated = numpy_helper.saturate_cast(halves, np.dtype(dtype)).view(np.uint8)
        print(name, worth(16 if name == "f4e2m1" else 256, dtype), digest(plain), digest(saturated))
    positive = halves[(halves > 0) & np.isfinite(halves)]
    rows = [digest(numpy_helper.to_float8e8m0(positive, True, mode).view(np.uint8)) for mode in ("up", "down", "nearest")]
    print("f8e8m0", worth(256, ml_dtypes.float8_e8m0fnu), *rows)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
