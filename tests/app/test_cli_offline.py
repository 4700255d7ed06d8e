"""Commands that work without a project's secrets, databases and extras."""

from __future__ import annotations

import json
import re
import sys

import pytest
import yaml

from .helpers import PROJECT, Cli, Done

FILE = "vector_dbs: [{ id: file, type: sqlite }]"
SECRETS = """
models: [{ id: m, provider: openai, model: x, api_key: "{{ .secrets.LOREBIND_TEST_NO }}" }]
extensions:
  - { provider: python, class: "gone:Audit", config: { key: "{{ .env.LOREBIND_TEST_NO }}" } }
wrappers: ["gone:wrap"]
"""


def probe(cli: Cli, database: str, more: str = "") -> tuple[Done, dict[str, str]]:
    """Return the output of `list`, and each knowledge base's error; `get` prints the same."""
    databases = f"vector_dbs: [{{ id: file, type: sqlite }}, {{ id: far, {database} }}]"
    text = PROJECT.replace(FILE, databases)
    text = text.replace("- id: docs\n", "- id: docs\n    vector_db: far\n") + more
    text = text.replace("- id: rules\n", "- id: rules\n    vector_db: file\n")
    assert text.count("vector_db: ") == 2
    cli.write({"lorebind.yaml": text})
    for command in (["validate"], ["knowledge", "export"], ["bindings", "explain"]):
        assert cli(*command).code == 0
    listed = json.loads(cli("knowledge", "list", "-o", "json").out)["knowledge_bases"]
    for kb in listed:
        got = cli("knowledge", "get", kb["id"], "-o", "yaml")
        assert got.code == 0
        data = yaml.safe_load(got.out)
        assert (data["stats"], data["stats_error"]) == (kb["stats"], kb["stats_error"])
        assert (kb["stats"] is None) == (kb["stats_error"] is not None)
    done = cli("knowledge", "list")
    assert done.code == 0
    return done, {kb["id"]: kb["stats_error"] for kb in listed if kb["stats_error"]}


def test_without_a_secret(ready_cli: Cli) -> None:
    """An index whose location needs a missing variable has the reason in its line; others count."""
    dsn = 'type: pgvector, config: { dsn: "{{ .secrets.LOREBIND_TEST_NO }}" }'
    done, errors = probe(ready_cli, dsn, SECRETS)
    assert list(errors) == ["docs"]
    assert "variable LOREBIND_TEST_NO is not set" in errors["docs"]
    assert done.err == f"lorebind: docs: {errors['docs']}\n"
    assert re.search(r"(?m)^docs +unknown +How we work$", done.out)
    assert re.search(r"(?m)^rules +1 +1 +completed$", done.out)


def test_without_a_server(ready_cli: Cli, socket_enabled: None) -> None:
    """An unreachable PostgreSQL is reported alike. The index of a Qdrant server is counted."""
    ready_cli.write({".env": "LOREBIND_TEST_DSN=postgresql://127.0.0.1:9/none\n"})
    _, errors = probe(ready_cli, "type: pgvector, config: { dsn: '{{ .env.LOREBIND_TEST_DSN }}' }")
    assert "Connection refused" in errors["docs"]
    far = "type: qdrant, config: { url: 'http://127.0.0.1:9' }"
    _, errors = probe(ready_cli, far)
    assert errors == {}  # its catalog is a file


def test_without_an_extra(ready_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extra is named at the knowledge base that needs it."""
    for module in ("psycopg", "qdrant_client", "langchain_openai"):
        monkeypatch.setitem(sys.modules, module, None)
    _, errors = probe(ready_cli, "type: pgvector, config: { dsn: '{{ .env.HOME }}' }")
    assert "lorebind[postgres]" in errors["docs"]
    probe(ready_cli, "type: qdrant, config: { url: 'http://127.0.0.1:9' }")
