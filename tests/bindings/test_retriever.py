"""Bound knowledge bases as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_tests.integration_tests import RetrieversIntegrationTests

from lorebind_bindings import LorebindRetriever, bind, override
from lorebind_config.errors import NotIngestedError, UsageError
from lorebind_config.reading.loaded import LoadedProject
from lorebind_config.reading.loading import load_project
from lorebind_knowledge import KnowledgeService
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.plumbing.bridge import run
from tests.bindings.helpers import resolve

from .helpers import PARTS, write

PROJECT = f"""\
name: shop
{PARTS}
knowledge_bases:
  - id: guide
    sources: [{{ type: markdown_glob, path: "guide/*.md" }}]
    metadata: {{ team: ops }}
  - id: rules
    sources: [{{ type: markdown_glob, path: "rules/*.md" }}]
  - id: empty
    sources: [{{ type: markdown_glob, path: "empty/*.md" }}]
knowledge:
  - {{ id: guide, top_k: 2 }}
  - {{ id: rules }}
"""

FILES = {
    "lorebind.yaml": PROJECT,
    "guide/a.md": "# Keys\n\nRotate the keys with the rotate command.\n",
    "guide/b.md": "# Old keys\n\nOld keys end at once.\n",
    "guide/c.md": "# Snow\n\nBlankets of powder cover chalets.\n",
    "rules/a.md": "# Rules\n\nRotate the keys by the rules.\n",
    "rules/b.md": "# Access\n\nAccess is granted by the owner.\n",
    "rules/c.md": "# Leave\n\nThirty days of leave.\n",
}

QUESTION = "rotate the keys"


@pytest.fixture(scope="class")
def opened(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LoadedProject, KnowledgeService]]:
    root = write(tmp_path_factory.mktemp("shop"), FILES)
    loaded = load_project(root, environ={})
    service = KnowledgeService(loaded)
    for kb_id in ("guide", "rules"):
        run(ingest(service.open(kb_id).corpus()))
    yield loaded, service
    run(service.close())


class TestStandard(RetrieversIntegrationTests):
    """LangChain's own suite for retrievers."""

    params: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _prepared(self, opened: tuple[LoadedProject, KnowledgeService]) -> None:
        loaded, service = opened
        type(self).params = {"service": service, "bindings": resolve(loaded)}

    @property
    def retriever_constructor(self) -> type[LorebindRetriever]:
        return LorebindRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self.params

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class Heard(BaseCallbackHandler):
    """Records LangChain's callbacks for retriever runs."""

    def __init__(self) -> None:
        self.started: list[tuple[str, list[str], dict[str, Any]]] = []
        self.ended: list[Sequence[Document]] = []
        self.failed: list[BaseException] = []

    def on_retriever_start(self, serialized: Any, query: str, **about: Any) -> None:
        self.started.append((query, about["tags"], about["metadata"]))

    def on_retriever_end(self, documents: Sequence[Document], **about: Any) -> None:
        self.ended.append(documents)

    def on_retriever_error(self, error: BaseException, **about: Any) -> None:
        self.failed.append(error)


