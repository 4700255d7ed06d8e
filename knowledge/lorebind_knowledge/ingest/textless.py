"""Parts of documents without text: which of them a source does not accept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import parts_in_words, ranges

if TYPE_CHECKING:
    from lorebind_knowledge.loaders.base import LoadedDocument


def check_text(uri: str, document: LoadedDocument, policy: str, *, was_recognized: bool) -> None:
    """Check whether a source accepts a document in which parts have no text.

    Args:
        uri: the document's.
        document: the document, after OCR.
        policy: `on_textless_pages` of its source.
        was_recognized: whether OCR has read its pages.

    Raises:
        SourceError: it does not.
    """
    pages = document.textless_pages
    if policy == "fail" and (parts := document.textless_parts):
        which = f" (pages {ranges(pages)})" if pages else ""
        raise SourceError(
            f"{uri}: without text: {parts_in_words(parts)}{which}; recognize the text (OCR), or "
            "accept them with on_textless_pages: warn in its source"
        )
    if policy == "warn" and document.format == "pdf" and not document.text.strip():
        advice = (
            ", in which OCR finds none"
            if was_recognized
            else "; recognize the text (OCR): run pip install 'lorebind[ocr]', or save it with a "
            "text layer"
        )
        raise SourceError(f"{uri}: none of its {len(pages)} pages has text, only images{advice}")
