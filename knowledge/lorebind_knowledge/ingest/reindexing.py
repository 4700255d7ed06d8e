"""`reindex`: a new index beside the one in use, from everything, and the switch to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_knowledge.bridge import call
from lorebind_knowledge.events import kind_of
from lorebind_knowledge.ingest.engine import ingest

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
    """Build the index of a knowledge base anew, and let it serve when it is complete.

    All documents are read and cut again. Texts whose vectors of this embedder are in the cache are
    not embedded again. Until the end the index in use answers, and it goes on to where the new one
    would lose documents that it has: the report's notices then say so. A reindex that was cut off
    is completed by the next.

    Args:
        corpus: the sources, with the knowledge base that they are ingested into.
        plan, run_id, wait: as for `lorebind_knowledge.ingest.engine.ingest`.

    Raises:
        LorebindError: see `lorebind_knowledge.ingest.engine.ingest`.
    """
    kb, ledger = corpus.kb, corpus.kb.catalog.ledger
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
        new = await call(ledger.index, kb.namespace, "active")
    except BaseException as error:
        kind = kind_of(error)
        emit("reindex_failed", reason=kind if kind == "cancelled" else str(error), kind=kind)
        raise
    switched = new is not None and (old is None or new.key != old.key)
    if switched or report.status == "completed":
        emit("reindex_completed", report.run_id, report=report)
    else:
        failed = [source.reason for source in report.sources if source.status == "failed"]
        reason = "; ".join([*report.notices, *failed])
        emit("reindex_failed", report.run_id, reason=reason, kind=report.status)
    return report
