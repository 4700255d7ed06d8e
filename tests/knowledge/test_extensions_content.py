"""Events name their knowledge base, and contain texts only for extensions that ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorebind_config.errors import EmbedderError, NotIngestedError
from lorebind_config.namespace import Namespace, tenant
from lorebind_config.project_code import import_of_project
from lorebind_knowledge import Event
from lorebind_knowledge.documents.changing import add_documents, delete_all, delete_document
from lorebind_knowledge.events import Events
from lorebind_knowledge.ingest.reindexing import reindex

from .bench import Bench, CountingEmbedder, Diary, ingest
from .small_project import QUESTION, TEXTS, small_project

HOOKS = """\
from lorebind import Extension

SEEN = []


class Plain(Extension):
    def retrieval_started(self, event):
        SEEN.append((type(self).__name__, event.data.get("question")))


class Curious(Plain):
    content = True
"""


class Asking(Diary):
    content = True


async def test_texts_for_those_who_ask(tmp_path: Path) -> None:
    """Only extensions that ask for texts get them; others get the same events without."""
    before, asking, after = Diary(), Asking(), Diary()
    cache = [{"type": "cache"}]
    extensions = [before, asking, after]
    service = small_project(tmp_path, extensions=extensions, wrappers=cache)
    docs = service.open("docs")
    await ingest(docs.corpus())
    for _ in range(2):  # the second time is served from the cache
        (first, *_) = await docs.query(QUESTION)
    await service.close()

    chunked = [text for data in asking.data("ingest_chunked") for text in data["texts"]]
    assert sorted(chunked) == sorted(TEXTS)
    (embedded,) = asking.data("ingest_embedded")
    assert [text.partition("\n")[2] for text in embedded["texts"]] == list(TEXTS)
    assert [data["question"] for data in asking.data("retrieval_started")] == [QUESTION] * 2
    done = asking.data("retrieval_completed")
    assert [data["cached"] for data in done] == [False, True]
    assert [(data["question"], data["texts"][0]) for data in done] == [(QUESTION, first.text)] * 2
    for other in (before, after):
        assert [name for name, _ in other.entries] == [name for name, _ in asking.entries]
        log = repr(other.entries)
        assert "question" not in log
        assert not any(text in log for text in (QUESTION, *TEXTS))


def test_nothing_is_made_for_nobody() -> None:
    """If no extension asks for texts, they are not collected."""

    def texts() -> dict[str, Any]:
        raise AssertionError

    listener = Diary()
    events = Events([listener])  # type: ignore[list-item]  # it answers to every hook
    events.emit("ingest_chunked", Event("docs"), texts)
    assert listener.data("ingest_chunked") == [{}]


async def test_the_yaml_decides(tmp_path: Path) -> None:
    """`content:` of a declared extension overrides its class."""
    (tmp_path / "hooks.py").write_text(HOOKS, encoding="utf-8")
    declared = [
        {"provider": "python", "class": f"hooks:{name}", **content}
        for name in ("Plain", "Curious")
        for content in ({}, {"content": True}, {"content": False})
    ]
    service = small_project(tmp_path, *declared)
    docs = service.open("docs")
    await ingest(docs.corpus())
    await docs.query(QUESTION)
    await service.close()
    seen = import_of_project("hooks:SEEN", tmp_path)
    assert [question is not None for _, question in seen] == [False, True, False, True, True, False]


async def test_events_say_whose(tmp_path: Path) -> None:
    """Events of two tenants and a workflow differ even when their knowledge bases share an id."""
    kbs = [{"id": "docs", "sources": [{"type": "inline", "documents": [{"id": "a", "text": "b"}]}]}]
    task = {"id": "answer", "prompt": "Answer."}
    listener = Diary()
    service = small_project(
        tmp_path,
        extensions=[listener],
        workflows=[{"id": "triage", "knowledge_bases": kbs, "tasks": [task]}],
    )
    docs = service.open("docs")
    for name in ("acme", "bolt"):
        with tenant(name):
            await ingest(docs.corpus())
            await docs.query(QUESTION)
    await ingest(service.open("docs", "triage").corpus())
    with pytest.raises(NotIngestedError):
        await docs.query(QUESTION)
    await reindex(docs.corpus())
    await add_documents(docs.corpus(), [{"id": "c", "text": "d"}])
    await delete_document(docs.kb, "added:c")
    await delete_all(docs.kb)
    await service.close()

    assert [name for name, event in listener.entries if event.namespace is None] == ["shutdown"]
    spaces = {event.namespace for _, event in listener.entries} - {None}
    assert spaces == {
        Namespace("acme", "p", "project", "docs"),
        Namespace("bolt", "p", "project", "docs"),
        Namespace("default", "p", "project", "docs"),
        Namespace("default", "p", "workflow/triage", "docs"),
    }
    assert {event.kb_id for _, event in listener.entries} == {"docs", ""}


async def test_failures_have_a_kind(bench: Bench) -> None:
    """Events of a failed ingest, document or reindex contain the class of the error."""
    bench.write("a.md", "alpha")
    bench.write_bytes("b.md", b"\xff\xfe\xfa")
    await bench.ingest()
    data = {item["uri"]: item["kind"] for item in bench.diary.data("ingest_chunked")}
    assert data == {"docs/a.md": "", "docs/b.md": "SourceError"}

    def fail(number: int) -> None:
        raise EmbedderError("gone")

    bench.embedder.before_batch = fail
    bench.write("c.md", "gamma")
    with pytest.raises(EmbedderError):
        await bench.reindex()
    assert bench.diary.data("ingest_failed")[0]["kind"] == "EmbedderError"
    assert bench.diary.data("reindex_failed")[0]["kind"] == "EmbedderError"


async def test_reasons_may_quote_texts(bench: Bench) -> None:
    """The reason of a failure may quote a text; other extensions get only its kind."""
    asking = Asking()
    bench.events.subscribe(asking)  # type: ignore[arg-type]  # it answers to every hook
    bench.write("a.md", "secret alpha")

    class Quoting(CountingEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
            raise ValueError(f"cannot embed: {texts}")

        def embed_query(self, text: str) -> np.ndarray:
            raise ValueError(f"cannot embed: {text}")

    await bench.ingest()
    bench.write("b.md", "secret beta")
    bench.change(embedder=Quoting())
    with pytest.raises(EmbedderError, match="secret"):
        await bench.ingest()
    with pytest.raises(EmbedderError, match="secret"):
        await bench.reindex()
    with pytest.raises(EmbedderError, match="secret"):
        await bench.ask("a secret question")
    for hook in ("ingest_failed", "reindex_failed", "retrieval_failed"):
        assert {"secret" in data["reason"] for data in asking.data(hook)} == {True}
        assert {data["kind"] for data in bench.diary.data(hook)} == {"EmbedderError"}
    assert "secret" not in repr(bench.diary.entries)


async def test_reasons_in_reports(bench: Bench) -> None:
    """Reports in events have reasons only for extensions with texts; the caller's always has."""
    asking = Asking()
    bench.events.subscribe(asking)  # type: ignore[arg-type]  # it answers to every hook
    bench.write_bytes("b.md", b"\xff\xfe\xfa")
    report = await bench.ingest()
    (plain,), (full,) = (diary.data("ingest_completed") for diary in (bench.diary, asking))
    assert report.failures[0].reason
    assert full["report"] == report
    assert plain["report"].failures == [replace(report.failures[0], reason="")]
