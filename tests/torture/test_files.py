"""Files of a project in hostile folders, with hostile names and hostile patterns."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lorebind import Project
from lorebind_config.checks.template_checks import read_passage_template
from lorebind_config.errors import LorebindError
from lorebind_config.templates import Environment
from lorebind_knowledge.sources.cloud_storage import CloudStorageSource
from lorebind_knowledge.sources.folder.files import FileSource
from lorebind_knowledge.sources.make import make_source
from tests.processes import run_program

from .trials import Trials

SECRET = "secret"
TEMPLATE = "{{ .content }} {{ .marker }}"
_FILES = 5
_READS = 1_000
"""Number of reads per case."""

PROJECT = """\
name: p
embedders: [{ id: words, provider: hashing }]
knowledge_bases: [{ id: kb, sources: [{ type: markdown_glob, path: "docs/**/*.md" }] }]
"""

HOSTILE = [
    *"?#%&=;:*[]{}()!+@|~$^'\"\\ \t\n\r-.,<>\x01\x7f\xa0\u202e\u2028\U0001f600",
    "%20", "%00", "%2e%2e", "?mode=memory", "&cache=shared", "..", "{a,b}", "[a-z]", "**", "file:",
    "sqlite:///", ":memory:", "e\u0301", "{{ .env.HOME }}", "$HOME", "--help", "\udce9", "\udcff",
]  # fmt: skip

GLOB = [
    "{a,b}", "{", "}", ",", "{1..100000}", "{a..z}", "..", "{{a,b},{c,d}}", "*", "**", "/", "**/a/",
    "?", "[", "[!a]", "]", "!(", "@(a|b)", "+(", "|", ")", "\\", "${", "a", "*a", "x.md",
    "[[:alpha:]]", "{01..99..0}", "{,}", "~", "-", "\x00", "\u00e9",
]  # fmt: skip

JUDGE = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
from pathlib import Path
from lorebind_config.reading.loading import build_project
from lorebind_config.errors import ConfigurationError, SourceError
from lorebind_knowledge.sources.make import make_source

root = Path(sys.argv[1])
for pattern in json.load(sys.stdin):
    sources = [
        {"type": "file_glob", "path": pattern},
        {"type": "markdown_glob", "path": "**", "exclude": [pattern]},
        {"type": "cloud_storage", "provider": "file", "bucket": ".", "pattern": pattern},
    ]
    for source in sources:
        base = {"id": "kb", "sources": [source]}
        autoload = {"exclude": [pattern]}
        try:
            loaded = build_project(
                {"name": "p", "knowledge_bases": [base], "autoload": autoload}, root=root
            )
        except ConfigurationError as error:
            assert all(len(str(problem)) < 500 for problem in error.problems)
            continue
        source = make_source(loaded.project.knowledge_bases[0].sources[0], loaded.environment)
        try:
            list(source.items())
        except SourceError:
            pass
"""


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.mark.skipif(os.open not in os.supports_dir_fd, reason="no folder can be held here")
def test_a_folder_that_is_swapped_for_a_link(trials: Trials) -> None:
    """If a folder is replaced by a link while files are read, no file outside is ever read."""
    trials.run("swapped folders", _swapped, short=4, full=100)


