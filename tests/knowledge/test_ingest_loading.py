"""Documents that exceed a limit fail alone in an ingest, and are not retried in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.errors import UsageError
from lorebind_knowledge.chunking.recursive import RecursiveChunker
from lorebind_knowledge.loaders.readers import Loading
from lorebind_knowledge.sources.folder.files import FileSource
from tests.torture.office_bombs import MIB, docx_empty_paragraphs, pdf_deflated, pdf_nested_forms

from .bench import Bench, counts, fill
from .documents import handbook, pdf_bytes
from .test_loaders_readers import ON_LINUX, eventually, running

pytestmark = [ON_LINUX, pytest.mark.usefixtures("started_readers")]

BOMBS: dict[str, Callable[[], bytes]] = {
    "a.pdf": pdf_nested_forms,
    "b.docx": docx_empty_paragraphs,
    "c.pdf": lambda: pdf_deflated(900 * MIB, 2),
}


def limit(bench: Bench, **limits: Any) -> None:
    """Declare limits as in a new process."""
    chosen: dict[str, Any] = {"processes": 2, "max_memory": "128 MiB"} | limits
    bench.change(loading=Loading(LoadingDeclaration(**chosen)))


@pytest.fixture
def bench(make_bench: Callable[[str], Bench]) -> Bench:
    bench = make_bench("sqlite")
    bench.change(sources=[FileSource("file_glob", ["docs/**/*"], bench.root)])
    limit(bench)
    return bench


async def attempts(bench: Bench) -> dict[str, int]:
    """Return the number of attempts for each failed document."""
    report = await bench.ingest()
    return {failure.uri.removeprefix("docs/"): failure.attempts for failure in report.failures}


async def test_the_others_are_complete(bench: Bench) -> None:
    """If some documents are bombs, each of them fails by name, and the others are found."""
    fill(bench, 2)
    for name, make in BOMBS.items():
        bench.write_bytes(name, make())
    bench.write_bytes("good.docx", handbook())
    bench.write_bytes("good.pdf", pdf_bytes(["Invoices are sent by mail."]))
    report = await bench.ingest()
    assert report.status == "completed_with_failures"
    assert report.documents == counts(added=4, failed=3)
    assert [failure.uri for failure in report.failures] == [f"docs/{name}" for name in BOMBS]
    assert all("loading.max_memory" in failure.reason for failure in report.failures)
    text = "\n".join(await bench.texts())
    assert all(words in text for words in ("sent by mail", "each quarter", "word0a", "word1c"))


async def test_not_tried_in_vain(bench: Bench) -> None:
    """A document is retried when it or a limit changes, and not before."""
    bench.write_bytes("a.pdf", BOMBS["a.pdf"]())
    assert await attempts(bench) == {"a.pdf": 1}
    limit(bench)
    before = await bench.ingest()
    assert before.failures[0].attempts == 1
    assert "loading.max_memory" in before.failures[0].reason
    limit(bench, max_memory="129 MiB")
    assert await attempts(bench) == {"a.pdf": 2}
    bench.write_bytes("a.pdf", BOMBS["c.pdf"]())
    assert await attempts(bench) == {"a.pdf": 3}
    bench.write_bytes("a.pdf", pdf_bytes(["It is good now."]))
    assert await attempts(bench) == {}
    assert await bench.texts() == ["It is good now."]
    bench.write_bytes("a.pdf", BOMBS["c.pdf"]())
    assert await attempts(bench) == {"a.pdf": 1}
    assert await bench.texts() == ["It is good now."]


async def test_a_plan_before_the_ingest(bench: Bench) -> None:
    """Within a process, a document that exceeds a limit is read once, in a plan or an ingest."""
    bench.write_bytes("a.pdf", BOMBS["a.pdf"]())
    bench.write("b.md", "Some words.")
    plan = await bench.plan()
    assert plan.documents == counts(added=1, failed=1)
    (refused,) = bench.corpus.loading.exceeded.values()
    assert plan.failures[0].reason == refused
    bench.corpus.loading.exceeded.update(
        dict.fromkeys(bench.corpus.loading.exceeded, "as it was said")
    )
    report = await bench.ingest()
    assert report.failures[0].reason == "as it was said"
    assert report.failures[0].attempts == 1


async def test_a_plan_reads_for_the_ingest_after_it(bench: Bench) -> None:
    """An ingest reads and splits only what changed since the plan; a plan is used only once."""
    bench.write_bytes("a.pdf", pdf_bytes(["Read by the plan."]))
    bench.write_bytes("b.pdf", pdf_bytes(["Changed before the ingest."]))
    plan = await bench.plan()
    assert plan.read
    documents = plan.read._documents
    assert len(documents) == 2
    for key, document in documents.items():
        chunk = document.chunks[0]
        text = chunk.text.replace("Read", "Kept")
        documents[key] = document._replace(chunks=[chunk._replace(text=text)])
    bench.write_bytes("b.pdf", pdf_bytes(["Changed since."]))
    await bench.ingest(plan=plan)
    assert await bench.texts() == ["Changed since.", "Kept by the plan."]
    assert len(documents) == 1
    report = await bench.ingest(plan=plan)
    assert report.documents == counts(unchanged=2)


async def test_a_plan_for_a_reindex(bench: Bench) -> None:
    """A reindex also reuses a plan; a plan is only for the knowledge base that it was made for."""
    bench.write_bytes("a.pdf", pdf_bytes(["Read by the plan."]))
    await bench.ingest()
    plan = await bench.plan(strategy="replace")
    assert plan.read
    assert len(plan.read._documents) == 1
    assert (await bench.reindex(plan)).documents == counts(added=1)
    assert not plan.read._documents
    plan.read.namespace = replace(plan.read.namespace, kb="another")
    with pytest.raises(UsageError, match="the plan belongs to another knowledge base than 'docs'"):
        await bench.ingest(plan=plan)


class Halves(RecursiveChunker):
    """A chunker of which a plan may have another size, because it only estimates."""

    fingerprint = "halves"

    def __init__(self, size: int, *, estimates: bool) -> None:
        super().__init__(size, 0)
        self._is_estimate = estimates

    @property
    def estimates(self) -> bool:
        return self._is_estimate


async def test_a_plan_that_estimates(bench: Bench) -> None:
    """If the plan only estimates chunks, the document is read once and split again."""
    bench.write_bytes("a.pdf", pdf_bytes(["Read by the plan."]))
    bench.change(chunker=Halves(100, estimates=True))
    plan = await bench.plan()
    assert plan.read
    documents = plan.read._documents
    assert len(documents) == 1
    for key, document in documents.items():
        documents[key] = replace(document, text=document.text.replace("Read", "Kept"))
    bench.change(chunker=Halves(10, estimates=False))
    await bench.ingest(plan=plan)
    assert await bench.texts() == ["Kept by", "the plan."]


async def test_a_plan_keeps_what_there_is_room_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents beyond the limit are read again, with the same result."""
    monkeypatch.setattr("lorebind_knowledge.ingest.prepared._MOST_KEPT", 2100)
    for name in ("a.md", "b.md", "c.md"):
        bench.write(name, f"# {name}\n\nTwenty-four letters here.")
    plan = await bench.plan()
    assert plan.read
    assert len(plan.read._documents) == 1
    assert (await bench.ingest(plan=plan)).documents == counts(added=3)


