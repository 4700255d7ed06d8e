"""A project whose files, metadata, chunking and embedder are edited, and its invariants.

Expected values come from two sides. A new project ingests the same documents: it knows nothing of
earlier versions, but shares every mistake in reading a document. Therefore, results are also
compared with the intended content of the files.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from lorebind import Project
from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
from lorebind_knowledge.plumbing.bridge import run
from lorebind_knowledge.records import DocumentMatch

from .edited_files import EditedFiles, body, paragraph, words_in
from .helpers import NOTING, embedded
from .watched_ingest import Steps
from .whole_index import (
    QUESTION,
    Passages,
    active_index,
    all_passages,
    check_file,
    check_whole,
    contents,
    read_by_embedder,
)

KBS = ("guide", "everything")
INLINE = "inline:note"
KEPT = ("docs/kept.md", "files/kept.vtt")
"""Files that are never removed, because a source without any document counts as failed."""
BATCH = 8
CALLS_AT_ONCE = {"one": 1, "two": 2}

DECLARED: dict[str, Any] = {
    "name": "edits",
    "embedders": [
        {"id": name, "provider": "langchain", "class": NOTING, "batch_size": BATCH}
        | {"max_concurrent": calls, "config": {"revision": name}}
        for name, calls in CALLS_AT_ONCE.items()
    ],
    "vector_dbs": [{"id": "here", "type": "sqlite"}],
    "loading": {"processes": 0},  # to start one takes longer than to read all files
    "knowledge_bases": [
        {
            "id": "guide",
            "sources": [
                {"type": "markdown_glob", "path": "docs/**/*.md"},
                {"type": "media_transcript", "path": "files/*.vtt"},
                {"type": "inline", "documents": [{"id": "note", "text": paragraph("inline0")}]},
            ],
        },
        {
            "id": "everything",
            "sources": [{"type": "file_glob", "paths": ["docs/**/*", "files/*"]}],
        },
    ],
}
for declared in DECLARED["knowledge_bases"]:
    declared |= {
        "embedder": "one",
        "sparse": "local",
        "chunking": {"size": 100, "overlap": 0},
        "preprocess": {"dedupe": False},
        "metadata": {"level": 0},
        "keep": 0,  # so that the file holds exactly the documents that are served
    }


class State:
    """The known state of a knowledge base's index."""

    def __init__(self) -> None:
        self.embedder: str | None = None
        """The embedder that built the index; None if there is no index."""
        self.passages: Passages = {}
        """The passages that are served."""
        self.made_of: dict[str, object] | None = {}
        """The inputs of each document at its last ingest; None if an ingest was interrupted."""
        self.begun_another = False
        """Whether an unfinished new version of the index exists."""


