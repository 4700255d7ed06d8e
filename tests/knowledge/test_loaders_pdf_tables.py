"""Tables in PDF, by the lines around their cells."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.errors import DocumentLimitError
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.readers import Readers
from lorebind_knowledge.loaders.registry import begin_load, load_document
from lorebind_knowledge.sources.folder.files import FileSource

from .bench import Bench, counts
from .documents import pdf_bytes, pdf_grid
from .test_loaders_readers import ON_LINUX

PRICES = [["Tool", "Price"], ["Falcon", "12"], ["Kite", "7"]]
NAMES = [["Name", "Team"], ["Ann", "Sales"], ["Ben", "Support"]]


def load(*drawn: str, texts: list[str] | None = None, page_entries: str = "") -> LoadedDocument:
    texts = texts or [""] * len(drawn)
    data = pdf_bytes(texts, drawn=drawn, page_entries=page_entries)
    return load_document(data, "a.pdf", tables=True)


def headers(document: LoadedDocument) -> dict[str, str]:
    """Return the header for each line of the text, by the line."""
    lines = dict.fromkeys(document.text.split("\n"))
    return {line: document.header_above(document.text.index(line)) for line in lines if line}


@pytest.mark.parametrize("box", ["", "/MediaBox [-9 -20 603 772]", "/CropBox [50 60 500 760]"])
def test_a_table_takes_the_place_of_its_text(box: str) -> None:
    """Each row is a line, between the texts above and below, wherever the page's origin is."""
    below = "BT /F1 12 Tf 72 100 Td (Below it.) Tj ET"
    document = load(f"{pdf_grid(PRICES)}\n{below}", texts=["Above it."], page_entries=box)
    assert document.text == "Above it.\n\nTool | Price\nFalcon | 12\nKite | 7\n\nBelow it."
    assert headers(document) == {
        "Above it.": "",
        "Tool | Price": "",
        "Falcon | 12": "Tool | Price",
        "Kite | 7": "Tool | Price",
        "Below it.": "",
    }
    assert document.span(document.text.index("Kite"), len(document.text)).page == 1


@pytest.mark.parametrize(
    ("first", "second", "continued"),
    [
        (PRICES, [["Crane", "9"], ["Ibis", "3"]], True),
        (NAMES, [["Cem", "Legal"], ["Dia", "Sales"]], True),  # could be a header, but is at the top
        (PRICES, [["Tool", "Price"], ["Ibis", "3"]], False),  # the header is repeated
        (PRICES, [["Crane", "9", "1"], ["Ibis", "3", "1"]], False),
        ([["1", "2"], ["3", "4"]], [["Crane", "9"], ["Ibis", "3"]], False),  # there is no header
    ],
)
def test_a_table_on_two_pages(
    first: list[list[str]], second: list[list[str]], continued: bool
) -> None:
    """Its header is that of the rows on the next page, if these have the same columns."""
    document = load(pdf_grid(first), pdf_grid(second))
    last = " | ".join(second[-1])
    header = " | ".join(first[0]) if continued else " | ".join(PRICES[0])
    expected = header if continued or second[0] == PRICES[0] else ""
    assert headers(document)[last] == expected
    third = load(pdf_grid(first), pdf_grid(second), pdf_grid([["x", "0"], ["y", "0"]]))
    assert headers(third)["y | 0"] == (expected if len(second[0]) == 2 else "")


def test_a_table_after_text_begins_anew() -> None:
    """Rows that look like a header are one if there is text above them."""
    document = load(pdf_grid(NAMES), pdf_grid(PRICES), texts=["", "The prices:"])
    assert headers(document)["Kite | 7"] == "Tool | Price"
    other = load(pdf_grid(PRICES), pdf_grid([["a", "1"]] * 2), texts=["", "word " * 90])
    assert headers(other)["a | 1"] == ""


