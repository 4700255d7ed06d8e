"""Who may know what: bindings, and the runtime that answers with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.optional import lazy_door

if TYPE_CHECKING:
    from lorebind_bindings.answering import Answer, answer
    from lorebind_bindings.inputs import ingest_scope
    from lorebind_bindings.model_pool import ModelPool
    from lorebind_bindings.models import make_model
    from lorebind_bindings.resolver import Provenance, ResolvedBinding, bind, override, resolve
    from lorebind_bindings.retriever import LorebindRetriever
    from lorebind_bindings.retrieving import BoundResult, retrieve
    from lorebind_bindings.workflow import RunResult, TaskResult, run_workflow

__all__ = [
    "Answer",
    "BoundResult",
    "LorebindRetriever",
    "ModelPool",
    "Provenance",
    "ResolvedBinding",
    "RunResult",
    "TaskResult",
    "answer",
    "bind",
    "ingest_scope",
    "make_model",
    "override",
    "resolve",
    "retrieve",
    "run_workflow",
]

__getattr__ = lazy_door(
    __name__,
    {
        "answering": ("Answer", "answer"),
        "inputs": ("ingest_scope",),
        "model_pool": ("ModelPool",),
        "models": ("make_model",),
        "resolver": ("Provenance", "ResolvedBinding", "bind", "override", "resolve"),
        "retriever": ("LorebindRetriever",),
        "retrieving": ("BoundResult", "retrieve"),
        "workflow": ("RunResult", "TaskResult", "run_workflow"),
    },
)
