"""The metrics of a server: those of its project's extension `prometheus`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import MissingDependencyError
from lorebind_knowledge.extensions.prometheus import Prometheus

if TYPE_CHECKING:
    from lorebind.project import Project


def prometheus_of(project: Project) -> Prometheus | None:
    """Return the extension whose registry is served, and subscribe one if none is declared.

    Only ids from the YAML become labels. Callers of the API choose the other ids, so the number of
    labels would be unlimited.

    Returns:
        The extension, or None if it is neither declared nor installed.
    """
    events = project.knowledge.events
    found = [extension for extension in events.extensions if isinstance(extension, Prometheus)]
    if not found:
        try:
            found = [Prometheus()]
        except MissingDependencyError:
            return None
        events.subscribe(found[0])
    for one in found:
        one.labelled = {kb.id for kb, _ in project.config.every_knowledge_base()}
    return found[0]
