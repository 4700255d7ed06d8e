"""Steps between loading and chunking: their protocol, and what they may return."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lorebind_config.errors import MissingDependencyError, SourceError, UsageError
from lorebind_config.namespace import digest
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_knowledge.loaders.base import (
    LONGEST_TITLE,
    MAX_CHARACTERS,
    LoadedDocument,
    joined,
    misnamed_page,
    well_formed,
)
from lorebind_knowledge.loaders.marks import Anchor, Cue, Heading, Record, Scan, Table
from lorebind_knowledge.sources.folder.walk import matcher

if TYPE_CHECKING:
    from lorebind_config.declarations.knowledge_bases import DocumentTransformBase
    from lorebind_config.templates import Environment


@runtime_checkable
class DocumentTransform(Protocol):
    """A step that changes loaded documents before they are split into chunks.

    The same document always becomes the same result, because unchanged documents are not read
    again. A step must be safe to call from several threads.
    """

    @property
    def fingerprint(self) -> str:
        """A text that changes whenever the step could change the same document differently."""
        ...

    def transform(
        self, document: LoadedDocument, uri: str
    ) -> LoadedDocument | Sequence[LoadedDocument]:
        """Return the document to index instead, or several, such as parts with their own titles.

        All of them belong to the document of this uri. An empty list leaves it without passages.
        `document` itself must stay as it is; see its methods `replaced`, `edited` and `part`.

        Args:
            document: the document with its title and its metadata, also those of its source.
            uri: the uri of the document.

        Raises:
            SourceError: the document cannot be changed; then it fails with this message. Messages
                of all other exceptions are not shown, since they can quote what the step removes.
        """
        ...


_LOREBIND = str(Path(__file__).parents[1])

_BETWEEN = "\n\n"

_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("text", "title", "format", "language"), str),
    **dict.fromkeys(("omitted", "properties"), Mapping),
    "body_start": int,
    "body_end": int | None,
}
_MARKS: dict[str, tuple[Any, ...]] = {
    "headings": (Heading, int, int, str),
    "anchors": (Anchor, int, str, int | str),
    "cues": (Cue, int, int, int | float, int | float),
    "tables": (Table, int, int, int),
    "records": (Record, int, Mapping),
    "scanned": (Scan, int, int),
}
"""The types of the marks of a document, and of their values, which begin with an offset."""
_SEVERAL_OFFSETS = {"cues": 2, "tables": 3, "scanned": 2}
"""The number of these offsets, where a mark has more than one."""

MOST_PARTS = 100_000
"""Maximum number of documents that steps make of one document."""


def make_steps(declared: Sequence[DocumentTransformBase], environment: Environment) -> Steps:
    """Make the declared steps.

    Raises:
        UsageError: a function cannot be imported, or does not take the declared arguments.
        PluginError: a plugin is broken.
    """
    members = ("fingerprint", "transform")
    steps = []
    for declaration in declared:
        part = PartEnvironment(environment)
        transform = make_part("document_transforms", declaration, part, members, UsageError)
        steps.append(Step(declaration, transform))
    return Steps(steps)


class Step:
    """One step, with the documents that go through it."""

    def __init__(self, declaration: DocumentTransformBase, transform: DocumentTransform) -> None:
        word = getattr(declaration, declaration.kind_key)
        self.name = str(getattr(declaration, "function", word))
        self._transform = transform
        self._matches = matcher(declaration.documents, hidden=True)
        self._all = not declaration.documents
        self.version = digest(word, self.name, transform.fingerprint, declaration.version)[:12]

    def applies(self, uri: str) -> bool:
        return self._all or self._matches(uri)

    def apply(self, document: LoadedDocument, uri: str) -> Sequence[LoadedDocument]:
        """Return the documents that the step makes of a document.

        Raises:
            SourceError: the step failed, or returned something else.
            MissingDependencyError: the step needs a package.
        """
        failed = f"{uri}: the step {self.name!r}"
        try:
            changed = self._transform.transform(document, uri)
        except (SourceError, MissingDependencyError):
            raise
        except Exception as error:
            # Neither the message nor the cause, which can quote a text that the step removes.
            place = _place_of(error)
            raise SourceError(f"{failed} failed: {type(error).__name__}{place}") from None
        return checked(changed, document, failed)


class Steps:
    """All steps of a knowledge base, in their order."""

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        self._steps = steps

    def __bool__(self) -> bool:
        return bool(self._steps)

    def __str__(self) -> str:
        return ", ".join(f"{step.name} {step.version}" for step in self._steps)

    def versions(self, uri: str) -> tuple[str, ...]:
        """Return the versions of the steps that a document goes through."""
        return tuple(step.version for step in self._steps if step.applies(uri))

    def apply(self, document: LoadedDocument, uri: str) -> Sequence[LoadedDocument]:
        """Return the documents that all steps together make of a document.

        Raises:
            SourceError, MissingDependencyError: see `Step.apply`.
        """
        documents: Sequence[LoadedDocument] = [document]
        for step in self._steps:
            if step.applies(uri):
                documents = [part for each in documents for part in step.apply(each, uri)]
            if len(documents) > MOST_PARTS:
                raise SourceError(
                    f"{uri}: the step {step.name!r} made more than {MOST_PARTS:,} documents of it"
                )
        return _laid_out(documents, uri)


def _laid_out(documents: Sequence[LoadedDocument], uri: str) -> Sequence[LoadedDocument]:
    """Return documents as parts of one text, so that each passage has a place of its own.

    Raises:
        SourceError: the text would be too long.
    """
    documents = [document.sharing(documents[0]) for document in documents]
    starts: dict[str, int] = {}
    size = 0
    for document in documents:
        if document.text not in starts:
            starts[document.text] = size
            size += len(document.text) + len(_BETWEEN)
    if len(starts) <= 1:
        return documents
    whole = joined(starts, uri, separator=_BETWEEN)
    return [document.within(whole, starts[document.text]) for document in documents]


def checked(changed: object, before: LoadedDocument, what: str) -> Sequence[LoadedDocument]:
    """Return the documents that a step returned, after checking them.

    Args:
        changed: what the step returned.
        before: the document that it received.
        what: the start of the message of an error.

    Raises:
        SourceError: something else was returned, or a document that contradicts itself.
    """
    documents = [changed] if isinstance(changed, LoadedDocument) else changed
    if not isinstance(documents, list | tuple) or not all(
        isinstance(part, LoadedDocument) for part in documents
    ):
        raise SourceError(
            f"{what} returned {_described(changed)}; expected a LoadedDocument or a list of them, "
            "which may be empty"
        )
    for part in documents:
        has_same_text = part.text is before.text
        kinds = [
            kind
            for kind in _MARKS
            if not (has_same_text and getattr(part, kind) is getattr(before, kind))
        ]
        if wrong := (
            _mistyped(part, kinds)
            or _malformed(part, before, kinds)
            or _misplaced(part, before, kinds)
        ):
            raise SourceError(f"{what} returned {wrong}")
    return documents


def _place_of(error: Exception) -> str:
    """Return the file and line in the step's code that raised an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in frames if not frame.filename.startswith(_LOREBIND)), None)
    return f" in {Path(frame.filename).name}, line {frame.lineno}" if frame else ""


