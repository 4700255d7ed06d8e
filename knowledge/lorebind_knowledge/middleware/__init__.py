"""Middleware: the wrappers of embedders, stores and searches, and the code that applies them."""
