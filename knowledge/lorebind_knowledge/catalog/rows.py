"""What the catalog's rows share: whose they are, and what is said of damaged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from lorebind_knowledge.namespace import Namespace

OWNER = "tenant, project, scope, kb"
OURS = "tenant = :tenant and project = :project and scope = :scope and kb = :kb"
"""The columns that name a namespace, and the condition that they name the one of `owner`."""


def owner(namespace: Namespace) -> dict[str, str]:
    """The values of these columns."""
    return {name: getattr(namespace, name) for name in namespace.__slots__}


def damaged(what: str) -> StoreError:
    """What a catalog holds that nobody has written."""
    return StoreError(
        f"the catalog is damaged: {what}; move its database away and ingest again, or restore a "
        "copy"
    )
