"""An index: a vector store and a catalog that always say the same."""
