"""Searches on a server, of one knowledge base or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lorebind.remote.connection import Connection, read
from lorebind_config.namespace import DEFAULT_TENANT, PROJECT_SCOPE, Namespace
from lorebind_knowledge.records import MatchingTerms, QueryResult

if TYPE_CHECKING:
    from lorebind_bindings import ResolvedBinding
    from lorebind_config.errors import Suggestion


class RemotePlace:
    """The sync methods of `AtPlace` that the command line needs, each a request."""

    def __init__(
        self,
        server: Connection,
        kb_ids: Sequence[str],
        workflow: str | None,
        task: str | None,
        agent: str | None,
    ) -> None:
        """
        Args:
            server: the connection to the server.
            kb_ids, workflow, task, agent: the place, as for `Project.at`.
        """
        self._server = server
        self._place: dict[str, Any] = {"knowledge_bases": [*kb_ids], "workflow": workflow}
        self._place |= {"task": task, "agent": agent}

    def query(self, question: str, **settings: Any) -> QueryResult:
        return read(QueryResult, self._query(question, settings))

    def explain_query(
        self, question: str, **settings: Any
    ) -> tuple[QueryResult, list[ResolvedBinding], MatchingTerms]:
        from lorebind_bindings import ResolvedBinding

        answer = self._query(question, settings, explain=True)
        bindings = read(list[ResolvedBinding], answer.get("bindings"))
        return read(QueryResult, answer), bindings, read(MatchingTerms, answer.get("terms"))

    def _query(self, question: str, settings: Mapping[str, Any], **more: Any) -> Any:
        return search(self._server, "/query", question, settings, self._place | more)


def search(
    server: Connection,
    path: str,
    question: str,
    settings: Mapping[str, Any],
    body: Mapping[str, Any],
) -> Any:
    """Return the answer of a search, whose notices suggest commands for this server.

    Args:
        server: the connection to the server.
        path: the path of the route.
        question: any text that is not blank.
        settings: fields of `retrieval` to override; None overrides nothing.
        body: the other members of the request.

    Raises:
        UsageError: the question is blank, or a setting is out of range; the messages are those of
            `Project`, not those of a schema.
        LorebindError: the server's error.
    """
    overrides = {name: value for name, value in settings.items() if value is not None}
    _check(question, overrides)
    answer = server.post(path, {"query": question, **overrides, **body})
    notices = answer.get("notices", [])
    for kb_id in answer.get("searched", []):
        ingest = command_of(server, kb_id, body.get("workflow"), "ingest")
        here = server.command(ingest)
        notices = [text.replace(ingest.command, here) for text in notices]
    return answer | {"notices": notices}


def command_of(server: Connection, kb_id: str, workflow: str | None, verb: str) -> Suggestion:
    """Return a shell command for a knowledge base, as messages of the server suggest it."""
    scope = PROJECT_SCOPE if workflow is None else f"workflow/{workflow}"
    return Namespace(server.tenant or DEFAULT_TENANT, "", scope, kb_id).command(verb)


def _check(question: str, settings: Mapping[str, Any]) -> None:
    from lorebind_knowledge.retrieval.base import check_question

    check_question(question)
    if settings:
        from lorebind_bindings import override_settings
        from lorebind_config.declarations.retrieval import RetrievalDeclaration

        override_settings(RetrievalDeclaration(), **settings)
