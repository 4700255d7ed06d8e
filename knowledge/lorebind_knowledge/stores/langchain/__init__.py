"""Any vector store of LangChain as a store."""
