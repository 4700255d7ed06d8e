"""A vector database over DuckDB: vectors in a DuckDB file, and the plugin that offers it."""

import threading
from contextlib import contextmanager
from typing import Literal

import duckdb
import numpy as np
from pydantic import Field

from lorebind.plugin import SearchHits, StoreError, VectorDBBase, VectorStore

AMONG = "where number in (select unnest(?::bigint[]))"


class DuckDBStore(VectorStore):
    """Stores each space in its own table. DuckDB lets one process at a time open the file."""

    def __init__(self, file):
        self._file = file
        self._database = None
        self._is_closed = False
        self._opening, self._writing = threading.Lock(), threading.Lock()

    def add(self, space, vectors):
        table, kind = table_of(space), f"float[{space.dimension}]"
        rows = [vector.number for vector in vectors], [vector.vector.tolist() for vector in vectors]
        with self._writing, self._connected() as db:
            db.execute(
                f"create table if not exists {table} (number bigint primary key, vector {kind})"
            )
            db.execute(
                f"insert into {table} select unnest(?::bigint[]), unnest(?::{kind}[])"
                " on conflict do nothing",
                rows,
            )

    def nearest(self, space, vector, k, where, allowed_ids):
        passing, values = ("", []) if allowed_ids is None else (AMONG, [plain(allowed_ids)])
        # Vectors have length 1, or 0: their product is the cosine.
        near = f"array_inner_product(vector, ?::float[{space.dimension}])"
        rows = self._rows(
            space,
            f"select number from {{}} {passing} order by {near} desc limit ?",
            [*values, vector.tolist(), k],
        )
        return SearchHits([number for (number,) in rows])

    def get(self, space, numbers):
        rows = self._rows(space, f"select number, vector from {{}} {AMONG}", [plain(numbers)])
        return {number: np.array(vector, np.float32) for number, vector in rows}

    def delete(self, space, numbers):
        with self._writing:
            self._rows(space, f"delete from {{}} {AMONG}", [plain(numbers)])

    def count(self, space):
        rows = self._rows(space, "select count(*) from {}", [])
        return rows[0][0] if rows else 0

    def drop(self, space):
        with self._writing, self._connected() as db:
            db.execute(f"drop table if exists {table_of(space)}")

    def close(self):
        with self._opening:
            self._is_closed = True
            if self._database is not None:
                self._database.close()

    def __str__(self):
        return f"duckdb store {self._file}"

    def _rows(self, space, statement, values):
        """Run a statement and return its rows; none if the space has no table yet."""
        with self._connected() as db:
            try:
                return db.execute(statement.format(table_of(space)), values).fetchall()
            except duckdb.CatalogException:
                return []

    @contextmanager
    def _connected(self):
        """Yield a connection for one call, because threads must not share connections."""
        try:
            with self._opening:
                if self._is_closed:
                    raise StoreError(f"the {self} is closed")
                if self._database is None:
                    self._file.parent.mkdir(parents=True, exist_ok=True)
                    self._database = duckdb.connect(self._file)
                connection = self._database.cursor()
            with connection:
                yield connection
        except (duckdb.Error, OSError) as error:
            raise StoreError(f"{self}: {error}") from error


def table_of(space):
    return f"vectors_{space.name}"


def plain(numbers):
    return [int(number) for number in numbers]


class DuckDBPlugin:
    class Declaration(VectorDBBase):
        """Vectors in a DuckDB file."""

        type: Literal["duckdb"] = Field(description="A file of DuckDB.")
        file: str = Field(".lorebind/vectors.duckdb", description="In the project folder.")

    @staticmethod
    def make(declaration, environment):
        return DuckDBStore(environment.root / declaration.file)
