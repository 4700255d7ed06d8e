"""Scans, read by real OCR: found, cited, and recognized once. Few pages, as each takes seconds."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docx
import pptx
import pytest

from lorebind import KnowledgeBase, Project
from lorebind_knowledge.catalog.recognized import RecognizedPage
from lorebind_knowledge.ingest import scans
from lorebind_knowledge.loaders.formats import can_recognize
from lorebind_prompts.citations import label

from ..knowledge.documents import pdf_bytes, saved
from ..knowledge.scanned import image_bytes, scan

pytestmark = pytest.mark.skipif(
    not can_recognize(), reason="the extra 'ocr' is not installed: pip install 'lorebind[ocr]'"
)

GATE = "Gates\nThe gate closes at six in the evening.\nGuards walk around it twice."
PARKING = "Parking\nGuests park behind the building.\nThe code changes each week."
YAML = """\
name: scans
knowledge_bases:
  - id: docs
    sources: [{{ type: file_glob, path: "docs/*", {settings} }}]
    chunking: {{ size: {size}, overlap: 0 }}
"""


@pytest.fixture(scope="module", autouse=True)
def enough_time() -> Iterator[None]:
    """A page may take longer than usual while other tests run."""
    with pytest.MonkeyPatch.context() as patch:
        limits = scans._LIMITS.model_copy(update={"max_seconds": 300})
        patch.setattr(scans, "_LIMITS", limits)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two scans in three files, ingested once."""
    root = tmp_path_factory.mktemp("scans")
    docs = root / "docs"
    docs.mkdir()
    gate, parking = scan(GATE), scan(PARKING)
    (docs / "plan.pdf").write_bytes(image_bytes([gate, parking], "PDF", resolution=100))
    (docs / "parking.pdf").write_bytes(image_bytes([parking], "PDF", resolution=100))
    (docs / "gate.png").write_bytes(image_bytes([gate]))
    # The same picture again, which is not recognized again.
    word, slides = docx.Document(), pptx.Presentation()
    word.add_heading("Plan", 1)
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    for add in (word.add_picture, lambda file: slide.shapes.add_picture(file, 0, 0)):
        add(io.BytesIO(image_bytes([gate])))
    (docs / "guide.docx").write_bytes(saved(word))
    (docs / "guide.pptx").write_bytes(saved(slides))
    (docs / "photo.webp").write_bytes(image_bytes([gate.crop((0, 0, 9, 9))], "WEBP"))
    return root


def open_project(folder: Path, *, settings: str = "max_bytes: 9999999", size: int = 64) -> Project:
    (folder / "lorebind.yaml").write_text(YAML.format(settings=settings, size=size))
    return Project.load(folder)


@pytest.fixture(scope="module")
def project(folder: Path) -> Iterator[Project]:
    with open_project(folder) as project:
        report = project.knowledge_base("docs").ingest()
        assert (report.failures, report.notices) == ([], [])
        assert report.textless_parts == {"docs/photo.webp": {"page": 1}}
        yield project


def cited(docs: KnowledgeBase, question: str) -> str:
    return label(docs.query(question, top_k=1, strategy="lexical").matches[0].metadata)


def test_scans_are_found_and_cited(project: Project) -> None:
    """Citations name the page and say that it was scanned; the text is that of the page."""
    docs = project.knowledge_base("docs")
    assert cited(docs, "guests park") in (
        "docs/plan.pdf, page 2 (scanned)",
        "docs/parking.pdf, page 1 (scanned)",
    )
    for uri, place in (("docs/guide.docx", "Plan"), ("docs/guide.pptx", "slide 1")):
        for match in docs.query("gate", filters={"uri": uri}, strategy="lexical").matches:
            assert label(match.metadata) == f"{uri}, {place} (scanned)"
    texts = {
        document.uri: "\n".join(chunk.text for chunk in docs.chunks(document.id))
        for document in docs.documents()
    }
    assert texts.pop("docs/photo.webp") == ""
    assert texts == {
        "docs/plan.pdf": f"{GATE}\n{PARKING}",
        "docs/parking.pdf": PARKING,
        "docs/gate.png": GATE,
        "docs/guide.docx": f"Plan\n{GATE}",
        "docs/guide.pptx": GATE,
    }


def test_scans_are_carried_away(project: Project, tmp_path: Path) -> None:
    """A pack of them can be unpacked, and its citations still say that they were scanned."""
    pack = tmp_path / "docs.lorebind"
    report = project.knowledge_base("docs").pack(pack)
    with open_project(tmp_path) as other:
        done = other.knowledge_base("docs").unpack(pack)
        assert (done.chunks["added"], done.texts_embedded) == (report.chunks, 0)
        assert cited(other.knowledge_base("docs"), "guests park").endswith(", page 1 (scanned)")


