"""Notices about documents, of which a report has only a few."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST = 20


class DocumentNotices:
    """Notices, at most one for each document: the first ones, and the number of the others."""

    def __init__(self, of_others: str) -> None:
        """
        Args:
            of_others: the notice of further documents; `{}` stands for their number.
        """
        self._first: list[str] = []
        self._of_others, self._others = of_others, 0

    def add(self, notice: str) -> None:
        """Add the notice about another document."""
        if len(self._first) < _MOST:
            self._first.append(notice)
        else:
            self._others += 1

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        if self._others:
            yield self._of_others.format(f"{self._others:,}")
