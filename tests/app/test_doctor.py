"""`lorebind doctor`: the finding of each part, and the suggested fix of each failure."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import SecretStr

from lorebind import Project, doctor
from lorebind.doctor import Finding
from lorebind_knowledge.plumbing.bridge import call, run
from lorebind_knowledge.stores.base import StoredVector

from .helpers import PROJECT, Cli

SECRET = "sk-Zq8hidden"
WORDS = "embedders: [{ id: words, provider: hashing }]"


def findings(cli: Cli, *options: str, code: int = 0) -> dict[str, tuple[str, str]]:
    """Return the status and details of every part, from the JSON output."""
    done = cli("doctor", "--output", "json", *options)
    assert (done.code, done.err) == (code, "")
    assert SECRET not in done.out
    rows = json.loads(done.out)["findings"]
    return {row["part"]: (row["status"], row["detail"]) for row in rows}


def examined(cli: Cli, **environ: str) -> list[Finding]:
    with Project.load(cli.root, environ=environ) as project:
        return project.doctor()


def test_all_is_fine(ready_cli: Cli) -> None:
    """Every part is listed with its measured values; the exit code is 0."""
    parts = findings(ready_cli)
    assert {part: status for part, (status, _) in parts.items()} == {
        "embedder words": "ok",
        "vector database file": "ok",
        "knowledge base docs": "ok",
        "knowledge base rules": "ok",
        "model default": "ok",
        "extras": "ok",
    }
    assert parts["embedder words"][1] == "hashing/bag-of-words, dimension 256 (measured)"
    assert parts["knowledge base docs"][1] == "2 documents, 2 chunks, dimension 256"
    assert "exact" in parts["model default"][1]
    table = ready_cli("doctor")
    assert (table.code, table.err) == (0, "")
    assert "knowledge base rules" in table.out


def test_what_is_not_ingested_is_a_warning(cli: Cli) -> None:
    """The warning names the command that ingests it; nothing is written, and the exit code is 0."""
    parts = findings(cli)
    assert parts["knowledge base docs"] == (
        "warning",
        "nothing is ingested yet; run: lorebind knowledge ingest docs",
    )
    assert not (cli.root / ".lorebind").exists()


def test_a_workflows_own_is_examined_too(cli: Cli) -> None:
    """The finding names the workflow, and so does the command."""
    cli.write(
        {
            "workflows/own.yaml": "id: own\ntasks: [{ id: t, prompt: x }]\nknowledge_bases:\n"
            "  - { id: docs, sources: [{ type: markdown_glob, path: 'rules/*.md' }] }\n"
        }
    )
    status, detail = findings(cli)["knowledge base docs of workflow own"]
    assert (status, detail.partition("; ")[2]) == (
        "warning",
        "run: lorebind knowledge ingest docs --workflow own",
    )
    assert cli("knowledge", "ingest", "docs", "--workflow", "own").code == 0
    assert findings(cli)["knowledge base docs of workflow own"][0] == "ok"
    assert findings(cli)["knowledge base docs"][0] == "warning"


def test_sparse_embedders(tmp_path: Path) -> None:
    """Sparse embedders that are declared or used are tried; one that fails stops no other."""
    declared = {
        "name": "two",
        "sparse_embedders": [
            {"id": "gone", "provider": "local", "config": {"model_path": "gone.onnx"}}
        ],
        "knowledge_bases": [{"id": "docs"}],
    }
    with Project.build(declared, root=tmp_path) as project:
        parts = {finding.part: finding for finding in project.doctor()}
    assert parts["sparse embedder local"].status == "ok"
    detail = parts["sparse embedder local"].detail
    assert re.fullmatch(r"local/splade-tiny: queried with 'ready', it returns \d+ terms", detail)
    assert parts["sparse embedder gone"].status == "failed"
    assert "cannot read the model" in parts["sparse embedder gone"].detail
    declared["knowledge_bases"] = [{"id": "docs", "sparse": "off"}]
    del declared["sparse_embedders"]
    with Project.build(declared, root=tmp_path) as project:
        assert not [part for part in project.doctor() if part.part.startswith("sparse")]


def test_documents_in_another_language_than_the_embedders(tmp_path: Path) -> None:
    """A warning lists embedders that know the language, as vectors hardly find such documents."""
    (tmp_path / "a.md").write_text("The keys are kept at the desk, and the doors are open.")
    (tmp_path / "b.md").write_text("Die Schlüssel sind am Empfang, und die Türen sind offen.")
    declared = {
        "name": "two",
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "*.md"}]},
        ],
    }
    with Project.build(declared, root=tmp_path) as project:
        project.ingest("docs")
        (docs,) = [finding for finding in project.doctor() if finding.part == "knowledge base docs"]
        assert docs.status == "warning"
        assert "not all in English (de 1); its embedder is local: it knows English" in docs.detail
        assert "provider: fastembed" in docs.detail
        (tmp_path / "b.md").unlink()
        project.ingest("docs")
        (docs,) = [finding for finding in project.doctor() if finding.part == "knowledge base docs"]
        assert (docs.status, docs.detail) == ("ok", "1 documents, 1 chunks, dimension 384")


def lose(cli: Cli, kb_id: str, lost: Sequence[int], *, others: bool = False) -> None:
    """Delete vectors, or replace them with others, without updating the catalog."""
    with Project.load(cli.root) as project:
        kb = project.knowledge.open(kb_id).kb
        entry = kb.catalog.ledger.index(kb.namespace, "active")
        assert entry is not None
        run(call(kb.index.store.delete, entry.space, lost))
        if others:
            vector = np.eye(1, entry.manifest.dimension, dtype=np.float32)[0]
            added = [StoredVector(number + 10**6, vector, "x", {}) for number in lost]
            run(call(kb.index.store.add, entry.space, added))


def test_a_store_that_was_emptied(ready_cli: Cli) -> None:
    """If a store has fewer vectors than its catalog, the suggested command restores them."""
    lose(ready_cli, "docs", [1, 2])
    parts = findings(ready_cli, code=1)
    repair = "lorebind knowledge ingest docs"
    assert parts["knowledge base docs"] == (
        "failed",
        "its vector database has lost 2 of 2 vectors; restore them with: " + repair,
    )
    assert parts["knowledge base rules"][0] == "ok"
    query = ready_cli("knowledge", "query", "docs", "-q", "rotate the keys")
    assert query.code == 1
    assert "has lost 2 of the 2 vectors" in query.err
    assert f"restore them with: {repair}" in query.err
    done = ready_cli(*repair.split()[1:])
    assert done.code == 0
    assert "had lost 2 of 2 vectors; they have been restored" in done.out + done.err
    assert findings(ready_cli)["knowledge base docs"][0] == "ok"
    assert ready_cli("knowledge", "query", "docs", "-q", "rotate the keys").code == 0


def test_a_store_that_holds_the_vectors_of_another_day(ready_cli: Cli) -> None:
    """If a store has the right number of vectors, but others, a sample detects it."""
    lose(ready_cli, "docs", [1, 2], others=True)
    status, detail = findings(ready_cli, code=1)["knowledge base docs"]
    assert status == "failed"
    assert detail.startswith("its vector database has lost 2 of 2 vectors")
    assert ready_cli("knowledge", "ingest", "docs").code == 0
    assert findings(ready_cli)["knowledge base docs"][0] == "ok"
    assert ready_cli("knowledge", "query", "docs", "-q", "rotate the keys").code == 0


def test_a_store_that_lost_one_of_many(cli: Cli) -> None:
    """If another vector replaces one of many, --deep detects it, and the command restores it."""
    cli.write({f"docs/{number}.md": f"# {number}\n\nRule {number}.\n" for number in range(200)})
    assert cli("knowledge", "ingest").code == 0
    lose(cli, "docs", [2], others=True)
    assert findings(cli)["knowledge base docs"][0] == "ok"
    parts = findings(cli, "--deep", code=1)
    repair = "lorebind knowledge reindex docs"
    assert parts["knowledge base docs"] == (
        "failed",
        "its vector database has lost 1 of 202 vectors; restore them with: " + repair,
    )
    assert parts["knowledge base rules"][0] == "ok"
    assert cli(*repair.split()[1:]).code == 0
    assert findings(cli, "--deep")["knowledge base docs"][0] == "ok"


def test_another_embedder(ready_cli: Cli) -> None:
    """An index of another embedder cannot be searched; the suggested command rebuilds it."""
    other = WORDS.replace("hashing", "hashing, config: { dimension: 64 }")
    ready_cli.write({"lorebind.yaml": PROJECT.replace(WORDS, other)})
    parts = findings(ready_cli, code=1)
    status, detail = parts["knowledge base docs"]
    assert status == "failed"
    assert "was built with the embedder hashing/bag-of-words of dimension 256" in detail
    assert parts["embedder words"] == ("ok", "hashing/bag-of-words, dimension 64 (measured)")
    repair = detail.partition("rebuild it with: ")[2]
    assert repair == "lorebind knowledge reindex docs"
    assert ready_cli(*repair.split()[1:]).code == 0
    assert findings(ready_cli, code=1)["knowledge base docs"][0] == "ok"


def test_documents_that_failed_are_a_warning(cli: Cli) -> None:
    """One of them is named; the index answers, so the exit code is 0."""
    (cli.root / "docs" / "broken.md").write_bytes(b"\xff\xfe\xfa")
    assert cli("knowledge", "ingest").code == 1
    status, detail = findings(cli)["knowledge base docs"]
    assert status == "warning"
    assert "1 failed, such as docs/broken.md" in detail


def test_a_variable_that_is_not_set(cli: Cli) -> None:
    """The finding names the variable that a template or an embedder needs; others are examined."""
    openai = WORDS.replace("hashing", "openai")
    cli.write({"lorebind.yaml": PROJECT.replace(WORDS, openai)})
    parts = {finding.part: finding for finding in examined(cli)}
    assert parts["embedder words"].status == "failed"
    assert "variable OPENAI_API_KEY is not set" in parts["embedder words"].detail
    assert parts["vector database file"].status == "ok"
    named = openai.replace("openai", 'openai, api_key: "{{ .env.LOREBIND_TEST_NO }}"')
    cli.write({"lorebind.yaml": PROJECT.replace(WORDS, named)})
    parts = {finding.part: finding for finding in examined(cli)}
    reason = "embedder 'words': variable LOREBIND_TEST_NO is not set"
    assert reason in parts["embedder words"].detail
    assert parts["vector database file"].status == "ok"


def test_a_model_that_cannot_be_made(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding quotes the provider's error, and the part has failed."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    cli.write({"lorebind.yaml": PROJECT + "models: [{ id: m, provider: openai, model: x }]\n"})
    status, detail = findings(cli, code=1)["model m"]
    assert status == "failed"
    assert "OPENAI_API_KEY" in detail


class Answering(BaseChatModel):
    """A service that answers or fails as configured; it counts its calls and their limits."""

    fails: str = ""
    max_tokens: int | None = None
    limits: ClassVar[list[int | None]] = []

    @property
    def _llm_type(self) -> str:
        return "answering"

    def _generate(self, messages: list[BaseMessage], *_: object, **options: object) -> ChatResult:
        self.limits.append(self.max_tokens)
        if self.fails == "late":
            Unreachable.released.wait(30)
        if self.fails:
            raise RuntimeError(self.fails)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("ready"))])


@pytest.mark.parametrize(
    ("fails", "status", "detail"),
    [
        ("", "ok", ":Answering answers; tokens are counted by "),
        ("401: wrong key", "failed", ":Answering: the chat model failed: RuntimeError: 401: wr"),
        ("400: max_tokens or model output limit was reached", "ok", ":Answering answers; tokens"),
        ("late", "failed", ":Answering: no answer within 0.2 seconds; is it reachable?"),
    ],
)
def test_a_model_is_asked_one_word(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    released: threading.Event,
    fails: str,
    status: str,
    detail: str,
) -> None:
    """A model is called once, with a limit of a few tokens; a failure names provider and model."""
    if fails == "late":
        monkeypatch.setattr(doctor, "SECONDS", 0.2)
    Answering.limits.clear()
    with Project.build({"name": "shop"}, model=Answering(fails=fails), root=cli.root) as project:
        (finding,) = [finding for finding in project.doctor() if finding.part == "model default"]
    assert (finding.status, Answering.limits) == (status, [16])
    assert f"langchain:{__name__}{detail}" in finding.detail
    assert not fails.startswith("401") or finding.detail.endswith("the model and its config")


OWN_MODEL = """\
from langchain_core.language_models import BaseChatModel

