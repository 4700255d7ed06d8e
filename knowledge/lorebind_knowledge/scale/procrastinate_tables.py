"""The tables of procrastinate, and ours beside them."""

from __future__ import annotations

import re
from pathlib import Path

from lorebind_knowledge.database.tables import Tables

_SLOTS = """create table if not exists lorebind_slots (
  worker bigint primary key references procrastinate_workers (id) on delete cascade,
  queue varchar not null,
  slots integer not null
)"""
_FILE = re.compile(r"(\d\d)\.(\d\d)\.(\d\d)_(\d\d)_")


def queue_tables() -> Tables:
    """Return the tables; their version is that of the last migration of procrastinate.

    It ships the statements that create the tables, and those that migrate them, and no program
    that knows which ones have run.
    """
    from procrastinate.schema import SchemaManager

    migrations: dict[int, list[str]] = {}
    for file in sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql")):
        if match := _FILE.match(file.name):
            migrations.setdefault(int("".join(match.groups())), []).append(file.read_text("utf-8"))
    return Tables(
        "queue",
        max(migrations),
        [_SLOTS],
        migrations=migrations,
        creation=[SchemaManager.get_schema()],
        move_away="drop its schema, and run the ingest again",
    )
