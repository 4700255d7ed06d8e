"""Everything except the vectors: documents, versions, texts, words, runs, cached embeddings."""