class House(BaseChatModel):
    api_key: str

    @property
    def _llm_type(self):
        return "house"

    def _generate(self, messages, *args, **kwargs):
        raise ConnectionError(f"refused: {self.api_key}")
"""


def test_a_model_that_cannot_be_reached(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repair names the address as it is declared, in one line."""
    declared = """\
models:
  - id: m
    provider: langchain
    class: "house:House"
    config: { base_url: "{{ .env.HOST }}/v1" }
"""
    unreachable = OWN_MODEL.replace("refused: {self.api_key}", "refused:\\n\\ntry {self.base_url}")
    unreachable = unreachable.replace("api_key: str", "base_url: str")
    cli.write({"lorebind.yaml": PROJECT + declared, "house.py": unreachable})
    monkeypatch.setenv("HOST", "http://model.internal")
    status, detail = findings(cli, code=1)["model m"]
    assert status == "failed"
    assert "ConnectionError: refused: try " in detail
    assert "model.internal" not in detail
    assert detail.endswith("; check the network, and the address {{ .env.HOST }}/v1")


def test_a_model_of_a_class_is_asked_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure names the class, but not the key that the error quotes."""
    monkeypatch.setenv("HOUSE_KEY", "sk-very-secret")
    declared = """\
models:
  - { id: m, provider: langchain, class: "house:House", api_key: "{{ .env.HOUSE_KEY }}" }
