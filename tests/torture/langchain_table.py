"""LangChain's own vector store for PostgreSQL, as the projects of these tests declare it."""

from __future__ import annotations

from contextlib import suppress

from langchain_core.embeddings import Embeddings
from langchain_postgres import PGEngine, PGVectorStore
from sqlalchemy.exc import ProgrammingError

NAME = "chunks"


def table(embedding: Embeddings, engine: PGEngine, schema: str) -> PGVectorStore:
    """Return a store on a table of this name, which is created if it is missing."""
    dimension = len(embedding.embed_query("probe"))
    with suppress(ProgrammingError):  # the table exists already
        engine.init_vectorstore_table(NAME, dimension, schema_name=schema)
    return PGVectorStore.create_sync(engine, embedding, NAME, schema_name=schema)