def test_boxes_of_a_scan(project: Project) -> None:
    """Each line has its own, on the dark letters, from top to bottom."""
    docs = project.knowledge_base("docs")
    for uri, page, text in (("docs/plan.pdf", 2, PARKING), ("docs/gate.png", 1, GATE)):
        boxes = docs.page_boxes(uri, page)
        assert [box.text for box in boxes] == text.split("\n")
        middles = [(box.top + box.bottom) / 2 for box in boxes]
        assert middles == sorted(middles)
        assert all(0 < box.left < box.right < 1 and 0 < box.top < box.bottom < 1 for box in boxes)
    start = GATE.index("Guards")
    (guards,) = docs.page_boxes("docs/gate.png", 1, start=start, end=start + 6)
    assert guards.text == GATE.split("\n")[2]


def test_each_page_is_recognized_once(
    project: Project, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other chunks, another name and another setting do not need OCR again; other models do."""
    read: list[str] = []

    def note(self: scans.Scans, picture: bytes, uri: str, *_: str) -> RecognizedPage:
        read.append(uri)
        return RecognizedPage("Read by others.", "")

    monkeypatch.setattr(scans.Scans, "_read", note)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "docs/parking.pdf").rename(tmp_path / "docs/guests.pdf")
    with open_project(tmp_path, settings="ocr: { max_pages: 9 }", size=400) as changed:
        docs = changed.knowledge_base("docs")
        report = docs.ingest()
        assert report.documents["failed"] == 0
        assert report.documents["updated"] == 5
        assert cited(docs, "guests park").endswith("(scanned)")
        assert read == []
    monkeypatch.setattr(scans.Scans, "_models_of", lambda *_: "others")
    with open_project(tmp_path) as changed:
        assert changed.knowledge_base("docs").ingest().documents["updated"] == 6
    every = {f"docs/{file.name}" for file in (tmp_path / "docs").iterdir()}
    assert every - set(read) == {"docs/guide.docx", "docs/guide.pptx"}  # the picture of gate.png


def test_texts_of_pages_are_deleted_with_their_documents(
    project: Project, folder: Path, tmp_path: Path
) -> None:
    """The catalog keeps none of a document that is removed."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for file in (tmp_path / "docs").glob("p*"):
        file.unlink()
    with (
        open_project(tmp_path) as changed,
        closing(sqlite3.connect(tmp_path / ".lorebind" / "lorebind.db")) as catalog,
    ):
        uris = "select uri from catalog_recognized"
        assert len(catalog.execute(uris).fetchall()) == 7
        report = changed.knowledge_base("docs").ingest(allow_mass_delete=True)
        assert report.documents["removed"] == 3
        assert catalog.execute(uris).fetchall() == [
            (f"docs/{name}",) for name in ("gate.png", "guide.docx", "guide.pptx")
        ]


def test_a_page_that_takes_too_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays without text, which a notice explains; the other pages are read."""
    monkeypatch.setattr(scans, "_LIMITS", scans._LIMITS.model_copy(update={"max_memory": "64 MiB"}))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "cellar.pdf").write_bytes(pdf_bytes(["Keys of the cellar", ""]))
    (docs / "scan.png").write_bytes(image_bytes([scan("Never seen")]))
    with open_project(tmp_path) as project:
        report = project.knowledge_base("docs").ingest()
        assert report.textless_pages == {"docs/cellar.pdf": 1}
        (notice,) = report.notices
        assert notice.startswith("docs/cellar.pdf, page 2: the text is not recognized: ")
        (failure,) = report.failures
        assert failure.uri == "docs/scan.png"
        assert "takes more than 64 MiB of memory; it is not read again until it" in failure.reason
        assert project.knowledge_base("docs").query("cellar", top_k=1).matches


def test_which_texts_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of scans, unless a step may remove something; equal pages are recognized once."""
    read: list[str] = []

    def note(self: scans.Scans, picture: bytes, uri: str, *_: str) -> RecognizedPage:
        read.append(uri)  # the process takes seconds
        return RecognizedPage("Gates", "")

    monkeypatch.setattr(scans.Scans, "_read", note)
    (tmp_path / "docs").mkdir()
    (tmp_path / "code.py").write_text("def redact(document):\n    return document\n")
    for name in ("a.pdf", "b.pdf"):
        picture = image_bytes([scan("Gates")] * 2, "PDF", resolution=100)
        (tmp_path / "docs" / name).write_bytes(picture)

    def stored(more: str = "", *, plans: bool = False) -> list[str]:
        yaml = YAML.format(settings="max_bytes: 9999999", size=64) + more
        (tmp_path / "lorebind.yaml").write_text(yaml)
        with Project.load(tmp_path) as project:
            docs = project.knowledge_base("docs")
            plan = docs.plan() if plans else None
            assert docs.ingest(plan=plan).status == "completed"
        with closing(sqlite3.connect(tmp_path / ".lorebind" / "lorebind.db")) as catalog:
            rows = catalog.execute("select uri from catalog_recognized order by uri")
            return [uri for (uri,) in rows]

    assert stored() == ["docs/a.pdf", "docs/b.pdf"]
    step = "{ function: code:redact, documents: [docs/a.pdf] }"
    assert stored(f"    preprocess: {{ steps: [{step}] }}\n") == ["docs/b.pdf"]
    assert read == ["docs/a.pdf", "docs/a.pdf"]
    (tmp_path / "docs/b.pdf").write_bytes(pdf_bytes(["Gates in a text layer"]))
    assert stored(plans=True) == ["docs/a.pdf"]
