"""Fixtures for all tests."""

from .postgres import (
    dsn,
    make_folder,
    make_store,
    new_dsn,
    own_postgres,
    postgres,
    pristine_postgres,
)

__all__ = [
    "dsn",
    "make_folder",
    "make_store",
    "new_dsn",
    "own_postgres",
    "postgres",
    "pristine_postgres",
]
