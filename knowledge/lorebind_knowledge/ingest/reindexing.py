"""`reindex`: rebuild an index in the background from all documents, then swap it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.events import kind_of
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.ingest.report import reported
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport


async def reindex(
    corpus: Corpus,
    plan: IngestPlan | None = None,
    run_id: str | None = None,
    *,
    wait: bool = False,
) -> IngestReport:
    """Rebuild the index of a knowledge base, and swap it in when it is complete.

    All documents are read and chunked again. Texts with a cached vector of this embedder are not
    embedded again. Until the swap, searches use the active index. The active index stays in use if
    the new one would lose documents; the notices of the report say so. An interrupted reindex is
    resumed by the next one.

    Args:
        corpus: the sources, with the knowledge base that they are ingested into.
        plan, run_id, wait: see `lorebind_knowledge.ingest.engine.ingest`.

    Raises:
        LorebindError: see `lorebind_knowledge.ingest.engine.ingest`.
    """
    kb, ledger = corpus.kb, corpus.kb.catalog.ledger
    with kb.threads.lane("read"):
        old = await call(ledger.index, kb.namespace, "active")
    about: dict[str, Any] = {
        "embedder": str(kb.embedder.fingerprint),
        "embedder_before": old.manifest.embedder if old else "",
    }

    def emit(hook: str, run_id: str = "", **data: Any) -> None:
        kb.emit(hook, run_id, **about, **data)

    emit("reindex_started")
    try:
        report = await ingest(corpus, strategy="replace", plan=plan, run_id=run_id, wait=wait)
        with kb.threads.lane("read"):
            new = await call(ledger.index, kb.namespace, "active")
    except BaseException as error:
        kind = kind_of(error)
        reason = kind if kind == "cancelled" else str(error)
        emit("reindex_failed", kind=kind, texts=lambda: {"reason": reason})
        raise
    switched = new is not None and (old is None or new.key != old.key)
    if switched or report.status == "completed":
        emit("reindex_completed", report.run_id, **reported(report))
    else:
        failed = [source.reason for source in report.sources if source.status == "failed"]
        reason = "; ".join([*report.notices, *failed])
        kind = report.status
        emit("reindex_failed", report.run_id, kind=kind, texts=lambda: {"reason": reason})
    return report
