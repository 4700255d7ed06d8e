"""Sources that fail after an ingest: everything stays served, and each failure is named."""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import socket
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lorebind import Project
from lorebind_knowledge.ingest.report import IngestReport
from tests.app.helpers import Cli
from tests.bindings.helpers import write
from tests.knowledge.documents import handbook, pdf_bytes
from tests.knowledge.web_server import Answer, Request, WebServer, endless, silent

from .helpers import served, texts

pytestmark = pytest.mark.enable_socket

LOCKED = pdf_bytes(
    ["locked"],
    trailer="/ID [<00> <00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 "
    f"/O <{'00' * 32}> /U <{'11' * 32}> >>",
)
SECRET = "credentials of this machine"


@dataclass
class World:
    """A project with files and pages, the web server of its pages, and host names."""

    root: Path
    web: WebServer
    inside: WebServer
    """A server that must not be reached, because its address is not allowed."""
    names: dict[str, list[str]]
    monkeypatch: pytest.MonkeyPatch
    uris: list[str] = field(default_factory=list)

    def declare(self) -> None:
        page, host = self.web.url("/page"), self.web.url("/named", "wiki.test")
        fetch = "{ allow: ['127.0.0.1'] }"
        yaml = f"""
        name: failing
        embedders: [{{ id: words, provider: hashing }}]
        loading: {{ processes: 0 }}
        knowledge_bases:
          - id: docs
            embedder: words
            sources:
              - {{ type: markdown_glob, path: "guide/*.md" }}
              - {{ type: file_glob, path: "files/*" }}
              - {{ type: markdown_glob, path: "healthy/*.md" }}
              - {{ type: url, url: "{page}", max_bytes: 200000, fetch: {fetch} }}
              - {{ type: url, url: "{host}", fetch: {fetch} }}
            chunking: {{ size: 100, overlap: 0 }}
            preprocess: {{ dedupe: false }}
        """
        files = {f"guide/{name}.md": f"The guide says {name}." for name in ("one", "two")}
        files |= {f"healthy/{name}.md": f"Healthy is {name}." for name in ("three", "four")}
        write(self.root, files | {"files/a.txt": "A text.", "lorebind.yaml": yaml})
        (self.root / "files" / "b.pdf").write_bytes(pdf_bytes(["A page of paper"]))
        (self.root / "files" / "c.docx").write_bytes(handbook())
        self.web.routes["/page"] = Answer(b"A page of the web.", {"Content-Type": "text/plain"})
        self.web.routes["/named"] = Answer(b"A page by name.", {"Content-Type": "text/plain"})
        self.inside.otherwise = Answer(SECRET.encode(), {"Content-Type": "text/plain"})
        self.uris = [*files, "files/a.txt", "files/b.pdf", "files/c.docx", page, host]

    def served(self) -> dict[str, list[str]]:
        with Project.load(self.root) as project:
            return texts(served(project, "docs", self.uris))

    def ingest(self, **settings: Any) -> IngestReport:
        with Project.load(self.root) as project:
            return project.ingest("docs", **settings)


