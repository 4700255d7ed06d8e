"""`plan`: the difference between the sources and the index, without changing either."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from lorebind_config.namespace import tenant
from lorebind_knowledge.embedders.base import makes_vectors
from lorebind_knowledge.ingest.corpus import enumerate_corpus
from lorebind_knowledge.ingest.indexes import check_strategy, indexes_to_write
from lorebind_knowledge.ingest.preparation import prepare_documents
from lorebind_knowledge.ingest.prepared import PlannedDocuments
from lorebind_knowledge.ingest.report import IngestPlan, count_document
from lorebind_knowledge.ingest.rollback import rollback_notices
from lorebind_knowledge.ingest.terms import count_missing
from lorebind_knowledge.plumbing.bridge import call

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.ingest.prepared import PreparedDocument
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase


async def plan(corpus: Corpus, *, strategy: str = "upsert") -> IngestPlan:
    """Compute what an ingest would do now, without changing anything or calling an embedder.

    A semantic chunker then compares words, so its number of chunks is an estimate.

    Args:
        corpus: the sources, with the knowledge base that they are ingested into.
        strategy: the strategy of that ingest; `replace` also plans a reindex.

    Raises:
        UsageError: the strategy is unknown.
    """
    check_strategy(strategy)
    kb = corpus.kb
    with kb.threads.lane("ingest"), tenant(kb.namespace.tenant):
        indexes = await call(indexes_to_write, kb, strategy)
        index = indexes[0] if indexes else None
        entries = kb.catalog.ledger.every_document(index.key) if index else ()
        enumeration = await call(enumerate_corpus, corpus)
        counter = kb.embedder.count_tokens([])
        result = IngestPlan(
            kb.id, sources=enumeration.sources, tokenizer=counter.tokenizer, exact=counter.exact
        )
        result.notices += await call(rollback_notices, kb)
        if index is not None and index.manifest.address != kb.embedder.fingerprint.address:
            result.notices.append(
                f"the address of the embedder {kb.embedder.fingerprint} has changed since the last "
                "ingest; the next ingest checks whether its vectors are the same, and embeds all "
                "documents again if they are not"
            )
        if index is not None:
            result.terms_to_add = await call(count_missing, kb, index)
        result.read = PlannedDocuments(kb.namespace)
        to_embed: set[str] = set()
        documents = prepare_documents(corpus, enumeration, entries, keep_in=result.read)
        async with aclosing(documents) as groups:
            async for group in groups:
                for document in group:
                    await call(_account, kb, index, document, result, to_embed)
        result.read.notices += () if corpus.chunker.estimates else corpus.notices
        for _, chunks in enumeration.vanished():
            result.documents["removed"] += 1
            result.chunks["removed"] += chunks
        if corpus.token_price is not None:
            result.cost = result.tokens_to_embed * corpus.token_price / 1_000_000
        return result


def _account(
    kb: IndexedKnowledgeBase,
    index: IndexEntry | None,
    document: PreparedDocument,
    result: IngestPlan,
    to_embed: set[str],
) -> None:
    """Count a document in `result`; `to_embed` collects the keys of texts to embed."""
    count_document(result, document)
    entry = document.entry
    if document.action == "updated" and entry and entry.recipe != document.recipe:
        result.reprocessed.append(document.uri)
    if document.action in ("added", "updated"):
        old = set(kb.index.chunk_ids(index, document.uri)) if index and entry else set()
        new = {chunk.id for chunk in document.chunks}
        result.chunks["added"] += len(new - old)
        result.chunks["removed"] += len(old - new)
        result.chunks["unchanged"] += len(new & old)
        result.chunks["total"] += len(new)
        texts = [chunk.embedded_text for chunk in document.chunks]
        missing = kb.catalog.embeddings.missing(kb.embedder, texts)
        new_texts = [text for key, text in missing.items() if key not in to_embed]
        to_embed.update(missing)
        result.texts_to_embed += len(new_texts)
        result.tokens_to_embed += kb.embedder.count_tokens(new_texts).tokens
        if makes_vectors(kb.embedder):
            result.cache_hits += len(texts) - len(new_texts)