def _swapped(case: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        project = place / "project"
        folders = [f"f{number}" for number in range(case.randint(1, 6))]
        for root, text in ((project, "inside"), (place / "outside", SECRET)):
            for number in range(_FILES):
                _write(root.joinpath(*folders, f"{number}.md"), f"{text} {TEMPLATE}")
        way = folders[: case.randint(1, len(folders))]
        read = case.choice([_documents, _objects, _templates])(project, "/".join(folders))
        assert all("inside" in reader() for reader in read)
        with _swapping(project.joinpath(*way), place.joinpath("outside", *way)):
            for _ in range(_READS // _FILES):
                for reader in read:
                    with suppress(LorebindError):
                        assert SECRET not in reader()


@contextmanager
def _swapping(folder: Path, outside: Path) -> Iterator[None]:
    """Replace the folder by a link to the other one, again and again, during the block."""
    aside, ended = folder.with_name("aside"), threading.Event()

    def swap() -> None:
        while not ended.is_set():
            folder.rename(aside)
            folder.symlink_to(outside)
            folder.unlink()
            aside.rename(folder)

    swapper, interval = threading.Thread(target=swap), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    swapper.start()
    try:
        yield
    finally:
        ended.set()
        swapper.join()
        sys.setswitchinterval(interval)


def _documents(project: Path, below: str) -> list[Callable[[], str]]:
    source = FileSource("file_glob", [f"{below}/*.md"], project)
    return [lambda item=item: item.read("").data.decode() for item in source.items()]  # type: ignore[misc]


def _objects(project: Path, below: str) -> list[Callable[[], str]]:
    top, *rest = below.split("/")
    if rest:  # the folder of the bucket may be swapped
        project, below = project / top, "/".join(rest)
    declared = {"provider": "file", "bucket": str(project), "prefix": f"{below}/"}
    declaration = CloudStorageSource(type="cloud_storage", max_bytes=1000, **declared)
    items = make_source(declaration, Environment(project)).items()
    return [lambda item=item: item.read("").data.decode() for item in items]  # type: ignore[misc]


def _templates(project: Path, below: str) -> list[Callable[[], str]]:
    names = [f"{below}/{number}.md" for number in range(5)]
    return [lambda name=name: read_passage_template(project, name) for name in names]  # type: ignore[misc]


def test_folder_names(trials: Trials) -> None:
    """In a folder of any name, a project can be ingested and searched, and writes nothing else."""
    trials.run("folder names", _named, short=3, full=120)


def _named(case: random.Random) -> None:
    with tempfile.TemporaryDirectory() as place:
        name = "".join(case.choices(HOSTILE, k=case.randint(1, 8)))[:60].replace("/", "_")
        # Names that careless parsing of an address would cut off.
        names = {name, f"{name}1", f"{name}?1", f"{name}%31", name.partition("?")[0] or "-"}
        projects = []
        for number, folder in enumerate(sorted(names - {".", ".."})):
            project = Path(place, folder)
            try:
                _write(project / "docs/a.md", f"# Keys\n\nRotate them, says number{number}.\n")
            except (OSError, UnicodeError):
                continue  # the file system does not allow this folder name
            _write(project / "lorebind.yaml", PROJECT)
            projects.append((project, f"number{number}"))
        for project, _ in projects:
            others = _files(place, but=project)
            with Project.load(project) as loaded:
                assert loaded.ingest("kb").chunks["added"] == 1
            assert _files(place, but=project) == others
        for project, text in projects:
            with Project.load(project) as loaded:
                (match,) = loaded.query("kb", "rotate").matches
            assert text in match.text


def _files(place: str, *, but: Path) -> list[str]:
    """Return all files in a folder, except those in the given one."""
    below = os.path.join(but, "")
    paths = [os.path.join(top, name) for top, _, names in os.walk(place) for name in names]
    return sorted(name for name in paths if not name.startswith(below))


def test_file_patterns(trials: Trials, tmp_path: Path) -> None:
    """Any pattern is validated and, if valid, matched, within limits of memory and time."""
    for depth in range(12):
        _write(tmp_path.joinpath(*["a"] * depth, "x.md"), "x")

    def check(case: random.Random) -> None:
        patterns = [
            "".join(case.choices(GLOB, k=case.randint(1, 40))) * case.choice([1, 1, 1, 10, 1000])
            for _ in range(40)
        ]
        done = run_program(
            [sys.executable, "-c", JUDGE, tmp_path], input=json.dumps(patterns), timeout=240
        )
        assert done.returncode == 0, done.stderr[-2000:]

    trials.run("file patterns", check, short=1, full=30)