def resolving(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Return the addresses of host names; the last address of each is repeated."""
    names = {"wiki.test": ["127.0.0.1"]}
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        answers = names.get(host.decode() if isinstance(host, bytes) else host)
        if answers is None:
            return real(host, port, *args, **kwargs)
        return real(answers.pop(0) if len(answers) > 1 else answers[0], port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return names


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a project with working sources, ingested once, to copy."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        web, inside = WebServer(), WebServer("127.0.0.2")
        try:
            root = tmp_path_factory.mktemp("ingested") / "project"
            world = World(root, web, inside, resolving(monkeypatch), monkeypatch)
            world.declare()
            assert world.ingest().status == "completed"
            assert world.served().keys() == set(world.uris)
            monkeypatch.undo()  # each test resolves names on its own
            yield world
        finally:
            web.close()
            inside.close()


@pytest.fixture
def world(ingested: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return a copy of the ingested project with its servers."""
    routes = dict(ingested.web.routes)
    root = shutil.copytree(ingested.root, tmp_path / "project")
    yield replace(ingested, root=root, names=resolving(monkeypatch), monkeypatch=monkeypatch)
    ingested.web.routes = routes


# The failures. Each changes the world, and returns the source or document to be named.


def vanished_folder(world: World) -> str:
    shutil.rmtree(world.root / "guide")
    return "markdown_glob:guide/*.md"


def emptied_folder(world: World) -> str:
    for path in (world.root / "guide").iterdir():
        path.unlink()
    return "markdown_glob:guide/*.md"


def pattern_without_match(world: World) -> str:
    for path in (world.root / "guide").iterdir():
        path.rename(path.with_suffix(".old"))
    return "markdown_glob:guide/*.md"


def page(answer: Any) -> Callable[[World], str]:
    def change(world: World) -> str:
        world.web.routes["/page"] = answer
        return world.web.url("/page")

    return change


def no_answer(world: World) -> str:
    """Let a page not answer, with a short timeout."""
    path, fetch = world.root / "lorebind.yaml", "max_bytes: 200000, fetch: {"
    path.write_text(path.read_text().replace(fetch, f"{fetch} timeout_seconds: 0.2,"))
    return page(silent)(world)


def redirect(to: str) -> Callable[[World], str]:
    def change(world: World) -> str:
        target = to.replace("INSIDE", world.inside.url())
        world.web.routes["/page"] = Answer(b"", {"Location": target}, status=302)
        return world.web.url("/page")

    return change


def name_turns(address: str) -> Callable[[World], str]:
    def change(world: World) -> str:
        world.names["wiki.test"] = [address]
        world.web.routes["/named"] = Answer(SECRET.encode(), {"Content-Type": "text/plain"})
        return world.web.url("/named", "wiki.test")

    return change


def link_to_outside(world: World) -> str:
    outside = world.root.parent / "outside.md"
    outside.write_text(SECRET)
    (world.root / "guide" / "one.md").unlink()
    (world.root / "guide" / "one.md").symlink_to(outside)
    return "guide/one.md"


def linked_folder_to_outside(world: World) -> str:
    outside = world.root.parent / "outside"
    write(outside, {"one.md": SECRET, "two.md": SECRET})
    shutil.rmtree(world.root / "guide")
    (world.root / "guide").symlink_to(outside)
    return "guide"


def changing_file(world: World) -> str:
    """Append to the file whenever its size has been read."""
    path, real = world.root / "guide" / "one.md", os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        if os.path.samestat(status, path.stat()):
            with path.open("a") as file:
                file.write("And more.")
        return status

    world.monkeypatch.setattr(os, "fstat", fstat)
    return "guide/one.md"


def content(name: str, data: bytes) -> Callable[[World], str]:
    """Let a file have this content, and documents be read in a process, as is the default."""

    def change(world: World) -> str:
        (world.root / name).write_bytes(data)
        path = world.root / "lorebind.yaml"
        path.write_text(path.read_text().replace("processes: 0", "processes: 1"))
        return name

    return change


def keep(world: World) -> Callable[[], None]:
    """Return a function that restores the current state, except for the healthy folder."""
    copies, routes, fstat = world.root.parent / "kept", dict(world.web.routes), os.fstat
    folders, yaml = ("guide", "files"), (world.root / "lorebind.yaml").read_text()
    for folder in folders:
        shutil.copytree(world.root / folder, copies / folder)

    def mend() -> None:
        for folder in folders:
            place = world.root / folder
            if place.is_symlink():
                place.unlink()
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(copies / folder, place)
        write(world.root, {"lorebind.yaml": yaml})
        world.web.routes = routes
        world.names["wiki.test"] = ["127.0.0.1"]
        world.monkeypatch.setattr(os, "fstat", fstat)

    return mend


BOMB = Answer(
    gzip.compress(b"0" * 20_000_000), {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
)


def torn(document: bytes) -> bytes:
    """Return a Word document whose text ends in the middle of a tag."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(document)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            end = 400 if name == "word/document.xml" else None
            new.writestr(name, old.read(name)[:end])
    return packed.getvalue()


PICTURE = Answer(b"GIF89a\0\0\0\rIHDR", {"Content-Type": "image/gif"})

FAILURES: dict[str, tuple[Callable[[World], str], str]] = {
    "vanished folder": (vanished_folder, "no .*file"),
    "emptied folder": (emptied_folder, "no .*file"),
    "pattern without match": (pattern_without_match, "no .*file"),
    "404": (page(Answer(b"gone", status=404)), "404 Not Found"),
    "500": (page(Answer(b"oops", status=500)), "500 Internal Server Error"),
    "timeout": (no_answer, "took longer than 0.2 s"),
    "endless body": (page(endless), "larger than|more than|too large"),
    "gzip bomb": (page(BOMB), "larger than|more than|too large"),
    "empty body": (page(Answer(b"")), "is empty"),
    "to metadata": (redirect("http://169.254.169.254/latest/"), "not at a public address"),
    "to the inside": (redirect("INSIDE"), "not at a public address"),
    "to a file": (redirect("file:///etc/hostname"), "http"),
    "rebound name": (name_turns("127.0.0.2"), "not at a public address"),
    "name to metadata": (name_turns("169.254.169.254"), "not at a public address"),
    "link to outside": (link_to_outside, "outside the project folder"),
    "folder linked outside": (linked_folder_to_outside, "outside the project folder|no .*file"),
    "changing file": (changing_file, "changed while it was read"),
    "unknown document": (page(PICTURE), "image/gif|binary"),
    "binary text": (content("files/a.txt", b"caf\0\xe9"), "binary"),
    "encrypted PDF": (content("files/b.pdf", LOCKED), "is encrypted"),
    "broken PDF": (content("files/b.pdf", b"%PDF-1.4 torn"), "a broken PDF"),
    "cut-off DOCX": (content("files/c.docx", handbook()[:500]), "is a ZIP archive that is broken"),
    "broken DOCX": (content("files/c.docx", torn(handbook())), "broken|not well-formed|damaged"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_source_that_goes_wrong(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failing source keeps its documents, its reason is reported, and the rest is updated."""
    before = world.served()
    mend = keep(world)
    break_it, reason = FAILURES[name]
    culprit = break_it(world)
    (world.root / "healthy" / "three.md").write_text("Healthy is better.")
    expected = before | {"healthy/three.md": ["Healthy is better."]}

    for strategy in ("upsert", "replace"):
        report = world.ingest(strategy=strategy)
        assert (report.status, report.documents["removed"]) == ("completed_with_failures", 0)
        reasons = {source.source: source.reason for source in report.sources if source.reason}
        reasons |= {failure.uri: failure.reason for failure in report.failures}
        assert reasons
        for which, words in reasons.items():
            assert culprit in which
            assert re.search(reason, words)
        assert world.served() == expected

    done = Cli(world.root, monkeypatch, capsys)("knowledge", "ingest", "docs")
    assert done.code == 1, done
    assert culprit in done.out
    assert re.search(reason, done.out)
    assert "Traceback" not in done.out + done.err
    assert world.served() == expected
    assert world.inside.connections == 0

    mend()
    assert world.ingest().status == "completed"
    assert world.served() == expected


def test_a_name_that_changes_its_answer(world: World) -> None:
    """A host is resolved once per request, and the checked address is the one that is used."""
    world.names["wiki.test"] = ["127.0.0.1", "127.0.0.2"]
    world.web.routes["/named"] = Answer(b"A newer page.", {"Content-Type": "text/plain"})
    before = len(world.web.requests)
    assert world.ingest().status == "completed"
    assert sorted(request.target for request in world.web.requests[before:]) == ["/named", "/page"]
    assert world.inside.connections == 0
    assert world.served()[world.web.url("/named", "wiki.test")] == ["A newer page."]


def test_every_source_at_once(world: World) -> None:
    """If all sources fail, the run fails, and everything is served as before."""
    before = world.served()
    for folder in ("guide", "files", "healthy"):
        shutil.rmtree(world.root / folder)
    world.web.routes.clear()
    for strategy in ("upsert", "replace"):
        report = world.ingest(strategy=strategy)
        assert report.status != "completed"
        assert {source.status for source in report.sources[:3]} == {"failed"}
        assert len(report.failures) == 2
        assert all("404 Not Found" in failure.reason for failure in report.failures)
        assert world.served() == before


# Unchanged documents are not sent again.


class Versioned:
    """A page with a version, which is not sent again to clients that have this version."""

    def __init__(self, text: bytes) -> None:
        self.text, self.tag = text, '"one"'
        self.full = 0
        """Number of times it was sent in full."""

    def __call__(self, request: Request) -> Answer:
        if request.headers.get("if-none-match") == self.tag:
            return Answer(status=304, headers={"ETag": self.tag})
        self.full += 1
        return Answer(self.text, {"ETag": self.tag, "Content-Type": "text/plain"})


@pytest.fixture
def versioned(world: World) -> Versioned:
    """Return the page of the world, ingested with its version."""
    page = Versioned(b"A page of the web.")
    world.web.routes["/page"] = page
    assert world.ingest().status == "completed"
    page.full = 0
    return page


def test_not_modified(world: World, versioned: Versioned) -> None:
    """A page that answers 304 is unchanged, and one with another version is read again."""
    before = world.served()
    for _ in range(2):
        report = world.ingest()
        assert report.status == "completed"
        assert report.documents["unchanged"] == len(world.uris)
        assert (report.texts_embedded, versioned.full) == (0, 0)
        assert world.served() == before
    versioned.text, versioned.tag = b"A page that is new.", '"two"'
    assert world.ingest().documents["updated"] == 1
    assert versioned.full == 1
    assert world.served()[world.web.url("/page")] == ["A page that is new."]


def test_not_modified_but_read_otherwise(world: World, versioned: Versioned) -> None:
    """A page is fetched in full if its chunking changes, or if an index lacks it."""
    path = world.root / "lorebind.yaml"
    versioned.text = b"Words of the page. " * 20
    versioned.tag = '"long"'
    world.ingest()
    versioned.full = 0
    page = world.web.url("/page")
    pieces = len(world.served()[page])
    path.write_text(path.read_text().replace("size: 100", "size: 200"))
    assert world.ingest().status == "completed"
    assert versioned.full == 1
    assert 0 < len(world.served()[page]) < pieces
    expected = world.served()
    assert world.ingest(strategy="replace").status == "completed"
    assert versioned.full == 2
    assert world.served() == expected


def test_the_version_of_a_failure_is_not_kept(world: World, versioned: Versioned) -> None:
    """A document that could not be read is tried again, whatever its version."""
    before = world.served()
    versioned.text, versioned.tag = b"caf\0\xe9", '"torn"'
    for attempt in (1, 2):
        report = world.ingest()
        assert [failure.attempts for failure in report.failures] == [attempt]
        assert versioned.full == attempt
        assert world.served() == before
