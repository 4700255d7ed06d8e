"""Small PDF and Word files that would exhaust a machine without limits."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence

import docx

from tests.knowledge.documents import saved

MIB = 1024 * 1024

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def _pdf(objects: Sequence[bytes]) -> bytes:
    """Return a file with these objects, numbered from 1; the first is the catalog."""
    written = bytearray(b"%PDF-1.7\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF"
    return bytes(written) + end.encode()


def stream(data: bytes, entries: str = "") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), entries.encode(), data)


def one_page(resources: str, content: bytes, further: Sequence[bytes] = ()) -> bytes:
    """Return a page with these resources and content stream; `further` are objects from 6 on."""
    return _pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
            b"/Resources << /Font << /F1 5 0 R >> %s >> >>" % resources.encode(),
            content,
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            *further,
        ]
    )


def pdf_nested_forms(
    depth: int = 9, times: int = 9, leaf: bytes = b"BT /F1 1 Tf (x) Tj ET"
) -> bytes:
    """Return a file in which each form shows the next one several times."""
    forms = []
    for number in range(depth):
        last = number == depth - 1
        content = leaf if last else b"/X Do " * times
        inner = "/Font << /F1 5 0 R >>" if last else f"/XObject << /X {7 + number} 0 R >>"
        about = f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << {inner} >>"
        forms.append(stream(content, about))
    return one_page("/XObject << /X 6 0 R >>", stream(b"/X Do " * times), forms)


def _deflated(piece: bytes, times: int) -> bytes:
    """Return the zlib stream of a repeated piece, without creating the unpacked data."""
    packer = zlib.compressobj(9)
    start = packer.compress(b" ") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)  # has no back references
    return start + block * times + packer.flush()  # readers that stop early ignore the checksum


def pdf_deflated(size: int, times: int = 1) -> bytes:
    """Return a page with many text operators, whose content is deflated this many times."""
    data = _deflated(b"BT /F1 1 Tf " + b"(x) Tj " * (MIB // 7) + b"ET ", size // MIB)
    for _ in range(times - 1):
        data = zlib.compress(data, 9)
    return one_page("", stream(data, f"/Filter [{' '.join(['/FlateDecode'] * times)}]"))


def pdf_deflated_blanks(size: int) -> bytes:
    """Return blanks that are deflated twice: a few kilobytes for gigabytes."""
    data = zlib.compress(_deflated(b" " * MIB, size // MIB), 9)
    return one_page("", stream(data, "/Filter [/FlateDecode /FlateDecode]"))


def pdf_long_array(count: int) -> bytes:
    """Return a page with one operand that is an array of very many arrays."""
    data = _deflated(b"[" + b"[]" * MIB, count // MIB)
    return one_page("", stream(data, "/Filter /FlateDecode"))


def pdf_object_stream(count: int) -> bytes:
    """Return a page tree of very many pages that are all the same."""
    kids = b" ".join([b"3 0 R"] * count)
    return _pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>",
        ]
    )


def pdf_bookmarks_in_a_circle() -> bytes:
    """Return an outline whose entries form an endless cycle."""
    return _pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R /Outlines 4 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>",
            b"<< /First 5 0 R /Last 5 0 R >>",
            b"<< /Title (a) /Parent 4 0 R /Next 6 0 R /First 5 0 R /Last 5 0 R >>",
            b"<< /Title (b) /Parent 4 0 R /Next 5 0 R /First 6 0 R /Last 5 0 R >>",
        ]
    )


def docx_of(*body: tuple[bytes, int], styles: Iterable[bytes] = (), doctype: str = "") -> bytes:
    """Return a Word file whose body repeats these XML pieces; `styles` are elements too."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(saved(docx.Document()))) as empty,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as full,
    ):
        for name in empty.namelist():
            with full.open(name, "w") as part:
                if name == "word/document.xml":
                    part.write(f"{doctype}<w:document {_W}><w:body>".encode())
                    for piece, times in body:
                        at_once = max(1, MIB // len(piece))
                        for start in range(0, times, at_once):
                            part.write(piece * min(at_once, times - start))
                    part.write(b"</w:body></w:document>")
                elif name == "word/styles.xml" and styles:
                    part.write(f"<w:styles {_W}>".encode() + b"".join(styles) + b"</w:styles>")
                else:
                    part.write(empty.read(name))
    return packed.getvalue()


_PARAGRAPH = b"<w:p><w:r><w:t>x</w:t></w:r></w:p>"
_RUN = b"<w:r><w:t>" + b"x" * (9 * MIB) + b"</w:t></w:r>"
"""The longest text that libxml2 allows."""


def docx_nested_paragraphs(depth: int = 100, size: int = 27 * MIB) -> bytes:
    """Return a file with a long text inside nested paragraphs in a table cell."""
    return docx_of(
        (b"<w:tbl><w:tr><w:tc>", 1),
        (b"<w:p>", depth),
        (_RUN, size // len(_RUN)),
        (b"</w:p>", depth),
        (b"</w:tc></w:tr></w:tbl>", 1),
    )


def docx_nested_tables(depth: int) -> bytes:
    return docx_of(
        (b"<w:tbl><w:tr><w:tc>", depth), (_PARAGRAPH, 1), (b"</w:tc></w:tr></w:tbl>", depth)
    )


def docx_empty_paragraphs(size: int = 110 * MIB) -> bytes:
    return docx_of((b"<w:p/>", size // 6))


def docx_style_chain(count: int = 3000) -> bytes:
    """Return a file in which each style is based on the next, and all are used."""
    styles = [
        b'<w:style w:type="paragraph" w:styleId="s%d"><w:name w:val="n%d"/>'
        b'<w:basedOn w:val="s%d"/></w:style>' % (number, number, number + 1)
        for number in range(count)
    ]
    used = b"".join(
        b'<w:p><w:pPr><w:pStyle w:val="s%d"/></w:pPr><w:r><w:t>x</w:t></w:r></w:p>' % number
        for number in range(count)
    )
    return docx_of((used, 1), styles=styles)


def docx_attributes(count: int) -> bytes:
    return docx_of((b"<w:p " + b" ".join(b'w:a%d=""' % n for n in range(count)) + b"/>", 1))


def docx_one_text(size: int) -> bytes:
    return docx_of((b"<w:p>", 1), (_RUN, size // len(_RUN)), (b"</w:p>", 1))


def docx_breaks(size: int) -> bytes:
    return docx_of((b"<w:p><w:r>", 1), (b"<w:br/>", size // 7), (b"</w:r></w:p>", 1))


def docx_entities() -> bytes:
    """Return a file with nested entities, which XML parsers may expand."""
    tens = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    doctype = f'<!DOCTYPE w [<!ENTITY a0 "xxxxxxxxxx">{tens}]>'
    return docx_of((_PARAGRAPH.replace(b"x<", b"&a11;<"), 1), doctype=doctype)


BOMBS: dict[str, Callable[[], bytes]] = {
    "nested forms.pdf": pdf_nested_forms,
    "more nested forms.pdf": lambda: pdf_nested_forms(28, 12),
    "empty nested forms.pdf": lambda: pdf_nested_forms(leaf=b""),
    "deflated text.pdf": lambda: pdf_deflated(900 * MIB),
    "doubly deflated text.pdf": lambda: pdf_deflated(900 * MIB, 2),
    "thrice deflated text.pdf": lambda: pdf_deflated(900 * MIB, 3),
    "doubly deflated blanks.pdf": lambda: pdf_deflated_blanks(2000 * MIB),
    "long array.pdf": lambda: pdf_long_array(100_000_000),
    "one page very often.pdf": lambda: pdf_object_stream(600_000),
    "bookmarks in a circle.pdf": pdf_bookmarks_in_a_circle,
    "nested paragraphs.docx": docx_nested_paragraphs,
    "many nested paragraphs.docx": lambda: docx_nested_paragraphs(200, 100 * MIB),
    "nested tables.docx": lambda: docx_nested_tables(60),
    "deep tables.docx": lambda: docx_nested_tables(100_000),
    "empty paragraphs.docx": docx_empty_paragraphs,
    "style chain.docx": docx_style_chain,
    "long style chain.docx": lambda: docx_style_chain(60_000),
    "longer style chain.docx": lambda: docx_style_chain(300_000),
    "attributes.docx": lambda: docx_attributes(1_500_000),
    "one text.docx": lambda: docx_one_text(120 * MIB),
    "breaks.docx": lambda: docx_breaks(120 * MIB),
    "entities.docx": docx_entities,
}