def _described(changed: object) -> str:
    if isinstance(changed, list | tuple):
        return f"a {type(changed).__name__} with other objects"
    return f"a {type(changed).__name__}"


def _mistyped(document: LoadedDocument, kinds: Sequence[str]) -> str:
    """Return which part of a changed document has a wrong type; empty if none.

    Args:
        document: the changed document.
        kinds: the marks that are not those of the document before; here and below.
    """
    for name, expected in _FIELDS.items():
        if not isinstance(value := getattr(document, name), expected):
            return f"a {type(value).__name__} as {name}"
    for kind in kinds:
        mark_type, *types = _MARKS[kind]
        marks = getattr(document, kind)
        if not (
            isinstance(marks, list | tuple)
            and all(isinstance(mark, mark_type) for mark in marks)
            and all(all(map(isinstance, mark, types)) for mark in marks)
        ):
            return f"{kind} that are not {mark_type.__name__} with the types of its fields"
    records = document.records if "records" in kinds else ()
    for metadata in (document.metadata, *(record.metadata for record in records)):
        if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
            return "metadata that is not a mapping of texts to values"
    return misnamed_page(document.anchors) if "anchors" in kinds else ""


def _malformed(document: LoadedDocument, before: LoadedDocument, kinds: Sequence[str]) -> str:
    """Return which text of a changed document is too long, or has characters that are refused."""
    if len(document.text) > MAX_CHARACTERS:
        return f"a text of more than {MAX_CHARACTERS:,} characters"
    if len(document.title) > LONGEST_TITLE:
        return f"a title of more than {LONGEST_TITLE} characters"
    texts = {"a text": document.text, "a title": document.title}
    if "headings" in kinds:
        texts |= {f"a heading {at}": mark.title for at, mark in enumerate(document.headings, 1)}
    if "anchors" in kinds:
        names = (f"{mark.kind} {mark.name}" for mark in document.anchors)
        texts |= {f"an anchor {at}": name for at, name in enumerate(names, 1)}
    for name, text in texts.items():
        if text is not before.text and text != well_formed(text):
            return f"{name} with characters that databases do not accept"
    return ""


def _misplaced(document: LoadedDocument, before: LoadedDocument, kinds: Sequence[str]) -> str:
    """Return what is not at its place in the text of a changed document; empty if nothing."""
    size = len(document.text)
    if not 0 <= document.body_start <= document.end <= size:
        return f"a text from {document.body_start} to {document.end} of {size} characters"
    for kind in kinds:
        marks = getattr(document, kind)
        starts = [mark.start for mark in marks]
        spans = [(*mark[: _SEVERAL_OFFSETS.get(kind, 1)], size) for mark in marks]
        if starts and (
            starts[0] < 0
            or any(start > after for start, after in pairwise(starts))
            or any(start > after for span in spans for start, after in pairwise(span))
            or (
                document.text != before.text
                and marks == getattr(before, kind)
                and document.text[: starts[-1]] != before.text[: starts[-1]]
            )
        ):
            return (
                f"{kind} that are at other places in its text; change texts with "
                "document.replaced or document.edited, which move them"
            )
    return ""
