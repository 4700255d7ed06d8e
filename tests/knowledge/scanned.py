"""Scans: pages drawn as a scanner would, slightly skewed and with noise; and image files."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import pypdfium2 as pdfium

from .documents import pdf_bytes


def scan(page: str) -> Any:
    """Return a picture of the first eight lines of a page: skewed by a degree, grey and noisy."""
    import numpy as np
    from PIL import Image

    with pdfium.PdfDocument(pdf_bytes([page])) as pdf:
        picture = pdf[0].render(scale=100 / 72).to_pil().convert("L")
    picture = picture.crop((50, 50, 600, 255))
    picture = picture.rotate(1, resample=Image.Resampling.BICUBIC, fillcolor=255, expand=True)
    noise = np.random.default_rng(1).normal(0, 12, picture.size[::-1])
    return Image.fromarray(np.clip(np.asarray(picture) * 0.9 + noise, 0, 255).astype("uint8"))


def image_bytes(pictures: Sequence[Any], form: str = "PNG", **options: Any) -> bytes:
    """Return an image file, or a PDF, of one or several pictures."""
    file = io.BytesIO()
    more = {"save_all": True, "append_images": pictures[1:]} if len(pictures) > 1 else {}
    pictures[0].save(file, form, **more, **options)
    return file.getvalue()


def png(width: int, height: int) -> bytes:
    """Return a PNG that claims a size and has no pixels."""

    def part(kind: bytes, data: bytes) -> bytes:
        sum_of_it = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + sum_of_it

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", b"") + part(b"IEND", b"")
