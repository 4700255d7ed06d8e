"""`doctor`: try each part of a project, and suggest a fix for each part that fails."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from packaging.requirements import Requirement

from lorebind.server.state.knowledge_bases import made_over_api
from lorebind.server.state.tables import open_state, refuse_alone
from lorebind.server.state.workers import Workers
from lorebind_bindings.models import naming_failures
from lorebind_config import plugins
from lorebind_config.checks.template_checks import unset_variables
from lorebind_config.declarations.kinds import REGISTRIES
from lorebind_config.declarations.models import EXTRACTIVE
from lorebind_config.errors import LorebindError, ModelError
from lorebind_config.project_files import STATE_FILE, THREADS_FILE
from lorebind_knowledge.documents.listing import count_languages, list_documents
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.embedders.sparse.base import embed_query as embed_query_as_terms
from lorebind_knowledge.hub_models.snapshot import NotDownloadedError, without_downloads
from lorebind_knowledge.ingest.progress import progress_line
from lorebind_knowledge.loaders.formats import problems_of_loaders
from lorebind_knowledge.plumbing.bridge import call, call_client
from lorebind_knowledge.rerankers.base import rerank_texts
from lorebind_knowledge.resilience.failures import is_lost_connection
from lorebind_knowledge.retrieval.search import declared_embedder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from langchain_core.language_models import BaseChatModel

    from lorebind_bindings import ModelPool
    from lorebind_config.declarations.base import Declaration
    from lorebind_config.declarations.embedders import (
        EmbedderDeclaration,
        SparseEmbedderDeclaration,
    )
    from lorebind_config.declarations.models import ModelDeclaration
    from lorebind_config.declarations.retrieval import AnyReranker
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.handle import KnowledgeHandle
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.service import KnowledgeService

SECONDS = 30
"""Seconds after which a part that does not answer counts as failed."""

_ANSWER_TOKENS = 16
"""OpenAI's Responses API refuses a lower limit."""
_LIMITS = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")
"""The names that LangChain's model classes use for the maximum number of output tokens."""
_LIMIT_REACHED = re.compile("max_[a-z]*_?tokens|output limit")
"""Errors of services that refuse such a short answer; they prove that the model was reached."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of trying one part of a project."""

    part: str
    """The kind and the id of the part, such as `embedder local`."""
    status: Literal["ok", "warning", "failed"]
    detail: str
    """The measured values, or the problem and a suggested fix."""


async def examine(
    loaded: LoadedProject, service: KnowledgeService, models: ModelPool, *, deep: bool = False
) -> AsyncIterator[Finding]:
    """Try every declared part in turn, and yield a finding for each; a failure stops no other.

    Embedders embed one word, rerankers score one word, vector databases count no vectors, and chat
    models answer with one word. Nothing is written or downloaded.

    Args:
        loaded: the project.
        service: the project's knowledge service.
        models: the project's chat models.
        deep: check every single vector, instead of their number and a sample.
    """
    project = loaded.project
    for embedder in project.embedders_or_default:
        yield await _tried(f"embedder {embedder.id}", _embedder(service, embedder))
    for sparse in loaded.used_sparse_embedders():
        yield await _tried(f"sparse embedder {sparse.id}", _sparse_embedder(service, sparse))
    for vector_db in project.vector_dbs_or_default:
        if vector_db.is_existing:
            continue  # tried together with its knowledge bases, which name the embedders
        yield await _tried(f"vector database {vector_db.id}", _store(service, vector_db.id))
    for kb, workflow in loaded.every_knowledge_base():
        owner = f" of workflow {workflow}" if workflow else ""
        check = (
            _existing(service.open(kb.id, workflow))
            if loaded.is_existing(kb)
            else _index(service.open(kb.id, workflow), loaded, workflow, deep=deep)
        )
        yield await _tried(f"knowledge base {kb.id}{owner}", check)
        if (declared := kb.retrieval.rerank) is not None:
            part = f"reranker of knowledge base {kb.id}{owner}"
            yield await _tried(part, _reranker(service, declared))
    async for finding in _undeclared(loaded, service):
        yield finding
    for part, why in unshared_storage(loaded):
        yield Finding(part, "warning", why)
    if project.server.ingests == "workers":
        yield await _tried("workers", _workers(loaded))
    for model in project.models_or_default:
        yield await _tried(f"model {model.id}", _model(models, model), model.called)
    for missing in loaded.unset:  # also those of parts that are not tried, such as sources
        yield Finding("variables", "failed", str(missing))
    for finding in _plugins():
        yield finding
    yield _extras()


