#!/usr/bin/env python3
"""onnx_backend.py OUT: writes ONNX's own backend tests into OUT, for build/release/onnx_backend to run.

OUT/KIND/NAME/ holds model.onnx, test_data_set_N/{input,output}_K.pb and tolerance.txt ("rtol atol"), where KIND is node, simple, light,
pytorch-operator or pytorch-converted. The node tests are made by the package `onnx` (scripts/onnx_backend.txt pins it), the rest lies in
it; the light models' inputs are those of its runner (generate_dummy_data). OUT/left_out.txt names the tests that do not count, with the
reason. Needs Python 3.11; the packages go into OUT/.venv.
"""
import json
import pathlib
import shutil
import sys

import own_environment

REQUIREMENTS = pathlib.Path(__file__).with_suffix(".txt")
MIN_OPSET = 7  # of src/onnx/file.h
OUTSIDE = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.training")  # domains
# Their outputs are those of numpy's generator, which the operators' texts do not name.
RANDOM = {"test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed", "test_bernoulli_expanded", "test_bernoulli_double_expanded",
          "test_bernoulli_seed_expanded", "test_training_dropout", "test_training_dropout_default", "test_training_dropout_default_mask",
          "test_training_dropout_mask"}


def write_value(path: pathlib.Path, value, info) -> None:
    from onnx import TensorProto, numpy_helper

    if info.type.HasField("sequence_type"):
        message = numpy_helper.from_list(value, info.name)
    elif info.type.HasField("optional_type"):
        message = numpy_helper.from_optional(value, info.name)
    elif info.type.HasField("map_type"):
        message = numpy_helper.from_dict(value, info.name)
    else:
        message = value if isinstance(value, TensorProto) else numpy_helper.from_array(value, info.name)
    path.write_bytes(message.SerializeToString())


def write_tolerance(folder: pathlib.Path, rtol: float, atol: float) -> None:
    (folder / "tolerance.txt").write_text(f"{rtol} {atol}\n", encoding="utf-8")


def make_node_tests(out: pathlib.Path) -> int:
    from onnx.backend.test.loader import load_model_tests

    cases = load_model_tests(kind="node")
    for case in cases:
        folder = out / case.name
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        write_tolerance(folder, case.rtol, case.atol)
        for n, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / f"test_data_set_{n}"
            data.mkdir()
            for k, value in enumerate(inputs):
                write_value(data / f"input_{k}.pb", value, case.model.graph.input[k])
            for k, value in enumerate(outputs):
                write_value(data / f"output_{k}.pb", value, case.model.graph.output[k])
    return len(cases)


def copy_tests(data: pathlib.Path, kind: str, out: pathlib.Path) -> int:
    folders = sorted(path.parent for path in (data / kind).glob("*/model.onnx"))
    for source in folders:
        target = out / source.name
        shutil.copytree(source, target)
        description = source / "data.json"
        tolerance = json.loads(description.read_text()) if description.exists() else {}
        write_tolerance(target, tolerance.get("rtol", 1e-3), tolerance.get("atol", 1e-7))
    return len(folders)


def make_light_tests(data: pathlib.Path, out: pathlib.Path) -> int:
    import onnx
    from onnx.backend.test.runner import Runner

    descriptions = sorted((data / "real").glob("*/data.json"))
    for description in descriptions:
        row = json.loads(description.read_text())
        source = data / "light" / pathlib.Path(row["url"]).name
        folder = out / source.stem
        (folder / "test_data_set_0").mkdir(parents=True)
        shutil.copy(source, folder / "model.onnx")
        write_tolerance(folder, row["rtol"], row["atol"])
        graph = onnx.load(source).graph
        initializers = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in initializers]
        for k, value in enumerate(inputs):
            write_value(folder / "test_data_set_0" / f"input_{k}.pb", Runner.generate_dummy_data(value), value)
        for k in range(len(graph.output)):
            shutil.copy(data / "light" / f"{source.stem}_output_{k}.pb", folder / "test_data_set_0" / f"output_{k}.pb")
    return len(descriptions)


def nodes_of(model):
    from onnx import AttributeProto

    pending = list(model.graph.node) + [node for function in model.functions for node in function.node]
    while pending:
        node = pending.pop()
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                pending.extend(attribute.g.node)


def reason_to_leave_out(name: str, model) -> str | None:
    for node in nodes_of(model):
        if node.domain.startswith(OUTSIDE):
            return f"operators of {node.domain}"
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version < MIN_OPSET:
            return f"opset below {MIN_OPSET}"
    if name in RANDOM:
        return "random numbers"
    return None


def leave_out(out: pathlib.Path) -> int:
    import onnx

    lines = []
    for path in sorted(out.glob("*/*/model.onnx")):
        name = f"{path.parent.parent.name}/{path.parent.name}"
        reason = reason_to_leave_out(path.parent.name, onnx.load(path, load_external_data=False))
        if reason:
            shutil.rmtree(path.parent)
            lines.append(f"{name}: {reason}\n")
    (out / "left_out.txt").write_text("".join(lines), encoding="utf-8")
    return len(lines)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: onnx_backend.py OUT")
    out = pathlib.Path(sys.argv[1]).resolve()
    own_environment.enter(out / ".venv", REQUIREMENTS)

    import onnx.backend.test

    data = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    makers = {"node": make_node_tests, "light": lambda folder: make_light_tests(data, folder)}
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        makers[kind] = lambda folder, kind=kind: copy_tests(data, kind, folder)
    for kind, make in makers.items():
        shutil.rmtree(out / kind, ignore_errors=True)
        print(f"{kind}: {make(out / kind)} tests", flush=True)
    print(f"left out: {leave_out(out)} tests")


if __name__ == "__main__":
    main()
