"""Python programs, each in a forked child of a process that has imported their libraries.

Importing LangChain, LangGraph and similar libraries takes two seconds of processor time, importing
Lorebind half a second, and the documentation contains many small programs.

Run as a program, this file is the process that forks. `python` and `lorebind` in `commands` are
scripts that pass their arguments, folder, variables and streams to it, pass on the signals that end
programs, and exit as the child does.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

OURS = (
    *("lorebind.cli.commands", "lorebind.at_place", "lorebind.project"),
    *("lorebind.workflow_methods", "wcmatch.glob"),
)
"""The modules to import for any command, including a library that Lorebind imports late."""
LIBRARIES = (
    *("chromadb", "langchain.agents", "langchain_chroma", "langchain_text_splitters"),
    *("langchain_core.prompts", "langchain_core.runnables", "langchain_core.vectorstores"),
    *("langgraph.checkpoint.memory", "langgraph.graph", "langgraph.prebuilt"),
    *("numpy", "onnxruntime", "pydantic", "tokenizers", "typer", "yaml", *OURS),
)
OF_COMMANDS = (
    *("langchain_core.language_models", "langchain_core.vectorstores", "langgraph.graph"),
    *("langchain.chat_models", "numpy", "onnxruntime", "pydantic", "rich.table", "tokenizers"),
    *("typer", "yaml", "fastapi", "h2.connection", "lorebind.server.serve", "python_multipart"),
    *("anyio._backends._asyncio", "filelock", "jsonschema", "lorebind.doctor", "prometheus_client"),
    *("lorebind_bindings.workflow.runtime", "psycopg", "psycopg_pool"),
    *("lorebind.mcp.server", "mcp.server.stdio", "mcp.server.streamable_http_manager"),
    *("uvicorn.lifespan.off", "uvicorn.protocols.http.h11_impl", "watchfiles", *OURS),
)
"""The modules that commands of Lorebind need."""

SCRIPT = """\
#!{python} -IS
# Importing json, signal and socket would take more time than all the rest.
import _signal, _socket, marshal, os, sys
arguments = {before!r} + sys.argv[1:]
if arguments[0].startswith("-") and arguments[0] not in ("-c", "-m"):
    os.execv({python!r}, [{python!r}, *arguments])
job = marshal.dumps((arguments, os.getcwd(), dict(os.environ)))
received = set()
def relay(number, _):
    received.add(number)
    try:
        os.kill(program, {kill_now} if number == {kill} else number)
    except ProcessLookupError:
        pass
relayed = (_signal.SIGINT, _signal.SIGTERM, {kill})
_signal.pthread_sigmask(_signal.SIG_BLOCK, relayed)
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)
server.sendmsg([len(job).to_bytes(4, "big")], [rights])
server.sendall(job)
program = int.from_bytes(server.recv(4, _socket.MSG_WAITALL), "big")
for number in relayed:
    _signal.signal(number, relay)
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, relayed)
code = int(server.recv(16))
if {kill} in received:
    os.kill(os.getpid(), {kill_now})
