"""Edits of a project: only new texts are embedded, and readers find exactly the current ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from lorebind_knowledge.embedders.sparse import local as sparse
from lorebind_knowledge.records import SparseVector
from tests.density import DENSE

from .edited_files import FORMATS, WORDS, Document
from .edited_project import KBS, KEPT, EditedProject

TWO_OF = (".md", ".txt", ".vtt")
PLACES = ("docs/a", "docs/deep/b", "files/c")
NAMES = [place + suffix for place in PLACES for suffix in FORMATS]


@pytest.fixture(scope="module", autouse=True)
def word_pieces_as_terms() -> Iterator[None]:
    """Give each passage its word pieces as terms: the model would only take time here."""

    def run(_: Any, pieces: Sequence[int], __: float) -> SparseVector:
        ids = np.unique(np.array(pieces, np.int64))
        return SparseVector(ids, np.ones(len(ids), np.float32))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "_run", run)
        yield


# One by one.


@pytest.fixture(scope="module")
def ingested() -> Iterator[EditedProject]:
    """Return a project with a long document of every format, and a second one of some formats."""
    project = EditedProject()
    for name in KEPT:
        project.files.write(name, Document(("kept0",)))
    names = [
        *(name for name in NAMES if "docs/a" in name),
        *(f"files/c{number}" for number in TWO_OF),
    ]
    for number, name in enumerate(names):
        words = [*WORDS[number:], *WORDS[:number]][:9]
        project.files.write(name, Document((*words, words[0]), title=f"About {number}"))
    project.ingest()
    yield project
    project.close()


@pytest.fixture
def project(ingested: EditedProject) -> Iterator[EditedProject]:
    project = ingested.copied()
    yield project
    project.close()


def everywhere(
    edit: Callable[[EditedProject, str], None],
) -> Callable[[EditedProject], None]:
    """Return an edit of every document except those that are kept."""

    def edit_all(project: EditedProject) -> None:
        for name in sorted(project.files.documents.keys() - set(KEPT)):
            edit(project, name)

    return edit_all


def put(place: int, *words: str, cut: int = 0, at_its_time: bool = False) -> Any:
    return everywhere(
        lambda project, name: project.files.edit(
            name, place, cut=cut, put=words, at_its_time=at_its_time
        )
    )


def become(**parts: Any) -> Any:
    return everywhere(
        lambda project, name: project.files.write(
            name, replace(project.files.documents[name], **parts)
        )
    )


def change(**parts: Any) -> Callable[[EditedProject], None]:
    def change_all(project: EditedProject) -> None:
        for kb in KBS:
            project.change(kb, **parts)

    return change_all


def of_names(names: str, edit: str) -> Callable[[EditedProject], None]:
    """Return an edit of two names, in every format that has the first, or to swap, both."""

    def edit_all(project: EditedProject) -> None:
        for suffix in FORMATS:
            first, other = (f"{name}{suffix}" for name in names.split())
            if edit != "swap" or other in project.files.documents:
                getattr(project.files, edit)(first, other)

    return edit_all


def copy(project: EditedProject) -> None:
    """Add an existing text again under another name."""
    for suffix in FORMATS:
        project.files.write(f"docs/deep/b{suffix}", project.files.documents[f"docs/a{suffix}"])


def edit_and_move(project: EditedProject) -> None:
    put(-2, "delta2", cut=1)(project)
    of_names("docs/a docs/deep/b", "move")(project)


def remove_half(project: EditedProject) -> None:
    for suffix in FORMATS:
        project.files.remove(f"docs/a{suffix}")


def one_character(at_its_time: bool) -> Callable[[EditedProject], None]:
    """Return an edit of one character in the last paragraph but one, so that no size changes."""

    def edit(project: EditedProject, name: str) -> None:
        word = project.files.documents[name].words[-2]
        other = f"{word[:-1]}{(int(word[-1]) + 1) % 3}"
        project.files.edit(name, -2, cut=1, put=(other,), at_its_time=at_its_time)

    return everywhere(edit)


SCENARIOS: dict[str, Callable[[EditedProject], None]] = {
    "at the start": put(0, "delta2", cut=1),
    "in the middle": put(4, "amber0", cut=1),
    "at the end": put(-1, "birch1", cut=1),
    "before everything": put(0, "amber0", "amber0"),
    "appended": put(-1, "cedar1", "amber0", "cedar1"),
    "shortened": put(-1, cut=4),
    "one character": one_character(at_its_time=False),
    "one character, same time": one_character(at_its_time=True),
    "emptied": put(0, cut=99),
    "touched": everywhere(lambda project, name: project.files.touch(name, 10**9)),
    "title alone": become(title="Quite another"),
    "front matter alone": become(draft=3),
    "line ends": become(newline="\r\n"),
    "encoding": become(encoding="utf-16"),
    "moved": of_names("docs/a docs/deep/b", "move"),
    "moved onto another": of_names("docs/a files/c", "move"),
    "swapped": of_names("docs/a files/c", "swap"),
    "copied": copy,
    "edited and moved": edit_and_move,
    "removed": remove_half,
    "metadata": change(metadata={"level": 7}),
    "chunk size": change(chunking={"size": 200, "overlap": 0}),
    "chunk overlap": change(chunking={"size": 100, "overlap": 30}),
    "chunker": change(chunking={"strategy": "markdown", "size": 100, "overlap": 0}),
    "embedder": change(embedder="two"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_edit(project: EditedProject, name: str) -> None:
    """An edit in any format, or of a declaration, takes one ingest; undoing it embeds nothing."""
    before = dict(project.files.documents)
    declared = {kb: dict(project.of(kb)) for kb in KBS}
    SCENARIOS[name](project)
    project.ingest()
    project.files.become(before)
    for kb in KBS:
        project.change(kb, **declared[kb])
    project.ingest()


HALF_INGESTED = ("docs/a.md", "docs/a.txt", "files/c.md", "files/c.vtt")
POINTS = (
    "after Ledger.put_documents",
    "after Noting.embed_documents",
    "after Versions.stage",
    "after SqliteStore.add",
    "after Versions.publish",
    "after Index.publish",
    "after SqliteStore.delete",
)


@pytest.mark.parametrize(
    ("edit", "strategy", "cancels", "points"),
    [
        ("in the middle", "upsert", False, POINTS if DENSE else POINTS[::3]),
        ("in the middle", "upsert", True, POINTS if DENSE else POINTS[1::3]),
        ("in the middle", "replace", False, POINTS if DENSE else POINTS[2::3]),
        ("embedder", "upsert", True, POINTS if DENSE else POINTS[1::3]),
    ],
    ids=["failed", "cancelled", "replaced", "other embedder"],
)
def test_an_edit_that_was_half_ingested(
    project: EditedProject, edit: str, strategy: str, cancels: bool, points: tuple[str, ...]
) -> None:
    """Wherever an ingest is interrupted, documents are whole, and the next one completes it."""
    for name in sorted(project.files.documents.keys() - {*KEPT, *HALF_INGESTED}):
        project.files.remove(name)
    before = dict(project.files.documents)

    def edit_or_take_back() -> None:
        edited = (project.files.documents, project.of("guide")["embedder"]) != (before, "one")
        project.files.become(before)
        change(embedder="one")(project)
        if not edited:
            SCENARIOS[edit](project)

    for point in points:
        edit_or_take_back()
        project.ingest(strategy, fatal=point, cancels=cancels)
        project.ingest()
        edit_or_take_back()
        project.ingest(strategy, fatal=point, cancels=cancels)
        edit_or_take_back()
        project.ingest()


def test_far_into_a_long_document(project: EditedProject) -> None:
    """An edit of one character is detected at any position in a long text."""
    change(chunking={"size": 4000, "overlap": 0})(project)
    for suffix in (".md", ".txt", ".csv"):
        project.files.write(f"docs/a{suffix}", Document(WORDS * 30))
    project.ingest()
    for place in (50, 359):
        for suffix in (".md", ".txt", ".csv"):
            name = f"docs/a{suffix}"
            other = WORDS[(WORDS.index(project.files.documents[name].words[place]) + 1) % 12]
            project.files.edit(name, place, cut=1, put=(other,), at_its_time=True)
        project.ingest()


# All of them at random.


class Ingest(NamedTuple):
    """The kind of ingest that follows an edit."""

    strategy: str
    fatal: int | None = None
    cancels: bool = False


THEN = st.one_of(
    st.none(),
    st.just(Ingest("upsert")),
    st.just(Ingest("upsert")),
    st.builds(Ingest, st.just("upsert"), st.integers(1, 80), st.booleans()),
    st.builds(Ingest, st.just("replace"), st.sampled_from([None, None, 7, 20, 50]), st.booleans()),
)
WORD = st.sampled_from(WORDS)
SOME_WORDS = st.lists(WORD, max_size=16).map(tuple)
NUMBER = st.integers(0, 99)
PLACE = st.sampled_from([0, 1, 6, -2, -1])
KB = st.sampled_from(KBS)
CHUNKING = [
    {"size": 100, "overlap": 0},
    {"size": 200, "overlap": 0},
    {"size": 100, "overlap": 30},
    {"strategy": "markdown", "size": 150, "overlap": 0},
]


def drawn(**strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a method into a rule that may be drawn, followed by an ingest or by nothing."""

    def make(method: Callable[..., None]) -> Callable[..., None]:
        @rule(**strategies, then=THEN)
        @wraps(method)
        def step(self: Edits, then: Ingest | None, **values: Any) -> None:
            method(self, **values)
            if then is not None:
                self.project.ingest(then.strategy, fatal=then.fatal, cancels=then.cancels)

        return step

    return make


