"""The store in Qdrant."""
