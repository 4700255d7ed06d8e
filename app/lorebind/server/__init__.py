"""The REST API of a project: a thin layer over `Project`."""
