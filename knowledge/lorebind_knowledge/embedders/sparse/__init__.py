"""Sparse embedders: the classes that turn texts into weighted terms."""
