"""The models that fastembed knows by name, and those of one's own that it is told of."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lorebind_knowledge.cpu_count import usable_processors
from lorebind_knowledge.errors import EmbedderError, RerankerError, did_you_mean
from lorebind_knowledge.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lorebind_knowledge.errors import LorebindError

Pooling: TypeAlias = Literal["mean", "cls", "last_token", "none"]
"""How the vectors of a text's tokens become one; `none` for a graph that does it itself."""

Kind: TypeAlias = Literal["TextEmbedding", "TextCrossEncoder"]

_POOLINGS = {"mean": "MEAN", "cls": "CLS", "last_token": "LAST_TOKEN", "none": "DISABLED"}
_registering = threading.Lock()


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model as fastembed knows it."""

    name: str
    """By which fastembed makes it."""
    repository: str
    file: str
    """The graph or the weights, in the repository."""
    beside: Sequence[str] = ()
    """What else of the repository belongs to it; for a model of one's own it may be missing."""
    dimension: int | None = None
    gigabytes: float | None = None


def embedding_model(name: str, file: str | None, pooling: Pooling) -> HubModel:
    """A dense embedding model: one that fastembed lists, or with `file` any repository.

    Raises:
        MissingDependencyError: fastembed is not installed.
        EmbedderError: no such model is listed.
    """
    if file is None:
        return _listed("TextEmbedding", name, EmbedderError)
    model = HubModel(f"{name}/{file} ({pooling})", name, file, _data_of(file))
    kinds = _import("fastembed.common.model_description").PoolingType
    # The dimension is measured, and unit length is given to all vectors.
    _register("TextEmbedding", model, pooling=kinds[_POOLINGS[pooling]], normalization=False, dim=0)
    return model


def reranking_model(name: str, file: str | None) -> HubModel:
    """A cross-encoder: one that fastembed lists, or with `file` any repository.

    Raises:
        MissingDependencyError: fastembed is not installed.
        RerankerError: no such model is listed.
    """
    if file is None:
        return _listed("TextCrossEncoder", name, RerankerError)
    model = HubModel(f"{name}/{file}", name, file, _data_of(file))
    _register("TextCrossEncoder", model)
    return model


def load(kind: Kind, model: HubModel, folder: Path, threads: int | None) -> Any:
    """Fastembed's object for a model whose files are in a folder. It downloads nothing.

    Args:
        kind: its class.
        model: as `embedding_model` or `reranking_model` gave it.
        folder: with the files of one commit.
        threads: of one run; None fits them to the processors this process may use.
    """
    settings: dict[str, Any] = {"specific_model_path": str(folder), "cache_dir": str(folder)}
    if model.file.endswith(".onnx"):  # others are computed without threads of their own
        settings |= {"threads": threads or usable_processors(), "enable_cpu_mem_arena": False}
    return _maker(kind)(model.name, **settings)


def _listed(kind: Kind, name: str, failure: type[LorebindError]) -> HubModel:
    models = _maker(kind).list_supported_models()
    found = next((one for one in models if one["model"].lower() == name.lower()), None)
    if found is None:
        hint = did_you_mean(name, [one["model"] for one in models])
        raise failure(
            f"fastembed does not list the model {name!r}; {hint}; to use any other repository of "
            "the hub, name the ONNX file in it with file:"
        )
    return HubModel(
        found["model"],
        found["sources"]["hf"],
        found["model_file"],
        tuple(found["additional_files"]),
        found.get("dim"),
        found["size_in_GB"],
    )


def _data_of(file: str) -> tuple[str]:
    """What exporters call the weights that are too large for the graph's own file."""
    return (f"{file}_data",)


def _register(kind: Kind, model: HubModel, **settings: Any) -> None:
    """Tell fastembed of a model, whose name holds all that is told, once in a process."""
    maker = _maker(kind)
    with _registering:
        if any(one["model"] == model.name for one in maker.list_supported_models()):
            return
        maker.add_custom_model(
            model=model.name,
            sources=_import("fastembed.common.model_description").ModelSource(hf=model.repository),
            model_file=model.file,
            additional_files=list(model.beside),
            **settings,
        )


def _maker(kind: Kind) -> Any:
    where = "fastembed" if kind == "TextEmbedding" else "fastembed.rerank.cross_encoder"
    return getattr(_import(where), kind)


def _import(module: str) -> Any:
    return import_extra(module, extra="fastembed", purpose="provider fastembed")
