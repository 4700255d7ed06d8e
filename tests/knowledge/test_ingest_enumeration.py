"""The listed documents beside those of the ledger."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebind_config.errors import SourceError, StoreError
from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.ingest import spilled
from lorebind_knowledge.ingest.corpus import enumerate_sources
from lorebind_knowledge.sources.base import Content, SourceItem
from lorebind_knowledge.sources.folder.files import FileSource


class Listing:
    """A source that lists uris, and fails at an empty one."""

    def __init__(self, key: str, uris: list[str]) -> None:
        self.key, self._uris = key, uris

    def items(self) -> Iterator[SourceItem]:
        for uri in self._uris:
            if not uri:
                raise SourceError("is down")
            yield SourceItem(uri, lambda version: Content(b""), version=self.key)


URIS = st.text("ab/é\ud800\U0001f600\0", min_size=1, max_size=3)


@pytest.mark.parametrize("is_long", [False, True])
@given(st.lists(URIS), st.lists(URIS), st.dictionaries(URIS, st.sampled_from(["x", "y", "z"])))
def test_listed_beside_the_ledger(
    is_long: bool, x: list[str], y: list[str], ledger: Mapping[str, str]
) -> None:
    """Documents are sorted; the first source has them; those that are not listed have vanished."""
    with (
        patch.multiple(spilled, _ROWS_OF_A_RUN=3, _ROWS_OF_A_PIECE=2) if is_long else nullcontext()
    ):
        check_listed_beside_the_ledger(x, y, ledger)


def check_listed_beside_the_ledger(x: list[str], y: list[str], ledger: Mapping[str, str]) -> None:
    entries = {uri: DocumentEntry(uri, ledger[uri], chunk_count=3) for uri in sorted(ledger)}
    enumeration = enumerate_sources([Listing("x", x), Listing("y", y)])
    expected = dict.fromkeys(y, "y") | dict.fromkeys(x, "x")
    assert len(enumeration) == len(expected)
    assert [report.documents for report in enumeration.sources] == [len({*x}), len({*y})]
    compared = list(enumeration.compared(entries.values()))
    assert [(listed.uri, listed.source) for listed in compared] == sorted(expected.items())
    assert [listed.entry for listed in compared] == [entries.get(uri) for uri in sorted(expected)]
    assert [enumeration.item(listed).uri for listed in compared] == sorted(expected)
    gone = sorted(ledger.keys() - expected.keys())
    assert list(enumeration.vanished()) == [(uri, 3) for uri in gone]
    assert enumeration.count_vanished(entries.values()) == (len(ledger), len(gone))


def test_a_source_that_fails_in_the_middle() -> None:
    """None of its documents are listed, and none in the ledger have vanished."""
    enumeration = enumerate_sources([Listing("x", ["a", "b", ""]), Listing("y", ["b", "c"])])
    assert [report.status for report in enumeration.sources] == ["failed", "ok"]
    entries = [DocumentEntry(uri, key) for uri, key in (("a", "x"), ("d", "y"), ("e", "old"))]
    compared = list(enumeration.compared(entries))
    assert [(listed.uri, listed.source) for listed in compared] == [("b", "y"), ("c", "y")]
    assert list(enumeration.vanished()) == [("d", 0)]


def test_only_some_documents() -> None:
    """Other documents are omitted, and the reports stay."""
    enumeration = enumerate_sources([Listing("x", ["a", "b", "c"])])
    enumeration.keep_only({"b", "d"})
    assert len(enumeration) == 1
    assert list(enumeration.uris()) == ["b"]
    assert enumeration.sources[0].documents == 3


def test_restored_items(tmp_path: Path) -> None:
    """Items of files are made again from their names, so they need not stay in memory."""
    (tmp_path / "a.md").write_text("text")
    source = FileSource("file_glob", ["*.md"], tmp_path, as_text=["a.md"])
    (item,) = source.items()
    restored = source.restore(item.token)
    assert restored.uri == item.uri
    content = item.read("")
    assert isinstance(content, Content)
    assert (content.data, content.media_type) == (b"text", "text/plain")
    assert restored.read("") == content


def test_no_space_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is an error that names the setting of the folder for temporary files."""
    full = Path("/dev/full").open("wb+", buffering=0)  # noqa: SIM115
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)
    listed = Listing("x", [f"{number:05}.md" for number in range(1000)])
    with pytest.raises(StoreError, match="set TMPDIR to a folder with more space"):
        enumerate_sources([listed])
