"""`RemoteProject`: the methods of `Project` that the command line needs, from a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lorebind.declaration_methods import KnowledgeBaseInfo
from lorebind.remote.connection import Connection, read
from lorebind.remote.knowledge_base import RemoteKnowledgeBase
from lorebind.remote.searching import RemotePlace
from lorebind.remote.workflows import RemoteWorkflows
from lorebind_knowledge.events import Events
from lorebind_knowledge.index.purging import OrphanedIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lorebind_bindings.resolver import EffectiveBindings
    from lorebind_config.editing.applying import Applied
    from lorebind_knowledge.events import Extension


class RemoteProject(RemoteWorkflows):
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
        infos = self._server.all("/knowledge-bases")
        infos += self._server.all("/knowledge-bases", workflow="*")
        return read(list[KnowledgeBaseInfo], infos)

    def knowledge_base(self, kb_id: str, *, workflow: str | None = None) -> RemoteKnowledgeBase:
        """Return a knowledge base; its first request reports an unknown id."""
        return RemoteKnowledgeBase(self._server, self.events, self._tell_end, kb_id, workflow)

    def at(
        self,
        *kb_ids: str,
        workflow: str | None = None,
        task: str | None = None,
        agent: str | None = None,
    ) -> RemotePlace:
        """Return a place; its first request reports an unknown id."""
        return RemotePlace(self._server, kb_ids, workflow, task, agent)

    def export(self, kb_id: str | None = None, *, workflow: str | None = None) -> dict[str, Any]:
        answer = self._server.get("/export", knowledge_base=kb_id, workflow=workflow)
        return read(dict, answer)

    def apply(self, text: str, shown_as: str, *, dry_run: bool = False) -> Applied:
        """Create and replace knowledge bases over the API; see `apply_resources`."""
        from lorebind.remote.applying import apply

        return apply(self._server, text, shown_as, dry_run=dry_run)

    def explain(
        self, *, workflow: str | None = None, task: str | None = None, agent: str | None = None
    ) -> EffectiveBindings:
        from lorebind_bindings.resolver import EffectiveBindings, Provenance, ResolvedBinding

        answer = self._server.get("/bindings", workflow=workflow, task=task, agent=agent)
        scope = answer["unbound_by"]
        return EffectiveBindings(
            read(list[ResolvedBinding], answer["items"]),
            None if scope is None else read(Provenance, scope),
        )

    def purge(self, *, dry_run: bool = True) -> list[OrphanedIndex]:
        answer = self._server.post_patiently("/purge", {"dry_run": dry_run})
        return read(list[OrphanedIndex], answer["items"])

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
