"""The indexes of each knowledge base in the ledger: which is searched, and which was before."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.catalog import leases
from lorebind_knowledge.catalog.chunks import state_of
from lorebind_knowledge.catalog.rows import HERE, OURS, OWNER, check_types, decoding, owner, place
from lorebind_knowledge.records import Partition
from lorebind_knowledge.text import terms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.catalog.chunks import State
    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.database.databases import Database
    from lorebind_knowledge.database.sql import Sql


@dataclass(frozen=True, slots=True)
class Manifest:
    """The settings that an index was built with. It holds vectors of this embedder only."""

    embedder: str
    """The embedder's name, for messages."""
    embedder_key: str
    """The embedder's fingerprint."""
    dimension: int
    """The dimension, measured rather than configured."""
    chunker: str
    """The fingerprint of chunker and loaders, from the last ingest."""
    address: str = ""
    """The digest of the embedder's address, see `Fingerprint.address`."""
    sparse: str = ""
    """The name of the sparse embedder of its terms; empty if passages have none."""
    sparse_key: str = ""
    """The fingerprint of that embedder."""
    terms_complete: bool = True
    """Whether all passages have terms, so that searches use them."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index of a knowledge base; see `STATES`."""

    key: IndexKey
    state: str
    manifest: Manifest
    index_uid: int
    """A random number, so that an index which reuses the number of a dropped one differs."""

    @property
    def space(self) -> Partition:
        """The space of the index in the vector store."""
        return Partition(self.key, self.index_uid, self.manifest.dimension)


STATES = ("building", "active", "earlier", "retired")
"""The states of an index: searched in the future, now, before (see `rollback`), to be dropped."""


