"""Any LangChain vector store as a store of Lorebind."""
