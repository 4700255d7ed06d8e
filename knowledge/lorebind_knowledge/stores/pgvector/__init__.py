"""The store in PostgreSQL with the pgvector extension."""
