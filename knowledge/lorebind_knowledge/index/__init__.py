"""Indexes: a vector store and a catalog that are always consistent with each other."""
