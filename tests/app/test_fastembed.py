"""Models from the hub in a project: which commands download them, and which do not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading

import pytest

from tests.knowledge.hub_server import EMBEDDER, RERANKER, HubServer

from .helpers import DOCUMENTS, LOREBIND, Cli

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

PROJECT = f"""\
name: shop
embedders:
  - {{ id: small, provider: fastembed, model: {EMBEDDER}, cache_dir: models }}
knowledge_bases:
  - id: docs
    sources: [{{ type: markdown_glob, path: "docs/**/*.md" }}]
    retrieval:
      strategy: rerank
      rerank: {{ provider: fastembed, model: {RERANKER}, cache_dir: models }}
knowledge: [{{ id: docs }}]
"""


@pytest.fixture
def shop(empty_cli: Cli) -> Cli:
    empty_cli.write(DOCUMENTS | {"lorebind.yaml": PROJECT})
    return empty_cli


def test_from_the_declaration_to_the_passage(hub: HubServer, shop: Cli) -> None:
    """An ingest downloads the embedder, a query the reranker; later commands download nothing."""
    done = shop("knowledge", "ingest", "docs")
    assert done.code == 0, done.err
    assert f"downloading the model {EMBEDDER}, " in done.err
    done = shop("knowledge", "query", "docs", "-q", "rotate the keys", "--output", "json")
    assert done.code == 0, done.err
    best = json.loads(done.out)["matches"][0]
    assert "Rotate the keys" in best["text"]
    # The small cross-encoder prefers "rotate" and "keys".
    assert best["scores"]["rerank"] == pytest.approx(1 / (1 + 2.718281828 ** -(2 + 1 + 1)), abs=0.1)
    downloaded = len(hub.requests)
    shop("knowledge", "ingest", "docs")
    done = shop("knowledge", "query", "docs", "-q", "rotate the keys")
    assert (done.code, done.err) == (0, "")
    assert len(hub.requests) == downloaded


def test_what_downloads_nothing(hub: HubServer, shop: Cli) -> None:
    """Read-only commands and plans download nothing; they request at most a commit from the hub."""
    for command in (
        *("validate", "schema", "knowledge list", "knowledge get docs", "bindings explain"),
        *("doctor", "knowledge plan docs"),
    ):
        done = shop(*command.split())
        assert done.code == 0, (command, done.err)
    assert not hub.requests
    assert not list(shop.root.glob("models/*/snapshots"))


def test_doctor(hub: HubServer, shop: Cli) -> None:
    """It names the size of a model that would be downloaded, and tries a model that is present."""

    def findings() -> dict[str, tuple[str, str]]:
        done = shop("doctor", "--output", "json")
        assert (done.code, done.err) == (0, "")
        return {
            finding["part"]: (finding["status"], finding["detail"])
            for finding in json.loads(done.out)["findings"]
            if "embedder" in finding["part"] or "docs" in finding["part"]
        }

    before = findings()
    assert {status for status, _ in before.values()} == {"warning"}
    _, embedder = before["embedder small"]
    assert "its first use downloads it, about 67 MB; to download it now: hf download" in embedder
    _, reranker = before["reranker of knowledge base docs"]
    assert (
        f"{RERANKER} (revision main of {RERANKER}) is not in {shop.root / 'models'} yet" in reranker
    )
    shop("knowledge", "ingest", "docs")
    shop("knowledge", "query", "docs", "-q", "keys")
    assert findings() == {
        "embedder small": ("ok", f"fastembed/{EMBEDDER}, dimension 384 (measured)"),
        "knowledge base docs": ("ok", "2 documents, 2 chunks, dimension 384"),
        "reranker of knowledge base docs": (
            "ok",
            f"fastembed {RERANKER}: queried with 'ready', it scores 'ready' 0.50",
        ),
    }


def test_doctor_tells_of_languages(empty_cli: Cli) -> None:
    """The default embedder knows one language; embedders for more languages are listed."""
    empty_cli.write({"lorebind.yaml": "name: p\n"})
    done = empty_cli("doctor", "--output", "json")
    (detail,) = [
        finding["detail"]
        for finding in json.loads(done.out)["findings"]
        if finding["part"] == "embedder local"
    ]
    assert "it knows English only" in detail
    assert "provider: fastembed and model: intfloat/multilingual-e5-large" in detail


def test_ctrl_c(hub: HubServer, shop: Cli) -> None:
    """Ctrl-C ends a download immediately, and the next command continues it."""
    waiting, go = threading.Event(), threading.Event()
    hub.gate = lambda path: (waiting.set(), go.wait(60)) if path.endswith(".onnx") else None
    process = subprocess.Popen(
        [LOREBIND, "knowledge", "ingest", "docs"],
        cwd=shop.root,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert waiting.wait(30)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=40)
    assert process.returncode == 130
    go.set()
    assert shop("knowledge", "ingest", "docs").code == 0


def test_a_moved_revision_asks_for_a_reindex(hub: HubServer, shop: Cli) -> None:
    """Another revision counts as another embedder, with the command to rebuild the index."""
    from tests.knowledge.hub_server import EMBEDDER_REPOSITORY, embedder_files

    assert shop("knowledge", "ingest", "docs").code == 0
    new = hub.publish(EMBEDDER_REPOSITORY, embedder_files(seed=8))
    assert shop("knowledge", "query", "docs", "-q", "keys").code == 0
    moved = PROJECT.replace(f"model: {EMBEDDER},", f"model: {EMBEDDER}, revision: {new},")
    shop.write({"lorebind.yaml": moved})
    done = shop("knowledge", "query", "docs", "-q", "keys")
    assert done.code == 1
    assert "reindex docs" in done.err
    assert shop("knowledge", "reindex", "docs").code == 0
    assert shop("knowledge", "query", "docs", "-q", "keys").code == 0
