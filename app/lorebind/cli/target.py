"""The target of a command: a project in a folder of this machine, or on a server."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, TypeAlias

from lorebind.cli.interrupts import completed_by
from lorebind.cli.opening import extensions, load_config, open_project, project_to_read
from lorebind.cli.options import HERE, current_server
from lorebind.declaration_methods import Declared
from lorebind_config.errors import Suggestion
from lorebind_config.namespace import named_tenant

if TYPE_CHECKING:
    from lorebind.knowledge_base import KnowledgeBase
    from lorebind.project import Project
    from lorebind.remote import RemoteProject
    from lorebind.remote.knowledge_base import RemoteKnowledgeBase
    from lorebind_config.editing.applying import Applied

    AnyProject: TypeAlias = Project | RemoteProject
    """Commands use only methods that both classes have."""
    AnyKnowledgeBase: TypeAlias = KnowledgeBase | RemoteKnowledgeBase


def open_target(path: str) -> AnyProject:
    """Open the project that `--project` or `--server` names.

    Args:
        path: the value of `--project`.

    Raises:
        ConfigurationError: the files have problems; the error lists all of them.
        UsageError: the address of the server is not valid.
    """
    if (remote := target_server()) is not None:
        return remote
    return open_project(path)


def open_read_only(path: str) -> AnyProject:
    """Open the project to read catalogs only, without running its code."""
    if (remote := target_server()) is not None:
        return remote
    return project_to_read(path)


def target_declarations(path: str) -> Declared | RemoteProject:
    """Open the project to read its declarations only, without running any of its code."""
    if (remote := target_server()) is not None:
        return remote
    return Declared(load_config(path))


def apply_to_target(path: str, text: str, shown_as: str, *, dry_run: bool) -> Applied:
    """Apply resources to the project; see `lorebind_config.editing.applying`."""
    if (remote := target_server()) is not None:
        with remote:
            return remote.apply(text, shown_as, dry_run=dry_run)
    from lorebind_config.editing.applying import apply_resources

    return apply_resources(path, text, shown_as, dry_run=dry_run)


def same_project(command: str, path: str = HERE) -> str:
    """Return a command with the options that name the same project and tenant.

    Args:
        command: the command without them.
        path: the value of `--project`.
    """
    server = current_server.get()
    if server is not None:
        return Suggestion(command).on_server(server.url, server.tenant)
    where = "" if path == HERE else f" --project {shlex.quote(path)}"
    tenant = named_tenant()
    return f"{command}{where}" + (f" --tenant {shlex.quote(tenant)}" if tenant else "")


def target_server() -> RemoteProject | None:
    """Return the project of the server that `--server` names; None without that option.

    Raises:
        UsageError: the address of the server is not valid.
    """
    server = current_server.get()
    if server is None:
        return None
    # httpx takes .2 s to import, and most commands use no server.
    from lorebind.remote import RemoteProject

    return RemoteProject(
        server.url, tenant=server.tenant, extensions=extensions(), tell_end=completed_by
    )
