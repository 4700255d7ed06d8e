"""Retrieval: rank the passages that answer a question, with comparable scores."""
