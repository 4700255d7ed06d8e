"""A project stores its vectors in Qdrant, in local mode and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.journey import build, travel
from tests.conformance.qdrant_loopback import serve

KEY = "never-to-be-shown"


@pytest.mark.parametrize("path", ["qdrant", ":memory:"])
def test_in_local_mode(tmp_path: Path, path: str) -> None:
    """A project ingests, searches, edits, deletes and replaces; a folder can be opened again."""
    declared = {"type": "qdrant", "config": {"path": path}}
    with build(tmp_path, declared) as project:
        travel(project, tmp_path)
        before = project.query("docs", "server").matches
    if path == "qdrant":
        with build(tmp_path, declared) as project:
            assert project.query("docs", "server").matches == before


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_on_a_server(tmp_path: Path, socket_enabled: None) -> None:
    """All of it works over HTTP, with a key from the environment and lexical search."""
    config = {
        "url": "{{ .env.QDRANT_URL }}",
        "auth": {"api_key": "{{ .secrets.QDRANT_KEY }}"},
        "collection": "handbook",
    }
    with serve() as loopback:
        loopback.api_key = KEY
        environ = {"QDRANT_URL": loopback.url, "QDRANT_KEY": KEY}
        with build(tmp_path, {"type": "qdrant", "config": config}, environ=environ) as project:
            travel(project, tmp_path)
            matches = project.query("docs", "packages installed", strategy="lexical").matches
            assert matches[0].metadata["uri"].endswith("setup.md")
        (collection,) = loopback.engine.get_collections().collections
        assert collection.name.startswith("handbook_")
