"""The sockets of a server, which are bound before anything else is started."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lorebind_config.errors import UsageError

if sys.platform != "win32":
    import fcntl

_BACKLOG = 2048
"""Connections that wait to be accepted; as in uvicorn, which does not open these sockets."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen on all addresses of a host.

    Args:
        host: a name or an address.
        port: the port; 0 chooses a free one.

    Raises:
        UsageError: listening is not possible; the error gives the reason.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    listening: list[socket.socket] = []
    lacking: OSError | None = None
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((info[0], info[4]) for info in infos):
            if listening and port == 0:  # use the same free port for all addresses
                address = (address[0], listening[0].getsockname()[1], *address[2:])
            try:
                listening.append(_listening_on(family, address))
            except OSError as error:  # `localhost` may resolve to IPv6 on hosts without IPv6
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                lacking = error
        if not listening and lacking is not None:
            raise lacking
    except (OSError, UnicodeError) as error:
        close(listening)
        reason = getattr(error, "strerror", None) or error
        hint = "choose another --host or --port"
        raise UsageError(f"cannot listen on {where}: {reason}; {hint}") from error
    return listening


def _listening_on(family: int, address: Any) -> socket.socket:
    # asyncio sets TCP_NODELAY only if the protocol is named; without it, small answers on a kept
    # connection wait 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # on Windows, it would let two servers use one port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def is_loopback(listening: list[socket.socket]) -> bool:
    """Check whether only programs on this machine can connect."""
    return all(
        bound.family not in (socket.AF_INET, socket.AF_INET6)
        or ipaddress.ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback
        for bound in listening
    )


@contextmanager
def listening_at(path: str) -> Iterator[socket.socket]:
    """Listen on a Unix socket that only this user can connect to, and remove it at the end.

    A socket left behind by a killed server is replaced.

    Raises:
        UsageError: listening is not possible; the error gives the reason.
    """
    if sys.platform == "win32":
        raise UsageError("this system has no Unix sockets; use --host and --port")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            # The lock lets only one of several starting servers replace a leftover socket.
            with _locked(Path(path).absolute().parent):
                _remove_left(path)
                listening.bind(path)
                os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)  # nobody can connect before `listen`
                listening.listen(_BACKLOG)
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"cannot listen on {path}: {reason}; choose another --uds") from error
        created = os.stat(path)
        try:
            yield listening
        finally:
            with suppress(OSError):
                # Another server may have replaced it by now.
                if os.path.samestat(created, os.stat(path)):
                    os.unlink(path)


def close(listening: list[socket.socket]) -> None:
    for bound in listening:
        bound.close()


def _remove_left(path: str) -> None:
    """Remove a socket that no server listens on.

    Raises:
        UsageError: a server listens on it, or the file is not a socket.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(
            f"cannot listen on {path}: it exists and is not a socket; choose another --uds"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        try:
            trying.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise UsageError(f"cannot listen on {path}: another server does; choose another --uds")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    # The folder itself is locked, so no lock file is left behind.
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
