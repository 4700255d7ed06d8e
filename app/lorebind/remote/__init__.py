"""A project on a server: the methods of `Project`, over the REST API."""

from __future__ import annotations

from lorebind.remote.project import RemoteProject

__all__ = ["RemoteProject"]
