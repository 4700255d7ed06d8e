"""`json`: records, members and elements."""

from __future__ import annotations

import json

from lorebind_knowledge.chunking.recursive import JSON, RecursiveChunker


def _split(text: str, size: int, overlap: int = 0) -> list[str]:
    chunker = RecursiveChunker(size, overlap, levels=JSON, name="json")
    return [text[start:end] for start, end in chunker.split(text, 0, len(text))]


def test_lines_of_records_stay_whole() -> None:
    """A chunk has as many whole records as fit, whatever they contain."""
    records = [json.dumps({"id": number, "text": "a, b\n {c"}) for number in range(6)]
    chunks = _split("\n".join(records), 70)
    assert chunks == ["\n".join(records[at : at + 2]) for at in (0, 2, 4)]


def test_lines_of_anything_stay_whole() -> None:
    """Lines that are not JSON are records too; an unclosed quotation mark ends with its line."""
    text = 'name: Ann, 12" tall\nname: Bob, age: 7\nname: [Cy, age: 9\n'
    assert _split(text, 24) == text.strip().split("\n")


def test_a_record_that_does_not_fit_is_cut_between_members() -> None:
    """Commas in strings and in deeper levels are not cut at while outer ones fit."""
    text = '{"a": "one, two, three", "b": [1, 2, 3, 4], "c": {"d": 5, "e": 6}}'
    assert _split(text, 26) == [
        '{"a": "one, two, three",',
        '"b": [1, 2, 3, 4],',
        '"c": {"d": 5, "e": 6}}',
    ]


def test_indented_json_is_cut_between_its_outermost_parts() -> None:
    """In a document of many lines, whole elements stay together."""
    elements = [{"id": number, "tags": ["x", "y"]} for number in range(4)]
    chunks = _split(json.dumps(elements, indent=2) + "\n", 100)
    assert len(chunks) == 4
    assert all(chunk.count('"id"') == 1 and chunk.count('"y"') == 1 for chunk in chunks)


def test_indented_records_are_cut_between_each_other() -> None:
    """Consecutive documents are cut apart before the lines within them are."""
    records = [json.dumps({"id": number, "tags": ["x"]}, indent=2) for number in range(4)]
    assert _split("\n".join(records), 100) == ["\n".join(records[:2]), "\n".join(records[2:])]


def test_records_overlap_as_wholes() -> None:
    """Overlaps consist of whole records."""
    text = "\n".join(f"record {number}" for number in range(5))
    assert _split(text, 30, 10) == [
        "record 0\nrecord 1\nrecord 2",
        "record 2\nrecord 3\nrecord 4",
    ]
