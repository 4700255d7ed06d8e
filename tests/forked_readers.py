"""Processes that read documents, each forked from a process that has imported their libraries.

Starting such a process takes a tenth of a second of processor time, and hundreds of tests need it.

Run as a program, this file is the process that forks.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

LIBRARIES = (
    *("lorebind_knowledge.loaders.pdf", "lorebind_knowledge.loaders.office.docx"),
    *("lorebind_knowledge.loaders.html.page", "lorebind_knowledge.loaders.scans.pictures"),
    *("docx", "pypdfium2"),
)


class ForkedReaders:
    """The process that forks; stands in for the module `subprocess` in `loaders.readers`."""

    PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno()), json.dumps(sys.path)],
                pass_fds=[theirs.fileno()],
            )

    def Popen(  # noqa: N802 - the name in `subprocess`
        self, command: Sequence[str], *, env: Mapping[str, str], **_: Any
    ) -> ForkedReader:
        """Start a process with the same path and limit as the command would."""
        request = json.dumps([*command[-2:], dict(env)])
        return ForkedReader(self._requests, request.encode())

    def close(self) -> None:
        self._requests.close()
        self._process.kill()
        self._process.wait()


class ForkedReader:
    """A process, with what `loaders.readers` uses of `subprocess.Popen`."""

    def __init__(self, requests: socket.socket, request: bytes) -> None:
        jobs, answers, status = os.pipe(), os.pipe(), os.pipe()
        theirs = [jobs[0], answers[1], status[1]]
        socket.send_fds(requests, [request], theirs)
        for pipe in theirs:
            os.close(pipe)
        self.stdin, self.stdout = os.fdopen(jobs[1], "wb"), os.fdopen(answers[0], "rb")
        self._ended = os.fdopen(status[0], "rb", buffering=0)
        self.pid = int(self._ended.read(16))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._ended.read(16))
            self._ended.close()
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _serve(requests: socket.socket) -> None:
    """Answer requests: one child reads documents, and another waits for its end."""
    for name in LIBRARIES:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, pipes, _, _ = socket.recv_fds(requests, 2**20, 3)
        if not request:
            return
        if not os.fork():
            break
        for pipe in pipes:
            os.close(pipe)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    jobs, answers, status = pipes
    if child := os.fork():
        os.close(jobs)
        os.close(answers)
        os.write(status, f"{child:16}".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(status, f"{code:16}".encode())
        os._exit(0)
    os.close(status)
    os.dup2(jobs, 0)
    os.dup2(answers, 1)
    os.closerange(2, max(pipes) + 1)
    os.open(os.devnull, os.O_RDWR)  # standard error
    path, max_memory, variables = json.loads(request)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:] = json.loads(path)
    try:
        import_module("lorebind_knowledge.loaders.reader_process").main(int(max_memory))
    except BaseException:
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[2])
    with socket.socket(fileno=int(sys.argv[1])) as _requests:
        _serve(_requests)
