"""Collections: documents of a LangChain `VectorStore`, which ingests do not touch."""