class Edits(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.project = EditedProject()
        self.files = self.project.files
        self.as_it_was: dict[str, Document] = {}

    @initialize(clock_stands=st.booleans(), words=SOME_WORDS)
    def begin(self, clock_stands: bool, words: tuple[str, ...]) -> None:
        self.files.clock_stands = clock_stands
        for name in KEPT:
            self.files.write(name, Document(("kept0",)))
        for name in ("docs/a.md", "files/c.txt"):
            self.files.write(name, Document(words * 2))
        self.project.ingest()

    def teardown(self) -> None:
        self.project.close()

    def pick(self, number: int, suffix: str = "") -> str:
        """Choose an existing file that may be removed, optionally of one format."""
        names = sorted(self.files.documents.keys() - set(KEPT))
        names = [name for name in names if name.endswith(suffix)]
        return names[number % len(names)]

    def some_files(self) -> bool:
        return len(self.files.documents) > len(KEPT)

    @drawn(name=st.sampled_from(NAMES), words=SOME_WORDS)
    def write(self, name: str, words: tuple[str, ...]) -> None:
        self.files.write(name, Document(words))

    @precondition(some_files)
    @drawn(number=NUMBER, place=PLACE, cut=st.integers(0, 2), words=st.lists(WORD, max_size=2))
    def edit_somewhere(self, number: int, place: int, cut: int, words: list[str]) -> None:
        self.files.edit(self.pick(number), place, cut=cut, put=tuple(words))

    @precondition(some_files)
    @drawn(number=NUMBER, place=PLACE, word=WORD)
    def edit_at_its_time(self, number: int, place: int, word: str) -> None:
        self.files.edit(self.pick(number), place, cut=1, put=(word,), at_its_time=True)

    @precondition(some_files)
    @drawn(
        number=NUMBER,
        parts=st.one_of(
            st.builds(dict, title=st.sampled_from(["", "One", "Two"])),
            st.builds(dict, draft=st.integers(0, 2)),
            st.builds(dict, newline=st.sampled_from(["\n", "\r\n"])),
            st.builds(dict, encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])),
        ),
    )
    def dress(self, number: int, parts: dict[str, Any]) -> None:
        name = self.pick(number)
        self.files.write(name, replace(self.files.documents[name], **parts))

    @precondition(some_files)
    @drawn(number=NUMBER)
    def remove(self, number: int) -> None:
        self.files.remove(self.pick(number))

    @precondition(some_files)
    @drawn(number=NUMBER, place=st.sampled_from(PLACES), word=st.none() | WORD)
    def move(self, number: int, place: str, word: str | None) -> None:
        old = self.pick(number)
        if word is not None:
            self.files.edit(old, -1, put=(word,))
        self.files.move(old, place + Path(old).suffix)

    @precondition(some_files)
    @drawn(number=NUMBER, place=st.sampled_from(PLACES))
    def copy(self, number: int, place: str) -> None:
        old = self.pick(number)
        self.files.write(place + Path(old).suffix, self.files.documents[old])

    @precondition(some_files)
    @drawn(number=NUMBER, other=NUMBER)
    def swap(self, number: int, other: int) -> None:
        name = self.pick(number)
        self.files.swap(name, self.pick(other, Path(name).suffix))

    @drawn()
    def take_back(self) -> None:
        """Undo all edits since the last call of `remember`."""
        self.files.become(self.as_it_was or dict(self.files.documents))
        self.as_it_was = dict(self.files.documents)

    @drawn()
    def remember(self) -> None:
        """Mark the state to which `take_back` returns."""
        self.as_it_was = dict(self.files.documents)

    @precondition(some_files)
    @drawn(number=NUMBER, when=st.integers(1, 2 * 10**18))
    def touch(self, number: int, when: int) -> None:
        self.files.touch(self.pick(number), when)

    @drawn(kb=KB, level=st.integers(0, 2))
    def change_metadata(self, kb: str, level: int) -> None:
        self.project.change(kb, metadata={"level": level})

    @drawn(kb=KB, chunking=st.sampled_from(CHUNKING))
    def change_chunking(self, kb: str, chunking: dict[str, Any]) -> None:
        self.project.change(kb, chunking=chunking)

    @drawn(kb=KB, embedder=st.sampled_from(["one", "two"]))
    def change_embedder(self, kb: str, embedder: str) -> None:
        self.project.change(kb, embedder=embedder)


Edits.TestCase.settings = settings(
    max_examples=15 if DENSE else 3,
    stateful_step_count=14 if DENSE else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestEdits = Edits.TestCase
