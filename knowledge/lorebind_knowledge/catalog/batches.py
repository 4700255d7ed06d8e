"""Batches: the texts that an ingest hands to workers, and who embeds which text at the moment.

The rows are the truth. A queue of jobs may deliver a batch twice, or to a worker that was suspended
for so long that another one embeds it already. A worker therefore takes the row for some seconds,
and renews that while it works; what it has not renewed is free for others. The vectors are stored
in the embedding cache in the same transaction that releases the texts.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.catalog.leases import Lease
    from lorebind_knowledge.database.databases import PostgresDatabase
    from lorebind_knowledge.database.sql import Sql

SECONDS = 6.0
"""Seconds after which others may take a batch that its worker has not renewed."""
_ATTEMPTS = 5
"""Number of workers that may end while they embed the same batch."""
CHANNEL = "lorebind_batches"
"""The channel of notifications about batches that are done; the payload is the id."""


@dataclass(frozen=True, slots=True)
class About:
    """The origin of a batch, for messages."""

    tenant: str
    kb: str
    embedder: str
    version: str
    """The version of Lorebind."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts to embed with one call."""

    id: str
    embedder: str
    """See `EmbedderKey.of`."""
    about: About
    texts: Sequence[str]


class Batches:
    """The batches of a catalog in PostgreSQL. Each method is one transaction."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    # For the ingest

    def add(
        self,
        lease: Lease,
        batches: Iterable[Batch],
        check: Callable[[Sql, Lease], object],
    ) -> None:
        """Store the batches of an ingest, after `check`, which is `leases.check`."""
        rows = [
            {
                "id": batch.id,
                "lease": lease.name,
                "number": lease.number,
                "embedder": batch.embedder,
                "about": json.dumps(asdict(batch.about)),
                "texts": json.dumps(list(batch.texts)),
            }
            for batch in batches
        ]
        with self._database.writing() as sql:
            check(sql, lease)
            sql.insert("catalog_batches", rows)

    def collect(self, ids: Collection[str]) -> dict[str, str]:
        """Remove the batches that are done, and return the error of each; empty without one."""
        with self._hurried() as sql:
            done = (
                "delete from catalog_batches where id in (:*ids) and done = 1 returning id, error"
            )
            return dict(sql.run(done, ids=list(ids)))

    def withdraw(self, ids: Collection[str]) -> None:
        """Remove batches without a waiting caller."""
        with self._hurried() as sql:
            sql.run("delete from catalog_batches where id in (:*ids)", ids=list(ids))

    def orphans(self, ids: Collection[str], late: Collection[str]) -> tuple[list[str], set[str]]:
        """Return the batches to deliver again: those whose worker has ended or hangs.

        Args:
            ids: the batches that were submitted.
            late: those of them that are returned too if no worker has taken them yet.

        Returns:
            the batches to deliver again, and those that are gone. A process that takes the lease
            removes them, and so does a crash of the server.
        """
        with self._hurried() as sql:
            there = sql.run("select id from catalog_batches where id in (:*ids)", ids=list(ids))
            rows = sql.run(
                "update catalog_batches set worker = '' where id in (:*ids) and done = 0"
                f" and until < {sql.now} and (worker <> '' or id in (:*late)) returning id",
                ids=list(ids),
                late=list(late),
            )
        return [batch for (batch,) in rows], set(ids) - {batch for (batch,) in there}

    # For workers

    def unserved(self, served: Collection[str]) -> list[About]:
        """Return what is known about waiting batches of other embedders than these, each once."""
        with self._database.reading() as sql:
            rows = sql.run("select distinct embedder, about from catalog_batches where done = 0")
        return [About(**json.loads(about)) for embedder, about in rows if embedder not in served]

    def take(self, batch: str, worker: str, served: Collection[str]) -> Batch | None:
        """Take a batch for `SECONDS`; return None if there is nothing to do for this worker.

        Args:
            batch: the id.
            worker: the name of the worker.
            served: the embedders of the worker.
        """
        with self._hurried() as sql:
            # One statement, so that only the first of several workers takes the batch.
            rows = sql.run(
                "update catalog_batches set worker = :worker, attempts = attempts + 1,"
                f" until = {sql.now} + :seconds where id = :batch and done = 0"
                f" and until < {sql.now} and embedder in (:*served)"
                " returning embedder, about, texts, attempts",
                batch=batch,
                worker=worker,
                seconds=SECONDS,
                served=list(served),
            )
            if not rows:
                return None
            embedder, about, texts, attempts = rows[0]
            if attempts > _ATTEMPTS:
                message = f"{_ATTEMPTS} workers have ended while they embedded the same texts"
                _finish(sql, batch, {"kind": "EmbedderError", "message": message})
                return None
        return Batch(batch, embedder, About(**json.loads(about)), json.loads(texts))

    def claim(self, batch: str, keys: Collection[str]) -> tuple[set[str], set[str]]:
        """Claim the keys without a vector, and return those, and those that other batches hold."""
        values: dict[str, Any] = {"batch": batch, "keys": list(keys)}
        with self._hurried() as sql:
            # Sorted, because two workers that claim the same keys could deadlock otherwise.
            rows = [{"key": key, "holder": batch, "until": 0.0} for key in sorted(keys)]
            # A claim that has run out changes hands; one that its holder still renews does not.
            sql.insert(
                "catalog_claims",
                rows,
                "on conflict (key) do update set holder = excluded.holder"
                f" where catalog_claims.until < {sql.now}",
            )
            # Looked up after the claims, because the holder of a claim may have stored its vector.
            stored = sql.run("select key from catalog_embeddings where key in (:*keys)", **values)
            cached = {key for (key,) in stored}
            held = "holder = :batch and key in (:*keys)"
            sql.run(f"delete from catalog_claims where {held}", batch=batch, keys=list(cached))
            claimed = sql.run(
                f"update catalog_claims set until = {sql.now} + :seconds where {held}"
                " returning key",
                seconds=SECONDS,
                **values,
            )
        ours = {key for (key,) in claimed}
        return ours, set(keys) - ours - cached

    def renew(self, batch: str, worker: str) -> bool:
        """Keep a batch and its texts for `SECONDS`; return whether an ingest waits for it."""
        values = {"batch": batch, "seconds": SECONDS}
        with self._hurried() as sql:
            sql.run(
                f"update catalog_claims set until = {sql.now} + :seconds where holder = :batch",
                **values,
            )
            return bool(
                sql.run(
                    f"update catalog_batches set until = {sql.now} + :seconds"
                    " where id = :batch and worker = :worker and done = 0 returning 1",
                    worker=worker,
                    **values,
                )
            )

    def fail(self, batch: str, worker: str, error: Mapping[str, str]) -> None:
        """Hand an error back to the ingest, unless another worker has taken the batch."""
        with self._hurried() as sql:
            sql.run("delete from catalog_claims where holder = :batch", batch=batch)
            owned = "select 1 from catalog_batches where id = :batch and worker = :worker"
            # Locked, so that no other worker takes the batch before it is marked as failed.
            if sql.run(f"{owned} and done = 0 for update", batch=batch, worker=worker):
                _finish(sql, batch, error)

    def release(self, batch: str, worker: str) -> None:
        """Give a batch back, for another worker. It does not count as an attempt."""
        with self._hurried() as sql:
            sql.run("delete from catalog_claims where holder = :batch", batch=batch)
            sql.run(
                "update catalog_batches set until = 0, attempts = attempts - 1, worker = ''"
                " where id = :batch and worker = :worker and done = 0",
                batch=batch,
                worker=worker,
            )

    def finish(self, batch: str) -> None:
        """Mark a batch as done; all its vectors are stored."""
        with self._hurried() as sql:
            _finish(sql, batch)

    @contextmanager
    def _hurried(self) -> Iterator[Sql]:
        """Open a transaction that does not wait for the disk, as each batch takes several.

        If the server crashes, other workers embed the batches again whose steps it has forgotten.
        An ingest writes what it has read of them in transactions that wait, and so make both last.
        """
        with self._database.writing() as sql:
            sql.commit_without_waiting()
            yield sql


def release_texts(sql: Sql, batch: str, keys: Collection[str], *, done: bool) -> None:
    """Release texts in the transaction that stores their vectors.

    Args:
        sql: the transaction.
        batch: the id of the batch that holds them.
        keys: the keys of the texts.
        done: whether the batch has no other texts to embed.
    """
    sql.commit_without_waiting()  # see `Batches._hurried`
    held = "delete from catalog_claims where holder = :batch and key in (:*keys)"
    sql.run(held, batch=batch, keys=list(keys))
    if done:
        _finish(sql, batch)


def _finish(sql: Sql, batch: str, error: Mapping[str, str] | None = None) -> None:
    sql.run(
        "update catalog_batches set done = 1, error = :error where id = :batch",
        batch=batch,
        error=json.dumps(error) if error else "",
    )
    # PostgreSQL sends it with the commit, so an ingest that receives it finds the batch done.
    sql.run(f"select pg_notify('{CHANNEL}', :batch)", batch=batch)