"""
    cli.write({"lorebind.yaml": PROJECT + declared, "house.py": OWN_MODEL})
    status, detail = findings(cli, code=1)["model m"]
    assert (status, "very-secret" in detail) == ("failed", False)
    assert detail.startswith("house:House: the chat model failed: ConnectionError: refused: {{")


class Unreachable(Embeddings):
    """A service that does not answer until it is released."""

    released = threading.Event()

    def __init__(self, api_key: str) -> None:
        self.api_key = SecretStr(api_key)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.released.wait(30)
        raise ConnectionError(f"gone, with {self.api_key.get_secret_value()}")

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.fixture
def released() -> Iterator[threading.Event]:
    Unreachable.released.clear()
    yield Unreachable.released
    Unreachable.released.set()


def _unreachable(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOREBIND_TEST_KEY", SECRET)
    ours = (
        f'langchain, class: "{__name__}:Unreachable", '
        'api_key: "{{ .env.LOREBIND_TEST_KEY }}", retry: { attempts: 1 }'
    )
    cli.write({"lorebind.yaml": PROJECT.replace(WORDS, WORDS.replace("hashing", ours))})


def test_a_part_that_does_not_answer(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, released: threading.Event
) -> None:
    """It fails after the timeout, and later parts are examined."""
    _unreachable(cli, monkeypatch)
    monkeypatch.setattr(doctor, "SECONDS", 0.2)
    parts = findings(cli, code=1)
    assert not released.is_set()
    assert parts["embedder words"] == (
        "failed",
        "no answer within 0.2 seconds; is it reachable?",
    )
    assert parts["vector database file"][0] == "ok"
    assert parts["model default"][0] == "ok"


def test_no_secret_is_in_what_is_found(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, released: threading.Event
) -> None:
    """A provider's error is repeated without the key that it quotes."""
    _unreachable(cli, monkeypatch)
    released.set()
    status, detail = findings(cli, code=1)["embedder words"]
    assert status == "failed"
    assert "ConnectionError: gone, with" in detail
    assert SECRET not in cli("doctor").out


