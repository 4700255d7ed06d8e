"""Writes resources into the files of a project, and exports them."""
