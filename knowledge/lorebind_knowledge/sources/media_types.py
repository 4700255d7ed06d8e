"""Guess the media type of a document from its name, in the same way on every machine."""

from __future__ import annotations

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
