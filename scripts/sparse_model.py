"""Make the ONNX graph of the built-in sparse embedder from its published weights.

    pip install onnx==1.23.2
    python -m scripts.sparse_model model.safetensors splade_tiny.onnx

The model is SPLADE-tiny: a BERT of two layers with its head for masked words. The graph takes the
word pieces of one text and returns a weight for each term of the vocabulary:
`log(1 + max(0, max over the tokens of the head's logits))`. Word embedding and decoder are the same
matrix; it is stored once, in 8 bits with a scale for each term, and everything else as float32.

The product with the vocabulary takes nearly all of the time, so it runs in integers. Scales are
positive, so that the maximum over tokens can be taken before scaling, and block by block: a text of
256 tokens needs 4 MB that way instead of 31.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, MAX_TOKENS = 2, 2, 256
BLOCKS = 8
EPSILON = 1e-12
"""The epsilon of layer normalization in BERT."""

_EMBEDDINGS = "bert.embeddings."
_HEAD = "cls.predictions."


class Graph:
    """The nodes and constants of an ONNX graph while it is built."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self._weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: Any) -> str:
        """Add a constant, and return its name."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self._weights[name])

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return the name of its output, or the names if it has several."""
        names = [f"{kind}_{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def dense(self, values: str, name: str) -> str:
        """Multiply by a weight matrix, and add its bias."""
        matrix = self.constant(f"{name}.weight", self._weights[f"{name}.weight"].T)
        return str(
            self.node("Add", self.node("MatMul", values, matrix), self.weight(f"{name}.bias"))
        )

    def normalized(self, values: str, name: str) -> str:
        scale, shift = self.weight(f"{name}.gamma"), self.weight(f"{name}.beta")
        attributes: dict[str, Any] = {"axis": -1, "epsilon": EPSILON}
        return str(self.node("LayerNormalization", values, scale, shift, **attributes))


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m scripts.sparse_model WEIGHTS.safetensors GRAPH.onnx")
    onnx.save(model(read_weights(Path(sys.argv[1]))), sys.argv[2])


def read_weights(path: Path) -> dict[str, Any]:
    """Read the float32 tensors of a safetensors file, by name.

    Format: https://huggingface.co/docs/safetensors/index#format
    """
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return {
        name: np.frombuffer(data[start:][slice(*tensor["data_offsets"])], "<f4").reshape(
            tensor["shape"]
        )
        for name, tensor in header.items()
        if name != "__metadata__"
    }


def model(weights: dict[str, Any]) -> onnx.ModelProto:
    """Return the graph: `token_ids` (int64, tokens) to `weights` (float32, terms)."""
    graph = Graph(weights)
    words = weights[f"{_EMBEDDINGS}word_embeddings.weight"]
    scales = (np.abs(words).max(axis=1) / 127).astype(np.float32)
    graph.constant("words", np.rint(words / scales[:, None]).astype(np.int8))
    graph.constant("scales", scales)
    values = _embedded(graph, weights)
    for layer in range(LAYERS):
        values = _layer(graph, values, f"bert.encoder.layer.{layer}.", words.shape[1])
    values = graph.node("Gelu", graph.dense(values, f"{_HEAD}transform.dense"))
    values = graph.normalized(values, f"{_HEAD}transform.LayerNorm")
    logits = graph.node("Add", _decoded(graph, values, len(words)), graph.weight(f"{_HEAD}bias"))
    one = graph.constant("1", np.float32(1))
    result = graph.node("Log", graph.node("Add", graph.node("Relu", logits), one))
    graph.nodes.append(helper.make_node("Identity", [result], ["weights"]))
    graph_model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "splade_tiny",
            [helper.make_tensor_value_info("token_ids", TensorProto.INT64, ["tokens"])],
            [helper.make_tensor_value_info("weights", TensorProto.FLOAT, [len(words)])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=9,
    )
    onnx.checker.check_model(graph_model, full_check=True)
    return graph_model


def _embedded(graph: Graph, weights: dict[str, Any]) -> str:
    """Add the embeddings of words, positions and the one type of token."""
    rows = graph.node("Cast", graph.node("Gather", "words", "token_ids"), to=TensorProto.FLOAT)
    last = graph.constant("last axis", np.array([-1]))
    scales = graph.node("Unsqueeze", graph.node("Gather", "scales", "token_ids"), last)
    places = weights[f"{_EMBEDDINGS}position_embeddings.weight"][:MAX_TOKENS]
    types = weights[f"{_EMBEDDINGS}token_type_embeddings.weight"][0]
    start = graph.constant("start", np.array([0]))
    positions = graph.node(
        "Slice",
        graph.constant("positions", places + types),
        start,
        graph.node("Shape", "token_ids"),
    )
    values = graph.node("Add", graph.node("Mul", rows, scales), positions)
    return graph.normalized(values, f"{_EMBEDDINGS}LayerNorm")


def _layer(graph: Graph, values: str, name: str, width: int) -> str:
    """Add attention and the two dense layers after it."""
    split = graph.constant(f"{name}split", np.array([-1, HEADS, width // HEADS]))
    joined = graph.constant(f"{name}joined", np.array([-1, width]))
    scale = graph.constant(f"{name}scale", np.float32((width // HEADS) ** -0.5))

    def heads(part: str, order: list[int]) -> Any:
        dense = graph.dense(values, f"{name}attention.self.{part}")
        return graph.node("Transpose", graph.node("Reshape", dense, split), perm=order)

    products = graph.node("MatMul", heads("query", [1, 0, 2]), heads("key", [1, 2, 0]))
    attention = graph.node("Softmax", graph.node("Mul", products, scale), axis=-1)
    mixed = graph.node("MatMul", attention, heads("value", [1, 0, 2]))
    mixed = graph.node("Reshape", graph.node("Transpose", mixed, perm=[1, 0, 2]), joined)
    mixed = graph.node("Add", values, graph.dense(mixed, f"{name}attention.output.dense"))
    values = graph.normalized(mixed, f"{name}attention.output.LayerNorm")
    wide = graph.node("Gelu", graph.dense(values, f"{name}intermediate.dense"))
    values = graph.node("Add", values, graph.dense(wide, f"{name}output.dense"))
    return graph.normalized(values, f"{name}output.LayerNorm")


def _decoded(graph: Graph, values: str, count: int) -> str:
    """Add the product with the vocabulary, and its maximum over the tokens."""
    steps, scale, zero = graph.node("DynamicQuantizeLinear", values, outputs=3)
    first_axis = graph.constant("first axis", np.array([0]))
    edges = [graph.constant(f"edge {at}", np.array([at])) for at in _edges(count)]
    blocks = [
        graph.node("Transpose", graph.node("Slice", "words", low, high, first_axis), perm=[1, 0])
        for low, high in pairwise(edges)
    ]
    best = [
        graph.node(
            "ReduceMax",
            graph.node("MatMulInteger", steps, block, zero),
            first_axis,
            keepdims=0,
        )
        for block in blocks
    ]
    joined = graph.node("Cast", graph.node("Concat", *best, axis=0), to=TensorProto.FLOAT)
    return str(graph.node("Mul", graph.node("Mul", joined, "scales"), scale))


def _edges(count: int) -> list[int]:
    return [count * block // BLOCKS for block in range(BLOCKS + 1)]


if __name__ == "__main__":
    main()
