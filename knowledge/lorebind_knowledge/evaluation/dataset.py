"""Read queries and judgements from JSON Lines and TSV, the usual formats of test collections."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lorebind_config.errors import UsageError


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions with the documents that answer each of them."""

    queries: Mapping[str, str]
    """The texts by query id."""
    relevant: Mapping[str, frozenset[str]]
    """The documents judged above 0, by query id; only queries that have some."""


def read_dataset(queries: Path, qrels: Path) -> Dataset:
    """Read a collection's questions and judgements.

    Args:
        queries: JSON Lines, `{"id": …, "text": …}` (`_id` and `query` are accepted too).
        qrels: query, document and relevance, separated by tabs or spaces; or TREC's four columns,
            with an iteration in the second. A first line with column names is skipped.

    Raises:
        UsageError: a line cannot be read (the message names the file and line), or no query has a
            relevant document.
    """
    texts = dict(_query(queries, number, line) for number, line in _lines(queries))
    relevant: dict[str, set[str]] = {}
    for number, line in _lines(qrels):
        judgement = _judgement(qrels, number, line)
        if judgement is not None and judgement[2] > 0:
            relevant.setdefault(judgement[0], set()).add(judgement[1])
    judged = {query: frozenset(names) for query, names in relevant.items() if query in texts}
    if not judged:
        raise UsageError(
            f"no query of {queries} has a relevant document in {qrels}; check that their ids agree"
        )
    return Dataset(texts, judged)


def _lines(file: Path) -> Iterable[tuple[int, str]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    return [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]


def _query(file: Path, number: int, line: str) -> tuple[str, str]:
    try:
        data = json.loads(line)
        name = data.get("id", data.get("_id"))
        text = data.get("text", data.get("query"))
    except (ValueError, RecursionError, AttributeError):
        name = text = None
    if name is None or not isinstance(text, str) or not text.strip():
        raise UsageError(f'{file}:{number}: expected {{"id": …, "text": …}}')
    return str(name), text


def _judgement(file: Path, number: int, line: str) -> tuple[str, str, float] | None:
    fields = line.split("\t") if "\t" in line else line.split()
    if len(fields) in (3, 4):
        try:
            return fields[0].strip(), fields[-2].strip(), float(fields[-1])
        except ValueError:
            if number == 1:  # the column names
                return None
    raise UsageError(f"{file}:{number}: expected query, document and relevance")
