"""The REST API of a project: a thin face of `Project` over HTTP."""
