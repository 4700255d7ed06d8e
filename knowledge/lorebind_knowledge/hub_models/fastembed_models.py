"""The models that fastembed knows by name, and custom models that are registered with it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lorebind_config.errors import EmbedderError, RerankerError, did_you_mean
from lorebind_config.plugins import import_extra
from lorebind_knowledge.plumbing.lanes import usable_processors

if TYPE_CHECKING:
    from lorebind_config.errors import LorebindError

Pooling: TypeAlias = Literal["mean", "cls", "last_token", "none"]
"""The way token vectors become a text's vector; `none` if the graph does it itself."""

Kind: TypeAlias = Literal["TextEmbedding", "SparseTextEmbedding", "TextCrossEncoder"]

_POOLINGS = {"mean": "MEAN", "cls": "CLS", "last_token": "LAST_TOKEN", "none": "DISABLED"}
_registering = threading.Lock()  # fastembed refuses to register a model twice


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model that fastembed can run."""

    name: str
    """The name that fastembed loads it by."""
    repository: str
    file: str
    """The path of the graph or the weights in the repository."""
    beside: Sequence[str] = ()
    """Further files of the model in the repository; for a custom model they may be missing."""
    dimension: int | None = None
    gigabytes: float | None = None


def embedding_model(name: str, file: str | None, pooling: Pooling) -> HubModel:
    """Return a dense embedding model that fastembed lists, or with `file` that of any repository.

    Raises:
        MissingDependencyError: fastembed is not installed.
        EmbedderError: fastembed lists no such model.
    """
    if file is None:
        return _listed("TextEmbedding", name, EmbedderError)
    kinds = _import("fastembed.common.model_description").PoolingType
    # The dimension is measured, and the embedder scales all vectors to unit length.
    settings = {"pooling": kinds[_POOLINGS[pooling]], "normalization": False, "dim": 0}
    return _registered("TextEmbedding", f"{name}/{file} ({pooling})", name, file, **settings)


def reranking_model(name: str, file: str | None) -> HubModel:
    """Return a cross-encoder that fastembed lists, or with `file` that of any repository.

    Raises:
        MissingDependencyError: fastembed is not installed.
        RerankerError: fastembed lists no such model.
    """
    if file is None:
        return _listed("TextCrossEncoder", name, RerankerError)
    return _registered("TextCrossEncoder", f"{name}/{file}", name, file)


def sparse_model(name: str) -> HubModel:
    """Return a sparse embedding model that fastembed lists and that has a graph.

    Raises:
        MissingDependencyError: fastembed is not installed.
        EmbedderError: fastembed lists no such model.
    """
    return _listed("SparseTextEmbedding", name, EmbedderError)


def load(kind: Kind, model: HubModel, folder: Path, threads: int | None) -> Any:
    """Load a model with fastembed from the files in a folder, without downloading anything.

    Args:
        kind: the class of fastembed to use.
        model: as returned by `embedding_model` or `reranking_model`.
        folder: the folder with the files of one commit.
        threads: threads per run; None chooses by the processors this process may use.
    """
    settings: dict[str, Any] = {"specific_model_path": str(folder), "cache_dir": str(folder)}
    if model.file.endswith(".onnx"):  # other models do not use ONNX Runtime's threads
        settings |= {"threads": threads or usable_processors(), "enable_cpu_mem_arena": False}
    return _maker(kind)(model.name, **settings)


def _listed(kind: Kind, name: str, failure: type[LorebindError]) -> HubModel:
    models = _maker(kind).list_supported_models()
    if kind == "SparseTextEmbedding":  # BM25 has no graph, and Lorebind searches words by itself
        models = [model for model in models if model["model_file"].endswith(".onnx")]
    entry = next((model for model in models if model["model"].lower() == name.lower()), None)
    if entry is None:
        hint = did_you_mean(name, [model["model"] for model in models])
        if kind != "SparseTextEmbedding":
            hint += "; to use any other repository of the hub, name its ONNX file with file:"
        raise failure(f"fastembed does not list the model {name!r}; {hint}")
    return HubModel(
        entry["model"],
        entry["sources"]["hf"],
        entry["model_file"],
        tuple(entry["additional_files"]),
        entry.get("dim"),
        entry["size_in_GB"],
    )


def _registered(kind: Kind, name: str, repository: str, file: str, **settings: Any) -> HubModel:
    """Register a model with fastembed once per process; its name identifies all its settings."""
    # Exporters give this name to weights that are too large for the graph's file.
    model = HubModel(name, repository, file, (f"{file}_data",))
    maker = _maker(kind)
    with _registering:
        if all(listed["model"] != name for listed in maker.list_supported_models()):
            maker.add_custom_model(
                model=name,
                sources=_import("fastembed.common.model_description").ModelSource(hf=repository),
                model_file=file,
                additional_files=list(model.beside),
                **settings,
            )
    return model


def _maker(kind: Kind) -> Any:
    where = "fastembed.rerank.cross_encoder" if kind == "TextCrossEncoder" else "fastembed"
    return getattr(_import(where), kind)


def _import(module: str) -> Any:
    return import_extra(module, extra="fastembed", purpose="provider fastembed")