def without_unusable(loaded: LoadedProject) -> LoadedProject:
    """Return the project without the extensions and wrappers whose variables are not set.

    They are created with the project, so it could not be examined with them.
    """

    def usable(declared: Sequence[Declaration]) -> list[Declaration]:
        return [part for part in declared if not any(unset_variables(part, loaded.environment))]

    usables = {name: usable(getattr(loaded.project, name)) for name in ("extensions", "wrappers")}
    return replace(loaded, project=loaded.project.model_copy(update=usables))


async def _tried(part: str, check: Awaitable[Finding | str], called: str = "") -> Finding:
    try:
        with without_downloads():
            async with asyncio.timeout(SECONDS):
                result = await check
    except NotDownloadedError as error:
        return Finding(part, "warning", str(error))
    except LorebindError as error:
        return Finding(part, "failed", str(error))
    except TimeoutError:
        silent = f"no answer within {SECONDS} seconds; is it reachable?"
        return Finding(part, "failed", f"{called}: {silent}" if called else silent)
    return Finding(part, "ok", result) if isinstance(result, str) else result


async def _embedder(service: KnowledgeService, declared: EmbedderDeclaration) -> str:
    embedder = await call(service.embedder, declared.id)
    dimension = len(await embed_query(embedder, "dimension"))
    about = f"; {declared.languages}" if declared.languages else ""
    return f"{embedder.fingerprint}, dimension {dimension} (measured){about}"


async def _sparse_embedder(service: KnowledgeService, declared: SparseEmbedderDeclaration) -> str:
    embedder = await call(service.sparse_embedder, declared)
    terms = len(await embed_query_as_terms(embedder, "ready"))
    return f"{embedder.fingerprint}: queried with 'ready', it returns {terms} terms"


async def _reranker(service: KnowledgeService, declared: AnyReranker) -> str:
    reranker = await call(service.reranker, declared)
    (figure,) = await rerank_texts(reranker, "ready", ["ready"])
    model = getattr(declared, "model", None) or getattr(declared, "class_path", "")
    outcome = "omits 'ready'" if figure is None else f"scores 'ready' {figure:.2f}"
    return f"{getattr(declared, 'provider', '')} {model}: queried with 'ready', it {outcome}"


async def _store(service: KnowledgeService, db_id: str) -> str:
    await service.ping(db_id)
    return "the database and its catalog answer"


