"""Rerankers: they reorder the best passages by reading question and passage together."""
