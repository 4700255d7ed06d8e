"""Make the shipped graph faster: equal results, without guards that take nearly half the time.

The exported model passes every attention map through `Where(IsNaN(x), 0, x)`. A softmax row is
NaN only when every token of a text is masked. A tokenizer that always writes its two markers cannot
produce such a text, so the guard can be removed; it takes 40 % of the arithmetic's time.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def without_nan_guards(model: bytes) -> bytes:
    """Return the serialized ONNX model with each `Where(IsNaN(x), _, x)` replaced by `x`."""
    graph_model = _model_class().FromString(model)
    nodes = graph_model.graph.node
    guarded = {node.output[0]: node.input[0] for node in nodes if node.op_type == "IsNaN"}
    plain = {
        node.output[0]: node.input[2]
        for node in nodes
        if node.op_type == "Where" and guarded.get(node.input[0]) == node.input[2]
    }
    if len(plain) != len(guarded):
        return model  # some guard has another shape: keep the graph as exported
    for at in reversed(range(len(nodes))):
        node = nodes[at]
        if node.output[0] in plain or node.output[0] in guarded:
            del nodes[at]
            continue
        for position, name in enumerate(node.input):
            if name in plain:
                node.input[position] = plain[name]
    result: bytes = graph_model.SerializeToString()
    return result


@cache
def _model_class() -> Any:
    """Return the needed part of ONNX's ModelProto; protobuf preserves the unknown fields."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    text, message = 9, 11  # FieldDescriptorProto.Type
    optional, repeated = 1, 3  # FieldDescriptorProto.Label
    file = descriptor_pb2.FileDescriptorProto(
        name="lorebind_onnx.proto", package="lorebind_onnx", syntax="proto2"
    )

    def declare(name: str, *fields: tuple[str, int, int, str]) -> None:
        declared = file.message_type.add(name=name)
        for field_name, number, label, type_name in fields:
            kind = message if type_name else text
            field = declared.field.add(name=field_name, number=number, label=label, type=kind)
            if type_name:
                field.type_name = type_name

    # Names and numbers: onnx.proto, NodeProto, GraphProto and ModelProto.
    declare(
        "Node",
        ("input", 1, repeated, ""),
        ("output", 2, repeated, ""),
        ("op_type", 4, optional, ""),
    )
    declare("Graph", ("node", 1, repeated, ".lorebind_onnx.Node"))
    declare("Model", ("graph", 7, optional, ".lorebind_onnx.Graph"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("lorebind_onnx.Model"))
