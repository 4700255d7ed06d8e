"""Threads in PostgreSQL: lost connections, creation of tables, and secrets in errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from langgraph.types import Command

from lorebind_config.errors import StoreError, UsageError

from ..postgres import PASSWORD, Server
from .thread_graph import THREAD, Triage, opened


async def test_a_run_ends_with_its_connection_and_can_be_resumed(
    tmp_path: Path, dsn: str, postgres: Server
) -> None:
    """A lost connection loses the lock, and another process can run the thread immediately."""
    store = await opened(tmp_path, dsn)
    triage = Triage(store)
    await triage.turn("first")
    async with store.claimed(THREAD):
        journal = await store.journal(THREAD)
        postgres.end_sessions()
        second = await opened(tmp_path, dsn)
        async with second.claimed(THREAD):
            for key in "xy":
                with pytest.raises(StoreError, match=r"threads in PostgreSQL at 127\.0\.0\.1"):
                    await journal.put({"key": key, "output": 1})
            with pytest.raises(StoreError, match="finished tasks are saved, resume the threads"):
                await store.find(THREAD)
        await second.close()
    await triage.run(Command(resume={"approve": True}))
    info = await store.find(THREAD)
    assert info is not None
    assert info.status == "completed"
    await store.close()


async def test_a_server_that_was_restarted_is_connected_to_again(
    tmp_path: Path, own_postgres: Server
) -> None:
    store = await opened(tmp_path, own_postgres.dsn())
    await Triage(store).turn("first")
    own_postgres.stop()
    with pytest.raises(StoreError) as caught:
        await store.find(THREAD)
    assert PASSWORD not in str(caught.value)
    with pytest.raises(
        StoreError, match="check that the server is up and that this is its address"
    ):
        await store.find(THREAD)
    own_postgres.start()
    await Triage(store).run(Command(resume={"approve": True}))
    await asyncio.sleep(1.1)
    own_postgres.end_sessions()
    info = await store.find(THREAD)
    assert info is not None
    assert info.status == "completed"
    await store.close()


def test_the_tables_are_made_once_by_those_who_start_together(tmp_path: Path, dsn: str) -> None:
    async def use(number: int) -> None:
        store = await opened(tmp_path, dsn)
        triage = Triage(store, THREAD._replace(id=str(number)))
        triage.asks = False
        await triage.turn(number)
        await store.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: asyncio.run(use(number)), range(6)))
    with psycopg.connect(dsn) as db:
        valid = db.execute(
            "select bool_and(indisvalid), count(*) from pg_index join pg_class on oid = indexrelid"
            " where relname like 'checkpoint%thread_id_idx'"
            " and relnamespace = current_schema()::regnamespace"
        )
        assert valid.fetchall() == [(True, 3)]


async def test_threads_of_other_schemas_run_at_the_same_time(
    tmp_path: Path, new_dsn: Callable[[], str]
) -> None:
    first, two = await opened(tmp_path, new_dsn()), await opened(tmp_path, new_dsn())
    async with first.claimed(THREAD), two.claimed(THREAD):
        pass
    async with first.claimed(THREAD):
        await Triage(two).turn("first")
    assert await first.find(THREAD) is None
    await first.close()
    await two.close()


async def test_a_row_of_another_serializer_is_refused_and_not_run(tmp_path: Path, dsn: str) -> None:
    store = await opened(tmp_path, dsn)
    await Triage(store).turn("first")
    harm = tmp_path / "harm"
    pickled = b"cos\nsystem\n(S'touch " + str(harm).encode() + b"'\ntR."
    for table in ("checkpoint_writes", "checkpoint_blobs"):
        for tag in ("pickle", "msgpack"):
            with psycopg.connect(dsn, autocommit=True) as db:
                db.execute(f"update {table} set type = %s, blob = %s", [tag, pickled])
            for ask in (store.find(THREAD), Triage(store).turn("second"), store.turns(THREAD)):
                with pytest.raises(StoreError, match=f"of the kind '{tag}', which Lorebind"):
                    await ask
            with psycopg.connect(dsn, autocommit=True) as db:
                db.execute(f"update {table} set type = 'json', blob = 'null'")
    assert not harm.exists()
    await store.close()


async def test_a_password_is_never_shown(tmp_path: Path, postgres: Server) -> None:
    with pytest.raises(StoreError, match="check user and password of the DSN") as caught:
        await opened(tmp_path, postgres.dsn(password="not-the-right-one"))
    assert "not-the-right-one" not in str(caught.value)
    with pytest.raises(UsageError, match=r"the DSN .* cannot be read") as unread:
        await opened(tmp_path, "postgresql://a:never shown@[::1")
    assert "never shown" not in str(unread.value)
