"""The source `langchain`: documents from any LangChain document loader."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from lorebind_config.checks.named_code import named_class
from lorebind_config.declarations.objects import ClassOrObject
from lorebind_config.declarations.sources import SourceBase
from lorebind_config.declarations.values import ConfigMap
from lorebind_config.document_sizes import SizeLimit, too_large
from lorebind_config.errors import SourceError
from lorebind_config.namespace import free_name
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.sources.base import (
    MARKDOWN,
    PLAIN_TEXT,
    Content,
    SourceItem,
    mark,
    media_type_of_text,
    plain_metadata,
)
from lorebind_knowledge.sources.spool import Spool

if TYPE_CHECKING:
    from langchain_core.document_loaders import BaseLoader
    from langchain_core.documents import Document

    from lorebind_knowledge.sources.make import SourceEnvironment
    from lorebind_knowledge.sources.spool import Piece

_MAX_BYTES = 8 * 1024**3
_MAX_DOCUMENTS = 500_000
"""Maximum number of documents per loader.

Loaders have no listing, so all documents are loaded before any is read.
"""


class LangChainSource(SourceBase):
    """Documents from any LangChain document loader."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    type: Literal["langchain"] = Field(description="A LangChain document loader.")
    class_path: ClassOrObject = Field(
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    config: ConfigMap = Field(default_factory=dict, description="Arguments for the class, by name.")

    @property
    def names(self) -> list[str]:
        return [self.class_path, *mark(self.config)]


Declaration = LangChainSource


def make(declaration: LangChainSource, environment: SourceEnvironment) -> LangChainDocuments:
    """Return the source of a declaration.

    Raises:
        SourceError: the class is not a document loader.
    """
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


@dataclass(frozen=True, eq=False)
class LangChainDocuments:
    """A source of the documents of a LangChain loader, with their `source` as the uri.

    The loader is created and run each time the documents are listed, in a worker thread. The
    documents are stored in a temporary file until they are read. If several documents have the same
    source, the second is `SOURCE#2`, and so on in the loader's order.
    """

    key: str
    class_path: str
    """The class, as `package.module:Class`, for messages."""
    kind: Callable[..., BaseLoader]
    """The class itself."""
    _: KW_ONLY
    written: Mapping[str, Any]
    """Arguments for the class as written in the configuration."""
    settings: Mapping[str, Any]
    """The same with resolved templates."""
    max_bytes: int
    """Maximum size of a document, in UTF-8."""

    def items(self) -> Iterator[SourceItem]:
        taken: dict[str, int] = {}
        spool = Spool()
        try:
            for number, document in enumerate(self._documents()):
                if number >= _MAX_DOCUMENTS or spool.size > _MAX_BYTES:
                    raise SourceError(f"{self.class_path} returns too much for a source; split it")
                name = str(document.metadata.get("source") or self.class_path.rpartition(":")[2])
                uri = free_name(name, taken)
                yield SourceItem(uri, partial(self._read, uri, self._put(spool, document, name)))
        except Exception:
            spool.close()  # the exception may be kept, and would keep the spool open
            raise
        if not taken:
            raise SourceError(f"{self.class_path} returns no documents")

    def _put(self, spool: Spool, document: Document, name: str) -> Callable[[], Content] | None:
        """Store a document and return a function that reads it; None if it is too large."""
        data = document.page_content.encode("utf-8", "replace")
        if len(data) > self.max_bytes:
            return None
        metadata = json.dumps(plain_metadata(document.metadata)).encode()
        # Loaders return text, whatever the format of their source.
        media_type = MARKDOWN if media_type_of_text(name) == MARKDOWN else PLAIN_TEXT
        return partial(_content, spool, spool.put(data), spool.put(metadata), media_type)

    def _documents(self) -> Iterator[Document]:
        from langchain_core.documents import Document

        try:
            loader = self.kind(**deepcopy(self.settings))  # some loaders modify their arguments
        except Exception as error:  # third-party constructors can raise anything
            raise SourceError(
                f"{self.class_path} cannot be created from this configuration: "
                f"{self._reason(error)}"
            ) from error
        try:
            for document in loader.lazy_load():
                if not isinstance(document, Document):
                    raise TypeError(f"it returned a {type(document).__name__}, not a Document")
                yield document
        except Exception as error:  # loaders can raise anything
            message = self._reason(error, holder=loader)
            raise SourceError(f"{self.class_path} failed: {message}") from error

    def _reason(self, error: Exception, holder: object = None) -> str:
        return redacted_message(error, holder=holder, written=self.written, resolved=self.settings)

    def _read(self, uri: str, content: Callable[[], Content] | None, version: str) -> Content:
        if content is None:
            raise too_large(uri, SizeLimit(self.max_bytes).of(uri))
        return content()


def _content(spool: Spool, data: Piece, metadata: Piece, media_type: str) -> Content:
    return Content(spool.get(data), media_type, metadata=json.loads(spool.get(metadata)))
