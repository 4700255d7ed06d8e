"""The source protocol: a source lists documents and reads each of them on request."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lorebind_config.errors import SourceError
from lorebind_config.namespace import digest
from lorebind_config.redaction import HIDDEN, is_secret_path

if TYPE_CHECKING:
    from lorebind_config.declarations.base import Path
    from lorebind_config.declarations.sources import SourceBase, SourceMetadata

PLAIN_TEXT = "text/plain"
MARKDOWN = "text/markdown"

_BY_ENDING = {
    ".csv": "text/csv",
    ".htm": "text/html",
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".markdown": MARKDOWN,
    ".md": MARKDOWN,
    ".srt": "application/x-subrip",
    ".vtt": "text/vtt",
}


def media_type_of_text(name: str) -> str:
    """Return a text's media type for its name's extension; `text/plain` for unknown extensions."""
    _, dot, ending = name.rpartition(".")
    return _BY_ENDING.get(f"{dot}{ending.lower()}", PLAIN_TEXT)


_LONGEST_KEY = 200
_NOT_NAMING = (
    ("type",),
    ("max_bytes",),
    ("metadata",),
    ("on_textless_pages",),
    ("ocr",),
    ("max_scan_bytes",),
)
"""The settings of every source that are not part of its key: they do not select documents."""


def key_of(declaration: SourceBase) -> str:
    """Return the key of a declared source. It does not depend on the values of templates."""
    names = declaration.names
    if names is None:
        names = list(_settings(declaration.written()))
    word = getattr(declaration, declaration.kind_key)
    key = f"{word}:{','.join(map(without_credentials, names))}"
    return key if len(key) <= _LONGEST_KEY else f"{key[: _LONGEST_KEY - 20]}... {digest(key)[:12]}"


def without_credentials(address: str) -> str:
    """Return an address, or a template of one, without user, password and fragment."""
    plain = re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@", r"\1", address)
    return plain.partition("#")[0]


def public_address(address: str) -> str:
    """Return an address as messages show it: also without its query."""
    place, query, _ = without_credentials(address).partition("?")
    return f"{place}?..." if query else place


def mark(config: Mapping[str, Any]) -> list[str]:
    """Return a short digest of the settings in a list; an empty list if there are none."""
    return [digest(json.dumps(config, sort_keys=True))[:8]] if config else []


def _settings(written: Any, path: Path = ()) -> Iterator[str]:
    """Yield each setting as `config.folder=notes`; values under names of secrets are hidden."""
    if isinstance(written, dict):
        for name, value in written.items():
            if (*path, name) not in _NOT_NAMING:
                yield from _settings(value, (*path, name))
    else:
        text = HIDDEN if is_secret_path(path) else json.dumps(written, ensure_ascii=False)
        yield f"{'.'.join(map(str, path))}={text}"


@dataclass(frozen=True, slots=True)
class Content:
    """A document as its source returned it."""

    data: bytes
    media_type: str = ""
    """Media type according to the source, such as `text/html; charset=utf-8`; empty if unknown."""
    version: str = ""
    """Passed to the next read, so that the source can tell whether the document changed.

    Only the source interprets it, for example an ETag or a date. Empty if the source has no
    versions.
    """
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the source has for the document, added to the metadata of its passages."""
    modified: str = ""
    """When the document was changed, as `lorebind_config.dates` stores it; empty if unknown."""
    declared: SourceMetadata | None = None
    """The `metadata` of the source, which says what to read from the document."""


def checked_content(content: object, uri: str) -> Content:
    """Return what a source returned for a document.

    Raises:
        SourceError: it is something else.
    """
    if isinstance(content, Content):
        return content
    raise SourceError(f"{uri}: its source returned {type(content).__name__}, expected Content")


def plain_metadata(metadata: Mapping[Any, Any]) -> dict[str, Any]:
    """Keep the values that filters can use: strings, finite numbers, booleans, lists of these."""
    return {str(key): value for key, value in metadata.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(not isinstance(entry, list) and _is_plain(entry) for entry in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int)


class SourceItem(NamedTuple):
    """A document of a source: its uri, and how to read it."""

    uri: str
    read: Callable[[str], Content | Awaitable[Content | None] | None]
    """Reads the document: `def`, which is called in a worker thread, or `async def`.

    It is called with the version of the last read, or with an empty string to read the content in
    any case. It returns None if the document has not changed since that version, and raises
    SourceError if the document cannot be read; then only that document fails.
    """
    skipped: str = ""
    """Why the source skips it, in a word or two; it is then reported but not read."""
    setting: str = ""
    """The setting of the source with which a skipped item is read; empty if there is none.

    For an item that is not skipped: the setting with which it is read if no loader reads its
    format, but it is text.
    """
    unlisted: str = ""
    """Why the source cannot list this folder, whose uri ends with `/`.

    It is reported, and documents in the index whose uris begin with that uri are not deleted.
    """
    peek: Callable[[int | None], bytes] | None = None
    """Returns the first bytes of a document, at most as many as given, or all of them for None.

    Set for documents that were found by a pattern: they are skipped if no loader reads their
    format. Documents without it were requested by name, so they fail instead. Raises SourceError if
    the document cannot be read.
    """
    version: str = ""
    """The document's version, if listing tells it: not read if it is that of the last read."""
    token: bytes = b""
    """A short text from which `Source.restore` makes the item again; empty if it cannot.

    An ingest does not keep such items in memory. It keeps their versions, so `restore` need not
    return them.
    """


def ending_of(uri: str) -> str:
    """Return a document's file extension, which reports show for an unsupported format."""
    name, _, ending = uri.rpartition("/")[2].rpartition(".")
    return f".{ending.lower()}" if name and ending else "no extension"


class Source(Protocol):
    """A source, which lists the documents of one declared source.

    It may have an attribute `notices`, a list of strings that reports show after `items` has ended,
    and a method `restore` that returns the item with a `token`, after `items` has ended.
    """

    @property
    def key(self) -> str:
        """The name of the source in the ledger and in reports.

        An ingest deletes only documents that were ingested under the same key.
        """
        ...

    def items(self) -> Iterable[SourceItem]:
        """Yield all documents in a stable order.

        Raises:
            SourceError: the source cannot be listed or has no documents. Documents that were
                ingested from it are then not deleted.
        """
        ...