class Indexes:
    """Reads and writes the rows of indexes; each method is one transaction.

    Methods that write need the lease of the knowledge base, and raise LeaseLostError if another
    process has taken over.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def index(self, namespace: Namespace, state: str) -> IndexEntry | None:
        """Return the newest index in a state, or None."""
        with self._database.reading() as sql:
            return self.index_within(sql, namespace, state)

    def index_within(self, sql: Sql, namespace: Namespace, state: str) -> IndexEntry | None:
        """Return the newest index in a state, or None, within a transaction."""
        indexes = self._with_states(sql, namespace, state)
        return indexes[0][0] if indexes else None

    def searched_within(self, sql: Sql, namespace: Namespace) -> tuple[IndexEntry, State] | None:
        """Return the index that searches read and its state, or None, within a transaction."""
        indexes = self._with_states(sql, namespace, "active")
        return indexes[0] if indexes else None

    def create_index(self, lease: Lease, manifest: Manifest, state: str = "building") -> IndexEntry:
        """Create an index, which has this state until it is activated.

        Args:
            lease: the writer's.
            manifest: the settings that it is built with.
            state: `building`, or `retired` if it is dropped unless this writer completes it.
        """
        namespace = lease.namespace
        with decoding(self._database, self._writing(lease), "indexes") as sql:
            ((number,),) = sql.run(
                f"select coalesce(max(number), 0) + 1 from catalog_indexes where {OURS}",
                **owner(namespace),
            )
            key = IndexKey(namespace, number)
            entry = IndexEntry(key, state, manifest, secrets.randbits(62))
            sql.run(
                f"insert into catalog_indexes"
                f" ({OWNER}, number, state, manifest, index_uid, words, created_at)"
                " values (:tenant, :project, :scope, :kb, :number, :state, :manifest, :index_uid,"
                " :words, :now)",
                words=terms.VERSION,
                **place(key),
                state=entry.state,
                manifest=json.dumps(asdict(manifest)),
                index_uid=entry.index_uid,
                now=time.time(),
            )
        return entry

    def activate_index(self, lease: Lease, key: IndexKey, keep: int = 0) -> None:
        """Make this index the one that is searched, in one step.

        Args:
            lease: the writer's.
            key: the index.
            keep: maximum number of earlier indexes that stay; the others are retired.
        """
        with self._writing(lease) as sql:
            self.activate_within(sql, key, keep)

    def activate_within(self, sql: Sql, key: IndexKey, keep: int) -> None:
        """Activate an index within a write transaction; see `activate_index`."""
        before = self.index_within(sql, key.namespace, "active")
        sql.run(
            f"update catalog_indexes set state = 'earlier' where {OURS} and state = 'active'",
            **owner(key.namespace),
        )
        sql.run(f"update catalog_indexes set state = 'active' where {HERE}", **place(key))
        self._retire_earlier(sql, key.namespace, keep, before)

    def retire_earlier(self, lease: Lease, keep: int) -> None:
        """Retire earlier indexes, except for this number of them."""
        with self._writing(lease) as sql:
            self._retire_earlier(sql, lease.namespace, keep, None)

    def _retire_earlier(
        self, sql: Sql, namespace: Namespace, keep: int, last: IndexEntry | None
    ) -> None:
        """Retire earlier indexes, except for the one that was active last, and the newest."""
        earlier = [index for index, _ in self._with_states(sql, namespace, "earlier")]
        # After a rollback, the index that was active last is not the newest.
        earlier.sort(key=lambda index: index.key != (last and last.key))
        for index in earlier[keep:]:
            sql.run(
                f"update catalog_indexes set state = 'retired' where {HERE}", **place(index.key)
            )

    def retire_index(self, lease: Lease, key: IndexKey) -> None:
        """Mark an index as to be dropped, so that no ingest resumes it."""
        with self._writing(lease) as sql:
            sql.run(f"update catalog_indexes set state = 'retired' where {HERE}", **place(key))

    def set_manifest(
        self, lease: Lease, key: IndexKey, manifest: Manifest, *, changes_results: bool = False
    ) -> None:
        """Replace the manifest of an index; `changes_results` makes a new version of the index."""
        with self._writing(lease) as sql:
            sql.run(
                "update catalog_indexes set manifest = :manifest, version = version + :more"
                f" where {HERE}",
                **place(key),
                manifest=json.dumps(asdict(manifest)),
                more=int(changes_results),
            )

    def retired_indexes(self, namespace: Namespace) -> list[IndexEntry]:
        with self._database.reading() as sql:
            return [index for index, _ in self._with_states(sql, namespace, "retired")]

    def earlier_indexes(self, namespace: Namespace) -> list[IndexEntry]:
        """Return the indexes that were active before, newest first."""
        with self._database.reading() as sql:
            return [index for index, _ in self._with_states(sql, namespace, "earlier")]

    def unused_indexes(self, namespace: Namespace) -> tuple[list[IndexEntry], list[IndexEntry]]:
        """Return the earlier indexes and the retired ones, each newest first."""
        with self._database.reading() as sql:
            unused = self._with_states(sql, namespace, "earlier", "retired")
        earlier = [index for index, _ in unused if index.state == "earlier"]
        return earlier, [index for index, _ in unused if index.state == "retired"]

    def _with_states(
        self, sql: Sql, namespace: Namespace, state: str, or_state: str | None = None
    ) -> list[tuple[IndexEntry, State]]:
        """Return all indexes in one of two states, newest first."""
        query = (
            "select number, state, manifest, index_uid, version, live, entered from"
            f" catalog_indexes where {OURS} and state in (:state, :or_state) order by number desc"
        )
        indexes = []
        with decoding(self._database, nullcontext(sql), "indexes"):
            rows = sql.run(query, **owner(namespace), state=state, or_state=or_state or state)
            for number, state, encoded, index_uid, *counts in rows:
                check_types((number, index_uid), (int, int))
                manifest = _manifest(encoded if isinstance(encoded, str) else json.dumps(encoded))
                index = IndexEntry(IndexKey(namespace, number), state, manifest, index_uid)
                indexes.append((index, state_of(counts)))
        return indexes

    @contextmanager
    def _writing(self, lease: Lease) -> Iterator[Sql]:
        with self._database.writing() as sql:
            leases.check(sql, lease)
            yield sql


@lru_cache(maxsize=64)  # read for every question
def _manifest(encoded: str) -> Manifest:
    manifest = Manifest(**json.loads(encoded))
    check_types([getattr(manifest, name) for name in Manifest.__slots__], _MANIFEST_TYPES)
    return manifest


_MANIFEST_TYPES = (str, str, int, str, str, str, str, bool)
