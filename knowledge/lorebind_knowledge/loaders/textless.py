"""Parts of documents without text: in words, and which of them a source does not accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lorebind_config.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorebind_knowledge.loaders.base import LoadedDocument

_MOST_RANGES = 10


def parts_in_words(parts: Mapping[str, int]) -> str:
    """Return counts of parts as a list: `3 pages, 1 image`."""
    return ", ".join(f"{count:,} {kind}{'s' * (count != 1)}" for kind, count in parts.items())


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ranges, at most ten of them: `2, 4-6`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        first = runs.pop()[0] if runs and runs[-1][1] == number - 1 else number
        runs.append((first, number))
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join([*texts[:_MOST_RANGES], *(["…"] if len(texts) > _MOST_RANGES else [])])


def is_refused(policy: str, form: str, parts: Mapping[str, int], *, has_text: bool) -> bool:
    """Return whether a source does not accept a document.

    Args:
        policy: `on_textless_pages` of the source.
        form: the format of the document.
        parts: the number of its parts without text, by kind.
        has_text: whether any part has text.
    """
    return bool(parts) and (
        policy == "fail" or (policy == "warn" and form == "pdf" and not has_text)
    )


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
    pages, parts = document.textless_pages, document.textless_parts
    has_text = bool(document.text.strip())
    if not is_refused(policy, document.format, parts, has_text=has_text):
        return
    if policy == "fail":
        which = f" (pages {ranges(pages)})" if pages else ""
        raise SourceError(
            f"{uri}: without text: {parts_in_words(parts)}{which}; recognize the text (OCR), or "
            "accept them with on_textless_pages: warn in its source"
        )
    advice = (
        ", and OCR finds none"
        if was_recognized
        else "; recognize the text (OCR): run pip install 'lorebind[ocr]', or save it with a text "
        "layer"
    )
    raise SourceError(f"{uri}: none of its {len(pages)} pages has text{advice}")
