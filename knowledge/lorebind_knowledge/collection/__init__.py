"""A collection: the documents of a LangChain `VectorStore`, which no ingest knows of."""
