"""Scans without OCR: the pictures of pages, their reading order, and the places of their text."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import docx
import pptx
import pytest
from pptx.opc.constants import RELATIONSHIP_TYPE

from lorebind_config.declarations.sources import LoadingDeclaration, OcrSettings, SourceBase
from lorebind_config.document_sizes import IMAGES, SizeLimit
from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders import formats
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.marks import Anchor, Heading
from lorebind_knowledge.loaders.office.pptx import load_pptx
from lorebind_knowledge.loaders.readers import Readers
from lorebind_knowledge.loaders.registry import begin_load, can_load, load_document
from lorebind_knowledge.loaders.scans import recognition
from lorebind_knowledge.loaders.scans.gutters import Word, cut_at_gutters
from lorebind_knowledge.loaders.scans.layout import (
    Line,
    in_reading_order,
    slope_of,
    text_of,
    turned,
)
from lorebind_knowledge.loaders.scans.recognition import model_files
from lorebind_knowledge.loaders.scans.recognized import count_pictures, with_pages, with_pictures
from lorebind_knowledge.sources.folder.files import FileSource

from .bench import Bench
from .documents import pdf_bytes, saved
from .scanned import image_bytes, png

Box = tuple[int, int, int, str]
"""Left and upper edge and width of a line of twenty pixels, and its text."""


def lines(*boxes: Box) -> list[Line]:
    return [Line(left, top, left + width, top + 20, text) for left, top, width, text in boxes]


HEADER: Box = (100, 0, 700, "Header over both columns")
LEFT: list[Box] = [(0, 80 + 24 * row, 380, f"left {row}") for row in range(3)]
RIGHT: list[Box] = [(400, 84 + 24 * row, 380, f"right {row}") for row in range(3)]
TABLE: list[Box] = [
    (300 * column, 24 * row, 60, f"{'abc'[column]}{row}") for row in range(3) for column in range(3)
]


@pytest.mark.parametrize(
    ("boxes", "text"),
    [
        ([], ""),
        ([HEADER, *RIGHT, *LEFT], "Header over both columns\n\nleft 0\nleft 1\nleft 2\n\n"
         "right 0\nright 1\nright 2"),
        (TABLE[::-1], "a0 b0 c0\na1 b1 c1\na2 b2 c2"),
        ([(0, 0, 300, "one"), (0, 24, 300, "two"), (0, 70, 300, "three")], "one\ntwo\n\nthree"),
    ],
)  # fmt: skip
def test_reading_order(boxes: Sequence[Box], text: str) -> None:
    """Columns follow one another, rows of a table stay rows, and gaps separate paragraphs."""
    assert text_of(in_reading_order(lines(*boxes))) == text


def test_slanted_lines() -> None:
    """On a skewed page, rows are told apart by the middle of their boxes."""
    slanted = [
        Line.of([[0, top], [800, top + 24], [800, top + 44], [0, top + 20]], f"line {number} ")
        for number, top in enumerate((0, 26, 52))
    ]
    assert text_of(in_reading_order(slanted[::-1])) == "line 0\nline 1\nline 2"


def test_columns_of_a_skewed_page() -> None:
    """Columns are told apart although their gap leans by more than its width."""

    def leaning(x: float, y: float) -> tuple[float, float]:
        return x - 0.02 * y, y + 0.02 * x

    boxes, texts = [], []
    for row in range(40):
        for left in (0, 400):
            top, right = 26 * row, left + 385
            corners = [(left, top), (right, top), (right, top + 20), (left, top + 20)]
            boxes.append([leaning(x, y) for x, y in corners])
            texts.append(f"{left} {row}")
    straight = turned(boxes, slope_of(boxes))
    text = text_of(in_reading_order([*map(Line.of, straight, texts)]))
    assert (
        text.split() == " ".join(f"{left} {row}" for left in (0, 400) for row in range(40)).split()
    )


def words_of(line: Line, *gaps: tuple[float, float]) -> list[Word]:
    """Return the words of a line, with gaps at these places or, by default, after each word."""
    texts = line.text.split()
    if not gaps:
        width = (line.right - line.left) / len(texts)
        gaps = tuple(
            (line.left + at * width - 5, line.left + at * width) for at in range(1, len(texts))
        )
    begins, ends = (
        [line.left, *(end for _, end in gaps)],
        [*(begin for begin, _ in gaps), line.right],
    )
    return [Word(*word) for word in zip(begins, ends, texts, strict=True)]


GUTTER = (395, 405)


def two_columns(count: int) -> tuple[list[Line], list[list[Word]]]:
    """Return rows of four words in two columns: every third row is two lines, the others are one.

    The lines reach over half of the gap, and a heading reaches over both columns.
    """
    lines = [Line(0, -60, 800, -40, "A heading over both columns")]
    words = [words_of(lines[0])]
    for row in range(count):
        shift = 7 * row
        left, right = f"l{row} l{row}", f"r{row} r{row}"
        whole = Line(0, 24 * row, 800, 24 * row + 20, f"{left} {right}")
        some = words_of(whole, (100 + shift, 105 + shift), GUTTER, (500 + shift, 505 + shift))
        if row % 3:
            lines.append(whole._replace(corners=[[0, 0], [800, 0], [800, 20], [0, 20]]))
            words.append(some)
        else:
            lines += [whole._replace(right=402, text=left), whole._replace(left=398, text=right)]
            words += [some[:2], some[2:]]
    return lines, words


def test_lines_over_a_narrow_gap() -> None:
    """They are cut where no row has a word, and their boxes with them."""
    lines, words = two_columns(12)
    cut = cut_at_gutters(lines, words)
    text = text_of(in_reading_order(cut)).split("\n\n")
    assert text == [
        "A heading over both columns",
        *("\n".join(f"{side}{row} {side}{row}" for row in range(12)) for side in "lr"),
    ]
    parts = [line for line in cut if line.corners]
    assert {(line.corners[0][0], line.corners[1][0]) for line in parts} == {(0, 395), (405, 800)}


def test_lines_that_stay_whole() -> None:
    """Few rows, rows whose spaces are not one above the other, and lines without words."""
    for count, gap in ((5, GUTTER), (12, None)):
        lines, words = two_columns(count)
        if gap is None:
            lines = [line for line in lines if line.right - line.left == 800]
            shifts = (50 * (row % 7) for row, _ in enumerate(lines))
            words = [
                words_of(line, *((n + s, n + s + 9) for n in (100, 200, 300)))
                if len(line.text.split()) == 4
                else []
                for line, s in zip(lines, shifts, strict=True)
            ]
        assert cut_at_gutters(lines, words) == lines
    lines, words = two_columns(12)
    assert cut_at_gutters(lines, [[] for _ in lines]) == lines


def test_texts_of_pages() -> None:
    """Recognized text takes its place, headings move with their pages, and spans say `scanned`."""
    pages = ["Keys", "", "Doors\nGates", ""]
    starts = (0, 6, 8, 21)
    document = LoadedDocument(
        "\n\n".join(pages),
        "a",
        (Heading(0, 1, "Keys"), Heading(14, 2, "Gates")),
        anchors=tuple(Anchor(start, "page", number) for number, start in enumerate(starts, 1)),
    )
    assert document.textless_pages == (2, 4)
    read = with_pages(document, {2: "Rotate them.", 4: ""}, "a.pdf")
    assert read.text == "Keys\n\nRotate them.\n\nDoors\nGates\n\n"
    assert [(h.title, read.text[h.start :][:5]) for h in read.headings] == [
        ("Keys", "Keys\n"),
        ("Gates", "Gates"),
    ]
    assert (read.textless_pages, read.textless_parts) == ((4,), {"page": 1})
    rotate, gates = read.text.index("Rotate"), read.text.index("Gates")
    assert [read.span(at, at + 3).scanned for at in (0, rotate, gates)] == [None, True, None]
    assert read.span(0, gates).as_metadata()["scanned"] is True
    always = with_pages(document, {1: "KEYS", 3: "DOORS GATES"}, "a.pdf")
    assert always.text == "KEYS\n\n\n\nDOORS GATES\n\n"
    assert [always.text[h.start :][:5] for h in always.headings] == ["KEYS\n", "DOORS"]


needs_ocr = pytest.mark.skipif(
    not formats.can_recognize(), reason="the extra 'ocr' is not installed"
)


def word() -> bytes:
    document = docx.Document()
    for text in ("Keys", "Doors \ufffc"):
        document.add_paragraph(text)
        document.add_picture(io.BytesIO(image("PNG")))
    table = document.add_table(1, 2)
    table.cell(0, 1).paragraphs[0].add_run().add_picture(io.BytesIO(image("TIFF")))
    return saved(document)


def slides() -> bytes:
    presentation = pptx.Presentation()
    for title in ("Keys", "", "Doors", ""):
        layout = presentation.slide_layouts[5 if title else 6]
        shapes = presentation.slides.add_slide(layout).shapes
        if title:
            shapes.title.text = title
        if title != "Doors":
            shapes.add_picture(io.BytesIO(image("PNG")), 0, 0)
    return saved(presentation)


@needs_ocr
@pytest.mark.parametrize(
    ("name", "make", "texts", "text", "omitted", "anchors"),
    [
        ("a.docx", word, {1: "one", 3: "three"}, "Keys\n\none\n\nDoors  \n\nthree", 1, []),
        ("a.docx", word, {2: "two"}, "Keys\n\nDoors  \n\ntwo\n\n", 2, []),
        ("a.pptx", slides, {1: "one", 3: "three"}, "Keys\n\none\n\nDoors\n\nthree", 1, [1, 3, 4]),
        ("a.pptx", slides, {2: "two"}, "Keys\n\ntwo\n\nDoors\n\n", 2, [1, 2, 3]),
        ("a.pptx", slides, {}, "Keys\n\nDoors\n\n", 3, [1, 3]),
    ],
)
def test_pictures_within_documents(
    name: str,
    make: Callable[[], bytes],
    texts: dict[int, str],
    text: str,
    omitted: int,
    anchors: Sequence[int],
) -> None:
    """Their texts stand where they are, and the others are counted, as is a slide without text."""
    data = make()
    with Readers(LoadingDeclaration(processes=1)) as readers:
        document = begin_load(data, name, "", readers.begin, pictures=True).result()
        form = document.format
        assert len(readers.begin(form, data, name, pages=[1, 3]).result()) == 2
    assert count_pictures(document) == 3
    read = with_pictures(document, texts, name)
    assert (read.text, read.omitted["image"]) == (text, omitted)
    assert [anchor.name for anchor in read.anchors] == anchors
    recognized = [read.text[scan.start : scan.end] for scan in read.scanned]
    assert recognized == [*texts.values()]
    assert all(read.span(scan.start, scan.end).scanned for scan in read.scanned)
    assert read.span(0, 4).scanned is None
    usual = load_document(data, name).text
    assert with_pictures(document, {}, name).text.strip() == usual.strip()


def test_pictures_that_a_file_does_not_contain() -> None:
    """A picture that is linked or missing has no text, and the rest of its slide is read."""
    presentation = pptx.Presentation(io.BytesIO(slides()))
    slide = presentation.slides[0]
    address = "https://a.example/a.png"
    linked = slide.part.relate_to(address, RELATIONSHIP_TYPE.IMAGE, is_external=True)
    for name in ("rId99", linked):
        picture: Any = slide.shapes.add_picture(io.BytesIO(image("PNG")), 0, 0)
        picture._element.blipFill.blip.rEmbed = name
    document = load_pptx(saved(presentation), "a.pptx", pictures=True)
    assert (count_pictures(document), document.omitted["image"]) == (3, 5)


def image(form: str, mode: str = "RGB", size: tuple[int, int] = (30, 20), pages: int = 1) -> bytes:
    from PIL import Image

    return image_bytes([Image.new(mode, size)] * pages, form)


@needs_ocr
@pytest.mark.parametrize(
    ("data", "pages"),
    [
        (image("PNG"), 1),
        (image("PNG", "RGBA"), 1),
        (image("PNG", "P"), 1),
        (image("PNG", "1", (3000, 100)), 1),
        (image("JPEG", "CMYK", (100, 5000)), 1),
        (image("WEBP"), 1),
        (image("TIFF", "I;16", pages=3), 3),
    ],
)
def test_images(data: bytes, pages: int) -> None:
    """An image has a page without text, a TIFF one or several; pictures have at most 2,000
    pixels a side."""
    from PIL import Image

    from lorebind_knowledge.loaders.scans.pictures import image_pictures

    most = Image.MAX_IMAGE_PIXELS
    document = load_document(data, "no name")
    assert most == Image.MAX_IMAGE_PIXELS  # of other code in this process
    assert document.textless_pages == tuple(range(1, pages + 1))
    (picture,) = image_pictures(data, "a", [pages])
    with Image.open(io.BytesIO(picture)) as drawn:
        assert (drawn.mode, max(drawn.size) <= 2000, drawn.format) == ("RGB", True, "PNG")


@needs_ocr
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (png(50_000, 50_000), "has 50,000 x 50,000 pixels, more than 120,000,000; scale it down"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a broken image: "),
        (b"\xff\xd8\xff\xe0", "a broken image: "),
        (b"", "is empty"),
    ],
)
def test_images_that_are_refused(data: bytes, reason: str) -> None:
    """The error says what is wrong, and a huge image is not decoded."""
    with pytest.raises(SourceError, match=f"a.png: {reason}"):
        load_document(data, "a.png")


def test_images_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, images are files that no loader reads, and the error names the extra."""
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    formats.can_recognize.cache_clear()
    try:
        assert not any(can_load(name, lambda size: png(1, 1)) for name in IMAGES)
        with pytest.raises(SourceError, match=r"no loader for \.png; .*pip install 'lorebind\[ocr"):
            load_document(png(1, 1), "a.png")
    finally:
        formats.can_recognize.cache_clear()


