"""Embedders: the classes that turn texts into vectors."""
