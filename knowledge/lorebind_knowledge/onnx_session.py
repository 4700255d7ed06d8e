"""Models on ONNX Runtime: sessions of one shape, and one for each process."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_inherited: list[Any] = []
"""What was loaded before a fork: to end its sessions would wait for threads the child has not."""


def cpu_session(model: bytes | str, threads: int) -> Any:
    """An inference session over a serialised model or its path; raises what ONNX Runtime does."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The arena keeps the largest batch's memory for ever and is not faster here.
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class PerProcess(Generic[T]):
    """Something that is loaded when first asked for, and again in a process that was forked.

    A forked child has its parent's session, but none of the threads it would wait for. Safe to
    share among threads.
    """

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._loading = threading.Lock()
        self._loaded: tuple[int, T] | None = None

    def get(self) -> T:
        """What was loaded; raises what loading does, and then tries again next time."""
        with self._loading:
            if self._loaded is None or self._loaded[0] != os.getpid():
                _inherited.append(self._loaded)
                self._loaded = os.getpid(), self._load()
            return self._loaded[1]
