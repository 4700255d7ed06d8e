"""Step one: list the documents of all sources by name, without reading them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.ingest.added import AddedSource
from lorebind_knowledge.ingest.report import Skipped, SourceReport, skipped_summary
from lorebind_knowledge.loaders.registry import can_load
from lorebind_knowledge.sources.base import ending_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lorebind_knowledge.catalog.ledger import DocumentEntry
    from lorebind_knowledge.ingest.corpus import Corpus
    from lorebind_knowledge.sources.base import Source, SourceItem


@dataclass(frozen=True)
class Enumeration:
    """The documents that the sources list, and the state of each source."""

    items: dict[str, tuple[str, SourceItem]] = field(default_factory=dict)
    """The documents by uri: the key of the first source that lists a document, and its item."""
    sources: list[SourceReport] = field(default_factory=list)

    def only(self, uris: Collection[str]) -> Enumeration:
        """Return only these of the listed documents, with all reports on sources."""
        items = {uri: item for uri, item in self.items.items() if uri in uris}
        return Enumeration(items, self.sources)

    def renamed(self, uris: Collection[str] | None = None) -> set[str]:
        """Return the uris that earlier versions used for the listed documents, or some of them."""
        meant = self.items if uris is None else self.items.keys() & uris
        return {self.items[uri][1].formerly for uri in meant}

    def vanished(self, known: Mapping[str, DocumentEntry]) -> list[str]:
        """Return known documents that are no longer listed, although their source was read.

        Documents of a failed source are never included. Documents of a source that is no longer
        declared are included, unless some source failed: it may be the same source with a typo in
        its pattern.
        """
        failed = {report.source for report in self.sources if report.status == "failed"}
        read = {report.source for report in self.sources} - failed
        return [
            uri
            for uri, entry in known.items()
            if uri not in self.items and (not failed or entry.source in read)
        ]


def enumerate_corpus(corpus: Corpus, added: Collection[str] | None = None) -> Enumeration:
    """List the documents in the sources of a knowledge base, and those added by hand.

    Args:
        corpus: the knowledge base.
        added: the uris of added documents, to list only these; None lists everything.
    """
    source = AddedSource(corpus.kb)
    if added is not None:
        return enumerate_sources([source]).only(added)
    # Without added documents, reports omit their source.
    return enumerate_sources([*corpus.sources, *([source] if source.items() else [])])


def enumerate_sources(sources: Iterable[Source]) -> Enumeration:
    """List every source. A failed source is reported, and the others are listed."""
    result = Enumeration()
    for source in sources:
        items: dict[str, SourceItem] = {}
        skipped: list[Skipped] = []
        try:
            for item in source.items():
                if reason := item.skipped or _unreadable(item):
                    skipped.append(Skipped(item.uri, reason))
                else:
                    items[item.uri] = item
            if skipped and not items:
                raise SourceError(f"all that it finds is skipped: {skipped_summary(skipped)}")
        except SourceError as error:
            result.sources.append(SourceReport(source.key, "failed", 0, str(error), skipped))
            continue
        for uri, item in items.items():
            result.items.setdefault(uri, (source.key, item))
        notices = list(getattr(source, "notices", ()))
        result.sources.append(
            SourceReport(source.key, "ok", len(items), skipped=skipped, notices=notices)
        )
    return result


def _unreadable(item: SourceItem) -> str:
    """Return the file extension if no loader reads the item and it was found by a pattern."""
    try:
        readable = item.peek is None or can_load(item.uri, item.peek)
    except SourceError:  # reading the document will raise it again
        readable = True
    return "" if readable else ending_of(item.uri)
