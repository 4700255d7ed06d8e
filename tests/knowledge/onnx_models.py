"""Tiny cross-encoders as real ONNX files; onnx.proto explains the field numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FLOAT, INT64 = 1, 7
WEIGHTS = {"rotate": 2.0, "keys": 1.0, "daily": 0.5, "snow": -3.0, "question": 50.0, "huge": 900.0}
"""The value that each word of a passage adds to the logit of these models; other words add 0."""
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = [*_SPECIAL, *WEIGHTS, "filler"]


def _number(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    data = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(data)) + data


def _node(kind: str, inputs: str, output: str, **attributes: int) -> bytes:
    message = b"".join(_field(1, name) for name in inputs.split())
    message += _field(2, output) + _field(4, kind)
    for name, value in attributes.items():
        message += _field(5, _field(1, name) + _field(3, value) + _field(20, 2))
    return message


def _tensor(name: str, values: np.ndarray[Any, Any], kind: int) -> bytes:
    dims = b"".join(_field(1, size) for size in values.shape)
    return dims + _field(2, kind) + _field(8, name) + _field(9, values.tobytes())


def _value(name: str, kind: int, *dims: str | int) -> bytes:
    shape = b"".join(_field(1, _field(1 if isinstance(dim, int) else 2, dim)) for dim in dims)
    tensor = _field(1, kind) + (_field(2, shape) if dims else b"")
    return _field(1, name) + _field(2, _field(1, tensor))


def cross_encoder(
    *,
    classes: int = 1,
    inputs: str = "input_ids attention_mask token_type_ids",
    sizes: tuple[str | int, ...] = (),
) -> bytes:
    """Make a model whose logit is the sum of the weights of a passage's words.

    Args:
        classes: 1: the logit; 2: its negative half and its positive half; 3: an invalid output.
        inputs: their names. An unusual name stands for the last input.
        sizes: the shape of the output that the model declares; by default it declares none.
    """
    ids, mask, types = inputs.split()
    weights = np.array([0.0, 0.0, 0.0, 0.0, *WEIGHTS.values(), 0.0], np.float32)
    half = [np.array([sign * 0.5], np.float32) for sign in (-1, 1)]
    nodes = [
        _node("Gather", f"weights {ids}", "words"),
        _node("Cast", mask, "real_mask", to=FLOAT),
        _node("Cast", types, "real_types", to=FLOAT),
        _node("Mul", "words real_mask", "seen"),
        _node("Mul", "seen real_types", "passage"),
        _node("ReduceSum", "passage axes", "logit", keepdims=1),
        _node("Mul", "logit minus", "irrelevant"),
        _node("Mul", "logit plus", "relevant"),
        _node("Concat", "irrelevant relevant", "two", axis=1),
        _node("Concat", "irrelevant relevant logit", "three", axis=1),
    ]
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, "cross-encoder")
    graph += _field(5, _tensor("weights", weights, FLOAT))
    graph += _field(5, _tensor("axes", np.array([1], np.int64), INT64))
    graph += _field(5, _tensor("minus", half[0], FLOAT)) + _field(
        5, _tensor("plus", half[1], FLOAT)
    )
    for name in (ids, mask, types):
        graph += _field(11, _value(name, INT64, "batch", "tokens"))
    graph += _field(12, _value({1: "logit", 2: "two", 3: "three"}[classes], FLOAT, *sizes))
    return _field(1, 8) + _field(8, _field(1, "") + _field(2, 13)) + _field(7, graph)


def tokenizer() -> Any:
    """Make a tokenizer that splits at spaces and encodes pairs like BERT."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary: Mapping[str, int] = {word: at for at, word in enumerate(WORDS)}
    model = Tokenizer(models.WordLevel(dict(vocabulary), unk_token="[UNK]"))
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    model.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", WORDS.index("[CLS]")), ("[SEP]", WORDS.index("[SEP]"))],
    )
    return model


