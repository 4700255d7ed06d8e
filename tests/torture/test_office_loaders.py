"""PDF and Word files that are damaged, or made to exhaust the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.readers import Readers
from tests.knowledge.documents import (
    epub_bytes,
    handbook,
    pdf_bytes,
    pptx_bytes,
    xlsx_bytes,
)

from .office_bombs import BOMBS, MIB
from .trials import Case, Trials

MOST_MEMORY = 512_000_000
MOST_SECONDS = 60

READ = """
import json, resource, sys
from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.readers import Readers

data, form = sys.stdin.buffer.read(), sys.argv[1]
with Readers(LoadingDeclaration()) as readers:
    try:
        said = f"{len(readers.begin(form, data, 'bomb').result().text)} characters"
    except SourceError as error:
        said = str(error)
with open("/proc/self/status") as status:  # ru_maxrss would be that of the tests at first
    own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
print(json.dumps([said, (own + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) * 1024]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_bombs(trials: Trials) -> None:
    """Reading a document uses less than 512 MB and a minute, whatever it unpacks to."""
    names = list(BOMBS)

    def check(case: Case) -> None:
        name = names[case.number]
        data = BOMBS[name]()
        assert len(data) < 5 * MIB
        done = subprocess.run(
            [sys.executable, "-c", READ, Path(name).suffix[1:]],
            input=data,
            capture_output=True,
            timeout=MOST_SECONDS,
            check=True,
        )
        outcome, peak = json.loads(done.stdout)
        assert peak < MOST_MEMORY, (name, outcome, peak)

    trials.run("office bombs", check, short=2, full=len(BOMBS))


@pytest.fixture(scope="module")
def readers() -> Iterator[Readers]:
    with Readers(LoadingDeclaration(processes=1)) as readers:
        yield readers


def test_spoiled_documents(trials: Trials, readers: Readers) -> None:
    """A file with random changes is read, or rejected with a reason that names it."""
    originals = {
        "pdf": pdf_bytes(["First page\nand more", "Second"], title="A", bookmarks=[("First", 0)]),
        "docx": handbook(),
        "pptx": pptx_bytes(("One", "two"), ("Three", "four"), notes="five"),
        "xlsx": xlsx_bytes({"One": [["a", "b"], [1, None]], "Two": [["x"]]}),
        "epub": epub_bytes({"a.xhtml": "<h1>One</h1><p>two", "b.xhtml": "<p>x"}, title="A"),
        "rtf": rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}\f0 One \'e9 \u8364?\par}",
        "eml": b"Subject: =?utf-8?q?One?=\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\ntwo",
    }

    def check(case: Case) -> None:
        form = case.choice(sorted(originals))
        data = _spoiled(case, originals[form])
        reading = readers.begin(form, data, f"file.{form}")
        if (error := reading.exception()) is not None:
            assert isinstance(error, SourceError)
            assert str(error).startswith("file.")
            return
        document = reading.result()
        length = len(document.text)
        starts = [heading.start for heading in document.headings]
        assert starts == sorted(starts)
        starts += [anchor.start for anchor in document.anchors]
        assert all(0 <= start <= length for start in starts)
        document.text.encode()
        document.title.encode()

    trials.run("spoiled office documents", check, short=40, full=1_000)


def _spoiled(case: Case, data: bytes) -> bytes:
    """Return the bytes with some of them changed, removed, inserted or repeated."""
    spoiled = bytearray(data)
    for _ in range(case.choice([1, 3, 20])):
        at = case.randrange(len(spoiled) + 1)
        end = min(len(spoiled), at + case.choice([1, 1, 8, 200]))
        match case.randrange(4):
            case 0:
                spoiled[at:end] = case.randbytes(end - at)
            case 1:
                del spoiled[at:end]
            case 2:
                spoiled[at:at] = spoiled[at:end] * case.choice([1, 50])
            case _:
                spoiled[at:end] = case.choice([b"9" * 12, b"-1", b"<<", b"/Kids", b"\0", b"<w:p>"])
    return bytes(spoiled)
