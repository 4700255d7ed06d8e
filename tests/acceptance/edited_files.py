"""Documents to edit: the intended content of each, and its file on disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

WORDS = tuple(
    f"{tree}{number}" for tree in ("amber", "birch", "cedar", "delta") for number in range(3)
)
"""The words of paragraphs. Each paragraph has one, so texts repeat in several locations. All have
the same length, and some differ in one character."""

_KNOWN = re.compile(r"\b(?:amber|birch|cedar|delta|kept|inline)\d\b")


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a file, whatever its format."""

    words: tuple[str, ...]
    """The words, one per paragraph."""
    title: str = ""
    """The title; without one, the file name is used. Formats without titles ignore it."""
    draft: int = 0
    """The value of `draft` in the front matter of Markdown."""
    newline: str = "\n"
    encoding: str = "utf-8"

    def edited(self, place: int, *, cut: int = 0, put: tuple[str, ...] = ()) -> Document:
        """Return a copy with `cut` words replaced by `put`; place -1 is after the last word."""
        words = list(self.words)
        start = place if place >= 0 else len(words) + 1 + place - cut
        start = min(max(start, 0), len(words))
        words[start : start + cut] = put
        return replace(self, words=tuple(words))

    def as_bytes(self, suffix: str) -> bytes:
        return self.as_text(suffix).replace("\n", self.newline).encode(self.encoding)

    def as_text(self, suffix: str) -> str:
        return FORMATS[suffix](self)


def paragraph(word: str) -> str:
    return f"{word}, and {'more of the déjà vu, ' * 2}then the end"


def words_in(text: str) -> set[str]:
    """Return all known words that occur in a text."""
    return set(_KNOWN.findall(text))


def body(document: Document) -> str:
    return "\n\n".join(map(paragraph, document.words))


def as_markdown(document: Document) -> str:
    if not (document.title or document.draft):
        return body(document)
    title = f"title: {document.title}\n" if document.title else ""
    return f"---\n{title}draft: {document.draft}\n---\n{body(document)}"


def as_html(document: Document) -> str:
    body = "\n".join(f"<p>{paragraph(word)}</p>" for word in document.words)
    title = f"<title>{document.title}</title>" if document.title else ""
    return f"<html><head>{title}</head><body><main>\n{body}\n</main></body></html>"


def as_csv(document: Document) -> str:
    rows = (f'{number},"{paragraph(word)}"\n' for number, word in enumerate(document.words))
    return f"number,said\n{''.join(rows)}"


def as_json_lines(document: Document) -> str:
    return "".join(json.dumps({"said": paragraph(word)}) + "\n" for word in document.words)


def as_captions(document: Document) -> str:
    cues = (
        f"00:{number // 60:02}:{number % 60:02}.000 --> 00:{number // 60:02}:{number % 60:02}.900\n"
        f"{paragraph(word)}\n"
        for number, word in enumerate(document.words)
    )
    return "WEBVTT\n\n" + "\n".join(cues)


FORMATS: dict[str, Callable[[Document], str]] = {
    ".md": as_markdown,
    ".txt": body,
    ".html": as_html,
    ".csv": as_csv,
    ".jsonl": as_json_lines,
    ".vtt": as_captions,
}


class EditedFiles:
    """A folder with a file for each document."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.documents: dict[str, Document] = {}
        self.clock_stands = False
        """Whether all files keep one fixed modification time, as on file systems without times."""

    def write(self, name: str, document: Document, *, at_its_time: bool = False) -> None:
        """Write a document; with `at_its_time`, keep the modification time of its file."""
        path = self.root / name
        time = path.stat().st_mtime_ns if at_its_time and path.exists() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document.as_bytes(path.suffix))
        self.documents[name] = document
        if self.clock_stands or time is not None:
            self.touch(name, time or 10**18)

    def edit(
        self, name: str, place: int, *, cut: int = 0, put: tuple[str, ...] = (), **how: bool
    ) -> None:
        self.write(name, self.documents[name].edited(place, cut=cut, put=put), **how)

    def touch(self, name: str, nanoseconds: int) -> None:
        os.utime(self.root / name, ns=(nanoseconds, nanoseconds))

    def remove(self, name: str) -> None:
        (self.root / name).unlink()
        del self.documents[name]

    def move(self, old: str, new: str) -> None:
        """Rename a file and keep its time; a file that already has the new name is replaced."""
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).replace(self.root / new)
        self.documents[new] = self.documents.pop(old)

    def swap(self, first: str, other: str) -> None:
        """Swap the names of two files, which keep their times."""
        if first != other:
            between = f"{first}.between"
            for old, new in ((first, between), (other, first), (between, other)):
                self.move(old, new)

    def become(self, documents: dict[str, Document]) -> None:
        """Restore these documents, whatever was edited."""
        for name in self.documents.keys() - documents.keys():
            self.remove(name)
        for name, document in documents.items():
            if self.documents.get(name) != document:
                self.write(name, document)

    def content(self, name: str) -> bytes:
        """Return the expected bytes of a file."""
        return self.documents[name].as_bytes(Path(name).suffix)

    def title(self, name: str) -> str:
        """Return the expected title of a file's passages."""
        path = Path(name)
        has_own = path.suffix in (".md", ".html") and self.documents[name].title
        return has_own or path.stem