@needs_ocr
def test_engines_are_those_of_the_models() -> None:
    """Other models in the same folder are loaded, and the library is changed once for all."""
    options: Any = import_module("rapidocr.inference_engine.onnxruntime.main").OrtInferSession
    first = recognition._engine("", "1")
    changed = options._init_sess_opts
    assert recognition._engine("", "1") is first
    assert recognition._engine("", "2") is not first
    assert options._init_sess_opts is changed


def declare(bench: Bench, **ocr: Any) -> None:
    (source,) = bench.corpus.sources
    bench.change(declared={source.key: SourceBase(ocr=OcrSettings(**ocr))})


@pytest.mark.usefixtures("without_ocr")
async def test_declared_without_the_extra(bench: Bench) -> None:
    """A source that declares `ocr` fails the documents that need it; others lose no text."""
    bench.write_bytes("plan.md", pdf_bytes(["Keys", ""]))
    bench.write_bytes("full.md", pdf_bytes(["Keys"]))
    assert (await bench.ingest()).failures == []
    declare(bench, max_pages=3)
    bench.write_bytes("plan.md", pdf_bytes(["Keys and doors", ""]))
    (failure,) = (await bench.ingest()).failures
    assert "plan.md: has 1 page to recognize, as declared by `ocr`" in failure.reason
    assert "pip install 'lorebind[ocr]'" in failure.reason
    declare(bench, when="never")
    assert (await bench.ingest()).textless_pages == {"docs/plan.md": 1}


