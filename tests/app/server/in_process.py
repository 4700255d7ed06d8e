"""Servers in the process of the test, where a separate process would add nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from lorebind import Project
from lorebind.server.app import make_app
from lorebind.server.server import Server
from lorebind.server.state.tokens import Rights

from .conftest import PROJECT, write_project

API = "http://localhost/api/v0"


class Served:
    """A server, its application, and its callers."""

    def __init__(self, server: Server, app: ASGIApp) -> None:
        self.server = server
        self.app = app

    def client(self, token: str | None = None, **headers: str) -> httpx.AsyncClient:
        """Return a client with or without a token."""
        sent = headers if token is None else {"Authorization": f"Bearer {token}", **headers}
        transport = httpx.ASGITransport(app=self.app)
        return httpx.AsyncClient(transport=transport, base_url=API, headers=sent, timeout=60)

    def token(self, name: str, rights: Rights = "admin", *tenants: str, **more: Any) -> str:
        """Create a token that the server has already read."""
        _, text = self.server.tokens.create(name, rights, tenants, **more)
        return text


@asynccontextmanager
async def served(
    folder: Path, more: Mapping[str, Any] | None = None, seconds: float = 30
) -> AsyncIterator[Served]:
    """Return the test project's server, with more declarations and a time limit for answers."""
    project = Project.load(write_project(folder, {**PROJECT, **(more or {})}))
    server = Server(project)
    await server.start()
    try:
        yield Served(server, make_app(server, seconds=seconds))
    finally:
        await server.stop()


def problem(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of a problem document, or of an error in OpenAI's shape."""
    if response.url.path.startswith("/v1/"):
        return response.status_code, response.json()["error"]["code"]
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"
    document = response.json()
    assert document["status"] == response.status_code
    return response.status_code, document["code"]
