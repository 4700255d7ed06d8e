"""The conformance tests of `DocumentTransform`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import fields

import pytest

from lorebind_config.errors import SourceError
from lorebind_knowledge.loaders.base import LoadedDocument
from lorebind_knowledge.loaders.marks import Anchor, Cue, Heading
from lorebind_knowledge.transforms.steps import DocumentTransform, checked

_GUIDE = "# Keys\n\nRotate the key.\n\n## Old keys\n\nRevoke them; write to ann@example.com.\n"
DOCUMENTS = [
    LoadedDocument(
        _GUIDE,
        "Keys",
        (Heading(0, 1, "Keys"), Heading(_GUIDE.index("## "), 2, "Old keys")),
        metadata={"author": "Ann", "tags": ["keys", "access"], "year": 2026},
        format="markdown",
    ),
    LoadedDocument("", "empty"),
    LoadedDocument("---\ntitle: T\n---\nBody.", "T", body_start=17, format="markdown"),
    LoadedDocument(
        "First page.\n\n\n\nThird page.",
        "Report",
        anchors=(Anchor(0, "page", 1), Anchor(13, "page", 2), Anchor(15, "page", 3)),
        format="pdf",
    ),
    LoadedDocument(
        "Hello.\nGoodbye.", "Talk", cues=(Cue(0, 6, 0.0, 1.5), Cue(7, 15, 1.5, 3.0)), format="vtt"
    ),
    LoadedDocument("漢字かな 🜚👩‍👩‍👧 e\u0301 \u202eright to left\u202c", "x" * 1000),
    LoadedDocument("word " * 20_000, "long"),
]


class DocumentTransformConformance:
    """The tests of `DocumentTransform`. Inherit it and define a fixture `make_transform`.

    The fixture returns a function that makes a new step, as after a restart. A fixture `documents`
    may return further documents, and a fixture `removed` texts that no result may contain.
    """

    @pytest.fixture
    def make_transform(self) -> Callable[[], DocumentTransform]:
        raise NotImplementedError("define a fixture named `make_transform` that returns a function")

    @pytest.fixture
    def documents(self) -> Sequence[LoadedDocument]:
        return ()

    @pytest.fixture
    def removed(self) -> Sequence[str]:
        return ()

    def test_is_a_transform(self, make_transform: Callable[[], DocumentTransform]) -> None:
        """The step has the members of the protocol, and the same fingerprint after a restart."""
        step = make_transform()
        assert isinstance(step, DocumentTransform)
        assert step.fingerprint
        assert step.fingerprint == make_transform().fingerprint

    def test_results_are_documents(
        self,
        make_transform: Callable[[], DocumentTransform],
        documents: Sequence[LoadedDocument],
        removed: Sequence[str],
    ) -> None:
        """The results are documents whose headings, pages and times lie within their texts.

        No result contains a text that the step removes, and the document itself stays as it is. At
        least one document is not refused.
        """
        step = make_transform()
        every = [*DOCUMENTS, *documents]
        before = deepcopy(every)
        results = [_results(step, document) for document in every]
        assert every == before
        assert any(parts is not None for parts in results)
        for result in (part for parts in results for part in parts or ()):
            values = [getattr(result, field.name) for field in fields(result) if field.compare]
            for text in _texts(values):
                assert not [unwanted for unwanted in removed if unwanted in text]

    def test_a_document_has_one_result(
        self, make_transform: Callable[[], DocumentTransform], documents: Sequence[LoadedDocument]
    ) -> None:
        """A document has the same result after a restart, in any order, and in several threads."""
        every = [*DOCUMENTS, *documents]
        first, other = make_transform(), make_transform()
        alone = [_results(first, document) for document in every]
        with ThreadPoolExecutor(4) as threads:
            again = threads.map(lambda document: _results(other, document), every[::-1])
            assert list(again)[::-1] == alone


def _texts(value: object) -> Iterator[str]:
    """Yield all texts in a value, also the keys of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value.items()])
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _results(step: DocumentTransform, document: LoadedDocument) -> Sequence[LoadedDocument] | None:
    """Return what the step makes of a document; None if it refuses the document."""
    uri = "docs/guide.md"
    try:
        changed = step.transform(document, uri)
    except SourceError:
        return None
    return checked(changed, document, f"{uri}: the step")
