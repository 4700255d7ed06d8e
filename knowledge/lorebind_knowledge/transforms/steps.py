"""The steps of a knowledge base: which documents go through them, and what they return."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from lorebind_config.errors import MissingDependencyError, SourceError, UsageError
from lorebind_config.namespace import digest
from lorebind_config.reading.make_part import PartEnvironment, make_part
from lorebind_knowledge.loaders.base import (
    LONGEST_TITLE,
    MAX_CHARACTERS,
    LoadedDocument,
    joined,
    well_formed,
)
from lorebind_knowledge.sources.folder.walk import matcher

if TYPE_CHECKING:
    from lorebind_config.declarations.knowledge_bases import DocumentTransformBase
    from lorebind_config.templates import Environment
    from lorebind_knowledge.transforms.base import DocumentTransform

_LOREBIND = str(Path(__file__).parents[1])

_BETWEEN = "\n\n"

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
        if isinstance(part.text, str) and len(part.text) > MAX_CHARACTERS:
            raise SourceError(f"{what} returned a text of more than {MAX_CHARACTERS:,} characters")
        if wrong := _malformed(part, before) or _misplaced(part, before):
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


def _malformed(document: LoadedDocument, before: LoadedDocument) -> str:
    """Return which part of a changed document has a wrong type or characters; empty if none."""
    texts: dict[str, object] = {"text": document.text, "title": document.title}
    texts |= {f"heading {number}": mark.title for number, mark in enumerate(document.headings, 1)}
    for name, text in texts.items():
        if not isinstance(text, str):
            return f"a {type(text).__name__} as {name}"
        if text != before.text and text != well_formed(text):
            return f"a {name} with characters that databases do not accept"
    metadata: object = document.metadata
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        return "metadata that is not a mapping of texts to values"
    is_too_long = len(document.title) > LONGEST_TITLE
    return f"a title of more than {LONGEST_TITLE} characters" if is_too_long else ""


def _misplaced(document: LoadedDocument, before: LoadedDocument) -> str:
    """Return what is not at its place in the text of a changed document; empty if nothing."""
    size = len(document.text)
    if not 0 <= document.body_start <= document.end <= size:
        return f"a text from {document.body_start} to {document.end} of {size} characters"
    for kind in ("headings", "anchors", "cues", "tables", "records"):
        marks = getattr(document, kind)
        starts = [mark.start for mark in marks]
        if starts and (
            not 0 <= starts[0] <= starts[-1] <= size
            or any(start > after for start, after in pairwise(starts))
            or (
                marks == getattr(before, kind)
                and document.text[: starts[-1]] != before.text[: starts[-1]]
            )
        ):
            return (
                f"{kind} that are at other places in its text; change texts with "
                "document.replaced or document.edited, which move them"
            )
    return ""
