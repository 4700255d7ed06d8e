"""The store in PostgreSQL with the extension pgvector."""
