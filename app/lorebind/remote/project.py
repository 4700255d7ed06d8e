"""`RemoteProject`: the methods of `Project` that the command line needs, from a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lorebind.declaration_methods import KnowledgeBaseInfo
from lorebind.remote.connection import Connection, read, segment
from lorebind.remote.documents import RemoteDocuments
from lorebind.remote.workflows import RemoteWorkflows
from lorebind_knowledge.events import Events
from lorebind_knowledge.ingest.report import IngestPlan
from lorebind_knowledge.records import QueryResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lorebind_bindings import Provenance, ResolvedBinding
    from lorebind_config.editing.applying import Applied
    from lorebind_knowledge.events import Extension


class RemoteProject(RemoteDocuments, RemoteWorkflows):
    """The project of a server, with the sync methods of `Project`.

    They raise the same errors as those of `Project`, and `ServerError` if the server cannot be
    reached, refuses the caller or fails.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str | None = None,
        extensions: Sequence[Extension] = (),
        tell_end: Callable[[str], None] = lambda _: None,
    ) -> None:
        """
        Args:
            url: `http://…`, `https://…`, or `unix:` and the path of a socket. A token is read from
                the variable LOREBIND_TOKEN.
            tenant: the tenant; None uses the server's default.
            extensions: subscribers to the events of ingests, while a method waits for them.
            tell_end: called with the way to follow an ingest that the command no longer waits for,
                and with an empty text when the ingest has ended.

        Raises:
            UsageError: the URL is not valid.
        """
        self._server = Connection(url, tenant)
        self.events = Events(extensions)
        self._tell_end = tell_end

    @property
    def url(self) -> str:
        """The address of the server, as it was given."""
        return self._server.url

    def changes(self, every: float | None = None) -> Iterator[int]:
        """Yield immediately, and then whenever files of the project change on the server.

        Yields the number of changed files, which is 0 immediately and after `every`.

        Args:
            every: seconds after which it yields without a change; None means never.

        Raises:
            LorebindError: the server cannot be reached, or cannot watch files.
        """
        parameters = {} if every is None else {"every": every}
        with self._server.events("GET", "/changes", params=parameters) as events:
            for event in events:
                yield event.data["files"]

    def knowledge_bases(self) -> list[KnowledgeBaseInfo]:
        found = self._server.all("/knowledge-bases")
        found += self._server.all("/knowledge-bases", workflow="*")
        return [read(KnowledgeBaseInfo, one) for one in found]

    def knowledge_base(self, kb_id: str, *, workflow: str | None = None) -> KnowledgeBaseInfo:
        found = self._server.get(f"/knowledge-bases/{segment(kb_id)}", workflow=workflow)
        return read(KnowledgeBaseInfo, found)

    def export(self, kb_id: str | None = None, *, workflow: str | None = None) -> dict[str, Any]:
        found = self._server.get("/export", knowledge_base=kb_id, workflow=workflow)
        return read(dict, found)

    def apply(self, text: str, shown_as: str, *, dry_run: bool = False) -> Applied:
        """Create and replace knowledge bases over the API; see `apply_resources`."""
        from lorebind.remote.applying import apply

        return apply(self._server, text, shown_as, dry_run=dry_run)

    def explain(
        self, *, workflow: str | None = None, task: str | None = None, agent: str | None = None
    ) -> list[ResolvedBinding]:
        from lorebind_bindings import ResolvedBinding

        found = self._server.get("/bindings", workflow=workflow, task=task, agent=agent)
        return [read(ResolvedBinding, one) for one in found["items"]]

    def unbound_by(
        self, *, workflow: str | None = None, task: str | None = None, agent: str | None = None
    ) -> Provenance | None:
        from lorebind_bindings import Provenance

        found = self._server.get("/bindings", workflow=workflow, task=task, agent=agent)
        scope = found["unbound_by"]
        return None if scope is None else read(Provenance, scope)

    def plan(
        self,
        kb_id: str,
        *,
        workflow: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
    ) -> IngestPlan:
        body = {"workflow": workflow, "inputs": dict(inputs or {}), "strategy": strategy}
        path = f"/knowledge-bases/{segment(kb_id)}/plan"
        return read(IngestPlan, self._server.post_patiently(path, body))

    def query(
        self, kb_id: str, question: str, *, workflow: str | None = None, **settings: Any
    ) -> QueryResult:
        return read(QueryResult, self._query(kb_id, question, workflow, settings))

    def query_explained(
        self, kb_id: str, question: str, *, workflow: str | None = None, **settings: Any
    ) -> tuple[QueryResult, ResolvedBinding]:
        from lorebind_bindings import ResolvedBinding

        found = self._query(kb_id, question, workflow, settings, explain=True)
        return read(QueryResult, found), read(ResolvedBinding, found.get("binding"))

    def _query(
        self,
        kb_id: str,
        question: str,
        workflow: str | None,
        settings: Mapping[str, Any],
        **more: Any,
    ) -> Any:
        given = {name: value for name, value in settings.items() if value is not None}
        _check(question, given)
        body = {"query": question, "workflow": workflow, **given, **more}
        found = self._server.post(f"/knowledge-bases/{segment(kb_id)}/query", body)
        return found | {"notices": list(map(self._server.hints.reword, found.get("notices", [])))}

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(question: str, settings: Mapping[str, Any]) -> None:
    """Refuse invalid arguments with the same messages as `Project`, not with those of a schema.

    Raises:
        UsageError: the question is blank, or a setting is out of range.
    """
    from lorebind_knowledge.retrieval.base import check_question

    check_question(question)
    if settings:
        from lorebind_bindings import ResolvedBinding, override
        from lorebind_config.declarations import RetrievalDeclaration

        override(ResolvedBinding("", RetrievalDeclaration(), {}), **settings)