@needs_ocr
async def test_plans_only_count_pages(bench: Bench) -> None:
    """A plan draws and recognizes nothing: it counts the pages, up to `max_pages`."""
    bench.write_bytes("plan.md", pdf_bytes(["Keys", "", "", ""]))
    bench.write_bytes("scan.md", pdf_bytes([""]))
    plan = await bench.plan()
    assert (plan.pages_to_recognize, plan.failures, plan.without_text) == (4, [], [])
    assert plan.textless_pages == {"docs/plan.md": 3, "docs/scan.md": 1}
    declare(bench, max_pages=2)
    assert (await bench.plan()).pages_to_recognize == 3
    declare(bench, when="always")
    assert (await bench.plan()).pages_to_recognize == 5
    declare(bench, when="never")
    plan = await bench.plan()
    assert (plan.pages_to_recognize, len(plan.failures)) == (0, 1)


@needs_ocr
async def test_images_are_skipped_if_never(bench: Bench) -> None:
    """With `when: never`, images found by a pattern are skipped as without the extra."""
    bench.write_bytes("a.png", image("PNG"))
    bench.write("b.md", "Keys")
    bench.change(sources=[FileSource("file_glob", ["docs/*"], bench.root)])
    assert (await bench.plan()).pages_to_recognize == 1
    declare(bench, when="never")
    (source,) = (await bench.plan()).sources
    assert [(item.uri, item.reason) for item in source.skipped] == [("docs/a.png", ".png")]


