"""`apply` for a server: create and replace knowledge bases over its API."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorebind.remote.connection import Connection, segment
from lorebind_config.editing.applying import Applied, Change
from lorebind_config.editing.resources import read_resources
from lorebind_config.editing.yaml_text import as_yaml
from lorebind_config.errors import ConfigurationError, NotFoundError, Problem, UsageError

if TYPE_CHECKING:
    from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration


def apply(server: Connection, text: str, shown_as: str, *, dry_run: bool) -> Applied:
    """Create the knowledge bases of a YAML text, or replace those created over the API.

    Args:
        server: the connection to the server.
        text: as for `apply_resources`.
        shown_as: as for `apply_resources`.
        dry_run: only compare, without asking the server whether it accepts the changes.

    Raises:
        ConfigurationError: the text has problems, or the server refuses a knowledge base. The error
            lists all problems of the text, or of the first refused knowledge base.
        UsageError: the text contains resources that only the server's YAML can declare.
    """
    resources = read_resources(text, shown_as)
    for section in ("embedders", "sparse_embedders", "vector_dbs"):
        if getattr(resources, section):
            raise UsageError(
                f"{shown_as}: the server's YAML declares its {section}; change them there, and "
                "omit them here"
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
        before, etag = _before(server, path)
        action = "unchanged" if before == written else "created" if etag is None else "updated"
        changes.append(Change("knowledge_bases", declared.id, action))
        if action == "unchanged":
            continue
        differences.append(_difference(before, written, declared.id, shown_as))
        if not dry_run:
            _put(server, path, declared, etag)
    return Applied(changes, "".join(differences), written=bool(differences) and not dry_run)


def _before(server: Connection, path: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return the current declaration and its ETag, or None for both."""
    try:
        answer = server.send("GET", path)
    except NotFoundError:
        return None, None
    return answer.json()["knowledge_base"], answer.headers["ETag"]


def _put(
    server: Connection, path: str, declared: KnowledgeBaseDeclaration, etag: str | None
) -> None:
    # The condition refuses the request if someone else has changed it in the meantime.
    condition = {"If-None-Match": "*"} if etag is None else {"If-Match": etag}
    try:
        server.send("PUT", path, json=declared.written(), headers=condition)
    except ConfigurationError as error:
        raise ConfigurationError(_placed(problem, declared) for problem in error.problems) from None


def _placed(problem: Problem, declared: KnowledgeBaseDeclaration) -> Problem:
    """Replace the JSON pointer of a problem with its location in the file."""
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
