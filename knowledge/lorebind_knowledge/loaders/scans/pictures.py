"""Pictures of pages, as PNG, in a reading process: of a PDF, or of an image file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from threading import Lock
from typing import Any

from lorebind_config.errors import NotFoundError, SourceError
from lorebind_config.plugins import import_extra
from lorebind_knowledge.loaders.base import LoadedDocument, title_of
from lorebind_knowledge.loaders.marks import Anchor
from lorebind_knowledge.loaders.pdf import BETWEEN_PAGES, MAX_PAGES, opened_pdf

MOST_SIDE = 2_000
"""Maximum width and height of a picture in pixels: recognizing the text of a larger one takes more
memory than the process may use."""
_DOTS_PER_INCH = 150
"""Letters of 8 points have twelve pixels, which suffice. With 200, a page takes twice the time."""
_POINTS_PER_INCH = 72
_MOST_PIXELS = 120_000_000
"""Of an image file; a sheet of size A0 at 300 dots per inch has 140 million, but its format is
usually JPEG, which is decoded at a lower resolution."""
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP")
_PURPOSE = "reading images"
_OPENING = Lock()


def load_image(data: bytes, uri: str) -> LoadedDocument:
    """Load an image file as a document of pages without text; a TIFF can have several.

    Raises:
        SourceError: it is broken or too large.
        MissingDependencyError: the extra is not installed.
    """
    with _opened(data, uri) as image:
        count = _count(image)
    if count > MAX_PAGES:
        raise SourceError(f"{uri}: has {count:,} pages, more than {MAX_PAGES:,}; split it")
    starts = range(0, count * len(BETWEEN_PAGES), len(BETWEEN_PAGES))
    anchors = tuple(Anchor(start, "page", number) for number, start in enumerate(starts, 1))
    text = BETWEEN_PAGES * (count - 1)
    return LoadedDocument(text, title_of(uri), format="image", anchors=anchors)


def pdf_pictures(data: bytes, uri: str, pages: Sequence[int]) -> list[bytes]:
    """Return pictures of pages of a PDF, which count from 1.

    Raises:
        NotFoundError: it has no such page.
        SourceError: it is broken or encrypted, or a page cannot be drawn.
        MissingDependencyError: the extra is not installed.
    """
    pictures = []
    import_extra("PIL.Image", extra="ocr", purpose=_PURPOSE)
    with opened_pdf(data, uri) as pdf:
        check_pages(pages, len(pdf), uri)
        for number in pages:
            with closing(pdf[number - 1]) as page:
                most = MOST_SIDE / max(*page.get_size(), 1)
                scale = min(_DOTS_PER_INCH / _POINTS_PER_INCH, most)
                with closing(page.render(scale=scale)) as bitmap:
                    pictures.append(_png(bitmap.to_pil().convert("RGB")))
    return pictures


def image_pictures(data: bytes, uri: str, pages: Sequence[int]) -> list[bytes]:
    """Return pictures of pages of an image file, scaled down; see `pdf_pictures`."""
    pictures = []
    with _opened(data, uri) as image:
        check_pages(pages, _count(image), uri)
    for number in pages:
        with _opened(data, uri) as image:
            if number > 1:
                image.seek(number - 1)
            pictures.append(_png(_scaled(image, uri)))
    return pictures


def _count(image: Any) -> int:
    return getattr(image, "n_frames", 1) if image.format == "TIFF" else 1


def check_pages(pages: Sequence[int], count: int, uri: str) -> None:
    """Raise `NotFoundError` if a document has too few pages."""
    for number in pages:
        if not 1 <= number <= count:
            all_pages = f"pages 1-{count}" if count > 1 else "page 1 only"
            raise NotFoundError(f"{uri}: has no page {number}; it has {all_pages}")


def _scaled(image: Any, uri: str) -> Any:
    from PIL import Image, ImageOps

    _check_size(image, uri)
    box = (MOST_SIDE, MOST_SIDE)
    image.draft("RGB", box)  # only JPEG can be decoded at a lower resolution
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("L" if image.mode in ("1", "I", "I;16", "F") else "RGBA")
    image.thumbnail(box)
    image = ImageOps.exif_transpose(image)
    if image.mode == "RGBA":  # letters on a transparent ground become black on white
        ground = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(ground, image)
    return image.convert("RGB")


def _check_size(image: Any, uri: str) -> None:
    width, height = image.size
    is_scaled = image.format == "JPEG"  # when it is decoded, by at most 8 in each direction
    if width * height > _MOST_PIXELS * (64 if is_scaled else 1):
        raise SourceError(
            f"{uri}: has {width:,} x {height:,} pixels, more than {_MOST_PIXELS:,}; scale it down"
        )


@contextmanager
def _opened(data: bytes, uri: str) -> Iterator[Any]:
    """Open an image without decoding it; errors in the block become `SourceError`."""
    image_module = import_extra("PIL.Image", extra="ocr", purpose=_PURPOSE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _without_limit(image_module):
                image = image_module.open(io.BytesIO(data), formats=_FORMATS)
            with image:
                _check_size(image, uri)
                yield image
    except (NotFoundError, SourceError, MemoryError):
        raise
    except Exception as error:  # decoders can raise anything
        why = str(error).partition("<")[0].strip()  # not the address of an object
        raise SourceError(f"{uri}: a broken image: {type(error).__name__}: {why}") from error


@contextmanager
def _without_limit(image_module: Any) -> Iterator[None]:
    """Open images of any size in the block: `_check_size` limits them, and other code keeps its
    limit in a process that also does other work."""
    with _OPENING:
        most = image_module.MAX_IMAGE_PIXELS
        image_module.MAX_IMAGE_PIXELS = None
        try:
            yield
        finally:
            image_module.MAX_IMAGE_PIXELS = most


def _png(image: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()
