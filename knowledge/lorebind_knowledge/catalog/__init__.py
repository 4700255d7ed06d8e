"""The ledger of what has been ingested: indexes, documents, chunks, runs, cached embeddings."""
