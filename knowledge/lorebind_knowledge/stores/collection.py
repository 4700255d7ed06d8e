"""The index of documents that are added by hand, which no ingest knows of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.catalog.ledger import Manifest
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.errors import IndexMismatchError
from lorebind_knowledge.namespace import IndexKey

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.namespace import Namespace
    from lorebind_knowledge.stores.base import VectorStore

COLLECTION_SCOPE = "collection"
"""The scope of collections: no knowledge base has it, so no ingest deletes what is in one."""


async def claim(
    store: VectorStore, embedder: Embedder, namespace: Namespace, catalog: Catalog | None
) -> IndexKey:
    """The index of a namespace, open; made at the first call.

    Args:
        store: where it is.
        embedder: makes its vectors.
        namespace: whose it is.
        catalog: remembers by which embedder it was begun; None does not.

    Raises:
        IndexMismatchError: it was begun with another embedder, or for another dimension.
        EmbedderError, StoreError: an outage.
    """
    fingerprint = embedder.fingerprint
    dimension = fingerprint.dimension or len(await embed_query(embedder, "dimension"))
    index = IndexKey(namespace)
    if catalog is not None:
        manifest = Manifest(str(fingerprint), fingerprint.key, dimension, "")
        index = await call(_entered, catalog, namespace, manifest)
    await call(store.open, index, dimension)
    return index


def _entered(catalog: Catalog, namespace: Namespace, manifest: Manifest) -> IndexKey:
    ledger = catalog.ledger
    entry = ledger.index(namespace, "active")
    if entry is None:
        with catalog.ingest_lock(namespace):  # two that begin it would each begin one of its own
            entry = ledger.index(namespace, "active") or ledger.create_index(namespace, manifest)
            ledger.activate_index(entry.key)
    if entry.manifest.embedder_key != manifest.embedder_key:
        raise IndexMismatchError(
            f"collection {namespace.kb!r} was begun with the embedder {entry.manifest.embedder}, "
            f"and now it is given {manifest.embedder}; use the first one, or another collection"
        )
    return entry.key
