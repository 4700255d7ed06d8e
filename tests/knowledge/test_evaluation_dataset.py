"""Reading questions and judgements, and the locations of errors in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebind_config.errors import UsageError
from lorebind_knowledge.evaluation.dataset import Dataset, read_dataset

QUERIES = '{"id": "1", "text": "first"}\n{"id": "2", "text": "second"}\n'


def read(folder: Path, queries: str | bytes, qrels: str | bytes) -> Dataset:
    for name, text in (("q.jsonl", queries), ("r.tsv", qrels)):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_dataset(folder / "q.jsonl", folder / "r.tsv")


@pytest.mark.parametrize(
    "qrels",
    [
        "1\ta\t1\n1\tb\t2\n2\tc\t0\n",
        "query-id\tcorpus-id\tscore\n1\ta\t1\n1\tb\t1\n",
        "1 0 a 1\n1 0 b 1\n2 0 c -1\n",
        "1\t0\ta\t1\r\n1\t0\tb\t1\r\n",
        "\n1 a 1\n\n1 b 0.5\n1 b 1\n3 a 1\n",
        b"\xef\xbb\xbf1\ta\t1\n1\tb\t1",
    ],
)
def test_judgements(tmp_path: Path, qrels: str | bytes) -> None:
    """Judgements have tabs or spaces, three or four columns, and names of columns or none."""
    data = read(tmp_path, QUERIES, qrels)
    assert data.relevant == {"1": frozenset("ab")}
    assert data.queries == {"1": "first", "2": "second"}


def test_names_with_blanks(tmp_path: Path) -> None:
    """Between tabs, a document's name may contain spaces."""
    data = read(tmp_path, QUERIES, "1\tmy notes/a b.md\t1\n")
    assert data.relevant == {"1": frozenset(["my notes/a b.md"])}


def test_queries(tmp_path: Path) -> None:
    """Ids may be numbers, fields may have BEIR's names, and only a line break ends a line."""
    queries = '{"_id": 1, "query": "first\u2028line \x85"}\r\n\r\n{"id": 0, "text": "zero", "x": 1}'
    data = read(tmp_path, queries, "1 a 1\n0 b 1")
    assert data.queries == {"1": "first\u2028line \x85", "0": "zero"}
    assert set(data.relevant) == {"0", "1"}


@pytest.mark.parametrize(
    ("queries", "line"),
    [
        ("no json\n", 1),
        (f'{{"id": {"9" * 5000}, "text": "x"}}', 1),
        (QUERIES + '{"id": "3"}\n', 3),
        (QUERIES + '\n{"text": "x"}\n', 4),
        ('["1", "x"]', 1),
        ("7", 1),
        ('{"id": "1", "text": "  "}', 1),
        ('{"id": "1", "text": 5}', 1),
    ],
)
def test_queries_that_cannot_be_read(tmp_path: Path, queries: str, line: int) -> None:
    """The error names the file, the line and the expected form."""
    with pytest.raises(UsageError, match=rf'q\.jsonl:{line}: expected {{"id"'):
        read(tmp_path, queries, "1 a 1")


@pytest.mark.parametrize(
    ("qrels", "line"),
    [
        ("1 a\n", 1),
        ("1 a 1\n1 b\n", 2),
        ("1 a 1\n1 b yes\n", 2),
        ("1 a 1\n\n1 2 3 4 5\n", 3),
        ("a,b,1\n", 1),
    ],
)
def test_judgements_that_cannot_be_read(tmp_path: Path, qrels: str, line: int) -> None:
    """The error names the file, the line and the expected form."""
    with pytest.raises(UsageError, match=rf"r\.tsv:{line}: expected query, document"):
        read(tmp_path, QUERIES, qrels)


@pytest.mark.parametrize("qrels", ["", "9 a 1", "1 a 0", "query doc rel\n"])
def test_nothing_to_ask(tmp_path: Path, qrels: str) -> None:
    """Questions and judgements without common ids raise an error that names both files."""
    with pytest.raises(UsageError, match=r"no query of .*q\.jsonl has a .* in .*r\.tsv"):
        read(tmp_path, QUERIES, qrels)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """The error names a missing file, a folder, or a file that is not UTF-8."""
    with pytest.raises(UsageError, match=r"q\.jsonl cannot be read"):
        read_dataset(tmp_path / "q.jsonl", tmp_path / "r.tsv")
    with pytest.raises(UsageError, match="cannot be read"):
        read_dataset(tmp_path, tmp_path)
    with pytest.raises(UsageError, match=r"r\.tsv cannot be read"):
        read(tmp_path, QUERIES, b"1 \xff 1")
