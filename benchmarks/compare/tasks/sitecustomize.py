"""Python imports this when it starts: no program of the comparison may reach another machine.

The names of machines that it asks for are written to the file COMPARE_NETWORK.
"""

import os
import socket

_resolve = socket.getaddrinfo


def _resolve_here(host, *args, **kwargs):
    if host not in (None, "", "localhost", "127.0.0.1", "::1", socket.gethostname()):
        with open(os.environ["COMPARE_NETWORK"], "a", encoding="utf-8") as file:
            file.write(f"{host}\n")
        raise socket.gaierror(socket.EAI_NONAME, "the comparison has no network")
    return _resolve(host, *args, **kwargs)


socket.getaddrinfo = _resolve_here
