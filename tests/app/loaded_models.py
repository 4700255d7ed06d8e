"""The models of the wheel, loaded once for all tests of a process and the programs that it forks.

Loading takes a third of a second of processor time for each project that embeds.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from lorebind_knowledge.embedders import local, onnx_graph
from lorebind_knowledge.embedders.sparse import local as sparse
from lorebind_knowledge.plumbing.run_once import cpu_session

_sessions: dict[tuple[bytes, int, int], Any] = {}


def _shared(model: bytes, threads: int) -> Any:
    # A session for one thread has no threads of its own, which a forked child would lack.
    process = 0 if threads == 1 else os.getpid()
    key = hashlib.sha256(model).digest(), threads, process
    if key not in _sessions:
        _sessions[key] = cpu_session(model, threads)
    return _sessions[key]


def load_once(replace: Callable[[object, str, object], None] = setattr) -> None:
    """Let all built-in embedders of this process, and of its forked children, share sessions."""
    replace(onnx_graph, "without_nan_guards", cache(onnx_graph.without_nan_guards))
    for module in (local, sparse):
        replace(module, "cpu_session", _shared)


def load_now() -> None:
    """Load the models for forked children, which run on one processor."""
    load_once()
    local.load_session(1)
    sparse.LocalSparseEmbedder()._load()
