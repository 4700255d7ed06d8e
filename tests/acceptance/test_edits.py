"""Random edits of a project with several knowledge bases, sources and formats: exactly the new
texts are embedded, and exactly the current ones are found."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lorebind import Project

from .helpers import NOTING, embedded, served

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.ingest.report import IngestReport
    from lorebind_knowledge.records import DocumentMatch

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord")
"""Each paragraph has one of them, so that texts come back and stand in several places."""


def paragraph(word: str) -> str:
    return f"{word}, and {'some more of it, ' * 3}then the end"


def as_markdown(words: list[str]) -> str:
    heading = "# Of trees\n\n" if len(words) % 2 else ""
    return heading + "\n\n".join(map(paragraph, words))


def as_text(words: list[str]) -> str:
    return "\n\n".join(map(paragraph, words))


def as_html(words: list[str]) -> str:
    body = "".join(f"<p>{paragraph(word)}</p>" for word in words)
    return f"<html><head><title>Trees</title></head><body><main>{body}</main></body></html>"


def as_csv(words: list[str]) -> str:
    rows = "".join(f'{number},"{paragraph(word)}"\n' for number, word in enumerate(words))
    return f"number,said\n{rows}"


def as_json_lines(words: list[str]) -> str:
    return "".join(json.dumps({"said": paragraph(word)}) + "\n" for word in words)


def as_captions(words: list[str]) -> str:
    cues = (
        f"00:00:{number:02}.000 --> 00:00:{number:02}.900\n{paragraph(word)}\n"
        for number, word in enumerate(words)
    )
    return "WEBVTT\n\n" + "\n".join(cues)


FORMATS: dict[str, Callable[[list[str]], str]] = {
    ".md": as_markdown,
    ".txt": as_text,
    ".html": as_html,
    ".csv": as_csv,
    ".jsonl": as_json_lines,
    ".vtt": as_captions,
}
PLACES = ("docs/a", "docs/deep/b", "files/c", "files/d")
KEPT = ("docs/kept.md", "files/kept.vtt")
"""Never taken away: a source without any document would be one that failed."""
NAMES = [place + suffix for place in PLACES for suffix in FORMATS]

DECLARED: dict[str, Any] = {
    "name": "edits",
    "embedders": [
        {"id": name, "provider": "langchain", "class": NOTING, "batch_size": 4}
        | {"config": {"revision": name}}
        for name in ("one", "two")
    ],
    "vector_dbs": [{"id": "here", "type": "sqlite"}],
    "knowledge_bases": [
        {
            "id": "guide",
            "embedder": "one",
            "sources": [
                {"type": "markdown_glob", "path": "docs/**/*.md"},
                {"type": "media_transcript", "path": "files/*.vtt"},
                {"type": "inline", "documents": [{"id": "note", "text": paragraph("inline")}]},
            ],
            "chunking": {"size": 100, "overlap": 0},
            "preprocess": {"dedupe": False},
            "metadata": {"level": 0},
        },
        {
            "id": "everything",
            "embedder": "one",
            "sources": [{"type": "file_glob", "paths": ["docs/**/*", "files/*"]}],
            "chunking": {"size": 100, "overlap": 0},
            "preprocess": {"dedupe": False},
            "metadata": {"level": 0},
        },
    ],
}
KBS = ("guide", "everything")
INLINE = "inline:note"


class Edits(RuleBasedStateMachine):
    """The same edits are done to a model of what the files say: words by file."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.root = self.folder / "project"
        self.declared = copy.deepcopy(DECLARED)
        self.files: dict[str, list[str]] = {}
        self.paid: set[tuple[str, str]] = set()
        """What the embedder was ever given for: never again."""
        self.last: dict[str, dict[str, list[DocumentMatch]]] = {}
        """What each knowledge base served after its last ingest."""
        self.built_by: dict[str, str] = {}
        self.log = os.environ.get("EMBEDDED_LOG")

    @initialize()
    def begin(self) -> None:
        for name in KEPT:
            self.write(name, ["amber", "kept"])
        self.ingest("upsert")

    def teardown(self) -> None:
        if self.log is None:
            os.environ.pop("EMBEDDED_LOG", None)
        shutil.rmtree(self.folder)

    # Edits.

    def write(self, name: str, words: list[str]) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FORMATS[path.suffix](words))
        self.files[name] = words

    def pick(self, number: int) -> str:
        """A file that is there, and may go."""
        names = sorted(self.files.keys() - set(KEPT))
        return names[number % len(names)]

    def some_files(self) -> bool:
        return len(self.files) > len(KEPT)

    @rule(name=st.sampled_from(NAMES), words=st.lists(st.sampled_from(WORDS), max_size=5))
    def add_or_rewrite(self, name: str, words: list[str]) -> None:
        self.write(name, words or ["lonely"])

    @precondition(some_files)
    @rule(number=st.integers(0, 99), place=st.integers(0, 5), word=st.sampled_from(WORDS))
    def insert(self, number: int, place: int, word: str) -> None:
        name = self.pick(number)
        words = list(self.files[name])
        words.insert(min(place, len(words)), word)
        self.write(name, words[:6])

    @precondition(some_files)
    @rule(number=st.integers(0, 99))
    def delete(self, number: int) -> None:
        name = self.pick(number)
        (self.root / name).unlink()
        del self.files[name]

    @precondition(some_files)
    @rule(number=st.integers(0, 99), place=st.sampled_from(PLACES))
    def move(self, number: int, place: str) -> None:
        old = self.pick(number)
        new = place + Path(old).suffix
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)
        self.files[new] = self.files.pop(old)

    @precondition(some_files)
    @rule(number=st.integers(0, 99), when=st.integers(1, 10**9))
    def touch(self, number: int, when: int) -> None:
        os.utime(self.root / self.pick(number), (when, when))

    def change(self, kb: int, **parts: Any) -> None:
        self.declared["knowledge_bases"][kb] |= parts

    @rule(kb=st.integers(0, 1), level=st.integers(0, 2))
    def change_metadata(self, kb: int, level: int) -> None:
        self.change(kb, metadata={"level": level})

    @rule(kb=st.integers(0, 1), size=st.sampled_from([64, 100, 200]))
    def change_chunking(self, kb: int, size: int) -> None:
        self.change(kb, chunking={"size": size, "overlap": 0})

    @rule(kb=st.integers(0, 1), embedder=st.sampled_from(["one", "two"]))
    def change_embedder(self, kb: int, embedder: str) -> None:
        self.change(kb, embedder=embedder)

    # What must hold.

    def project(self, root: Path, log: str, **parts: Any) -> Project:
        os.environ["EMBEDDED_LOG"] = str(self.folder / log)
        return Project.build(self.declared | parts, root=root)

    def given(self, log: str) -> list[tuple[str, str]]:
        path = self.folder / log
        found = embedded(path)
        path.unlink(missing_ok=True)
        return found

    def everything(self, project: Project) -> dict[str, dict[str, list[DocumentMatch]]]:
        names = [*NAMES, *KEPT, INLINE]
        return {kb: served(project, kb, names, at_once=3) for kb in KBS}

    @rule(strategy=st.sampled_from(["upsert", "upsert", "replace"]))
    def ingest(self, strategy: str) -> None:
        fresh = Path(shutil.copytree(self.root, self.folder / "fresh"))
        shutil.rmtree(fresh / ".lorebind", ignore_errors=True)
        memory = [{"id": "here", "type": "memory"}]
        with self.project(fresh, "fresh.jsonl", vector_dbs=memory) as project:
            for kb in KBS:
                assert project.ingest(kb).status == "completed"
            expected = self.everything(project)
        shutil.rmtree(fresh)
        needed = set(self.given("fresh.jsonl"))

        with self.project(self.root, "given.jsonl") as project:
            self.check_before(project)
            reports = [self.done(project, kb, strategy=strategy) for kb in KBS]
            new = self.given("given.jsonl")
            assert sorted(new) == sorted(needed - self.paid)
            assert sum(report.texts_embedded for report in reports) == len(new)
            self.paid |= needed
            self.last = self.everything(project)
            assert self.last == expected
            self.check_words()
            for kb, report in zip(KBS, reports, strict=True):
                self.check_again(project, kb, report)
            assert self.everything(project) == expected
            assert self.given("given.jsonl") == []
        self.built_by = {kb["id"]: kb["embedder"] for kb in self.declared["knowledge_bases"]}

    @staticmethod
    def done(project: Project, kb: str, **how: Any) -> IngestReport:
        report = project.ingest(kb, allow_mass_delete=True, **how)
        assert (report.status, report.failures) == ("completed", [])
        return report

    def check_before(self, project: Project) -> None:
        """Before its ingest a knowledge base serves what it served after its last one."""
        for kb in self.declared["knowledge_bases"]:
            if self.built_by.get(kb["id"]) == kb["embedder"]:
                names = [*NAMES, *KEPT, INLINE]
                assert served(project, kb["id"], names, at_once=3) == self.last[kb["id"]]

    def check_words(self) -> None:
        """The words that are found in a document are those that its file has now."""
        said = {name: set(words) for name, words in self.files.items()}
        of_kb = {
            "everything": said,
            "guide": {
                name: words
                for name, words in said.items()
                if (name[:5], name[-3:]) == ("docs/", ".md")
                or (name[:6], name[-4:]) == ("files/", ".vtt")
            }
            | {INLINE: {"inline"}},
        }
        known = {*WORDS, "kept", "lonely", "inline"}
        for kb, documents in of_kb.items():
            found = {
                uri: {word for match in matches for word in known if word in match.text}
                for uri, matches in self.last[kb].items()
            }
            assert found == documents
        for kb_declared in self.declared["knowledge_bases"]:
            for matches in self.last[kb_declared["id"]].values():
                assert all(
                    match.metadata["level"] == kb_declared["metadata"]["level"] for match in matches
                )

    def check_again(self, project: Project, kb: str, first: IngestReport) -> None:
        """A second ingest finds nothing to do."""
        again = self.done(project, kb)
        documents = sum(first.documents.values()) - first.documents["removed"]
        assert again.documents == dict.fromkeys(first.documents, 0) | {"unchanged": documents}
        total = first.chunks["total"]
        assert again.chunks == {"added": 0, "removed": 0, "unchanged": total, "total": total}
        assert (again.texts_embedded, again.cache_hits) == (0, 0)


Edits.TestCase.settings = settings(
    max_examples=10,
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestEdits = Edits.TestCase
