"""Architectures as ONNX graphs, written node by node as exporters write them: what folds, fuses or is computed from shapes stays there.

Weights are drawn from a seed, or given; they keep activations near 1 through the depth. Symbolic dims: "batch", "seq". Needs numpy and
onnx.
"""
import dataclasses
import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


class Graph:
    """Nodes and weights of a graph while it is written. A value has the name of the node that makes it: "Conv_12"."""

    def __init__(self, seed=0, prefix=""):
        self.rng = np.random.default_rng(seed)
        self.prefix, self.nodes, self.initializers = prefix, [], []

    def op(self, kind, *inputs, outputs=1, name=None, **attributes):
        """The node's output, or a tuple of them. `name` is for an output of the model."""
        node = f"{self.prefix}{kind}_{len(self.nodes)}"
        names = [name or node] if outputs == 1 else [f"{node}.{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=node, **attributes))
        return names[0] if outputs == 1 else tuple(names)

    def constant(self, value, dtype=np.float32):
        return self.op("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def ints(self, *values):
        return self.constant(values, np.int64)

    def weight(self, array, name=None):
        name = name or f"{self.prefix}weight_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def normal(self, shape, deviation=1.0, mean=0.0):
        return self.rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation) + np.float32(mean)

    def uniform(self, shape, low, high):
        return self.rng.uniform(low, high, shape).astype(np.float32)

    def if_(self, condition, then, other, outputs=1):
        """`then` and `other` write a branch, which may read this graph's values, and give its outputs."""
        branches = {}
        for which, write in (("then", then), ("else", other)):
            inner = Graph(prefix=f"{self.prefix}If_{len(self.nodes)}.{which}.")
            inner.rng = self.rng
            values = [helper.make_value_info(name, helper.make_tensor_type_proto(F32, None)) for name in write(inner)]
            branches[f"{which}_branch"] = helper.make_graph(inner.nodes, f"{inner.prefix}graph", [], values, inner.initializers)
        return self.op("If", condition, outputs=outputs, **branches)

    def model(self, name, inputs, outputs, opset):
        """`inputs` and `outputs`: {name: (element type, dims)}."""
        values = [[helper.make_tensor_value_info(key, *info) for key, info in part.items()] for part in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, name, *values, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 20 else 9,
                                 producer_name="onnx_graphs")


# ---- images

def conv(graph, x, channels_in, channels, kernel, stride=1, groups=1, gain=2.0, bias=False):
    """Gain 2 keeps the second moment of what comes out of a ReLU."""
    fan_in = channels_in // groups * kernel * kernel
    inputs = [graph.weight(graph.normal((channels, channels_in // groups, kernel, kernel), math.sqrt(gain / fan_in)))]
    if bias:
        inputs.append(graph.weight(graph.normal(channels, 0.1)))
    return graph.op("Conv", x, *inputs, dilations=[1, 1], group=groups, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4,
                    strides=[stride] * 2)


def batch_norm(graph, x, channels, scale=1.0):
    """`scale` is about what it multiplies by; the statistics are those of activations near 1."""
    parameters = (graph.uniform(channels, 0.8 * scale, 1.2 * scale), graph.normal(channels, 0.1), graph.normal(channels, 0.1),
                  graph.uniform(channels, 0.7, 1.3))
    return graph.op("BatchNormalization", x, *map(graph.weight, parameters), epsilon=1e-5, momentum=0.9, training_mode=0)


def classifier(graph, x, channels, classes):
    x = graph.op("Flatten", graph.op("GlobalAveragePool", x), axis=1)
    weight = graph.weight(graph.normal((classes, channels), math.sqrt(1 / channels)))
    graph.op("Gemm", x, weight, graph.weight(graph.normal(classes, 0.1)), alpha=1.0, beta=1.0, transB=1, name="logits")


def image_model(graph, name, size, classes):
    return graph.model(name, {"image": (F32, ["batch", 3, size, size])}, {"logits": (F32, ["batch", classes])}, 17)


def resnet(name, size, width, blocks, classes):
    """torchvision's ResNet of bottlenecks (He et al., 2015; the stride is the 3x3 convolution's)."""
    graph = Graph(seed=50)
    x = graph.op("Relu", batch_norm(graph, conv(graph, "image", 3, width, 7, stride=2), width))
    x = graph.op("MaxPool", x, ceil_mode=0, dilations=[1, 1], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    channels = width
    for stage, count in enumerate(blocks):
        inner = width << stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            y = graph.op("Relu", batch_norm(graph, conv(graph, x, channels, inner, 1), inner))
            y = graph.op("Relu", batch_norm(graph, conv(graph, y, inner, inner, 3, stride), inner))
            y = batch_norm(graph, conv(graph, y, inner, 4 * inner, 1), 4 * inner, scale=0.3)  # a sum of many blocks stays near 1
            if block == 0:
                x = batch_norm(graph, conv(graph, x, channels, 4 * inner, 1, stride, gain=1.0), 4 * inner)
            x = graph.op("Relu", graph.op("Add", y, x))
            channels = 4 * inner
    classifier(graph, x, channels, classes)
    return image_model(graph, name, size, classes)


MOBILENET_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet(name, size, first, stages, last, classes):
    """torchvision's MobileNetV2 (Sandler et al., 2018). `stages`: (expansion, channels, blocks, stride of the first)."""
    graph = Graph(seed=2)
    bounds = None

    def relu6(x):
        return graph.op("Clip", x, *bounds)

    x = batch_norm(graph, conv(graph, "image", 3, first, 3, stride=2), first)
    bounds = graph.constant(0.0), graph.constant(6.0)
    x, channels = relu6(x), first
    for expansion, out, count, stride in stages:
        for block in range(count):
            inner, y = channels * expansion, x
            if expansion != 1:
                y = relu6(batch_norm(graph, conv(graph, y, channels, inner, 1, gain=1.0), inner))
            y = relu6(batch_norm(graph, conv(graph, y, inner, inner, 3, stride if block == 0 else 1, groups=inner), inner))
            same = block > 0
            y = batch_norm(graph, conv(graph, y, inner, out, 1), out, scale=0.5 if same else 1.0)
            x, channels = graph.op("Add", x, y) if same else y, out
    x = relu6(batch_norm(graph, conv(graph, x, channels, last, 1, gain=1.0), last))
    classifier(graph, x, last, classes)
    return image_model(graph, name, size, classes)


# ---- BERT

@dataclasses.dataclass(frozen=True)
class Bert:
    hidden: int
    layers: int
    heads: int
    inner: int
    vocabulary: int = 30522
    positions: int = 512
    types: int = 2
    epsilon: float = 1e-12
    primitive: bool = True  # LayerNormalization and Gelu as the operators that opset 17 exports of them have

    @property
    def opset(self):
        return 17 if self.primitive else 20


def drawn_weights(seed):
    """What `bert` asks for by the names of Hugging Face's checkpoints."""
    graph = Graph(seed)

    def weights(name, shape):
        if name.endswith("LayerNorm.weight"):
            return graph.normal(shape, 0.1, 1.0)
        if name.endswith("bias"):
            return graph.normal(shape, 0.1)
        return graph.normal(shape, 1.0 if "embeddings" in name else math.sqrt(1 / shape[-1]))
    return weights


class BertWriter:
    """Writes BERT (Devlin et al., 2018) as PyTorch exports the BertModel of transformers."""

    def __init__(self, config, weights):
        self.config, self.weights, self.graph = config, weights, Graph()

    def parameter(self, name, *shape):
        array = self.weights(name, shape)
        if array.shape != shape:
            raise ValueError(f"{name}: want {shape}, got {array.shape}")
        return self.graph.weight(array, name)

    def linear(self, x, name, size_in, size):
        """On [batch, seq, size_in] it is MatMul and Add, the weight transposed beforehand."""
        weight = self.graph.weight(self.weights(f"{name}.weight", (size, size_in)).T, f"{name}.weight_T")
        return self.graph.op("Add", self.parameter(f"{name}.bias", size), self.graph.op("MatMul", x, weight))

    def layer_norm(self, x, name, output=None):
        graph, hidden = self.graph, self.config.hidden
        scale, bias = self.parameter(f"{name}.weight", hidden), self.parameter(f"{name}.bias", hidden)
        if not self.config.primitive:
            return graph.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=self.config.epsilon, name=output)
        centred = graph.op("Sub", x, graph.op("ReduceMean", x, axes=[-1], keepdims=1))
        variance = graph.op("ReduceMean", graph.op("Pow", centred, graph.constant(2.0)), axes=[-1], keepdims=1)
        deviation = graph.op("Sqrt", graph.op("Add", variance, graph.constant(self.config.epsilon)))
        return graph.op("Add", graph.op("Mul", graph.op("Div", centred, deviation), scale), bias, name=output)

    def gelu(self, x):
        graph = self.graph
        if not self.config.primitive:
            return graph.op("Gelu", x, approximate="none")
        erf = graph.op("Erf", graph.op("Div", x, graph.constant(math.sqrt(2))))
        return graph.op("Mul", graph.op("Mul", x, graph.op("Add", erf, graph.constant(1.0))), graph.constant(0.5))

    def dim(self, x, axis):
        """The dim as a tensor of one element."""
        graph = self.graph
        return graph.op("Unsqueeze", graph.op("Gather", graph.op("Shape", x), graph.constant(axis, np.int64), axis=0), graph.ints(0))

    def reshape(self, x, *last):
        """[batch, seq] of x stay, `last` follow."""
        graph = self.graph
        return graph.op("Reshape", x, graph.op("Concat", self.dim(x, 0), self.dim(x, 1), *(graph.ints(size) for size in last), axis=0))

    def mask(self):
        """0 for tokens, the least float for padding, [batch, 1, 1, seq]."""
        graph = self.graph
        mask = graph.op("Unsqueeze", graph.op("Unsqueeze", "attention_mask", graph.ints(1)), graph.ints(2))
        padding = graph.op("Sub", graph.constant(1.0), graph.op("Cast", mask, to=F32))
        return graph.op("Mul", padding, graph.constant(np.finfo(np.float32).min))

    def embeddings(self):
        graph, config = self.graph, self.config
        words = graph.op("Gather", self.parameter("embeddings.word_embeddings.weight", config.vocabulary, config.hidden), "input_ids")
        types = graph.op("Gather", self.parameter("embeddings.token_type_embeddings.weight", config.types, config.hidden), "token_type_ids")
        ids = graph.constant(np.arange(config.positions)[None], np.int64)
        ids = graph.op("Slice", ids, graph.ints(0), self.dim("input_ids", 1), graph.ints(1), graph.ints(1))
        places = graph.op("Gather", self.parameter("embeddings.position_embeddings.weight", config.positions, config.hidden), ids)
        return self.layer_norm(graph.op("Add", graph.op("Add", words, types), places), "embeddings.LayerNorm")

    def attention(self, x, mask, name):
        graph, hidden, heads = self.graph, self.config.hidden, self.config.heads
        size = hidden // heads

        def split(part, order):
            return graph.op("Transpose", self.reshape(self.linear(x, f"{name}.self.{part}", hidden, hidden), heads, size), perm=order)

        q, k, v = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]), split("value", [0, 2, 1, 3])
        scores = graph.op("Div", graph.op("MatMul", q, k), graph.constant(math.sqrt(size)))
        mixed = graph.op("MatMul", graph.op("Softmax", graph.op("Add", scores, mask), axis=-1), v)
        joined = self.reshape(graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), hidden)
        return self.layer_norm(graph.op("Add", self.linear(joined, f"{name}.output.dense", hidden, hidden), x), f"{name}.output.LayerNorm")

    def write(self, name):
        graph, config = self.graph, self.config
        mask, x = self.mask(), self.embeddings()
        for layer in range(config.layers):
            where = f"encoder.layer.{layer}"
            x = self.attention(x, mask, f"{where}.attention")
            inner = self.gelu(self.linear(x, f"{where}.intermediate.dense", config.hidden, config.inner))
            y = graph.op("Add", self.linear(inner, f"{where}.output.dense", config.inner, config.hidden), x)
            x = self.layer_norm(y, f"{where}.output.LayerNorm", "last_hidden_state" if layer == config.layers - 1 else None)
        first = graph.op("Gather", x, graph.constant(0, np.int64), axis=1)
        weight = self.parameter("pooler.dense.weight", config.hidden, config.hidden)
        pooled = graph.op("Gemm", first, weight, self.parameter("pooler.dense.bias", config.hidden), alpha=1.0, beta=1.0, transB=1)
        graph.op("Tanh", pooled, name="pooler_output")
        inputs = {key: (I64, ["batch", "seq"]) for key in ("input_ids", "attention_mask", "token_type_ids")}
        outputs = {"last_hidden_state": (F32, ["batch", "seq", config.hidden]), "pooler_output": (F32, ["batch", config.hidden])}
        return graph.model(name, inputs, outputs, config.opset)


def bert(name, config, weights=None):
    return BertWriter(config, weights or drawn_weights(seed=110)).write(name)


# ---- small models with the operators of OCR and of speech

def ocr_tiny(name):
    """A detector in small: hard swishes, squeeze and excitation, a pyramid of two levels, transposed convolutions."""
    graph = Graph(seed=4)

    def hard_swish(x):  # as Paddle's exporter writes it
        six = graph.op("Clip", graph.op("Add", x, graph.constant(3.0)), graph.constant(0.0), graph.constant(6.0))
        return graph.op("Div", graph.op("Mul", x, six), graph.constant(6.0))

    def excite(x, channels):
        y = graph.op("Relu", conv(graph, graph.op("GlobalAveragePool", x), channels, channels // 4, 1, bias=True))
        y = graph.op("HardSigmoid", conv(graph, y, channels // 4, channels, 1, bias=True), alpha=0.2, beta=0.5)
        return graph.op("Mul", x, y)

    def transposed(x, channels_in, channels):
        weight = graph.weight(graph.normal((channels_in, channels, 2, 2), math.sqrt(2 / channels_in)))
        bias = graph.weight(graph.normal(channels, 0.1))
        return graph.op("ConvTranspose", x, weight, bias, dilations=[1, 1], group=1, kernel_shape=[2, 2], pads=[0] * 4, strides=[2, 2])

    x = hard_swish(batch_norm(graph, conv(graph, "x", 3, 8, 3, stride=2, gain=4.0), 8))
    fine = excite(graph.op("HardSwish", conv(graph, x, 8, 8, 3, groups=8, gain=8.0, bias=True)), 8)
    coarse = graph.op("AveragePool", fine, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4, ceil_mode=0)
    coarse = excite(hard_swish(batch_norm(graph, conv(graph, coarse, 8, 16, 3, gain=16.0), 16)), 16)
    coarse = graph.op("Resize", conv(graph, coarse, 16, 8, 1, gain=8.0), "", graph.constant([1, 1, 2, 2]), mode="nearest",
                      coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = graph.op("Concat", fine, coarse, axis=1)
    x = graph.op("Relu", batch_norm(graph, conv(graph, x, 16, 8, 3), 8))
    x = graph.op("Relu", batch_norm(graph, transposed(x, 8, 8), 8))
    graph.op("Sigmoid", conv(graph, x, 8, 1, 1, gain=8.0, bias=True), name="map")
    return graph.model(name, {"x": (F32, ["batch", 3, "height", "width"])}, {"map": (F32, ["batch", 1, "height", "width"])}, 17)


def vad_tiny(name, hidden=16):
    """A voice detector in small: a branch for each sample rate, a short-time Fourier transform as a convolution, an LSTM with its state."""
    graph = Graph(seed=8)

    def conv1d(inner, x, weight, bias, stride, pad):
        inputs = [inner.weight(array) for array in (weight, bias) if array is not None]
        return inner.op("Conv", x, *inputs, dilations=[1], group=1, kernel_shape=[weight.shape[2]], pads=[pad, pad], strides=[stride])

    def part(inner, x, first, last):
        return inner.op("Slice", x, inner.ints(first), inner.ints(last), inner.ints(1))

    def rate(window):
        def write(inner):
            bins = window // 2 + 1
            angle = 2 * np.pi * np.outer(np.arange(bins), np.arange(window)) / window
            basis = (np.hanning(window + 1)[:window] * np.concatenate([np.cos(angle), -np.sin(angle)])).astype(np.float32)
            x = inner.op("Pad", "input", inner.ints(0, 0, 0, window // 2), mode="reflect")
            x = conv1d(inner, inner.op("Unsqueeze", x, inner.ints(1)), basis[:, None], None, window // 2, 0)
            squares = [inner.op("Pow", part(inner, x, *bounds), inner.constant(2.0)) for bounds in ((0, bins), (bins, 2 * bins))]
            x = inner.op("Sqrt", inner.op("Add", *squares))
            for channels_in, stride in ((bins, 1), (hidden, 2), (hidden, 2)):
                weight = inner.normal((hidden, channels_in, 3), math.sqrt(2 / (3 * channels_in)))
                x = inner.op("Relu", conv1d(inner, x, weight, inner.normal(hidden, 0.1), stride, 1))
            # What torch.squeeze(axis) becomes: the dim is known only when it runs.
            length = inner.op("Gather", inner.op("Shape", x), inner.ints(-1), axis=0)
            x = inner.if_(inner.op("Equal", length, inner.ints(1)), lambda then: [then.op("Squeeze", x, then.ints(-1))],
                          lambda other: [other.op("ReduceMean", x, axes=[-1], keepdims=0)])
            gates = [inner.weight(inner.normal((1, 4 * hidden, hidden), math.sqrt(9 / hidden))) for _ in range(2)]
            rows = [inner.op("Gather", "state", inner.constant(row, np.int64), axis=0) for row in (0, 1)]
            h, c = (inner.op("Unsqueeze", row, inner.ints(0)) for row in rows)
            bias = inner.weight(inner.normal((1, 8 * hidden), 0.1))
            _, h, c = inner.op("LSTM", inner.op("Unsqueeze", x, inner.ints(0)), *gates, bias, "", h, c, hidden_size=hidden, outputs=3)
            y = inner.op("Relu", inner.op("Transpose", h, perm=[1, 2, 0]))
            y = conv1d(inner, y, inner.normal((1, hidden, 1), math.sqrt(16 / hidden)), inner.normal(1, 0.1), 1, 0)
            speech = inner.op("ReduceMean", inner.op("Sigmoid", y), axes=[-1], keepdims=0)
            return [speech, inner.op("Concat", h, c, axis=0)]
        return write

    fast = graph.op("Equal", "sr", graph.constant(16000, np.int64))
    speech, state = graph.if_(fast, rate(32), rate(16), outputs=2)
    graph.op("Identity", speech, name="output")
    graph.op("Identity", state, name="stateN")
    inputs = {"input": (F32, ["batch", "samples"]), "state": (F32, [2, "batch", hidden]), "sr": (I64, [])}
    return graph.model(name, inputs, {"output": (F32, ["batch", 1]), "stateN": (F32, [2, "batch", hidden])}, 16)


# ---- by name

# ---- quantized models: float operators between QuantizeLinear and DequantizeLinear

class Quantized(Graph):
    """Activations of 8 bits with a scale and zero point each, weights of i8 with a scale for each output channel."""

    def __init__(self, seed):
        super().__init__(seed)
        self.scales = {}  # of what q() gave

    def code(self, value, dtype):
        return self.weight(np.array(value, dtype))

    def q(self, x, scale, zero, dtype=np.uint8, name=None):
        """`x` in 8 bits and back."""
        parameters = self.weight(np.float32(scale)), self.code(zero, dtype)
        y = self.op("DequantizeLinear", self.op("QuantizeLinear", x, *parameters), *parameters, name=name)
        self.scales[y] = scale
        return y

    def quantized_weight(self, array, axis):
        """The dequantized weight, and its scales."""
        others = tuple(k for k in range(array.ndim) if k != axis)
        scales = (np.abs(array).max(others) / 127).astype(np.float32)
        shape = [-1 if k == axis else 1 for k in range(array.ndim)]
        codes = np.rint(array / scales.reshape(shape)).astype(np.int8)
        zeros = self.code(np.zeros(scales.shape), np.int8)
        return self.op("DequantizeLinear", self.weight(codes), self.weight(scales), zeros, axis=axis), scales

    def quantized_bias(self, x, scales):
        """i32 in the scale of the sums of products."""
        of_sums = (np.float32(self.scales[x]) * scales).astype(np.float32)
        codes = np.rint(self.normal(scales.size, 0.1) / of_sums).astype(np.int32)
        return self.op("DequantizeLinear", self.weight(codes), self.weight(of_sums), self.code(np.zeros(scales.shape), np.int32), axis=0)

    def conv(self, x, channels_in, channels, kernel, stride=1, groups=1):
        fan_in = channels_in // groups * kernel * kernel
        array = self.normal((channels, channels_in // groups, kernel, kernel), math.sqrt(2 / fan_in))
        weight, scales = self.quantized_weight(array, 0)
        return self.op("Conv", x, weight, self.quantized_bias(x, scales), group=groups, kernel_shape=[kernel] * 2,
                       pads=[kernel // 2] * 4, strides=[stride] * 2)


def qdq_image_tiny(name):
    """Convolutions with ReLU in the range or as a node, a depthwise one, a sum of two branches, pools, a Gemm of one scale."""
    graph = Quantized(seed=11)
    x = graph.q("image", 0.02, 120)
    x = graph.q(graph.op("Relu", graph.conv(x, 3, 16, 3, stride=2)), 0.02, 0)
    x = graph.q(graph.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2]), 0.02, 0)
    y = graph.q(graph.conv(x, 16, 24, 1), 0.025, 0)
    y = graph.q(graph.op("Clip", graph.conv(y, 24, 24, 3, groups=24), graph.constant(0.0), graph.constant(6.0)), 6 / 255, 0)
    y = graph.q(graph.conv(y, 24, 16, 1), 0.04, 131)
    x = graph.q(graph.op("Relu", graph.op("Add", y, x)), 0.03, 0)
    x = graph.q(graph.op("GlobalAveragePool", graph.q(graph.conv(x, 16, 20, 3), 0.05, -3, np.int8)), 0.02, -20, np.int8)
    weight, scales = graph.quantized_weight(graph.normal((10, 20), 0.3), 0)
    x = graph.op("Flatten", x, axis=1)
    graph.scales[x] = 0.02
    graph.q(graph.op("Gemm", x, weight, graph.quantized_bias(x, scales), transB=1), 0.05, 120, name="logits")
    return graph.model(name, {"image": (F32, ["batch", 3, 24, 24])}, {"logits": (F32, ["batch", 10])}, 17)


def qdq_mlp_tiny(name):
    """A transformer's MLP: normalized, up, GELU, down, added; weights [in, out] of MatMul with scales by column."""
    graph = Quantized(seed=12)
    hidden, inner = 48, 80
    parameters = graph.uniform(hidden, 0.8, 1.2), graph.normal(hidden, 0.1)
    x = graph.q(graph.op("LayerNormalization", "x", *map(graph.weight, parameters), axis=-1), 0.03, 125)
    up, _ = graph.quantized_weight(graph.normal((hidden, inner), math.sqrt(1 / hidden)), 1)
    y = graph.q(graph.op("Add", graph.op("MatMul", x, up), graph.weight(graph.normal(inner, 0.1))), 0.04, 110)
    y = graph.q(graph.op("Gelu", y), 0.03, 6)
    down, _ = graph.quantized_weight(graph.normal((inner, hidden), math.sqrt(1 / inner)), 1)
    y = graph.q(graph.op("MatMul", y, down), 0.03, 2, np.int8)
    graph.q(graph.op("Add", y, x), 0.04, 128, name="y")
    return graph.model(name, {"x": (F32, ["batch", "seq", hidden])}, {"y": (F32, ["batch", "seq", hidden])}, 20)


SMALL = {
    "resnet_tiny": lambda: resnet("resnet_tiny", 32, 8, (2, 1), 10),
    "mobilenet_tiny": lambda: mobilenet("mobilenet_tiny", 32, 8, ((1, 8, 1, 1), (3, 12, 2, 2), (3, 16, 2, 1)), 32, 10),
    "bert_tiny": lambda: bert("bert_tiny", Bert(hidden=32, layers=2, heads=4, inner=48, vocabulary=100, positions=32)),
    "ocr_tiny": lambda: ocr_tiny("ocr_tiny"),
    "vad_tiny": lambda: vad_tiny("vad_tiny"),
}
# Their outputs are whole quanta, of which one may be another in the next engine: src/onnx/models_test.cc alone compares them.
QUANTIZED = {
    "qdq_image_tiny": lambda: qdq_image_tiny("qdq_image_tiny"),
    "qdq_mlp_tiny": lambda: qdq_mlp_tiny("qdq_mlp_tiny"),
}
LARGE = {
    "resnet50": lambda: resnet("resnet50", 224, 64, (3, 4, 6, 3), 1000),
    "mobilenet_v2": lambda: mobilenet("mobilenet_v2", 224, 32, MOBILENET_STAGES, 1280, 1000),
    "bert_base": lambda: bert("bert_base", Bert(hidden=768, layers=12, heads=12, inner=3072)),
    "bert_large": lambda: bert("bert_large", Bert(hidden=1024, layers=24, heads=16, inner=4096, primitive=False)),
}
