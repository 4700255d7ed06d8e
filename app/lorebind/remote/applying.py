"""`apply` at a server: knowledge bases are made and replaced over its API."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind.remote.connection import Connection, segment
from lorebind_knowledge.configuration import as_yaml
from lorebind_knowledge.configuration.applying import Applied, Change
from lorebind_knowledge.configuration.resource_text import read_resources
from lorebind_knowledge.errors import ConfigurationError, NotFoundError, Problem, UsageError

if TYPE_CHECKING:
    from lorebind_knowledge.declarations import KnowledgeBaseDeclaration


def apply(server: Connection, text: str, shown_as: str, *, dry_run: bool) -> Applied:
    """Make the knowledge bases of a text, or replace those that were made over the API.

    Args:
        server: where.
        text, shown_as, dry_run: as for `apply_resources`. With `dry_run` the server is not asked
            whether it would take them.

    Raises:
        ConfigurationError: with every problem of the text, or of the first that the server refuses.
        UsageError: the text has what only the server's YAML declares.
    """
    resources = read_resources(text, shown_as)
    for section in ("embedders", "vector_dbs"):
        if getattr(resources, section):
            raise UsageError(
                f"{shown_as}: the server's YAML declares its {section}; change them there, and "
                "leave them out here"
            )
    if resources.workflow is not None:
        raise UsageError(
            f"{shown_as}: the server's YAML declares the knowledge bases of workflow "
            f"{resources.workflow!r}; change them there"
        )
    changes: list[Change] = []
    differences: list[str] = []
    for declared in resources.knowledge_bases:
        path = f"/knowledge-bases/{segment(declared.id)}"
        written = declared.written()
        before, known = _before(server, path)
        action = "unchanged" if before == written else "created" if known is None else "updated"
        changes.append(Change("knowledge_bases", declared.id, action))
        if action == "unchanged":
            continue
        differences.append(_difference(before, written, declared.id, shown_as))
        if not dry_run:
            _put(server, path, declared, known)
    return Applied(changes, "".join(differences), written=bool(differences) and not dry_run)


def _before(server: Connection, path: str) -> tuple[dict[str, Any] | None, str | None]:
    """What is there, and its tag."""
    try:
        answer = server.send("GET", path)
    except NotFoundError:
        return None, None
    return answer.json()["knowledge_base"], answer.headers["ETag"]


def _put(
    server: Connection, path: str, declared: KnowledgeBaseDeclaration, known: str | None
) -> None:
    # What was changed since is not overwritten.
    condition = {"If-None-Match": "*"} if known is None else {"If-Match": known}
    try:
        server.send("PUT", path, json=declared.written(), headers=condition)
    except ConfigurationError as error:
        raise ConfigurationError(_placed(one, declared) for one in error.problems) from None


def _placed(problem: Problem, declared: KnowledgeBaseDeclaration) -> Problem:
    """A problem with its place in the file, instead of a JSON pointer."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in problem.file.split("/")[1:]]
    place = declared.position(*(int(step) if step.isdecimal() else step for step in steps))
    return replace(problem, file=place.file, line=place.line, column=place.column)


def _difference(
    before: dict[str, Any] | None, after: dict[str, Any], kb_id: str, shown_as: str
) -> str:
    name = f"knowledge base {kb_id}"
    old = "" if before is None else as_yaml(before)
    lines = old.splitlines(keepends=True), as_yaml(after).splitlines(keepends=True)
    return "".join(difflib.unified_diff(*lines, name, f"{name} with {shown_as}"))
