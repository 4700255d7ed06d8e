"""Reading documents in separate processes, within limits."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.errors import ConfigurationError, DocumentLimitError, SourceError
from lorebind_config.reading.loading import build_project
from lorebind_knowledge.loaders import readers as module
from lorebind_knowledge.loaders.readers import Loading, Readers
from lorebind_knowledge.loaders.registry import load_document
from tests.torture.office_bombs import MIB, docx_empty_paragraphs, pdf_deflated, pdf_nested_forms

from .documents import handbook, pdf_bytes

PAGES = ["First page\nsecond line", "", "Grüße, 日本語 and \N{GRINNING FACE}"]
pytestmark = pytest.mark.usefixtures("started_readers")
ON_LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


@pytest.fixture
def readers() -> Iterator[Readers]:
    with Readers(LoadingDeclaration(processes=2)) as pool:
        yield pool


def running() -> list[int]:
    """Return the ids of the processes that read documents for this one."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended in the meantime
            continue
        if parent == os.getpid() and b"loaders.reader_process" in command:
            pids.append(int(folder.name))
    return pids


def eventually(holds: Callable[[], bool]) -> bool:
    """Return whether the condition holds before a deadline, so that a test never hangs."""
    for _ in range(600):
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("pdf", pdf_bytes(PAGES[:2], title="A title", bookmarks=[("First page", 0)])),
        ("docx", handbook()),
    ],
)
def test_the_same_document(readers: Readers, form: str, data: bytes) -> None:
    """Another process returns the same text, headings, pages and title as this one."""
    uri = f"a.{form}"
    assert readers.begin(form, data, uri).result() == load_document(data, uri)


def test_in_this_process() -> None:
    """With no processes, the document is read immediately, with the loader's own errors."""
    with Readers(LoadingDeclaration(processes=0)) as readers:
        assert readers.at_once == 0
        assert readers.begin("pdf", pdf_bytes(["text"]), "a.pdf").result().text == "text"
        with pytest.raises(SourceError, match=r"a.pdf: a broken PDF"):
            readers.begin("pdf", b"no pdf", "a.pdf").result()


def test_broken(readers: Readers) -> None:
    """A document that its loader refuses fails with the loader's message and names no limit."""
    with pytest.raises(SourceError, match=r"^a.docx: a broken Word document, ") as raised:
        readers.begin("docx", b"no zip", "a.docx").result()
    assert not isinstance(raised.value, DocumentLimitError)


@ON_LINUX
@pytest.mark.parametrize(
    ("name", "make", "how"),
    [
        ("forms.pdf", pdf_nested_forms, "ends the process that reads it (SIGABRT), most likely"),
        (
            "deflated.pdf",
            lambda: pdf_deflated(900 * MIB, 2),
            "ends the process that reads it (SIGABRT)",
        ),
        ("empty.docx", docx_empty_paragraphs, "takes more than 128 MiB of memory"),
    ],
)
def test_too_much_memory(name: str, make: Callable[[], bytes], how: str) -> None:
    """The document fails by name, with the limit and its setting; the next is read as usual."""
    with Readers(LoadingDeclaration(processes=1, max_memory="128 MiB")) as readers:
        bomb = readers.begin(Path(name).suffix[1:], make(), name)
        good = readers.begin("docx", handbook(), "good.docx")
        with pytest.raises(DocumentLimitError) as raised:
            bomb.result()
        assert str(raised.value).startswith(f"{name}: reading it {how}")
        assert str(raised.value).endswith(
            "takes more than 128 MiB of memory; it is not read again until it or "
            "loading.max_memory changes"
        )
        assert good.result().title == "The handbook"


def test_too_much_time() -> None:
    """Reading that takes too long is stopped, and the error names the setting."""
    long = pdf_bytes(["\n".join(["some words"] * 40)] * 200)
    limits = LoadingDeclaration(processes=1, max_seconds=0.005)
    with Readers(limits) as readers, pytest.raises(DocumentLimitError) as raised:
        readers.begin("pdf", long, "a.pdf").result()
    assert str(raised.value) == (
        "a.pdf: reading it takes longer than 0.005 seconds; it is not read again until it "
        "or loading.max_seconds changes"
    )


