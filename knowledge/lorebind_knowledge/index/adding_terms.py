"""Giving terms to an index whose passages have none yet, or those of another sparse embedder.

Nothing else of the index changes. Searches use its terms once all passages have some. A passage
without any term is stored too, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lorebind_knowledge.catalog.chunks import Chunks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lorebind_knowledge.catalog.indexes import IndexEntry, Manifest
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.embedders.base import Fingerprint
    from lorebind_knowledge.embedders.sparse.base import SparseEmbedder
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.records import SparseVector


class BareText(NamedTuple):
    """The text of a passage without terms."""

    uri: str
    language: str
    text: str
    """The embedder's input."""


def is_of(manifest: Manifest, fingerprint: Fingerprint | None) -> bool:
    """Return whether the terms of an index are of this sparse embedder; None: it has no terms."""
    return manifest.sparse_key == (fingerprint.key if fingerprint else "")


def has_terms(manifest: Manifest, sparse: SparseEmbedder | None) -> bool:
    """Return whether all passages of an index have the terms of this sparse embedder, if any."""
    return is_of(manifest, sparse.fingerprint if sparse else None) and manifest.terms_complete


def begin_terms(
    index: Index, lease: Lease, entry: IndexEntry, fingerprint: Fingerprint | None
) -> IndexEntry:
    """Drop the terms of another sparse embedder, and return the index for those of this one."""
    if is_of(entry.manifest, fingerprint):
        return entry
    from lorebind_knowledge.catalog import postings

    with index.changing(lease, entry) as sql:
        postings.drop(sql, entry.index_uid, [postings.TERMS])
        sql.run("delete from catalog_terms where space = :space", space=entry.index_uid)
    manifest = replace(
        entry.manifest,
        sparse=str(fingerprint) if fingerprint else "",
        sparse_key=fingerprint.key if fingerprint else "",
        terms_complete=fingerprint is None,
    )
    return _with_manifest(index, lease, entry, manifest)


def complete_terms(index: Index, lease: Lease, entry: IndexEntry) -> IndexEntry:
    """Let searches use the terms, because all passages have some."""
    return _with_manifest(index, lease, entry, replace(entry.manifest, terms_complete=True))


def passages_without_terms(index: Index, entry: IndexEntry) -> list[int]:
    """Return the numbers of live passages that no sparse embedder has seen yet."""
    from lorebind_knowledge.catalog.postings import TERMS
    from lorebind_knowledge.catalog.segments import read_segments, segments_of
    from lorebind_knowledge.index.matches import Passages

    with index.catalog.reading() as sql:
        live = Chunks(sql, entry.index_uid).live_numbers()
        segments = read_segments(sql, segments_of(sql, entry.index_uid, TERMS))
    seen = set(Passages(segments).live_numbers.tolist())
    return sorted(set(live) - seen)


def bare_texts(index: Index, entry: IndexEntry, numbers: Collection[int]) -> dict[int, BareText]:
    """Return the texts of live passages by number."""
    with index.catalog.reading() as sql:
        rows = Chunks(sql, entry.index_uid).texts_with_language(numbers)
    return {number: BareText(*row) for number, *row in rows}


def add_terms(
    index: Index,
    lease: Lease,
    entry: IndexEntry,
    uris: Mapping[int, str],
    terms: Mapping[int, SparseVector],
) -> None:
    """Give terms to live passages.

    Args:
        index, lease, entry: the index that is written.
        uris: the documents of the passages, by number.
        terms: the terms of each of these passages.
    """
    from lorebind_knowledge.catalog import postings
    from lorebind_knowledge.catalog.terms import StoredTerms

    passages = [
        StoredTerms.of(vector).passage(number, uris[number]) for number, vector in terms.items()
    ]
    with index.changing(lease, entry) as sql:
        postings.write(sql, entry.index_uid, postings.TERMS, passages)


def _with_manifest(index: Index, lease: Lease, entry: IndexEntry, manifest: Manifest) -> IndexEntry:
    index.catalog.ledger.set_manifest(lease, entry.key, manifest, changes_results=True)
    return replace(entry, manifest=manifest)