@pytest.mark.parametrize(
    ("drawn", "page_entries"),
    [
        ("60 60 400 700 re S", ""),  # a frame around the page
        (pdf_grid([["only one row", "of cells"]]), ""),
        (pdf_grid([["one"], ["column"]]), ""),
        (pdf_grid(PRICES), "/Rotate 90"),
        (pdf_grid(PRICES) + "\n" + "10 10 m 20 20 l S\n" * 3_000, ""),  # a drawing
        ("", ""),
    ],
)
def test_pages_without_tables(drawn: str, page_entries: str) -> None:
    """They are read as without the setting."""
    data = pdf_bytes(["Some text."], drawn=[drawn], page_entries=page_entries)
    document = load_document(data, "a.pdf", tables=True)
    assert document == load_document(data, "a.pdf")
    assert document.tables == ()


def test_the_library_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that only PDFium can read is read without tables."""
    data = pdf_bytes(["Some text."], drawn=[pdf_grid(PRICES)])
    plain = load_document(data, "a.pdf")

    def fail(*_: object, **__: object) -> object:
        raise RecursionError("too deep")

    monkeypatch.setattr("pdfplumber.page.Page.find_tables", fail)
    assert load_document(data, "a.pdf", tables=True) == plain


def test_the_library_cannot_open_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried once, however many pages there are, and the document is read without tables."""
    data = pdf_bytes(["Some text."] * 3, drawn=[pdf_grid(PRICES)] * 3)
    tried = []

    def fail(*_: object, **__: object) -> object:
        tried.append(True)
        raise ValueError("a broken file")

    monkeypatch.setattr("pdfplumber.open", fail)
    assert load_document(data, "a.pdf", tables=True) == load_document(data, "a.pdf")
    assert tried == [True]


@ON_LINUX
def test_hostile_lines() -> None:
    """A page whose lines cross a million times fails alone, and a large table is read."""
    lines = [f"{number * 4} 0 m {number * 4} 5600 l S" for number in range(1_400)]
    lines += [f"0 {number * 4} m 5600 {number * 4} l S" for number in range(1_400)]
    large = "/MediaBox [0 0 6000 6000]"
    wide = [[f"c{number}" for number in range(100)], *([["1"] * 100] * 20)]
    with Readers(LoadingDeclaration(processes=1, max_seconds=2)) as readers:
        hostile = begin(readers, pdf_bytes(["x"], drawn=["\n".join(lines)], page_entries=large))
        with pytest.raises(DocumentLimitError, match=r"loading\.max_"):
            hostile.result()
    with Readers(LoadingDeclaration(processes=1)) as readers:
        good = begin(readers, pdf_bytes(["x"], drawn=[pdf_grid(wide, width=20)]))
        assert [len(table) for table in good.result().tables] == [3]


def begin(readers: Readers, data: bytes) -> Future[LoadedDocument]:
    begun = begin_load(data, "a.pdf", "", readers.begin, tables=True)
    assert isinstance(begun, Future)
    return begun


async def test_only_pdf_is_read_again(make_bench: Callable[[str], Bench]) -> None:
    """Changing the setting rereads PDF alone, and its passages contain rows."""
    bench = make_bench("memory")
    bench.write("a.md", "# Keys", "Rotate them.")
    bench.write_bytes("b.pdf", pdf_bytes([""], drawn=[pdf_grid(PRICES)]))
    bench.change(sources=[FileSource("file_glob", ["docs/*"], bench.root)])
    await bench.ingest()
    again, nothing = counts(updated=1, unchanged=1), counts(unchanged=2)
    bench.change(pdf_tables=True)
    assert (await bench.plan()).documents == again
    assert (await bench.ingest()).documents == again
    assert "Tool | Price\nFalcon | 12\nKite | 7" in await bench.texts()
    assert (await bench.ingest()).documents == nothing
    bench.change(pdf_tables=False)
    assert (await bench.ingest()).documents == again