def write(folder: Path, **settings: Any) -> Path:
    """Write a model with its tokenizer next to it, and return the model's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer().to_str(), encoding="utf-8")
    path = folder / "model.onnx"
    path.write_bytes(cross_encoder(**settings))
    return path


CHARACTERS = [chr(code) for code in range(33, 127)]
PIECES = [
    *_SPECIAL,
    *CHARACTERS,
    *(f"##{char}" for char in CHARACTERS),
    *WORDS[4:],
    "query",
    "passage",
]
"""The vocabulary of `embedding_model`: whole words, and single characters for all other words."""


def embedding_model(dimension: int, *, pooled: bool, seed: int = 7) -> bytes:
    """Make a model with a vector for each piece, selected by `seed`; `pooled` adds them up."""
    generator = np.random.default_rng(seed)
    weights = generator.standard_normal((len(PIECES), dimension)).astype(np.float32)
    nodes = [
        _node("Gather", "weights input_ids", "hidden"),
        _node("Cast", "attention_mask", "mask", to=FLOAT),
        _node("Unsqueeze", "mask last", "wide_mask"),
        _node("Mul", "hidden wide_mask", "seen"),
        _node("ReduceSum", "seen middle", "sum", keepdims=0),
    ]
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, "embedding")
    graph += _field(5, _tensor("weights", weights, FLOAT))
    graph += _field(5, _tensor("last", np.array([2], np.int64), INT64))
    graph += _field(5, _tensor("middle", np.array([1], np.int64), INT64))
    for name in ("input_ids", "attention_mask"):
        graph += _field(11, _value(name, INT64, "batch", "tokens"))
    graph += _field(12, _value("sum" if pooled else "seen", FLOAT))
    return _field(1, 8) + _field(8, _field(1, "") + _field(2, 13)) + _field(7, graph)


def splade_model() -> bytes:
    """Make a model whose logit of a term is the term's weight if it is a token, else negative."""
    weights = np.full((len(PIECES), len(PIECES)), -1.0, np.float32)
    np.fill_diagonal(weights, _piece_weights())
    nodes = [_node("Gather", "weights input_ids", "logits")]
    return _one_output("logits", weights, nodes)


def attention_model() -> bytes:
    """Make a model whose one head attends to each token with the token's weight, as BM42 reads."""
    nodes = [
        _node("Gather", "weights input_ids", "attended"),
        _node("Unsqueeze", "attended axes", "attention_6"),
    ]
    return _one_output("attention_6", _piece_weights(), nodes)


def _piece_weights() -> np.ndarray[Any, Any]:
    return np.linspace(1, 2, len(PIECES), dtype=np.float32)


def _one_output(output: str, weights: np.ndarray[Any, Any], nodes: Sequence[bytes]) -> bytes:
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, output)
    graph += _field(5, _tensor("weights", weights, FLOAT))
    graph += _field(5, _tensor("axes", np.array([1, 2], np.int64), INT64))
    for name in ("input_ids", "attention_mask"):
        graph += _field(11, _value(name, INT64, "batch", "tokens"))
    graph += _field(12, _value(output, FLOAT))
    return _field(1, 8) + _field(8, _field(1, "") + _field(2, 13)) + _field(7, graph)


def piece_tokenizer() -> Any:
    """Make the tokenizer of these models."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {word: at for at, word in enumerate(PIECES)}
    model = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    model.normalizer = normalizers.Lowercase()
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    model.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return model


def hub_files(graph: str, model: bytes, words: Any, *, most: int = 64) -> dict[str, bytes]:
    """Return the files of a repository as fastembed reads them; `graph` is the graph's file."""
    config = f'{{"model_max_length": {most}, "pad_token": "[PAD]"}}'
    return {
        "config.json": b'{"pad_token_id": 0}',
        "tokenizer_config.json": config.encode(),
        "special_tokens_map.json": b'{"pad_token": "[PAD]"}',
        "tokenizer.json": words.to_str().encode(),
        "README.md": b"not downloaded " * 1000,
        graph: model,
    }
