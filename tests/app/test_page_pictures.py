"""Pages of PDF and images as pictures, drawn only if they are what was ingested."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from lorebind import KnowledgeBase, Project
from lorebind_config.errors import DocumentChangedError, MissingDependencyError, NotFoundError
from lorebind_knowledge.loaders.formats import can_recognize

from ..knowledge.documents import pdf_bytes, pdf_grid
from .missing_packages import hide

image_module = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

YAML = """\
name: pages
knowledge_bases:
  - id: docs
    sources: [{ type: file_glob, path: "docs/*", ocr: { when: never } }]
"""
TEXTS = ["Keys are at the reception.", "", "The gate closes at six.\n" * 20]
KEYS = pdf_bytes(TEXTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pages")
    (root / "docs").mkdir()
    (root / "docs/keys.pdf").write_bytes(KEYS)
    (root / "docs/broken.pdf").write_bytes(b"%PDF-1.4")
    (root / "docs/note.md").write_text("Guests park behind the building.\n")
    (root / "lorebind.yaml").write_text(YAML)
    return root


@pytest.fixture(scope="module")
def docs(folder: Path) -> Iterator[KnowledgeBase]:
    with Project.load(folder) as project:
        docs = project.knowledge_base("docs")
        docs.ingest()
        added = pdf_bytes([TEXTS[0]])  # OCR would take seconds for the page without text
        docs.add_documents([{"id": "added.pdf", "data": added}, {"id": "text", "text": "Guests"}])
        yield docs


def ink(picture: bytes) -> int:
    """Return the number of dark pixels of a page of A4 or Letter in portrait."""
    with image_module.open(io.BytesIO(picture), formats=["PNG"]) as image:
        width, height = image.size
        assert 1000 < width < height <= 2000
        return sum(image.convert("L").histogram()[:100])


def test_a_page_is_drawn(docs: KnowledgeBase) -> None:
    uri = "docs/keys.pdf"
    first, empty, last = (ink(docs.page_picture(uri, number)) for number in (1, 2, 3))
    assert 0 == empty < first < last
    assert docs.page_picture(docs.document(uri).id, 1) == docs.page_picture(uri, 1)
    assert ink(docs.page_picture("added:added.pdf", 1)) == first


@pytest.mark.parametrize(
    ("uri", "page", "reason"),
    [
        ("docs/keys.pdf", 0, "docs/keys.pdf: has no page 0; it has pages 1-3"),
        ("docs/keys.pdf", 4, "docs/keys.pdf: has no page 4; it has pages 1-3"),
        ("docs/note.md", 1, "no pages to draw, only PDF and images have; it is markdown"),
        ("added:text", 1, "no pages to draw, only PDF and images have; it is text"),
        ("docs/broken.pdf", 1, "has no pages yet, because it has not been ingested"),
        ("docs/kyes.pdf", 1, "did you mean 'docs/keys.pdf'"),
    ],
)
def test_there_is_no_such_page(docs: KnowledgeBase, uri: str, page: int, reason: str) -> None:
    with pytest.raises(NotFoundError, match=reason):
        docs.page_picture(uri, page)


CLOSES = "The gate closes at six."
LAYOUTS = {
    "plain": pdf_bytes([f"Keys\n{CLOSES}\nThe gate is red.\n{CLOSES}", "Guests"]),
    "turned": pdf_bytes([f"Keys\n{CLOSES}", "Guests"], page_entries="/Rotate 90"),
    "cut": pdf_bytes([f"Keys\n{CLOSES}", "Guests"], page_entries="/CropBox [60 500 400 780]"),
    "table": pdf_bytes(
        [f"Keys\n{CLOSES}", "Guests"],
        drawn=[pdf_grid([["Gate", "Key"], ["North", "A 4"]], top=600), ""],
    ),
}


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    root = tmp_path_factory.mktemp("layouts")
    for name, data in LAYOUTS.items():
        (root / f"{name}.pdf").write_bytes(data)
    source = {"type": "file_glob", "path": "*.pdf"}
    kb = {"id": "docs", "sources": [source], "chunking": {"size": 64, "overlap": 40}}
    with Project.build({"name": "boxes", "knowledge_bases": [kb]}, root=root) as project:
        docs = project.knowledge_base("docs")
        docs.ingest()
        yield docs


@pytest.mark.parametrize("layout", LAYOUTS)
def test_boxes_hold_all_words_of_a_page(layouts: KnowledgeBase, layout: str) -> None:
    """The picture without what is in the boxes has no letters left."""
    uri = f"{layout}.pdf"
    boxes = layouts.page_boxes(uri, 1)
    with image_module.open(io.BytesIO(layouts.page_picture(uri, 1))) as image:
        page = image.convert("L")
    width, height = page.size
    for box in boxes:
        ends = (box.left * width, box.top * height, box.right * width, box.bottom * height)
        place = tuple(map(round, ends))
        assert sum(page.crop(place).histogram()[:100]) > 20, box
        page.paste(255, place)
    lines = 3_300 if layout == "table" else 0  # those around its cells
    assert sum(page.histogram()[:100]) <= lines
    text = " ".join(box.text for box in boxes)
    assert CLOSES in text
    assert "Guests" not in text


def test_boxes_of_a_passage(layouts: KnowledgeBase) -> None:
    """The same words at two places are told apart, and a passage can be on two pages."""
    (first, second) = (
        layouts.page_boxes("plain.pdf", 1, start=at, end=at + len(CLOSES))
        for at in (5, 5 + len(CLOSES) + 18)
    )
    assert [box.text for box in (*first, *second)] == [CLOSES, CLOSES]
    assert first[0].bottom < second[0].top
    cells = [box.text for box in layouts.page_boxes("table.pdf", 1)]
    assert [text for text in cells if "Gate" in text or "North" in text] == ["Gate", "North"]
    (word,) = layouts.page_boxes("plain.pdf", 1, start=10, end=13)
    assert word.text == "gate"
    assert layouts.page_boxes("plain.pdf", 2, start=10, end=13) == []
    with pytest.raises(NotFoundError, match="has no page 3; it has pages 1-2"):
        layouts.page_boxes("plain.pdf", 3)


def test_only_what_was_ingested_is_drawn(docs: KnowledgeBase, folder: Path) -> None:
    """A file with other bytes, or of which none is left, is not shown."""
    file = folder / "docs/keys.pdf"
    file.write_bytes(pdf_bytes(["Keys are at the gate."] * 3))
    with pytest.raises(DocumentChangedError, match=r"keys\.pdf: .*have changed .*; ingest again"):
        docs.page_picture("docs/keys.pdf", 1)
    file.unlink()
    with pytest.raises(DocumentChangedError, match="it was removed from its source since"):
        docs.page_picture("docs/keys.pdf", 1)
    file.write_bytes(KEYS)
    assert ink(docs.page_picture("docs/keys.pdf", 1))


def test_no_page_is_drawn_of_what_goes_through_steps(tmp_path: Path) -> None:
    """A page of a document that goes through steps is not drawn, as they may redact some of it."""
    redact = "def redact(document):\n    return document\n"
    (tmp_path / "redacting.py").write_text(redact)
    for name in ("staff", "public"):
        (tmp_path / f"{name}.pdf").write_bytes(KEYS)
    step = {"function": "redacting:redact", "documents": ["staff.*"]}
    source = {"type": "file_glob", "path": "*.pdf", "ocr": {"when": "never"}}
    kb = {"id": "docs", "sources": [source], "preprocess": {"steps": [step]}}
    with Project.build({"name": "staff", "knowledge_bases": [kb]}, root=tmp_path) as project:
        docs = project.knowledge_base("docs")
        docs.ingest()
        assert ink(docs.page_picture("public.pdf", 1))
        for hidden in (docs.page_picture, docs.page_boxes):
            with pytest.raises(NotFoundError, match=r"not shown, .* preprocess\.steps may remove"):
                hidden("staff.pdf", 1)


def test_without_the_extra(
    docs: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(["PIL"], tmp_path / "hidden")
    monkeypatch.syspath_prepend(tmp_path / "hidden")
    with pytest.raises(MissingDependencyError, match=r"pip install .*lorebind\[ocr\]"):
        docs.page_picture("docs/keys.pdf", 1)


@pytest.mark.skipif(not can_recognize(), reason="the extra 'ocr' is not installed")
async def test_pages_of_an_image(tmp_path: Path) -> None:
    """A TIFF can have several pages; all other images have one."""
    pages = [image_module.new("RGB", (30, 40), color) for color in ("red", "blue")]
    (tmp_path / "docs").mkdir()
    pages[0].save(tmp_path / "docs/scan.tif", save_all=True, append_images=pages[1:])
    pages[0].save(tmp_path / "docs/photo.png")
    (tmp_path / "lorebind.yaml").write_text(YAML.replace("ocr: { when: never }", "max_bytes: 9999"))
    async with Project.load(tmp_path) as project:
        docs = project.knowledge_base("docs")
        await docs.aingest()
        picture = await docs.apage_picture("docs/scan.tif", 2)
        with image_module.open(io.BytesIO(picture)) as image:
            assert (image.size, image.getpixel((9, 9))) == ((30, 40), (0, 0, 255))
        with pytest.raises(NotFoundError, match="has no page 2; it has page 1 only"):
            await docs.apage_picture("docs/photo.png", 2)