async def test_copies(bench: Bench) -> None:
    """Two files with the same content keep their names, read or refused, planned or not."""
    for name in ("a.pdf", "b.pdf"):
        bench.write_bytes(name, pdf_bytes(["The same words."]))
        bench.write_bytes(f"bomb {name}", BOMBS["a.pdf"]())
    plan = await bench.plan()
    report = await bench.ingest(plan=plan)
    reasons = [failure.reason.partition(": ")[0] for failure in report.failures]
    assert reasons == ["docs/bomb a.pdf", "docs/bomb b.pdf"]
    assert {match.metadata["title"] for match in await bench.visible()} == {"a", "b"}


async def test_order_and_length_of_groups(bench: Bench) -> None:
    """Documents are in the order of the listing, whichever process reads them."""
    for number in range(9):
        bench.write_bytes(f"{number}.pdf", pdf_bytes([f"Page of {number}."] * (20 - 2 * number)))
        bench.write(f"{number}.md", f"Text of {number}.")
    await bench.ingest()
    uris = [data["uri"] for data in bench.diary.data("ingest_chunked")]
    assert uris == sorted(uris)
    assert len(uris) == 18


async def test_cancelled(bench: Bench) -> None:
    """Cancelling an ingest while documents are read leaves no process behind."""
    for number in range(4):
        bench.write_bytes(f"{number}.pdf", BOMBS["a.pdf"]() + b" " * number)
    task = asyncio.create_task(bench.ingest())
    assert await asyncio.to_thread(eventually, lambda: bool(running()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running() == []