@pytest.mark.enable_socket
def test_a_server_that_is_not_there(cli: Cli) -> None:
    """A vector database that refuses connections fails, and the finding names its address."""
    qdrant = '{ id: far, type: qdrant, config: { url: "http://127.0.0.1:9", timeout_seconds: 1 } }'
    text = PROJECT.replace("{ id: file, type: sqlite }", f"{{ id: file, type: sqlite }}, {qdrant}")
    assert text != PROJECT
    cli.write({"lorebind.yaml": text})
    status, detail = findings(cli, code=1)["vector database far"]
    assert status == "failed"
    assert "http://127.0.0.1:9" in detail


def test_a_database_that_is_none(ready_cli: Cli) -> None:
    """If SQLite cannot read the file, the parts that need it fail, and the rest is examined."""
    for file in (ready_cli.root / ".lorebind").glob("lorebind.db*"):
        file.write_bytes(b"this is no database " * 400)
    parts = findings(ready_cli, code=1)
    failed = {part for part, (status, _) in parts.items() if status == "failed"}
    assert failed == {"vector database file", "knowledge base docs", "knowledge base rules"}


def test_the_extras_say_what_is_missing(ready_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing extras are listed with the command that installs them, and are not a failure."""
    monkeypatch.setattr(doctor, "_installed", lambda name: name != "openpyxl")
    status, detail = findings(ready_cli)["extras"]
    assert status == "ok"
    assert "not installed: office (pip install 'lorebind[office]')" in detail
    assert "dev" not in detail
