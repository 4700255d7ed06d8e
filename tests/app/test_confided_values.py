"""Values of `.env` in addresses stay private: they are neither printed nor stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lorebind_config.project_files import DATA_FOLDER
from tests.bindings.helpers import PARTS
from tests.knowledge.web_server import Answer, WebServer

from .helpers import Cli

PROJECT = (
    f"name: shop\n{PARTS}"
    + """\
knowledge_bases:
  - id: docs
    sources:
      - type: url
        urls:
          - "{{ .env.WIKI }}/keys.md"
          - "{{ .env.WIKI }}/moved.md?token={{ .secrets.TOKEN }}"
          - "{{ .env.WIKI }}/{{ .secrets.TOKEN }}/gone.md"
        fetch:
          allow: ["127.0.0.1"]
          headers: { X-Key: "{{ .env.KEY }}" }
      - type: cloud_storage
        provider: file
        bucket: "{{ .env.SHELF }}"
        prefix: "{{ .env.TEAM }}/"
"""
)
VALUES = ["space-hidden1", "hidden2", "hidden%2F3", "hidden/3", "hidden4", "hidden5"]


@pytest.fixture
def server(socket_enabled: None) -> Iterator[WebServer]:
    server = WebServer()
    moved = {"Location": "/space-hidden1/at?again=hidden%252F3"}
    server.routes["/space-hidden1/keys.md"] = Answer(b"# Keys\n\nRotate the keys.\n")
    server.routes["/space-hidden1/moved.md?token=hidden%2F3"] = Answer(b"", moved, 302)
    yield server
    server.close()


def test_values_of_the_environment_stay_there(empty_cli: Cli, server: WebServer) -> None:
    """Plan, ingest, query, lists and the database have templates instead, in every format."""
    environment = f"WIKI={server.url('/space-hidden1')}\nTOKEN=hidden%2F3\nKEY=hidden2\n"
    shelf = {"hidden4/hidden5/bills.md": "# Bills\n\nBills are sent by mail.\n"}
    files = {"lorebind.yaml": PROJECT, ".env": f"{environment}SHELF=hidden4\nTEAM=hidden5\n"}
    empty_cli.write(files | shelf)
    for command in (
        "knowledge plan --output table",
        "knowledge plan --output json",
        "knowledge ingest --output table",
        "knowledge ingest --output json",
        "knowledge query docs -q keys,bills --output table",
        "knowledge query docs -q keys,bills --output json",
        "knowledge get docs --output json",
        "knowledge export",
        "doctor --output json",
        "ask . keys",
    ):
        done = empty_cli(*command.split())
        printed = "".join((done.out + done.err).split())
        assert not [value for value in VALUES if value in printed], (command, printed)
        if "query" in command:
            assert "{{.env.WIKI}}/keys.md" in printed
            assert "file://{{.env.SHELF}}/{{.env.TEAM}}/bills.md" in printed
    for file in (empty_cli.root / DATA_FOLDER).rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        assert not [value for value in VALUES if value.encode() in data], file
    assert {request.headers["x-key"] for request in server.requests} == {"hidden2"}