class EditedProject:
    """Files and declarations to edit; every ingest checks all invariants."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self.files = EditedFiles(self._folder / "project")
        self.declared = copy.deepcopy(DECLARED)
        self._states = {kb: State() for kb in KBS}
        self._fresh: dict[object, list[DocumentMatch]] = {}
        self._paid: set[tuple[str, str]] = set()
        """All texts that were ever sent to the embedder."""
        self._doubtful: set[tuple[str, str]] = set()
        """The texts that were sent to it in interrupted ingests."""
        self._may_be_lost = 0
        """How many of these may be sent again."""
        self._ids: dict[tuple[object, ...], str] = {}
        """The ids of all passages that ever existed."""
        self._log = os.environ.get("EMBEDDED_LOG")

    def copied(self) -> EditedProject:
        """Return a copy of this project and its state, in a folder of its own."""
        other = EditedProject()
        shutil.copytree(self._folder, other._folder, dirs_exist_ok=True)
        other.declared = copy.deepcopy(self.declared)
        other.files.documents = dict(self.files.documents)
        other._states = {kb: copy.copy(state) for kb, state in self._states.items()}
        other._fresh, other._ids = self._fresh, self._ids
        other._paid, other._doubtful = set(self._paid), set(self._doubtful)
        other._may_be_lost = self._may_be_lost
        return other

    def close(self) -> None:
        os.environ.pop("EMBEDDED_LOG", None)
        if self._log is not None:
            os.environ["EMBEDDED_LOG"] = self._log
        shutil.rmtree(self._folder)

    def of(self, kb: str) -> dict[str, Any]:
        """Return the declaration of a knowledge base."""
        (base,) = (
            knowledge_base
            for knowledge_base in self.declared["knowledge_bases"]
            if knowledge_base["id"] == kb
        )
        declared: dict[str, Any] = base
        return declared

    def change(self, kb: str, **parts: Any) -> None:
        self.of(kb).update(parts)

    # Ingesting.

    def ingest(
        self, strategy: str = "upsert", *, fatal: int | str | None = None, cancels: bool = False
    ) -> None:
        """Update every knowledge base, or interrupt each ingest at a step, see `Steps`."""
        expected = {kb: self._expected(kb) for kb in KBS}
        with self._project(self.files.root) as project, self._project(self.files.root) as reader:
            for kb in KBS:
                self._check_meaning(kb, expected[kb])
                planned = project.plan(kb)
                report = self._run(project, reader, kb, expected[kb], strategy, fatal, cancels)
                if report is None:
                    continue
                if strategy == "upsert":
                    check_plan(planned, report)
                self._check_again(project, kb, expected[kb])
                self._check_search(project, kb, expected[kb])
                assert self._served(reader, kb) == contents(expected[kb])
        if all(state.made_of is not None for state in self._states.values()):
            successors = {kb: state.begun_another for kb, state in self._states.items()}
            check_file(self.files.root / ".lorebind" / "lorebind.db", expected, successors)

    def _run(
        self,
        project: Project,
        reader: Project,
        kb: str,
        expected: Passages,
        strategy: str,
        fatal: int | str | None,
        cancels: bool,
    ) -> IngestReport | None:
        """Ingest, and return the report after checking everything; None if it was interrupted."""
        state, embedder = self._states[kb], self.of(kb)["embedder"]
        anew = state.embedder != embedder or strategy == "replace"
        at_once = anew and state.embedder is not None
        before, after = contents(state.passages), contents(expected)

        def look() -> None:
            check_whole(self._served(reader, kb), before, after, at_once=at_once)

        assert self._served(reader, kb) == before
        assert self._embedded() == []
        index = active_index(project, kb)
        steps = Steps(look, fatal, cancels=cancels)
        with steps.watching():
            ingest = project.aingest(kb, strategy=strategy, allow_mass_delete=True)
            report: IngestReport | None = run(steps.run(ingest))
        look()
        self._account(kb, expected, complete=report is not None)
        if active_index(project, kb) != index:
            state.embedder = embedder
        if report is None:
            state.passages, state.made_of = all_passages(reader, kb, embedder), None
            state.begun_another |= anew
            return None
        assert (report.status, report.failures) == ("completed", [])
        assert self._served(reader, kb) == after
        self._check_counts(kb, report, expected, anew)
        state.passages, state.made_of = expected, self._made_of(kb)
        state.begun_another = False
        return report

    def _project(self, root: Path, **parts: Any) -> Project:
        os.environ["EMBEDDED_LOG"] = str(self._folder / "embedded.jsonl")
        return Project.build(self.declared | parts, root=root)

    def _embedded(self) -> list[tuple[str, str]]:
        """Return the texts sent to the embedder since the last call."""
        path = self._folder / "embedded.jsonl"
        texts = embedded(path)
        path.unlink(missing_ok=True)
        return texts

    # Expected values.

    def _listed(self, kb: str) -> list[str]:
        """Return the documents that the sources of a knowledge base have now."""
        names = list(self.files.documents)
        if kb == "everything":
            return names
        of_guide = [
            name for name in names if fnmatch(name, "docs/*.md") or fnmatch(name, "files/*.vtt")
        ]
        return [*of_guide, INLINE]

    def _made_of(self, kb: str) -> dict[str, object]:
        """Return the inputs that determine the passages of each document."""
        declared = json.dumps(self.of(kb), sort_keys=True)
        return {
            uri: (
                declared,
                uri,
                b"" if uri == INLINE else self.files.content(uri),
            )
            for uri in self._listed(kb)
        }

    def _expected(self, kb: str) -> Passages:
        """Return what a new project would ingest; each version of a document is ingested once."""
        made_of = self._made_of(kb)
        missing = {uri for uri, version in made_of.items() if version not in self._fresh}
        if missing:
            root = self._folder / "fresh"
            for name in (missing | set(KEPT)) - {INLINE}:
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.files.content(name))
            memory = [{"id": "here", "type": "memory"}]
            with self._project(root, vector_dbs=memory) as project:
                assert project.ingest(kb).status == "completed"
                passages = all_passages(project, kb, self.of(kb)["embedder"])
            shutil.rmtree(root)
            self._embedded()
            self._fresh |= {made_of[uri]: passages.get(uri, []) for uri in missing}
        fresh = {uri: self._fresh[version] for uri, version in made_of.items()}
        return {uri: hits for uri, hits in fresh.items() if hits}

    def _check_meaning(self, kb: str, expected: Passages) -> None:
        """Check that expected passages match the intended content, each with one id of its own."""
        declared = self.of(kb)
        for uri, hits in expected.items():
            texts: Counter[str] = Counter()
            for hit in hits:
                texts[hit.text] += 1
                passage = (kb, uri, hit.text, texts[hit.text])
                assert self._ids.setdefault(passage, hit.id) == hit.id
        assert len(set(self._ids.values())) == len(self._ids)
        of_files = set(self._listed(kb)) - {INLINE}
        assert {uri for uri in of_files if self.files.documents[uri].words} <= expected.keys()
        for uri, hits in expected.items():
            lines = [hit.text for hit in hits]
            assert {hit.metadata["uri"] for hit in hits} == {uri}
            assert {hit.metadata["level"] for hit in hits} == {declared["metadata"]["level"]}
            if uri == INLINE:
                assert lines == [paragraph("inline0")]
                continue
            document = self.files.documents[uri]
            assert words_in("\n".join(lines)) == set(document.words)
            assert {hit.metadata["title"] for hit in hits} == {self.files.title(uri)}
            if uri.endswith((".md", ".txt")) and not declared["chunking"]["overlap"]:
                assert "".join("".join(lines).split()) == "".join(body(document).split())
            if uri.endswith(".md") and (document.title or document.draft):
                assert {hit.metadata["draft"] for hit in hits} == {document.draft}

    # Invariants.

    @staticmethod
    def _served(project: Project, kb: str) -> dict[str, list[tuple[object, ...]]]:
        return contents(all_passages(project, kb, "one"))

    def _account(self, kb: str, expected: Passages, *, complete: bool) -> None:
        """Check that only new texts were embedded, once unless their call was interrupted."""
        embedder = self.of(kb)["embedder"]
        needed = {(embedder, read_by_embedder(hit)) for hits in expected.values() for hit in hits}
        sent = Counter(self._embedded())
        assert sent.keys() <= needed
        again = sent.keys() & self._paid
        assert again <= self._doubtful
        twice = sent.total() - len(sent)
        assert not (complete and twice)
        self._may_be_lost += 0 if complete else BATCH * CALLS_AT_ONCE[embedder]
        self._may_be_lost -= len(again) + twice
        assert self._may_be_lost >= 0
        self._paid |= sent.keys()
        if complete:
            assert needed <= self._paid
            self._doubtful -= needed
        else:
            self._doubtful |= sent.keys()

    def _check_counts(self, kb: str, report: IngestReport, expected: Passages, anew: bool) -> None:
        """Check that the counts in the report match the changes since the last served index."""
        state, now = self._states[kb], self._made_of(kb)
        before = {} if anew else state.made_of
        documents, chunks = report.documents, report.chunks
        new_ids = {hit.id for hits in expected.values() for hit in hits}
        assert chunks["total"] == len(new_ids) == chunks["added"] + chunks["unchanged"]
        assert len(now) == sum(documents[name] for name in ("added", "updated", "unchanged"))
        if before is None or (anew and state.begun_another):
            return  # work done before an interruption is not repeated
        same = {uri for uri in now if before.get(uri) == now[uri]}
        assert documents == {
            "added": len(now.keys() - before.keys()),
            "updated": len((now.keys() & before.keys()) - same),
            "removed": len(before.keys() - now.keys()),
            "unchanged": len(same),
            "failed": 0,
        }
        old = {} if anew else state.passages
        old_ids = {hit.id for hits in old.values() for hit in hits}
        assert chunks == {
            "added": len(new_ids - old_ids),
            "removed": len(old_ids - new_ids),
            "unchanged": len(new_ids & old_ids),
            "total": len(new_ids),
        }
        read_again = [uri for uri in now if uri not in same]
        hits = sum(len(expected.get(uri, ())) for uri in read_again) - report.texts_embedded
        assert report.cache_hits == hits

    def _check_again(self, project: Project, kb: str, expected: Passages) -> None:
        """Check that a second ingest has nothing to do."""
        planned, again = project.plan(kb), project.ingest(kb)
        check_plan(planned, again)
        listed, total = len(self._listed(kb)), sum(map(len, expected.values()))
        assert again.documents == dict.fromkeys(again.documents, 0) | {"unchanged": listed}
        assert again.chunks == {"added": 0, "removed": 0, "unchanged": total, "total": total}
        assert (again.texts_embedded, again.cache_hits, self._embedded()) == (0, 0, [])

    @staticmethod
    def _check_search(project: Project, kb: str, expected: Passages) -> None:
        """Check that searches by vectors and by words return the current passages."""
        ranked = sorted(
            (hit for hits in expected.values() for hit in hits),
            key=lambda hit: (-hit.score, hit.id),
        )
        near = project.query(kb, QUESTION, strategy="similarity", top_k=50).matches
        assert near == ranked[:50]
        for word in ("amber1", "cedar2"):
            with_it = {hit.id for hit in ranked if word in hit.text}
            matches = project.query(kb, word, strategy="lexical", top_k=50).matches
            assert {match.id for match in matches} <= with_it
            assert len(matches) == min(len(with_it), 50)


def check_plan(planned: IngestPlan, report: IngestReport) -> None:
    """Check that a plan matches the report of the ingest."""
    assert (planned.documents, planned.chunks) == (report.documents, report.chunks)
    assert (planned.texts_to_embed, planned.cache_hits) == (
        report.texts_embedded,
        report.cache_hits,
    )
    assert (planned.failures, planned.sources) == (report.failures, report.sources)