def test_the_time_is_for_each_document() -> None:
    """A process reads for longer than the limit, if no document takes that long."""
    with Readers(LoadingDeclaration(processes=1, max_seconds=2)) as readers:
        begun = time.monotonic()
        while time.monotonic() < begun + 2.5:
            assert readers.begin("html", b"\n<p>text", "a.html").result().text == "text"


@ON_LINUX
def test_a_few_small_documents(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first process is new, no other is started, because the first is soon free."""
    monkeypatch.setattr(module, "_SECONDS_ALONE", 60)
    reading = [readers.begin("html", b"\n<p>text", f"{number}.html") for number in range(8)]
    assert [future.result().text for future in reading] == ["text"] * 8
    assert len(running()) == 1


@ON_LINUX
def test_a_process_that_is_gone(readers: Readers) -> None:
    """An idle process that was killed is replaced, and no document fails."""
    readers.begin("pdf", pdf_bytes(["text"]), "a.pdf").result()
    (process,) = running()
    os.kill(
        process, signal.SIGKILL
    )  # it ends before the next document, or while the document is sent
    assert readers.begin("pdf", pdf_bytes(["text"]), "b.pdf").result().text == "text"


@ON_LINUX
def test_no_secrets(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes do not get this process's environment variables."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-secret")
    readers.begin("pdf", pdf_bytes(["text"]), "a.pdf").result()
    (process,) = running()
    assert b"sk-a-secret" not in Path(f"/proc/{process}/environ").read_bytes()


@ON_LINUX
def test_stopping() -> None:
    """Stopping cancels reading immediately and leaves no process behind."""
    with Readers(LoadingDeclaration(processes=2)) as readers:
        reading = [readers.begin("pdf", pdf_nested_forms(), f"{n}.pdf") for n in range(4)]
        assert eventually(lambda: len(running()) == 2)
        readers.stop()
        for future in reading:
            with pytest.raises(CancelledError):
                future.result()
        with pytest.raises(CancelledError):
            readers.begin("pdf", pdf_bytes(["text"]), "a.pdf").result()
    assert running() == []


def test_modules_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module next to the user's documents does not shadow a library."""
    monkeypatch.chdir(tmp_path)
    for name in ("json", "docx", "lorebind_knowledge"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with Readers(LoadingDeclaration(processes=1)) as readers:
        assert readers.begin("docx", handbook(), "a.docx").result().title == "The handbook"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("program", "why"),
    [("/nowhere/python", "No such file or directory"), (shutil.which("false"), "exit code 1")],
)
def test_it_cannot_be_started(
    readers: Readers, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    """If Python's executable is unknown, the error explains how to do without it."""
    monkeypatch.setattr("sys.executable", program)
    with pytest.raises(SourceError) as raised:
        readers.begin("pdf", pdf_bytes(["text"]), "a.pdf").result()
    assert str(raised.value) == (
        "a.pdf: cannot be read, because the process for reading it cannot be started with "
        f"'{program}': {why}; with loading: {{processes: 0}} no process is needed"
    )
    assert not isinstance(raised.value, DocumentLimitError)


def test_a_refusal_lasts_as_long_as_its_reasons() -> None:
    """The key changes with the content, with a limit, and without limits."""
    keys = {
        Loading(LoadingDeclaration(**limits)).key(uri, content)
        for uri, content in (("a", "one"), ("a", "other"), ("b", "one"))
        for limits in ({}, {"max_memory": "1 GiB"}, {"max_seconds": 31}, {"processes": 0})
    }
    assert len(keys) == 12
    assert Loading(LoadingDeclaration(processes=1)).key("a", "one") in keys


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"max_memory": "512"}, "'512' is not an amount of memory; write a number and MiB or GiB"),
        ({"max_memory": 512}, "loading.max_memory"),
        ({"max_memory": "1 MiB"}, "1 MiB is too little; write at least 64 MiB"),
        ({"max_seconds": 0}, "loading.max_seconds"),
        ({"processes": -1}, "loading.processes"),
        ({"memory": "1 GiB"}, "unknown key 'memory'"),
    ],
)
def test_declaration(written: dict[str, object], message: str, tmp_path: Path) -> None:
    """Invalid limits are refused with their location."""
    with pytest.raises(ConfigurationError) as raised:
        build_project({"name": "x", "loading": written}, root=tmp_path)
    assert message in str(raised.value)
