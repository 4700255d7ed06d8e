"""The Python functions of the workflows in this folder."""

from __future__ import annotations

import re

from lorebind import Update


def read(ticket: str) -> dict[str, object]:
    """Return the kind of a ticket, and the questions in it."""
    if not ticket.strip():
        raise ValueError("the ticket is empty")
    questions = [part.strip() for part in re.findall(r"[^.!?]*\?", ticket)]
    kind = "refund" if "refund me" in ticket.lower() else "question" if questions else "other"
    return {"kind": kind, "questions": questions}


def sections(document: str) -> list[dict[str, str]]:
    """Return the sections of a Markdown text."""
    parts = re.split(r"^#+ (.*)$", document, flags=re.MULTILINE)[1:]
    return [
        {"title": title, "text": text.strip()}
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def wording(sections: list[dict[str, str]]) -> Update:
    """Find words that customers should not have to read."""
    findings = [
        {"section": section["title"], "finding": f"avoid the word {word!r}"}
        for section in sections
        for word in re.findall(r"\b(?:ASAP|obviously|simply)\b", section["text"])
    ]
    return Update(len(findings), findings=findings)


def sourced(sections: list[dict[str, str]], answers: list[str]) -> Update:
    """Find sections that the handbook does not cover."""
    findings = [
        {"section": section["title"], "finding": "not in the handbook"}
        for section, answer in zip(
            (section for section in sections if section["text"]), answers, strict=True
        )
        if "[1]" not in answer
    ]
    return Update(len(findings), findings=findings)


def add(before: list[object], new: list[object]) -> list[object]:
    """Merge findings: the reducer of `findings`, because both checks write it in parallel."""
    return [*before, *new]


def verdict(findings: list[object]) -> str:
    return "publish" if not findings else f"mend {len(findings)} first"


def draft(subject: str, earlier: dict[str, dict[str, str]]) -> str:
    """Write a reply that includes the note of an earlier review."""
    note = earlier.get("review", {}).get("note", "we look into it.")
    return f"Dear customer, about {subject}: {note}"
