"""The types of a project and a knowledge base: in a folder of this machine, or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lorebind.knowledge_base import KnowledgeBase
    from lorebind.project import Project
    from lorebind.remote import RemoteProject
    from lorebind.remote.knowledge_base import RemoteKnowledgeBase

    AnyProject: TypeAlias = Project | RemoteProject
    """Commands use only methods that both classes have."""
    AnyKnowledgeBase: TypeAlias = KnowledgeBase | RemoteKnowledgeBase