class TestRetriever:
    @pytest.fixture
    def retriever(self, opened: tuple[LoadedProject, KnowledgeService]) -> LorebindRetriever:
        loaded, service = opened
        return LorebindRetriever(service, resolve(loaded))

    def test_all_bindings_come_best_first(self, retriever: LorebindRetriever) -> None:
        """Passages are one list, by score times the best cosine of their base, then by id."""
        documents = retriever.invoke(QUESTION)
        best: dict[str, float] = {}
        for document in documents:
            kb_id, cosine = document.metadata["kb_id"], document.metadata["scores"]["dense"]
            best[kb_id] = max(best.get(kb_id, 0.0), cosine)
        order = [
            (-document.metadata["score"] * best[document.metadata["kb_id"]], document.id)
            for document in documents
        ]
        assert order == sorted(order)
        assert len(documents) == 5  # two because of the binding's top_k, and all three of the other
        assert {document.metadata["kb_id"] for document in documents[:2]} == {"guide", "rules"}

    def test_documents_say_where_they_are_from(self, retriever: LorebindRetriever) -> None:
        """Each document has an id, score, raw scores, knowledge base, uri, title and span."""
        best = next(
            document
            for document in retriever.invoke(QUESTION)
            if document.metadata["kb_id"] == "guide"
        )
        about = best.metadata
        assert best.id
        assert 0 <= about["score"] <= 1
        assert about["scores"].keys() >= {"dense", "lexical", "fused"}
        assert (about["uri"], about["title"], about["team"]) == ("guide/a.md", "Keys", "ops")
        assert FILES["guide/a.md"][about["start"] : about["end"]] == best.page_content
        assert (about["line_start"], about["line_end"]) == (1, 3)

    @pytest.mark.parametrize("k", [1, 4])
    def test_k_bounds_the_whole_list(self, retriever: LorebindRetriever, k: int) -> None:
        """`k` in a call returns the best of all bindings together."""
        assert retriever.invoke(QUESTION, k=k) == retriever.invoke(QUESTION)[:k]

    def test_k_goes_over_top_k(self, opened: tuple[LoadedProject, KnowledgeService]) -> None:
        """`k` overrides a smaller `top_k` of a binding."""
        loaded, service = opened
        few = [override(binding, top_k=1) for binding in resolve(loaded)]
        assert len(LorebindRetriever(service, few).invoke(QUESTION)) == len(few)
        assert len(LorebindRetriever(service, few, k=4).invoke(QUESTION)) == 4

    def test_notices_are_logged_once(
        self, opened: tuple[LoadedProject, KnowledgeService], caplog: pytest.LogCaptureFixture
    ) -> None:
        """A notice of a search, which documents cannot show, is logged as a warning, once."""
        loaded, service = opened
        bound = [override(resolve(loaded)[0], filters={"taem": "ops"})]
        retriever = LorebindRetriever(service, bound)
        assert [retriever.invoke(QUESTION) for _ in range(2)] == [[], []]
        (record,) = (record for record in caplog.records if record.name == "lorebind.retrieval")
        assert record.levelname == "WARNING"
        assert "'taem', which the filter names; did you mean 'team'" in record.getMessage()

    def test_k_has_the_limits_of_top_k(self, retriever: LorebindRetriever) -> None:
        """`k` has the same limits as `top_k`; zero is rejected."""
        with pytest.raises(UsageError, match="top_k is 0; expected 1 to 50"):
            retriever.invoke(QUESTION, k=0)

    def test_k_of_a_call_goes_over_that_of_the_retriever(
        self, opened: tuple[LoadedProject, KnowledgeService]
    ) -> None:
        """`k` in a call overrides the `k` of the constructor."""
        loaded, service = opened
        retriever = LorebindRetriever(service, resolve(loaded), k=1)
        assert len(retriever.invoke(QUESTION)) == 1
        assert len(retriever.invoke(QUESTION, k=3)) == 3

    async def test_both_faces_give_the_same(self, retriever: LorebindRetriever) -> None:
        """`ainvoke` returns what `invoke` returns, and `invoke` works inside a running loop."""
        assert await retriever.ainvoke(QUESTION) == retriever.invoke(QUESTION)

    async def test_batches_keep_their_order(self, retriever: LorebindRetriever) -> None:
        """`batch` and `abatch` return the results in the order of the questions."""
        questions = ["powder on chalets", QUESTION, "days of leave"]
        expected = [retriever.invoke(question) for question in questions]
        assert retriever.batch(questions) == expected
        assert await retriever.abatch(questions) == expected
        firsts = [documents[0].metadata["uri"] for documents in expected]
        assert firsts[0] == "guide/c.md"
        assert firsts[2] == "rules/c.md"

    async def test_it_is_a_part_of_a_chain(self, retriever: LorebindRetriever) -> None:
        """In LCEL, it can be piped into a runnable for documents, sync and async."""
        chain = retriever | RunnableLambda(
            lambda documents: [document.id for document in documents]
        )
        expected = [document.id for document in retriever.invoke(QUESTION)]
        assert chain.invoke(QUESTION) == expected
        assert await chain.ainvoke(QUESTION) == expected

    async def test_callbacks_hear_of_it(
        self, opened: tuple[LoadedProject, KnowledgeService]
    ) -> None:
        """Callbacks get the question, the tags and metadata of object and call, and the result."""
        loaded, service = opened
        retriever = LorebindRetriever(
            service, resolve(loaded), tags=["own"], metadata={"team": "ops"}
        )
        heard = Heard()
        config: Any = {"callbacks": [heard], "tags": ["call"], "metadata": {"run": "1"}}
        answers = [retriever.invoke(QUESTION, config), await retriever.ainvoke(QUESTION, config)]
        assert heard.ended == answers
        for question, tags, metadata in heard.started:
            assert question == QUESTION
            assert set(tags) == {"own", "call"}
            assert metadata.items() >= {"team": "ops", "run": "1"}.items()

    async def test_an_error_is_raised_and_heard(
        self, opened: tuple[LoadedProject, KnowledgeService]
    ) -> None:
        """A failed search raises an error, sync and async, and never returns an empty list."""
        loaded, service = opened
        retriever = LorebindRetriever(service, [bind(loaded, "guide"), bind(loaded, "empty")])
        heard = Heard()
        with pytest.raises(NotIngestedError):
            retriever.invoke(QUESTION, {"callbacks": [heard]})
        with pytest.raises(NotIngestedError):
            await retriever.ainvoke(QUESTION, {"callbacks": [heard]})
        assert [type(error) for error in heard.failed] == [NotIngestedError] * 2


def test_its_fields_are_configurable(
    opened: tuple[LoadedProject, KnowledgeService],
) -> None:
    """LangChain's configurable fields can be set per call."""
    loaded, service = opened
    retriever = LorebindRetriever(service, resolve(loaded)).configurable_fields(
        k=ConfigurableField(id="k"), filters=ConfigurableField(id="filters")
    )
    assert len(retriever.invoke(QUESTION)) > 2
    assert len(retriever.invoke(QUESTION, {"configurable": {"k": 1}})) == 1
    documents = retriever.invoke(QUESTION, {"configurable": {"filters": {"team": "ops"}}})
    assert {document.metadata["kb_id"] for document in documents} == {"guide"}