async def _index(
    handle: KnowledgeHandle, loaded: LoadedProject, workflow: str | None, *, deep: bool
) -> Finding | str:
    corpus = await call(handle.corpus)  # fails without a valid chunker
    kb = corpus.kb
    part = f"knowledge base {kb.id}" + (f" of workflow {workflow}" if workflow else "")
    index = await call(kb.catalog.ledger.index, kb.namespace, "active")
    unfinished = await call(_unfinished_run, kb)
    if index is None:
        why = unfinished or f"; run: {kb.fill_command}"
        return Finding(part, "warning", f"nothing is ingested yet{why}")
    if kb.embedder.fingerprint.key != index.manifest.embedder_key:
        detail = (
            f"its index was built with the embedder {index.manifest.embedder} of dimension "
            f"{index.manifest.dimension}, and the project now declares "
            f"{declared_embedder(kb, index)}; rebuild it with: {kb.reindex_command}"
        )
        return Finding(part, "failed", detail)
    documents = (await call(kb.catalog.ledger.documents, index.key)).values()
    chunks = sum(entry.chunk_count for entry in documents)
    agreement, repair = await call(kb.index.compare, index), kb.ingest_command
    if deep and not agreement.lost:
        # An ingest does not detect replaced vectors, so only a reindex restores them.
        agreement = await call(partial(kb.index.compare, index, deep=True))
        repair = kb.reindex_command
    if agreement.lost:
        detail = (
            f"its vector database has lost {len(agreement.lost)} of {agreement.live} vectors; "
            f"restore them with: {repair}"
        )
        return Finding(part, "failed", detail)
    listed = await call(list_documents, kb.namespace, kb.catalog, "failed")
    failed = [document.uri for document in listed]
    detail = f"{len(documents)} documents, {chunks} chunks, dimension {index.manifest.dimension}"
    detail += unfinished
    if failed:
        detail += f"; {len(failed)} failed, such as {failed[0]}; see: {kb.ingest_command}"
        return Finding(part, "warning", detail)
    languages = await call(count_languages, kb.catalog, index)
    foreign = {name: count for name, count in languages.items() if name != "en"}
    embedder = loaded.embedder(handle.declaration.embedder)
    if foreign and embedder.languages:
        counts = ", ".join(f"{name} {count}" for name, count in foreign.items())
        detail += f", not all in English ({counts}); its embedder is {embedder.id}: "
        return Finding(part, "warning", f"{detail}{embedder.languages}")
    return detail


def _unfinished_run(kb: IndexedKnowledgeBase) -> str:
    """Describe the last run if it has not ended."""
    runs = kb.catalog.runs
    last = next(iter(runs.list(kb.namespace, 1)), None)
    if last is None or last.status != "running":
        return ""
    counts = f": {progress_line(last.progress)}" if last.progress else ""
    if runs.is_writing(kb.namespace):
        return f"; an ingest is running{counts}"
    return f"; its last ingest was interrupted{counts}; continue it with: {kb.ingest_command}"


async def _existing(handle: KnowledgeHandle) -> str:
    kb: Any = await call(lambda: handle.searchable)
    return f"filled by others, can be searched; its scores are {await kb.store.scale()}"


async def _workers(loaded: LoadedProject) -> Finding | str:
    refuse_alone(loaded)
    database = open_state(loaded)
    try:
        live = await call(Workers(database, loaded.project.name, loaded.digest).live)
    finally:
        await call(database.close)
    if live.missing:
        return Finding("workers", "warning", f"requested ingests wait: {live.missing}")
    return f"{live.ours} for requested ingests"


async def _undeclared(loaded: LoadedProject, service: KnowledgeService) -> AsyncIterator[Finding]:
    try:
        orphans = await service.undeclared(partial(made_over_api, loaded))
    except LorebindError:
        return  # the finding of the vector database itself already reports this failure
    if orphans:
        names = ", ".join(sorted({kb.kb_id for kb in orphans}))
        detail = (
            f"{sum(kb.chunks for kb in orphans)} chunks belong to knowledge bases that are no "
            f"longer declared ({names}); list them with: lorebind knowledge purge, and remove "
            "them with: lorebind knowledge purge --yes"
        )
        yield Finding("undeclared knowledge", "warning", detail)


async def _model(models: ModelPool, declared: ModelDeclaration) -> Finding | str:
    model, counter = await call(models.get, declared.id)
    exactness = "exact" if counter.exact else "an estimate"
    counted = f"tokens are counted by {counter.name}, {exactness}"
    if declared.provider == EXTRACTIVE:
        return f"can be created; {counted}"
    called = declared.called
    try:
        await _ask_one_word(model)
    except ModelError as error:
        if not _LIMIT_REACHED.search(str(error)):
            reason = " ".join(str(error).split())  # some providers answer with several lines
            detail = f"{called}: {reason}; {_model_repair(declared, error)}"
            return Finding(f"model {declared.id}", "failed", detail)
    return f"{called} answers; {counted}"


def _model_repair(declared: ModelDeclaration, error: ModelError) -> str:
    if not is_lost_connection(error):
        return "check its API key, the name of the model and its config"
    # As written in the project, so that no value of a template is shown.
    address = declared.config.get("base_url")
    return f"check the network, and {f'the address {address}' if address else 'its config'}"


