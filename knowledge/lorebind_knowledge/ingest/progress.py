"""The progress of an ingest: how far it is, in its row and as events, and its span."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lorebind_config.errors import StoreError
from lorebind_knowledge.events import kind_of
from lorebind_knowledge.ingest.report import reported
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.ingest.prepared import PreparedDocument
    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

SECONDS = 1.0
"""The shortest time between two reports."""


def progress_line(counts: Mapping[str, int]) -> str:
    """Describe how far an ingest is, by the counts of `RunInfo.progress`."""
    return (
        f"{counts['documents_read']} of {counts['documents']} documents read, "
        f"{counts['chunks_embedded']} of {counts['chunks']} chunks embedded"
    )


class Progress:
    """Counts what a run has done, for all processes that watch it."""

    def __init__(self, kb: IndexedKnowledgeBase, lease: Lease, report: IngestReport) -> None:
        self._kb, self._lease, self._report = kb, lease, report
        self.counts = {"documents": 0, "documents_read": 0, "chunks": 0, "chunks_embedded": 0}
        """See `RunInfo.progress`."""
        self._reported = dict(self.counts)
        self._started = time.perf_counter()

    async def carry_out(
        self, work: Callable[[], Coroutine[Any, Any, None]], run_id: str | None
    ) -> None:
        """Await the work of the run, and record its start and its end, with events of both.

        Args:
            work: the work, which completes the report.
            run_id: the id of the run; None makes one.

        Raises:
            LorebindError: that of the work, or the end cannot be recorded.
        """
        kb, report = self._kb, self._report
        start = kb.catalog.ledger.start_run
        report.run_id = await call(start, self._lease, report.strategy, run_id)
        self.emit("ingest_started", strategy=report.strategy)
        try:
            async with self._reporting():
                await work()
            # Not after a failure, because the next run needs the vectors that this one has cached.
            await kb.catalog.embeddings.trim()
            await call(self._finish)
        except BaseException as error:
            kind = kind_of(error)
            report.status = "cancelled" if kind == "cancelled" else "failed"
            reason = kind if kind == "cancelled" else str(error)
            self.emit("ingest_failed", kind=kind, texts=lambda: {"reason": reason})
            # Raise the original error even if it cannot be recorded; the next run closes this one.
            with suppress(StoreError):
                await call(self._finish, reason)
            raise
        self.emit("ingest_completed", **reported(report))

    def _finish(self, error: str = "") -> None:
        report, finish = self._report, self._kb.catalog.ledger.finish_run
        report.seconds = time.perf_counter() - self._started
        stored = asdict(report) | ({"error": error} if error else {})
        finish(self._lease, report.run_id, report.status, stored, self.counts)

    def emit(self, hook: str, **data: Any) -> None:
        """Send an event of the run to the extensions, and count what it reports."""
        counts = self.counts
        if hook == "ingest_listed":
            counts["documents"] = data["documents"]
        elif hook == "ingest_embedded":
            counts["chunks_embedded"] += data["chunks"]
        self._kb.emit(hook, self._report.run_id, **data)

    def chunked(self, document: PreparedDocument) -> None:
        """Count a document that was compared, and send the event."""
        chunks = document.chunks
        self.counts["documents_read"] += 1
        self.counts["chunks"] += len(chunks)
        if self._kb.events.extensions:  # most documents are unchanged, and nobody is told
            self.emit(
                "ingest_chunked",
                uri=document.uri,
                action=document.action,
                chunks=len(chunks),
                textless_parts=dict(document.textless_parts),
                kind=document.kind,
                texts=lambda: {"texts": [chunk.text for chunk in chunks]},
            )

    @asynccontextmanager
    async def _reporting(self) -> AsyncIterator[None]:
        """Report the counts until the end of the block, whenever they have changed.

        The last ones are sent as an event only: the end of the run stores them.
        """
        reporting = asyncio.create_task(self._report_regularly())
        try:
            yield
        finally:
            reporting.cancel()
            await asyncio.wait({reporting})
            if self._changed():
                self.emit("ingest_progressed", **self._reported)

    async def _report_regularly(self) -> None:
        runs = self._kb.catalog.runs
        while True:
            await asyncio.sleep(SECONDS)
            if self._changed():
                counts = self._reported
                self.emit("ingest_progressed", **counts)
                # In an outage, the next write of the run reports it.
                with suppress(StoreError):
                    await call(runs.store_progress, self._lease, self._report.run_id, counts)

    def _changed(self) -> bool:
        """Return whether the counts have changed since the last call."""
        before, self._reported = self._reported, dict(self.counts)
        return before != self._reported


@contextmanager
def ingest_span(
    kb: IndexedKnowledgeBase, strategy: str
) -> Iterator[Callable[[IngestReport], IngestReport]]:
    """Open the span of an ingest within a block.

    Yields a function that returns its argument, the report, and adds its counts to the span.
    """
    space = kb.namespace
    about = {
        "gen_ai.data_source.id": kb.id,
        "lorebind.tenant": space.tenant,
        "lorebind.project": space.project,
        "lorebind.scope": space.scope,
        "lorebind.strategy": strategy,
    }
    with kb.events.span(f"ingest {kb.id}", about) as more:

        def ended(report: IngestReport) -> IngestReport:
            more["lorebind.status"] = report.status
            for name, count in report.documents.items():
                more[f"lorebind.documents.{name}"] = count
            return report

        yield ended