@needs_ocr
async def test_models_that_cannot_be_used(bench: Bench) -> None:
    """A folder without the model fails the documents that need it, with the reason."""
    bench.write_bytes("scan.md", pdf_bytes([""]))
    bench.change(root=bench.root)
    declare(bench, model="models")
    (failure,) = (await bench.ingest()).failures
    assert "the folder ocr.model has no file *rec*.onnx" in failure.reason
    folder = bench.root / "models"
    folder.mkdir()
    for name in ("rec.onnx", "cls.onnx", "keys.txt"):
        (folder / name).touch()
    assert sorted(model_files(str(folder))) == ["cls", "keys", "rec"]
    (folder / "old_rec.onnx").touch()
    with pytest.raises(SourceError, match=r"has old_rec\.onnx and rec\.onnx; remove one"):
        model_files(str(folder))


@pytest.mark.parametrize(
    ("uri", "media_type", "setting"),
    [
        ("docs/A.PDF", "", "max_scan_bytes"),
        ("https://a.example/a.png?size=big#top", "", "max_scan_bytes"),
        ("a", "Image/PNG; q=1", "max_scan_bytes"),
        ("docs/image/png", "", "max_bytes"),
        ("docs/application/pdf", "text/plain", "max_bytes"),
        ("https://a.example/?file=a.pdf", "text/html", "max_bytes"),
        ("what?.pdf", "", "max_scan_bytes"),
    ],
)
def test_limits_of_size(uri: str, media_type: str, setting: str) -> None:
    """The limit and the setting that a message names belong together."""
    limit = 5 if setting == "max_bytes" else 8
    expected = (limit, f"the limit is {setting} of its source")
    assert SizeLimit(5, 8).of(uri, media_type) == expected
    assert SizeLimit(5, 4).of(uri, media_type) == (5, "the limit is max_bytes of its source")


def test_scans_may_be_larger(tmp_path: Any) -> None:
    """PDF and images have a limit of their own; `max_bytes` applies to them if it is more."""
    (tmp_path / "a.pdf").write_bytes(b"x" * 30)
    (tmp_path / "a.md").write_bytes(b"x" * 30)
    source = FileSource("file_glob", ["*"], tmp_path, max_bytes=20, max_scan_bytes=30)
    markdown, pdf = sorted(source.items(), key=lambda item: item.uri)
    assert pdf.read("").data == b"x" * 30
    with pytest.raises(
        SourceError, match=r"a\.md: is larger than 20 bytes; the limit is max_bytes"
    ):
        markdown.read("")
    pdf, *_ = replace(source, max_scan_bytes=29, patterns=["*.pdf"]).items()
    with pytest.raises(SourceError, match="than 29 bytes; the limit is max_scan_bytes"):
        pdf.read("")
