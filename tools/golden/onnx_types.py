#!/usr/bin/env python3
"""onnx_types.py: writes tests/golden/onnx_types/: small models with symbolic dims (NAME.onnx) and, in types.json, the types of their values
as onnx.shape_inference.infer_shapes gives them (data_prop=True, strict_mode=False).

A value is [element type, dims], a dim a number, a symbol or null; dims are null where the rank is not known. Symbols that the reference
makes up itself are null. Needs Python 3.11, onnx 1.23.2.
"""
import json
import pathlib

import onnx
from onnx import parser, shape_inference

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "onnx_types"

# Text of ONNX's own syntax: the graph's inputs, its output (of any rank unless said), initializers, body.
GRAPHS = {
    "add_broadcast": "(float[N,1,4] a, float[3,1] b) => (float[] y) { y = Add(a, b) }",
    "add_symbols": "(float[N,M] a, float[N,M] b) => (float[] y) { y = Add(a, b) }",
    "add_other_symbols": "(float[N] a, float[M] b) => (float[] y) { y = Add(a, b) }",
    "where": "(bool[N,1] c, float[1,4] a, float[N,4] b) => (float[] y) { y = Where(c, a, b) }",
    "compare": "(float[N,4] a, float b) => (bool[] y) { y = Less(a, b) }",
    "conv": "(float[N,3,H,32] x, float[8,3,3,3] w) => (float[] y) { y = Conv<pads = [1,1,1,1], strides = [2,2]>(x, w) }",
    "conv_same": "(float[N,4,17,9] x, float[8,2,3,3] w) => (float[] y) { y = Conv<auto_pad = \"SAME_UPPER\", group = 2, strides = [2,2]>(x, w) }",
    "conv_dilated": "(float[1,3,20] x, float[5,3,3] w) => (float[] y) { y = Conv<dilations = [3], pads = [2,1]>(x, w) }",
    "conv_transpose": "(float[N,3,5,5] x, float[3,4,3,3] w) => (float[] y) { y = ConvTranspose<strides = [2,2], output_padding = [1,1]>(x, w) }",
    "max_pool": "(float[N,3,33,H] x) => (float[] y, int64[] i) { y, i = MaxPool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>(x) }",
    "average_pool": "(float[N,C,10] x) => (float[] y) { y = AveragePool<kernel_shape = [4], pads = [1,1]>(x) }",
    "global_pool": "(float[N,C,H,W] x) => (float[] y) { y = GlobalAveragePool(x) f = Flatten(y) }",
    "matmul": "(float[B,1,S,8] a, float[4,8,16] b) => (float[] y) { y = MatMul(a, b) }",
    "matmul_vector": "(float[N,8] a, float[8] b) => (float[] y) { y = MatMul(a, b) }",
    "gemm": "(float[8,N] a, float[16,8] b, float[16] c) => (float[] y) { y = Gemm<transA = 1, transB = 1>(a, b, c) }",
    "transpose": "(float[N,S,4,8] x) => (float[] y) { y = Transpose<perm = [0,2,1,3]>(x) }",
    "reshape_rest": "(float[N,S,32] x) => (float[] y) <int64[4] d = {0, 0, 4, -1}> { y = Reshape(x, d) }",
    "reshape_flat": "(float[N,3,4] x) => (float[] y) <int64[2] d = {0, -1}> { y = Reshape(x, d) }",
    "reshape_chain": "(float[N,S,32] x) => (float[] y) <int64 i = {0}, int64[1] z = {0}, int64[2] r = {-1, 8}> "
                     "{ s = Shape(x) g = Gather(s, i) u = Unsqueeze(g, z) c = Concat<axis = 0>(u, r) y = Reshape(x, c) }",
    "reshape_symbols": "(float[N,S,32] x) => (float[] y) <int64[2] r = {4, 8}> "
                       "{ s = Shape<start = 0, end = 2>(x) c = Concat<axis = 0>(s, r) y = Reshape(x, c) }",
    "shape_slice": "(float[N,S,32,2] x) => (float[] y) <int64[1] a = {1}, int64[1] b = {3}> "
                   "{ s = Shape(x) p = Slice(s, a, b) y = ConstantOfShape(p) }",
    "shape_arithmetic": "(float[N,12,30] x) => (float[] y) <int64[1] two = {2}, int64[1] z = {0}, int64[1] i = {1}> "
                        "{ s = Shape(x) g = Gather(s, i) m = Mul(g, two) p = Add(m, two) y = ConstantOfShape(p) }",
    "expand": "(float[N,1] x) => (float[] y) <int64[3] d = {2, 1, 4}> { y = Expand(x, d) }",
    "expand_like": "(float[1,4] x, float[N,1] t) => (float[] y) { s = Shape(t) y = Expand(x, s) }",
    "squeeze": "(float[N,1,4,1] x) => (float[] y) <int64[2] a = {1, -1}> { y = Squeeze(x, a) }",
    "unsqueeze": "(float[N,4] x) => (float[] y) <int64[2] a = {0, -1}> { y = Unsqueeze(x, a) }",
    "concat": "(float[N,4] a, float[N,M] b, float[N,3] c) => (float[] y) { d = Concat<axis = -1>(a, c) y = Concat<axis = 1>(d, b) }",
    "split": "(float[N,7] x) => (float[] a, float[] b) { a, b = Split<axis = 1, num_outputs = 2>(x) }",
    "split_sizes": "(float[N,8] x) => (float[] a, float[] b) <int64[2] s = {5, 3}> { a, b = Split<axis = 1>(x, s) }",
    "slice": "(float[N,20,10] x) => (float[] y) <int64[2] s = {-3, 8}, int64[2] e = {1000, 0}, int64[2] a = {1, 2}, int64[2] t = {1, -2}> "
             "{ y = Slice(x, s, e, a, t) }",
    "gather": "(float[30,D] x, int64[N,S] i) => (float[] y) { y = Gather(x, i) }",
    "gather_nd": "(float[N,5,6,7] x, int64[N,2,2] i) => (float[] y) { y = GatherND<batch_dims = 1>(x, i) }",
    "scatter": "(float[N,5] x, int64[2,1] i, float[2,5] u) => (float[] y) { y = ScatterND(x, i, u) }",
    "reduce": "(float[N,S,4] x) => (float[] y) <int64[1] a = {1}> { m = ReduceMean<keepdims = 0>(x, a) y = ReduceSum(m) }",
    "arg_max": "(float[N,S,4] x) => (int64[] y) { y = ArgMax<axis = 1, keepdims = 0>(x) }",
    "resize_scales": "(float[N,3,8,9] x) => (float[] y) <float[4] s = {1, 1, 2, 1.5}> { y = Resize<mode = \"linear\">(x, , s) }",
    "resize_sizes": "(float[N,3,H,W] x) => (float[] y) <int64[4] s = {1, 3, 20, 30}> { y = Resize(x, , , s) }",
    "einsum": "(float[B,H,Q,8] a, float[B,H,K,8] b) => (float[] y) { y = Einsum<equation = \"bhqd,bhkd->bhqk\">(a, b) }",
    "pad": "(float[N,3,4] x) => (float[] y) <int64[6] p = {0, 1, 2, 0, 1, -1}> { y = Pad(x, p) }",
    "tile": "(float[N,3] x) => (float[] y) <int64[2] r = {1, 4}> { y = Tile(x, r) }",
    "top_k": "(float[N,10] x) => (float[] v, int64[] i) <int64[1] k = {3}> { v, i = TopK(x, k) }",
    "range": "() => (int64[] y) <int64 a = {2}, int64 b = {11}, int64 d = {3}> { y = Range(a, b, d) }",
    "one_hot": "(int64[N,3] x, float[2] v) => (float[] y) <int64 d = {7}> { y = OneHot<axis = 1>(x, d, v) }",
    "non_zero": "(float[N,3,4] x) => (int64[] y) { y = NonZero(x) }",
    "cast": "(float[N,3] x) => (float16[] y) { y = Cast<to = 10>(x) }",
    "layer_norm": "(float[N,S,16] x, float[16] g) => (float[] y) { y, m, i = LayerNormalization(x, g) }",
    "lstm": "(float[S,N,4] x, float[2,32,4] w, float[2,32,8] r) => (float[] y) "
            "{ y, h, c = LSTM<hidden_size = 8, direction = \"bidirectional\">(x, w, r) }",
    "depth_to_space": "(float[N,8,H,5] x) => (float[] y) { y = DepthToSpace<blocksize = 2>(x) }",
    "quantize": "(float[N,4] x, float s, int8 z) => (float[] y) { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }",
    "if": "(bool c, float[N,3] x, float[N,M] z) => (float[] y) "
          "{ y = If (c) <then_branch = t () => (float[] a) { a = Relu(x) }, else_branch = e () => (float[] b) { b = Neg(z) }> }",
    "if_ranks": "(bool c, float[N,3] x, float[N] z) => (float[] y) "
                "{ y = If (c) <then_branch = t () => (float[] a) { a = Relu(x) }, else_branch = e () => (float[] b) { b = Neg(z) }> }",
    "loop": "(int64 n, bool c, float[N,3] x) => (float[] y, float[] all) { y, all = Loop (n, c, x) "
            "<body = b (int64 i, bool k, float[] s) => (bool k2, float[] s2, float[] o) { k2 = Identity(k) s2 = Relu(s) o = Transpose(s) }> }",
    "scan": "(float[3] h, float[S,3] x) => (float[] y, float[] all) { y, all = Scan (h, x) "
            "<num_scan_inputs = 1, body = b (float[3] s, float[3] e) => (float[3] s2, float[] o) { s2 = Add(s, e) o = Identity(s2) }> }",
    "sequence": "(float[N,3] a, float[M,3] b) => (float[] y) <int64 i = {0}> { s = SequenceConstruct(a, b) y = SequenceAt(s, i) }",
}
FUNCTION = """<ir_version: 9, opset_import: ["" : 19, "own" : 1]>
function (float[N,4] x, float[4,8] w) => (float[] y) { y = own.block<k = 2>(x, w) }
<domain: "own", opset_import: ["" : 19]>
block <k> (x, w) => (y) { m = MatMul(x, w) s = Softmax<axis = -1>(m) f = Constant<value_int: int = @k>() t = Cast<to = 1>(f) y = Mul(s, t) }
"""


def dims_of(tensor) -> list | None:
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else d.dim_param if d.dim_param and not d.dim_param.startswith("unk__") else None
            for d in tensor.shape.dim]


def types_of(model) -> dict:
    graph = shape_inference.infer_shapes(model, check_type=True, strict_mode=False, data_prop=True).graph
    types = {}
    for value in [*graph.value_info, *graph.output]:
        if value.type.HasField("tensor_type"):
            tensor = value.type.tensor_type
            types[value.name] = [onnx.TensorProto.DataType.Name(tensor.elem_type), dims_of(tensor)]
    return types


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    golden = {}
    for name, text in {**GRAPHS, "function": None}.items():
        model = parser.parse_model(FUNCTION if text is None else f'<ir_version: 9, opset_import: ["" : 19]> g {text}')
        golden[name] = types_of(model)
        (OUT / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(types)}" for name, types in golden.items())
    (OUT / "types.json").write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    main()
