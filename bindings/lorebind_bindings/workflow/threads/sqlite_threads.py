"""Threads in a SQLite file, which several processes may share."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.utils import search_where

from lorebind_bindings.workflow.threads.checkpointers import ThreadSaver
from lorebind_bindings.workflow.threads.claims import ELSEWHERE, FileClaims
from lorebind_config.errors import StoreError
from lorebind_knowledge.database.sqlite import SqliteDatabase

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointTuple

_PAGES_PER_CHECKPOINT = 250
"""Size of the log, 1 MB, at which it is written into the file. A killed process leaves the log."""
_TABLES = {"checkpoints", "writes"}
_MOVE_AWAY = "move the file away with its threads, or restore a backup"


class SqliteThreads(ThreadSaver, SqliteSaver):
    """LangGraph's saver with our transactions: safe across threads, processes and forks.

    The file is created with the first thread; until then there are no threads.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.name = f"threads in {path}"
        self.claims = FileClaims(path)
        self._database = SqliteDatabase(
            path, self.name, self._prepare, move_away=_MOVE_AWAY, elsewhere=ELSEWHERE
        )

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """Yield a cursor in its own transaction, which is committed or has no effect."""
        connected = self._database.writing if transaction else self._database.reading
        with connected() as db, closing(db.cursor()) as cursor:
            yield cursor

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        # LangGraph's own method reads writes with a second cursor of one shared connection.
        where, values = search_where(config, options.get("filter"), options.get("before"))
        limit = options.get("limit")
        with self.cursor(transaction=False) as cursor:
            rows = cursor.execute(
                f"SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints {where}"
                " ORDER BY checkpoint_id DESC LIMIT ?",
                [*values, -1 if limit is None else limit],
            ).fetchall()
        names = "thread_id", "checkpoint_ns", "checkpoint_id"
        for row in rows:
            config = {"configurable": dict(zip(names, row, strict=True))}
            if (checkpoint := self.get_tuple(config)) is not None:
                yield checkpoint

    def newest(
        self, prefix: str, limit: int, before: str | None = None, after: str | None = None
    ) -> Sequence[str]:
        """See `ThreadSaver.newest`."""
        # Ids of checkpoints grow with time, so the largest is that of the last turn. A range can
        # use the primary key; LIKE cannot, because it ignores case.
        order = "DESC" if after is None else "ASC"
        with self.cursor(transaction=False) as cursor:
            cursor.execute(
                "SELECT thread_id FROM checkpoints"
                " WHERE checkpoint_ns = '' AND thread_id >= :prefix AND thread_id < :beyond"
                " GROUP BY thread_id HAVING (:before IS NULL OR max(checkpoint_id) < :before)"
                " AND (:after IS NULL OR max(checkpoint_id) > :after)"
                f" ORDER BY max(checkpoint_id) {order} LIMIT :limit",
                {
                    "prefix": prefix,
                    "beyond": prefix + "\U0010ffff",
                    "before": before,
                    "after": after,
                    "limit": limit,
                },
            )
            keys = [key for (key,) in cursor]
            return keys if after is None else keys[::-1]

    def close(self) -> None:
        self._database.close()

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_PER_CHECKPOINT}")
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = {name for (name,) in db.execute(query)}
        if tables >= _TABLES:
            return
        if tables - _TABLES:
            raise StoreError(
                f"{self.name}: the database belongs to another program, with the tables "
                f"{', '.join(sorted(tables)[:5])}; {ELSEWHERE}"
            )
        SqliteSaver(db).setup()