sys.exit(code if code >= 0 else 128 - code)
"""
HUGE_PAGE = 2 << 20
MADV_COLLAPSE = 25
CONSTANTS = "LOREBIND_TEST_CONSTANTS"
"""The variable with new values of constants for a program, as JSON: `{"module:NAME": value}`."""
KILL = signal.SIGUSR1
"""A script that receives this signal kills its program, because SIGKILL cannot be passed on."""


class Forked(subprocess.Popen[str]):
    """A running script whose program can also be killed."""

    def send_signal(self, sig: int) -> None:
        super().send_signal(KILL if sig == signal.SIGKILL else sig)


class ForkedPython:
    """The process that forks, and the folder of the scripts that let it run programs."""

    def __init__(self, *options: str, libraries: Sequence[str] = LIBRARIES) -> None:
        """
        Args:
            options: options of the interpreter, such as `-W`, `error`.
            libraries: the modules to import.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="lorebind-forked-", dir="/tmp")
        folder = Path(self._folder.name)
        address = str(folder / "socket")
        self.commands = folder / "commands"
        self.commands.mkdir()
        lorebind = str(Path(sys.executable).with_name("lorebind"))
        for name, before in (("python", []), ("lorebind", [lorebind])):
            script = self.commands / name
            values = {"python": sys.executable, "before": before, "address": address}
            script.write_text(SCRIPT.format(**values, kill=int(KILL), kill_now=int(signal.SIGKILL)))
            script.chmod(0o755)
        self._process = subprocess.Popen(
            [sys.executable, *options, __file__, address, *libraries],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._folder.cleanup()


def _serve(address: str, libraries: Sequence[str]) -> None:
    """Import the libraries, and run each requested program in a child."""
    for name in libraries:
        import_module(name)
    from lorebind_knowledge.plumbing.tokenizing import encode

    encode("o200k_base", "")  # reading the encoding takes half a second, once per process
    _build_models()
    if "lorebind.server.serve" in libraries:
        import_module("lorebind.server.app").api_routes()
    processors = _processors()
    if "onnxruntime" in libraries:
        _stay_on(processors[:1])  # as each program does, for which the models are loaded
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # programs would be warned of its threads
        import_module("loaded_models").load_now()
        import_module("small_life").live()
        _stay_on(processors)
    gc.freeze()  # programs would scan, and so copy, all objects of the libraries
    _use_huge_pages()
    connection, count = _accept_until_forked(address)
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    size = int.from_bytes(head, "big")
    arguments, folder, variables = marshal.loads(connection.recv(size, socket.MSG_WAITALL))
    connection.sendall(os.getpid().to_bytes(4, "big"))
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Threads of a model would busy-wait for each other.
    _stay_on([processors[count % len(processors)]] if processors else [])
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for name, value in json.loads(os.environ.pop(CONSTANTS, "{}")).items():
        module, _, constant = name.partition(":")
        setattr(import_module(module), constant, value)
    warnings._processoptions(  # type: ignore[attr-defined]
        [*filter(None, os.environ.get("PYTHONWARNINGS", "").split(","))]
    )
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
    code = _run(arguments)
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the program's threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    # Libraries would wait for their threads, which a forked child does not have.
    os._exit(code)


def _accept_until_forked(address: str) -> tuple[socket.socket, int]:
    """Fork for each request, and return its connection and number in the child.

    The process that forks sends the exit code of each child to the script that waits for it.
    """
    running: dict[int, socket.socket] = {}
    ended, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup.fileno())
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    os.write(1, b"ready\n")
    count = 0
    while True:
        while listener not in select.select([listener, ended], [], [])[0]:
            ended.recv(4096)
            _report_ended(running)
        connection, _ = listener.accept()
        count += 1
        if not (child := os.fork()):
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (listener, ended, wakeup, *running.values()):
                other.close()
            return connection, count
        running[child] = connection


def _report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        with running.pop(child) as script, suppress(OSError):  # the script may have been killed
            script.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _use_huge_pages() -> None:
    """Merge the pages of Linux, because to fork takes the time to copy a table of all pages."""
    libc = ctypes.CDLL(None)
    maps = Path("/proc/self/maps")
    for line in maps.read_text().splitlines() if maps.exists() else []:
        addresses, mode, _, _, inode, *_ = line.split()
        if mode == "rw-p" and inode == "0":
            start, end = (int(address, 16) for address in addresses.split("-"))
            for page in range(-(-start // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
                libc.madvise(ctypes.c_void_p(page), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE)


def _build_models() -> None:
    """Build what pydantic would build in every program: the validators of our declarations."""
    from pydantic import BaseModel

    models = list(BaseModel.__subclasses__())
    for model in models:
        models += model.__subclasses__()
        if model.__module__.startswith("lorebind"):
            model.model_rebuild(raise_errors=False)


def _processors() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _stay_on(processors: Sequence[int]) -> None:
    if processors:
        os.sched_setaffinity(0, processors)


def _run(arguments: list[str]) -> int:
    """Run a program as the interpreter does: as `__main__`, with its folder first on the path."""
    program = types.ModuleType("__main__")
    try:
        if arguments[0] == "-c":
            code, file, folder = arguments[1], "<string>", ""
            arguments = ["-c", *arguments[2:]]
        elif arguments[0] == "-m":
            for name in {"anyio", "langsmith"} & sys.modules.keys():  # plugins of pytest
                sys.modules[name].__doc__ = "PYTEST_DONT_REWRITE"  # it would warn that it cannot
            run_it = "import runpy; runpy._run_module_as_main({!r})"
            code, file, folder = run_it.format(arguments[1]), "<string>", os.getcwd()
            arguments = ["-m", *arguments[2:]]
        else:
            file = program.__file__ = arguments[0]
            code, folder = Path(file).read_text(encoding="utf-8"), str(Path(file).absolute().parent)
        sys.argv = arguments
        first = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        sys.path[:1] = [folder, *first]
        distributions = [path for name in first for path in Path(name).glob("*-info")]
        if distributions:  # with other plugins, perhaps, than this process has looked up
            import_module("lorebind_config.plugins").forget()
        replaced = {path.stem for name in first for path in Path(name).glob("*.py")}
        for name in [name for name in sys.modules if name.partition(".")[0] in replaced]:
            del sys.modules[name]
        sys.modules["__main__"] = program
        exec(compile(code, file, "exec"), program.__dict__)
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
            return 1
        return int(left.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])