async def _ask_one_word(model: BaseChatModel) -> None:
    """Call a chat model with the lowest output limit that its class supports.

    Raises:
        ModelError: the call failed.
    """
    limits = {name: _ANSWER_TOKENS for name in _LIMITS if name in type(model).model_fields}
    limited = model.model_copy(update=limits)
    with naming_failures(model):  # names the original: the copy is not known as a declared model
        await call_client(limited.invoke, limited.ainvoke, "Answer with one word: ready")


def _plugins() -> Iterator[Finding]:
    """Check the plugins of all installed distributions, whether the project uses them or not."""
    for group, registry in REGISTRIES.items():
        for word, offers in plugins.offers(group).items():
            yield _plugin(group, word, offers[0].distribution, partial(registry.kind, word))
    for word, offers in plugins.offers("commands").items():
        check = partial(_load_command, word)
        yield _plugin("commands", word, offers[0].distribution, check)
    if loaders := plugins.offers("loaders"):
        wrong = problems_of_loaders()
        part = f"plugins {', '.join(loaders)} of lorebind.loaders"
        yield Finding(part, "failed" if wrong else "ok", "; ".join(wrong) or "all are usable")


def _plugin(group: str, word: str, distribution: str, check: Callable[[], object]) -> Finding:
    part = f"plugin {word} of lorebind.{group}"
    try:
        check()
    except LorebindError as error:
        return Finding(part, "failed", str(error))
    return Finding(part, "ok", distribution)


def _load_command(word: str) -> None:
    offer = plugins.offered("commands", word)
    assert offer is not None
    plugins.load(offer, ("__call__",))


def _extras() -> Finding:
    """List the installed and missing extras; missing ones that are needed already failed above."""
    extras: dict[str, bool] = {}
    provided = importlib.metadata.metadata("lorebind").get_all("Provides-Extra") or ()
    for line in importlib.metadata.requires("lorebind") or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            continue
        for extra in provided:
            if extra not in ("all", "bench", "dev") and requirement.marker.evaluate(
                {"extra": extra}
            ):
                extras[extra] = extras.get(extra, True) and _installed(requirement.name)
    there = [extra for extra, installed in extras.items() if installed]
    missing = [extra for extra, installed in extras.items() if not installed]
    detail = f"installed: {', '.join(there) or 'none'}"
    if missing:
        detail += f"; not installed: {', '.join(missing)}"
        detail += f" (pip install 'lorebind[{','.join(missing)}]')"
    return Finding("extras", "ok", detail)


def _installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def unshared_storage(loaded: LoadedProject) -> Iterator[tuple[str, str]]:
    """Yield what other machines with the same catalog do not share, each with a suggested fix."""
    project = loaded.project
    shared = project.shared_vector_db
    if shared is None:
        return

    def why(what: str, how: str, file: str = "") -> str:
        if file and os.path.lexists(loaded.root / file):
            where, how = f"{file} exists and stays in use, ", f"move it away, or declare {how}"
        else:
            where, how = "", f"declare {how}"
        return (
            f"{where}on this machine only, although vector database {shared.id!r} has its catalog "
            f"in PostgreSQL; other machines have their own {what}; to share them, {how}"
        )

    state = project.server.state
    if loaded.beside_state is None and (state is None or state.dsn is None):
        how = "server: { state: { dsn: … } }"
        file = STATE_FILE if state is None else ""
        yield "server state", why("tokens, runs and knowledge bases", how, file)
    alone = [
        workflow
        for workflow in loaded.workflows.values()
        if loaded.beside_threads(workflow) is None
        and loaded.checkpointer(workflow).type != "postgres"
    ]
    for file, is_declared in (("", True), (THREADS_FILE, False)):
        ids = [repr(w.id) for w in alone if loaded.declares_threads(w) == is_declared]
        if ids:
            how = "checkpointer: { type: postgres, dsn: … }"
            yield "threads", why(f"threads of {', '.join(ids)}", how, file)
