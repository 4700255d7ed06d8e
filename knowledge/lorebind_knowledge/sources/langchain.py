"""`langchain`: whatever a document loader class of LangChain loads."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_knowledge.configuration.named_code import named_class
from lorebind_knowledge.declarations.live import ClassOrObject
from lorebind_knowledge.declarations.sources import SourceBase
from lorebind_knowledge.declarations.values import ConfigMap
from lorebind_knowledge.errors import SourceError
from lorebind_knowledge.redaction import said_by
from lorebind_knowledge.sources.base import Content, SourceItem, plain_metadata
from lorebind_knowledge.sources.key import mark
from lorebind_knowledge.sources.limits import too_large
from lorebind_knowledge.sources.media_types import MARKDOWN, PLAIN_TEXT, media_type_of_text
from lorebind_knowledge.sources.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from langchain_core.document_loaders import BaseLoader
    from langchain_core.documents import Document

    from lorebind_knowledge.sources.environment import SourceEnvironment
    from lorebind_knowledge.sources.spool import Piece

_MAX_BYTES = 8 * 1024**3
_MAX_DOCUMENTS = 500_000
"""What one loader may give in all. Loaders list nothing: they give all of it before any is read."""


class LangChainSource(SourceBase):
    """Any document loader class of LangChain."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    type: Literal["langchain"] = Field(description="A document loader class of LangChain.")
    class_path: ClassOrObject = Field(
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    config: ConfigMap = Field(default_factory=dict, description="Arguments of the class, by name.")

    @property
    def names(self) -> list[str]:
        return [self.class_path, *mark(self.config)]


Declaration = LangChainSource


def make(declaration: LangChainSource, environment: SourceEnvironment) -> LangChainDocuments:
    """Raises `SourceError` for a class that is no loader."""
    from langchain_core.document_loaders import BaseLoader

    settings = environment.filled(declaration)[0].config
    expected = "a class derived from LangChain's BaseLoader"
    kind = named_class(declaration, environment, expected, BaseLoader, failure=SourceError)
    return LangChainDocuments(
        environment.key,
        declaration.class_path,
        kind,
        written=declaration.config,
        settings=settings,
        max_bytes=declaration.max_bytes,
    )


class LangChainDocuments:
    """Each document that the loader gives is one item, whose uri is its `source`.

    The loader is made and run anew whenever the documents are listed, in a worker thread. What it
    gives waits in a temporary file until it is read. Where it gives several documents of one
    source, the second is `SOURCE#2`, and so on in its order.
    """

    def __init__(
        self,
        key: str,
        class_path: str,
        kind: Callable[..., BaseLoader],
        *,
        written: Mapping[str, Any],
        settings: Mapping[str, Any],
        max_bytes: int,
    ) -> None:
        """
        Args:
            key: the source's key.
            class_path: the class, as `package.module:Class`, for messages.
            kind: the class itself.
            written: the arguments of the class as they stand in the configuration.
            settings: the same with their templates filled in.
            max_bytes: the size of the largest document, in UTF-8.
        """
        self.key = key
        self._kind = kind
        self._class_path = class_path
        self._written = dict(written)
        self._settings = dict(settings)
        self._max_bytes = max_bytes

    def items(self) -> Iterator[SourceItem]:
        taken: dict[str, int] = {}
        spool = Spool()
        try:
            for number, document in enumerate(self._documents()):
                if number >= _MAX_DOCUMENTS or spool.size > _MAX_BYTES:
                    raise SourceError(f"{self._class_path} gives too much for a source; split it")
                name = str(document.metadata.get("source") or self._class_path.rpartition(":")[2])
                uri = _free(name, taken)
                yield SourceItem(uri, partial(self._read, uri, self._put(spool, document, name)))
        except Exception:
            spool.close()  # what raised may be kept, and the spool with it
            raise
        if not taken:
            raise SourceError(f"{self._class_path} gives no document")

    def _put(self, spool: Spool, document: Document, name: str) -> Callable[[], Content] | None:
        """What reads a document again; None for one that is too large to be read."""
        data = document.page_content.encode("utf-8", "replace")
        if len(data) > self._max_bytes:
            return None
        said = json.dumps(plain_metadata(document.metadata)).encode()
        # What a loader read is text by now, whatever its source was.
        media_type = MARKDOWN if media_type_of_text(name) == MARKDOWN else PLAIN_TEXT
        return partial(_content, spool, spool.put(data), spool.put(said), media_type)

    def _documents(self) -> Iterator[Document]:
        from langchain_core.documents import Document

        try:
            loader = self._kind(**deepcopy(self._settings))  # some write into what they are given
        except Exception as error:  # whatever a third party's constructor raises
            raise SourceError(
                f"{self._class_path} cannot be made with the configuration given: "
                f"{self._said_by(error)}"
            ) from error
        try:
            for document in loader.lazy_load():
                if not isinstance(document, Document):
                    raise TypeError(f"it gave a {type(document).__name__}, not a Document")
                yield document
        except Exception as error:  # any loader's own exceptions
            said = self._said_by(error, holder=loader)
            raise SourceError(f"{self._class_path} failed: {said}") from error

    def _said_by(self, error: Exception, holder: object = None) -> str:
        return said_by(error, holder=holder, written=self._written, resolved=self._settings)

    def _read(self, uri: str, content: Callable[[], Content] | None, version: str) -> Content:
        if content is None:
            raise too_large(uri, self._max_bytes)
        return content()


def _content(spool: Spool, data: Piece, said: Piece, media_type: str) -> Content:
    return Content(spool.get(data), media_type, metadata=json.loads(spool.get(said)))


def _free(name: str, taken: dict[str, int]) -> str:
    """The name, or the next numbered one that is free; `taken` counts how often each was used."""
    uri = name
    while uri in taken:
        taken[name] += 1
        uri = f"{name}#{taken[name]}"
    taken[uri] = 1
    return uri
