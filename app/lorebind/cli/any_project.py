"""The project of a command: in a folder of this machine, or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lorebind.project import Project
    from lorebind.remote import RemoteProject

    AnyProject: TypeAlias = Project | RemoteProject
    """Commands use only methods that both classes have."""
