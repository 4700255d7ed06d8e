"""ONNX Runtime sessions with the same settings, created once per process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_inherited: list[Any] = []
"""Objects loaded before a fork. Deleting them in the child would wait for threads it lacks."""


def cpu_session(model: bytes | str, threads: int) -> Any:
    """Return an inference session for a serialized model or its path; errors are ONNX Runtime's."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The arena would keep the largest batch's memory forever, and it is not faster here.
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class PerProcess(Generic[T]):
    """An object that is loaded at its first use, and again in a forked process.

    A forked child inherits its parent's session, but not the threads that the session waits for.
    Safe to share among threads.
    """

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._loading = threading.Lock()
        self._loaded: tuple[int, T] | None = None

    def get(self) -> T:
        """Return the loaded object. If loading fails, raise its error; the next call retries."""
        with self._loading:
            if self._loaded is None or self._loaded[0] != os.getpid():
                _inherited.append(self._loaded)
                self._loaded = os.getpid(), self._load()
            return self._loaded[1]
