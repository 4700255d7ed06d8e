"""`KnowledgeBase`: a knowledge base of a project, and all operations on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from lorebind.at_place import AtPlace
from lorebind.declaration_methods import KnowledgeBaseInfo, described
from lorebind.document_methods import DocumentMethods
from lorebind.index_methods import IndexMethods
from lorebind_bindings import BindingScope, bind, ingest_scope, override, override_settings
from lorebind_config.declarations.retrieval import NEEDS_VECTORS
from lorebind_config.errors import UsageError
from lorebind_config.namespace import PROJECT_SCOPE
from lorebind_knowledge.documents.listing import find_run, knowledge_stats, list_runs
from lorebind_knowledge.plumbing.bridge import sync

if TYPE_CHECKING:
    from langchain_core.documents import Document

    from lorebind_bindings import AskedInRuns, ModelPool, ResolvedBinding, RetrievalSettings
    from lorebind_knowledge.catalog.runs import RunInfo
    from lorebind_knowledge.documents.listing import DocumentInfo, KnowledgeStats
    from lorebind_knowledge.evaluation.evaluate import StrategyScores
    from lorebind_knowledge.evaluation.tuning import Tuning
    from lorebind_knowledge.ingest.report import IngestPlan, IngestReport
    from lorebind_knowledge.loaders.scans.words import PageBox
    from lorebind_knowledge.records import MatchingTerms, QueryResult, SearchPath
    from lorebind_knowledge.retrieval.langchain_vector_store import KnowledgeBaseVectorStore
    from lorebind_knowledge.service import KnowledgeService


_COMPARED = ("hybrid", "similarity", "lexical", "mmr")
"""The strategies that need no further settings; those of `NEEDS_VECTORS` need vectors."""


class IngestSettings(TypedDict, total=False):
    """The parameters of `KnowledgeBase.ingest`."""

    inputs: Mapping[str, Any] | None
    strategy: str
    only_failed: bool
    allow_mass_delete: bool
    wait: bool
    plan: IngestPlan | None
    run_id: str | None


class KnowledgeBase(DocumentMethods, IndexMethods, AtPlace):
    """A knowledge base of a project, as `project.knowledge_base("docs")` returns it.

    Every operation has a sync version, such as `query`, and an async version, such as `aquery`. A
    knowledge base of a view of one tenant belongs to this tenant; any other asks for the tenant of
    each call. It opens nothing by itself, and the project closes what it has opened.

    Its methods for LangChain, such as `retriever` and `generate`, search this knowledge base alone.
    """

    def __init__(
        self,
        place: BindingScope,
        knowledge: KnowledgeService,
        models: ModelPool,
        asked_in_runs: AskedInRuns,
    ) -> None:
        """Get a knowledge base from `Project.knowledge_base`, do not create it directly."""
        super().__init__(place, knowledge, models, asked_in_runs)
        self._loaded, self.workflow = place.loaded, place.workflow
        """The workflow in which the id was looked up; None for the project."""
        self.handle = knowledge.open(place.kb_ids[0], place.workflow)
        """Its index, embedder and other parts, for functions of `lorebind_knowledge`."""

    @property
    def id(self) -> str:
        return self.handle.id

    @property
    def info(self) -> KnowledgeBaseInfo:
        """The declaration of the knowledge base in the project's files."""
        owner = None if self.handle.scope == PROJECT_SCOPE else self.workflow
        return described(self._loaded, self.handle.declaration, owner)

    async def aingest(
        self,
        *,
        inputs: Mapping[str, Any] | None = None,
        strategy: str = "upsert",
        only_failed: bool = False,
        allow_mass_delete: bool = False,
        wait: bool = False,
        plan: IngestPlan | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Update the index to the current content of the sources.

        Only changed content is embedded. If a run is interrupted, the next run completes it.

        Args:
            inputs: the inputs of the workflow that declares it, for sources that use them.
            strategy: `upsert` changes the index document by document; `replace` builds a new index
                in the background and swaps it in at the end.
            only_failed: read only documents that failed or were interrupted; remove nothing.
            allow_mass_delete: allow the run to remove more than half of the documents.
            wait: wait for a running ingest of the knowledge base instead of raising an error.
            plan: a recent result of `plan` for this knowledge base. Documents that it has fetched
                are not fetched again, and unchanged ones are not split into chunks again.
            run_id: the id of the run in events and in the report; None creates one.

        Raises:
            UsageError: the plan is for another knowledge base.
            IngestRunningError: another ingest of the knowledge base is running.
            IngestRefusedError: the run would remove too many documents.
            EmbedderError, StoreError: an outage; finished documents are stored.
        """
        from lorebind_knowledge.ingest.engine import ingest  # searches need none of it

        return await ingest(
            self.handle.corpus(self._scope(inputs)),
            strategy=strategy,
            only_failed=only_failed,
            allow_mass_delete=allow_mass_delete,
            wait=wait,
            plan=plan,
            run_id=run_id,
        )

    async def aretry_document(
        self, document: str, *, wait: bool = False, run_id: str | None = None
    ) -> IngestReport:
        """Read one document again, such as one that failed, and change no other.

        Args:
            document: the id or the uri of the document, as returned by `documents`.
            wait: as for `ingest`.
            run_id: as for `ingest`.

        Returns:
            The report. If no source lists the document now, a notice says so.

        Raises:
            NotFoundError: no such document.
            LorebindError: as for `ingest`.
        """
        from lorebind_knowledge.documents.changing import retry_document

        uri = (await self.adocument(document)).uri
        corpus = self.handle.corpus(self._scope(None))
        return await retry_document(corpus, uri, run_id, wait=wait)

    async def apage_picture(self, document: str, page: int) -> bytes:
        """Return a page of a PDF or of an image as a picture: a PNG of at most 2,000 pixels a side.

        The document is read again from its source, and only drawn if it is what was ingested.
        Drawing needs the extra `ocr`, and has the limits of `loading`.

        Args:
            document: the id or the uri of the document, as returned by `documents`.
            page: the number of the page, from 1, as `page` in the metadata of passages.

        Raises:
            NotFoundError: no such document or page, it is neither a PDF nor an image, or it goes
                through steps, which may remove parts of it.
            DocumentChangedError: the document has changed since it was ingested.
            MissingDependencyError: the extra `ocr` is not installed.
            SourceError: the source cannot be read, or the page cannot be drawn.
        """
        from lorebind_knowledge.documents.page_pictures import page_picture

        corpus = self.handle.corpus(self._scope(None), embeds=False)
        return await page_picture(corpus, document, page)

    async def apage_boxes(
        self, document: str, page: int, *, start: int = 0, end: int | None = None
    ) -> list[PageBox]:
        """Return where words are on the picture of a page, such as those of a passage.

        Words are found by their text: in the text layer of a PDF, or in the lines that OCR
        recognized. Those that cannot be found have no box.

        Args:
            document: as for `page_picture`.
            page: as for `page_picture`.
            start: the offset of the first word in the document's text, as the metadata of passages
                has it.
            end: the offset after the last word. By default, the words of all
                passages are returned.

        Raises:
            UsageError: `start` is negative, or `end` is before it.
            LorebindError: as for `page_picture`.
        """
        from lorebind_knowledge.documents.page_pictures import page_boxes

        corpus = self.handle.corpus(self._scope(None), embeds=False)
        return await page_boxes(corpus, document, page, start, end)

    async def aplan(
        self, *, inputs: Mapping[str, Any] | None = None, strategy: str = "upsert"
    ) -> IngestPlan:
        """Return what an ingest with the same arguments would do now, without changing anything.

        With the strategy `replace`, the plan also applies to a reindex. It has a `cost` if the
        embedder declares its `price_per_million_tokens`.
        """
        from lorebind_knowledge.ingest.planning import plan

        corpus = self.handle.corpus(self._scope(inputs), embeds=False)
        return await plan(corpus, strategy=strategy)

    async def areindex(
        self,
        *,
        inputs: Mapping[str, Any] | None = None,
        wait: bool = False,
        plan: IngestPlan | None = None,
        run_id: str | None = None,
    ) -> IngestReport:
        """Rebuild the index in the background, then swap it in.

        Use it to change the embedder or to repair a damaged index. Texts in the embedding cache are
        not embedded again. A search sees either the whole old index or the whole new one. If a run
        is interrupted, the next run completes it.

        Args:
            inputs: as for `ingest`.
            wait: as for `ingest`.
            plan: as for `ingest`.
            run_id: as for `ingest`.

        Raises:
            LorebindError: as for `ingest`; the old index stays in use.
        """
        from lorebind_knowledge.ingest.reindexing import reindex

        corpus = self.handle.corpus(self._scope(inputs))
        return await reindex(corpus, plan, run_id, wait=wait)

    def _scope(self, inputs: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the values of `{{ .workflow.… }}` in the sources of a workflow."""
        if self.workflow is not None:
            return ingest_scope(self._loaded, self.workflow, inputs)
        if inputs:
            message = "inputs belong to a workflow; name the workflow too"
            raise UsageError(message, at=("inputs",))
        return None

    async def aquery(self, question: str, **settings: Unpack[RetrievalSettings]) -> QueryResult:
        """Return the best passages for a question, best first.

        Args:
            question: any text that is not blank.
            settings: fields of `retrieval` to override, such as `top_k`. Those that are about
                prompts, such as `max_tokens`, do not change the result.

        Raises:
            NotIngestedError: nothing has been ingested yet.
            UsageError: the question is blank, or a setting is unknown or invalid.
            IndexMismatchError: the index was built by another embedder.
            EmbedderError, StoreError: an outage, which never results in an empty answer.
        """
        chosen = override_settings(self.handle.retrieval, **settings)
        return await self.handle.query(question, chosen)

    async def aquery_explained(
        self, question: str, **settings: Unpack[RetrievalSettings]
    ) -> tuple[QueryResult, ResolvedBinding, MatchingTerms]:
        """Query as `query` does, and also return what explains the result.

        That is every setting with the location that set it, and by the id of each passage the
        terms that it has in common with the question, most important first: the share of each in
        `scores["terms"]`, and whether it is a related word.

        Args:
            question: any text that is not blank.
            settings: fields of `retrieval` to override, such as `top_k`.

        Raises:
            LorebindError: as for `query`.
        """
        binding = override(bind(self._loaded, self.id, self.workflow), **settings)
        result = await self.handle.query(question, binding.settings)
        return result, binding, await self.handle.matching_terms(question, result)

    async def awhy(
        self, question: str, document: str, **settings: Unpack[RetrievalSettings]
    ) -> SearchPath:
        """Search, and return how far a document comes: its rank and score at each stage.

        Args:
            question: any text that is not blank.
            document: the id or the uri of a document.
            settings: fields of `retrieval` to override, such as `top_k`.

        Raises:
            NotFoundError: there is no such document.
            UsageError: others fill the knowledge base, so the stages of its search are unknown.
            LorebindError: as for `query`.
        """
        from lorebind_knowledge.records import SearchPath
        from lorebind_knowledge.retrieval.why import path_of

        chosen = override_settings(self.handle.retrieval, **settings)
        info = await self.adocument(document)
        if info.state == "failed" and not info.chunks:
            explanation = f"The ingest of {info.uri} failed: {info.reason}"
            return SearchPath(info.uri, [], "ingest", explanation)
        return await path_of(self.handle.kb, question, info.uri, chosen)

    async def aruns(
        self, *, limit: int | None = None, before: str | None = None
    ) -> Sequence[RunInfo]:
        """Return the ingest runs, newest first.

        Args:
            limit: the maximum number of runs; None returns all.
            before: the id of a run; return only the runs that started before it.

        Raises:
            NotFoundError: no such run.
            UsageError: a limit below 1.
        """
        return await self.handle.read(list_runs, limit, before)

    async def arun(self, run_id: str) -> RunInfo:
        """Return one ingest run.

        Args:
            run_id: the id of the run, as returned by `runs` and in `IngestReport`.

        Raises:
            NotFoundError: no such run.
        """
        return await self.handle.read(find_run, run_id)

    async def aadd_documents(
        self, documents: Sequence[Document | Mapping[str, Any]], *, run_id: str | None = None
    ) -> IngestReport:
        """Add documents, next to those of the sources, and ingest them.

        Added documents stay until you delete them: every ingest, `replace` and reindex keeps them.
        A document replaces the added document that has the same `id`. If another ingest is running,
        the call waits for it.

        Args:
            documents: LangChain documents, identified by their id or their `source`; or mappings
                with `text` or `data` (bytes), and optionally `id`, `media_type`, `title` and
                `metadata`. A document without an id is identified by its content. If several
                LangChain documents have the same `source`, the second is `SOURCE#2`, and so on;
                add them in one call, because the numbers of another call start again.
            run_id: the id of the ingest run, as for `ingest`.

        Raises:
            UsageError: one of `documents` is not a document, or different documents have the same
                id; nothing is added.
            LorebindError: as for `ingest`. The added documents are stored, and the next ingest
                completes the run.
        """
        from lorebind_knowledge.documents.changing import add_documents

        return await add_documents(self.handle.corpus(), documents, run_id)

    async def adelete_document(self, document: str) -> DocumentInfo:
        """Delete a document that was added with `add_documents`.

        Args:
            document: the id or the uri of the document, as returned by `documents`.

        Raises:
            NotFoundError: no such document.
            UsageError: the document comes from a source, so the next ingest would add it again.
        """
        from lorebind_knowledge.documents.changing import delete_document

        return await delete_document(self.handle.kb, document)

    async def adelete(self) -> None:
        """Delete the index, the runs, and the documents that were added.

        The declaration stays. The next ingest builds a new index and reuses cached embeddings.

        Raises:
            IngestRunningError: an ingest of the knowledge base is running.
        """
        from lorebind_knowledge.documents.changing import delete_all

        await delete_all(self.handle.kb)

    async def astats(self) -> KnowledgeStats:
        """Return statistics about the index, without changing anything."""
        return await self.handle.read(knowledge_stats)

    async def aevaluate(
        self,
        queries: str | Path,
        qrels: str | Path,
        *,
        strategies: Sequence[str] | None = None,
        against: Sequence[str] = (),
    ) -> list[StrategyScores]:
        """Measure the search quality against human relevance judgments.

        Args:
            queries: a JSON Lines file, `{"id": …, "text": …}` per line.
            qrels: a file with query, document and relevance, separated by tabs.
            strategies: the retrieval strategies to compare; None compares the declared one with all
                others that need no further settings. The declared one is always first.
            against: the ids of other knowledge bases with the same documents, such as one with
                another embedder, to compare as they are declared.

        Raises:
            NotFoundError: no such knowledge base.
            UsageError: a file cannot be read, or it judges other documents.
            LorebindError: as for `query`.
        """
        from lorebind_knowledge.evaluation.dataset import read_dataset
        from lorebind_knowledge.evaluation.evaluate import against_first, evaluate

        declared, kb = self.handle.retrieval, self.handle.kb
        dataset = read_dataset(Path(queries), Path(qrels))
        possible = [
            name for name in _COMPARED if self.handle.has_vectors or name not in NEEDS_VECTORS
        ]
        names = [declared.strategy, *(strategies or possible)]
        ways = {name: override_settings(declared, strategy=name) for name in names}
        if strategies is None and kb.sparse is not None:
            ways["hybrid, no terms"] = ways["hybrid"].model_copy(
                update={"signals": declared.signals.without_terms()}
            )
        scores = await evaluate(kb, dataset, ways)
        for other in against:
            handle = self._knowledge.open(other, self.workflow)
            way = f"{other}: {handle.retrieval.strategy}"
            scores += await evaluate(handle.kb, dataset, {way: handle.retrieval})
        return against_first(scores)

    async def atune(self, queries: str | Path, qrels: str | Path) -> Tuning:
        """Find the best fusion weight, and test whether its gain is better than chance.

        The arguments are those of `evaluate`, and so are the errors; without vectors, there is
        nothing to choose.
        """
        from lorebind_knowledge.evaluation.dataset import read_dataset
        from lorebind_knowledge.evaluation.tuning import tune

        if not self.handle.has_vectors:
            raise UsageError(f"knowledge base {self.id!r} has no vectors whose share can be chosen")
        dataset = read_dataset(Path(queries), Path(qrels))
        return await tune(self.handle.kb, dataset, self.handle.retrieval)

    def vector_store(self) -> KnowledgeBaseVectorStore:
        """Return the knowledge base as a read-only LangChain `VectorStore`."""
        return self.handle.vector_store()

    ingest = sync(aingest)
    retry_document = sync(aretry_document)
    page_picture = sync(apage_picture)
    page_boxes = sync(apage_boxes)
    plan = sync(aplan)
    reindex = sync(areindex)
    query = sync(aquery)  # type: ignore[arg-type]  # mypy expects the inherited `self`
    query_explained = sync(aquery_explained)
    why = sync(awhy)
    runs = sync(aruns)
    run = sync(arun)
    add_documents = sync(aadd_documents)
    delete_document = sync(adelete_document)
    delete = sync(adelete)
    stats = sync(astats)
    evaluate = sync(aevaluate)
    tune = sync(atune)

    def __repr__(self) -> str:
        return f"KnowledgeBase({self.id!r}, project={self._loaded.project.name!r})"
