"""Images and pages that are made to exhaust the machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping

import pytest

from lorebind_knowledge.loaders.formats import can_recognize
from tests.knowledge.scanned import image_bytes, png

from .office_bombs import MIB, one_page, stream
from .trials import Case, Trials

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only"),
    pytest.mark.skipif(not can_recognize(), reason="the extra 'ocr' is not installed"),
]

MOST_MEMORY = 512_000_000
MOST_SECONDS = 60

DRAW = """
import json, resource, sys
from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.readers import Readers

data, form, seconds = sys.stdin.buffer.read(), *sys.argv[1:]
with Readers(LoadingDeclaration(max_seconds=float(seconds))) as readers:
    try:
        (picture,) = readers.begin(form, data, 'bomb', pages=[1]).result()
        outcome = f"a picture of {len(picture)} bytes"
    except SourceError as error:
        outcome = str(error)
print(json.dumps([outcome, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))
"""


def runs(size: int) -> bytes:
    """Return zeros, compressed as runs and then by zlib, which makes 50,000 times less."""
    return zlib.compress(b"\x81\0" * (size // 128) + b"\x80", 1)


def huge_picture() -> bytes:
    """A page that shows a picture of 50,000 x 50,000 pixels."""
    entries = (
        "/Type /XObject /Subtype /Image /Width 50000 /Height 50000 /BitsPerComponent 8 "
        "/ColorSpace /DeviceGray /Filter [/FlateDecode /RunLengthDecode]"
    )
    picture = stream(runs(50_000 * 50_000), entries)
    content = stream(b"612 0 0 792 0 0 cm /A Do")
    return one_page("/XObject << /A 6 0 R >>", content, [picture])


def many_pictures() -> bytes:
    """A page that shows 10,000 pictures of four million pixels each."""
    pictures = [
        stream(
            runs(4_000_000),
            "/Type /XObject /Subtype /Image /Width 2000 /Height 2000 /BitsPerComponent 8 "
            "/ColorSpace /DeviceGray /Filter [/FlateDecode /RunLengthDecode]",
        )
    ] * 10_000
    names = " ".join(f"/A{number} {number + 6} 0 R" for number in range(10_000))
    drawn = " ".join(f"q 612 0 0 792 0 0 cm /A{number} Do Q" for number in range(10_000))
    content = stream(zlib.compress(drawn.encode()), "/Filter /FlateDecode")
    return one_page(f"/XObject << {names} >>", content, pictures)


def long_strip() -> bytes:
    """A TIFF: one pixel high, of the most pixels that are allowed."""
    from PIL import Image

    return image_bytes([Image.new("1", (119_000_000, 1))], "TIFF", compression="tiff_deflate")


def large_image() -> bytes:
    """An image of the most pixels that are allowed, with four bytes each."""
    from PIL import Image

    return image_bytes([Image.new("RGBA", (11_000, 10_900))], compress_level=1)


PICTURE, MEMORY = r"a picture of \d+ bytes$", "bomb: reading it takes more than 384 MiB of memory"
BOMBS: Mapping[str, tuple[str, Callable[[], bytes], str]] = {
    "claimed pixels": ("image", lambda: png(50_000, 50_000), "bomb: has 50,000 x 50,000 pixels"),
    "huge picture on a page": ("pdf", huge_picture, PICTURE),
    "many pictures on a page": ("pdf", many_pictures, MEMORY),
    "long strip": ("image", long_strip, PICTURE),
    "large image": ("image", large_image, MEMORY),
}
"""Each with its format and a pattern of its outcome."""


def test_bombs(trials: Trials) -> None:
    """Drawing a page uses less than 512 MB and a minute, and ends with a picture or a reason."""
    names = list(BOMBS)

    def check(case: Case) -> None:
        form, make, pattern = BOMBS[names[case.number]]
        data = make()
        assert len(data) < 32 * MIB
        done = subprocess.run(
            [sys.executable, "-c", DRAW, form, str(MOST_SECONDS)],
            input=data,
            capture_output=True,
            timeout=2 * MOST_SECONDS,
            check=True,
        )
        outcome, peak = json.loads(done.stdout)
        assert re.match(pattern, outcome), (names[case.number], outcome)
        assert peak < MOST_MEMORY, (names[case.number], outcome, peak)

    trials.run("scan bombs", check, short=2, full=len(BOMBS))
