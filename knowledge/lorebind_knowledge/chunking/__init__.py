"""Chunking: splits documents into chunks whose exact character offsets are known."""
