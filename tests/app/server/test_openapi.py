"""Clients that are made from the OpenAPI document."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind.server.middleware.guard import OPEN
from tests.processes import run_program

from .conftest import serving, token_of, write_project

GENERATOR = Path(sys.prefix) / "client/bin/openapi-python-client"
"""It cannot be installed beside Lorebind, because it needs other versions of the same packages."""

CLIENT = """\
import sys

import httpx

sys.path.insert(0, sys.argv[1])
from lorebind_shop_client import AuthenticatedClient
from lorebind_shop_client.api.answers import answer
from lorebind_shop_client.api.documents import fetch, find
from lorebind_shop_client.api.ingestion import get_run, ingest
from lorebind_shop_client.api.knowledge_bases import get_knowledge_base, put_knowledge_base
from lorebind_shop_client.api.search import query, query_several
from lorebind_shop_client.models import (
    AnswerRequest,
    IngestRequest,
    PutKnowledgeBaseBody,
    Query,
    QueryOfSeveral,
)

_, _, socket, token = sys.argv


def client(token):
    transport = httpx.HTTPTransport(uds=socket)
    return AuthenticatedClient("http://localhost", token, httpx_args={"transport": transport})


def declared(text):
    source = {"type": "inline", "documents": [{"id": "a", "text": text}]}
    return PutKnowledgeBaseBody.from_dict({"sources": [source]})


refused = get_knowledge_base.sync("handbook", client=client("wrong"))
assert refused.code.value == "unauthenticated", refused
api = client(token)

made = put_knowledge_base.sync_detailed(
    "tours", client=api, body=declared("Tours leave at 9."), if_none_match="*"
)
assert made.status_code == 201, made
again = put_knowledge_base.sync("tours", client=api, body=declared("x"), if_none_match="*")
assert again.code.value == "precondition_failed", again
read = get_knowledge_base.sync_detailed("tours", client=api)
tag = read.headers["ETag"]
assert tag == made.headers["ETag"]
same = get_knowledge_base.sync_detailed("tours", client=api, if_none_match=tag)
assert same.status_code == 304, same
body = declared("Tours leave at 10.")
assert put_knowledge_base.sync("tours", client=api, body=body, if_match=tag).id == "tours"
stale = put_knowledge_base.sync("tours", client=api, body=body, if_match=tag)
assert stale.code.value == "precondition_failed", stale

for name in ("handbook", "tours"):
    run = ingest.sync(name, client=api, body=IngestRequest(), prefer="wait=20")
    assert run.report.documents.additional_properties["added"] > 0, run
    assert get_run.sync(name, run.run_id, client=api).status == "completed"

matches = query.sync("tours", client=api, body=Query("When do tours leave?")).matches
assert matches[0].text == "Tours leave at 10."
several = query_several.sync(client=api, body=QueryOfSeveral("tours and goods"))
assert several.searched == ["handbook", "tours"]
assert not several.by_ranks
passages = find.sync("tours", client=api, pattern="LEAVE").passages
other = find.sync("tours", client=api, pattern="LEAVE", x_tenant_id="other")
assert other.code.value == "tenant_forbidden", other
assert passages[0].lines[0].text == "Tours leave at 10."
assert fetch.sync("tours", client=api, document=passages[0].uri).text == "Tours leave at 10."
answered = answer.sync(client=api, body=AnswerRequest("When can I return goods?"))
assert answered.citations[0].uri == "inline:returns", answered
print("done")
"""


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
    ]


def test_names_are_unique_and_stable(api: httpx.Client) -> None:
    """Clients name methods by operation ids, and classes by models and their properties."""
    document = api.get("/openapi.json").json()
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in ids), ids
    assert {"query", "query_several", "answer", "find", "fetch", "list_fields"} <= {*ids}
    models = document["components"]["schemas"]
    names = [name.replace("_", "").lower() for name in models]
    for name, model in models.items():  # a client has a class for a property without a name, too
        names += {f"{name}{key}".replace("_", "").lower() for key in model.get("properties", ())}
    assert len(set(names)) == len(names)
    for path, operation in operations(document):
        headers = [each["name"] for each in operation.get("parameters", ())]
        assert ("X-Tenant-ID" in headers) is (path not in OPEN)
    rights: dict[str, str] = {}
    for path, operation in operations(document):
        (token,) = [{"token": []}] if path in OPEN else operation["security"]
        rights[operation["operationId"]] = "".join(token["token"])
    assert (rights["query"], rights["ingest"], rights["purge"]) == ("read", "write", "admin")


@pytest.mark.skipif(
    not GENERATOR.exists(), reason="openapi-python-client is not there; install it: make client"
)
def test_a_client_that_is_made(tmp_path: Path) -> None:
    """It is made without a warning, sends a token, updates what it has read, and asks."""
    folder = write_project(tmp_path / "shop")
    token = token_of(folder)
    with serving(folder) as server:
        with server.client(headers={"Authorization": f"Bearer {token}"}) as api:
            document = api.get("/openapi.json").json()
        (tmp_path / "openapi.json").write_text(json.dumps(document))
        (tmp_path / "config.yaml").write_text("post_hooks: []")
        made = run_program(
            [
                *(GENERATOR, "generate", "--path", "openapi.json", "--output-path", "made"),
                *("--config", "config.yaml", "--fail-on-warning"),
            ],
            cwd=tmp_path,
        )
        assert made.returncode == 0, made.stdout + made.stderr
        (tmp_path / "client.py").write_text(CLIENT)
        python = GENERATOR.with_name("python")
        used = run_program([python, "client.py", "made", str(server.socket), token], cwd=tmp_path)
        assert used.stdout == "done\n", used.stdout + used.stderr
