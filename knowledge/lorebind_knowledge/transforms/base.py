"""The protocol of steps between loading and chunking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.loaders.base import LoadedDocument


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
