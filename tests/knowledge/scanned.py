"""Scans: pages drawn as a scanner would, slightly skewed and with noise."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pypdfium2 as pdfium

from .documents import pdf_bytes


def scan(page: str, *, dots_per_inch: int = 100, lines: int = 8) -> Any:
    """Return a picture of the first lines of a page: skewed by a degree, grey and noisy."""
    import numpy as np
    from PIL import Image

    with pdfium.PdfDocument(pdf_bytes([page])) as pdf:
        picture = pdf[0].render(scale=dots_per_inch / 72).to_pil().convert("L")
    inch = dots_per_inch
    picture = picture.crop((inch // 2, inch // 2, 6 * inch, inch + lines * inch * 14 // 72))
    picture = picture.rotate(1, resample=Image.Resampling.BICUBIC, fillcolor=255, expand=True)
    noise = np.random.default_rng(1).normal(0, 12, picture.size[::-1])
    return Image.fromarray(np.clip(np.asarray(picture) * 0.9 + noise, 0, 255).astype("uint8"))


def image_bytes(pictures: Sequence[Any], form: str = "PNG", **options: Any) -> bytes:
    """Return an image file, or a PDF, of one or several pictures."""
    file = io.BytesIO()
    more = {"save_all": True, "append_images": pictures[1:]} if len(pictures) > 1 else {}
    pictures[0].save(file, form, **more, **options)
    return file.getvalue()
