"""Reads the files of a project, or Python objects, into a validated project."""
