"""Step one: what is there. Names only; nothing is read yet."""

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
    """Everything that the sources list, and which of them could not."""

    items: dict[str, tuple[str, SourceItem]] = field(default_factory=dict)
    """By uri: the key of the first source that lists it, and the item."""
    sources: list[SourceReport] = field(default_factory=list)

    def only(self, uris: Collection[str]) -> Enumeration:
        """Of the listed documents only these; the reports on the sources stay."""
        items = {uri: item for uri, item in self.items.items() if uri in uris}
        return Enumeration(items, self.sources)

    def renamed(self, uris: Collection[str] | None = None) -> set[str]:
        """The uris by which earlier versions knew what is listed, or only these of it."""
        meant = self.items if uris is None else self.items.keys() & uris
        return {self.items[uri][1].formerly for uri in meant}

    def vanished(self, known: Mapping[str, DocumentEntry]) -> list[str]:
        """Known documents that are gone: not listed any more, though their source was read.

        A source that failed vouches for nothing. One that is no longer declared does not hold its
        documents, unless some source failed: that may be the same one with its pattern mistyped.
        """
        failed = {report.source for report in self.sources if report.status == "failed"}
        read = {report.source for report in self.sources} - failed
        return [
            uri
            for uri, entry in known.items()
            if uri not in self.items and (not failed or entry.source in read)
        ]


def enumerate_corpus(corpus: Corpus, added: Collection[str] | None = None) -> Enumeration:
    """List what the sources of a knowledge base hold, and what was added to it by hand.

    Args:
        corpus: the knowledge base.
        added: the uris of added documents, to list these alone; None lists everything.
    """
    source = AddedSource(corpus.kb)
    if added is not None:
        return enumerate_sources([source]).only(added)
    # Reports name the source only where it has something.
    return enumerate_sources([*corpus.sources, *([source] if source.items() else [])])


def enumerate_sources(sources: Iterable[Source]) -> Enumeration:
    """List every source; one that fails is reported and does not stop the others."""
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
    """Its ending where no loader reads such documents, and nobody asked for it by name."""
    try:
        readable = item.peek is None or can_load(item.uri, item.peek)
    except SourceError:  # reading it will say why
        readable = True
    return "" if readable else ending_of(item.uri)
