"""A project as commands know it: in a folder of this machine, or behind a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lorebind.project import Project
    from lorebind.remote import RemoteProject

    AnyProject: TypeAlias = Project | RemoteProject
    """Commands use the methods that both have."""
