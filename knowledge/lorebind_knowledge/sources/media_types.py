"""What a document that only has a name probably is, on every machine the same."""

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
    """The media type of a text by the ending of its name; `text/plain` where it says nothing."""
    _, dot, ending = name.rpartition(".")
    return _BY_ENDING.get(f"{dot}{ending.lower()}", PLAIN_TEXT)
