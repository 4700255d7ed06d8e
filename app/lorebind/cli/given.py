"""Open the project of a command: in a folder of this machine, or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind.cli.server_option import given_server
from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from lorebind.cli.any_project import AnyProject
    from lorebind.declaration_methods import Declared
    from lorebind.remote import RemoteProject
    from lorebind_knowledge.configuration.applying import Applied


def given_project(path: str) -> AnyProject:
    """Open the project that `--project` or `--server` names.

    Raises:
        ConfigurationError: the files have problems; the error lists all of them.
        UsageError: the address of the server is not valid.
    """
    if (remote := _remote()) is not None:
        return remote
    from lorebind.cli.opening import open_project

    return open_project(path)


def given_to_read(path: str) -> AnyProject:
    """Open the project to read catalogs only, which needs no variables."""
    if (remote := _remote()) is not None:
        return remote
    from lorebind.cli.indexes import project_to_read

    return project_to_read(path)


def given_declarations(path: str) -> Declared | RemoteProject:
    """Open the project to read its declarations only, without running any of its code."""
    if (remote := _remote()) is not None:
        return remote
    from lorebind.declaration_methods import Declared
    from lorebind_knowledge.configuration import load_project

    return Declared(load_project(path, need_variables=False))


def apply_to_given(path: str, text: str, shown_as: str, *, dry_run: bool) -> Applied:
    """Apply resources to the project; see `lorebind_knowledge.configuration.applying`."""
    if (remote := _remote()) is not None:
        with remote:
            return remote.apply(text, shown_as, dry_run=dry_run)
    from lorebind_knowledge.configuration import apply_resources

    return apply_resources(path, text, shown_as, dry_run=dry_run)


def refuse_server(why: str) -> None:
    """Raise an error if a server is named, in commands that work on files of this machine.

    Raises:
        UsageError: a server is named.
    """
    if given_server.get() is not None:
        raise UsageError(f"{why}; omit --server, or name a folder with --project")


def _remote() -> RemoteProject | None:
    given = given_server.get()
    if given is None:
        return None
    from lorebind.cli.interrupts import completed_by
    from lorebind.cli.opening import extensions
    from lorebind.remote import RemoteProject

    return RemoteProject(
        given.url, tenant=given.tenant, extensions=extensions(), tell_end=completed_by
    )
