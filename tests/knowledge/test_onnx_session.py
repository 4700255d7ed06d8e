"""Objects that are loaded once per process, and again in a forked child."""

from __future__ import annotations

import os
import threading

import pytest

from lorebind_knowledge.plumbing.run_once import PerProcess


def test_many_threads_load_once() -> None:
    """The first caller loads; concurrent callers wait and get the same object."""
    loads: list[object] = []

    def load() -> object:
        loads.append(object())
        return loads[-1]

    parts = PerProcess(load)
    parts_: list[object] = []
    threads = [threading.Thread(target=lambda: parts_.append(parts.get())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert parts_ == loads * 20


def test_a_failure_is_tried_again() -> None:
    """A failed load is not stored."""
    outcomes = iter([ValueError("not yet"), None])

    def load() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "loaded"

    parts = PerProcess(load)
    with pytest.raises(ValueError, match="not yet"):
        parts.get()
    assert parts.get() == "loaded"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_loads_again() -> None:
    """A forked child loads its own object instead of using the inherited one."""
    parts = PerProcess(os.getpid)
    assert parts.get() == os.getpid()
    child = os.fork()
    if child == 0:
        os._exit(0 if parts.get() == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert parts.get() == os.getpid()
