"""A search as a LangChain run, so that callbacks and traces see the question and its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langchain_core.runnables.config import ensure_config, get_async_callback_manager_for_config

from lorebind_bindings.langchain.retriever import document_of
from lorebind_bindings.retrieving import retrieve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_bindings.retrieving import BoundResult
    from lorebind_knowledge.service import KnowledgeService


async def traced_retrieve(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    question: str,
    config: RunnableConfig | None,
    history: Sequence[BaseMessage] = (),
) -> list[BoundResult]:
    """Call `retrieve` as a run of type `retriever`, if there is something to search.

    Args:
        service, bindings, question, history: see `retrieve`.
        config: its callbacks are notified; None means the config of the surrounding run, if any.
    """
    if not bindings:
        return await retrieve(service, bindings, question)
    manager = get_async_callback_manager_for_config(ensure_config(config))
    ids = [binding.id for binding in bindings]
    told = await manager.on_retriever_start({"name": "Lorebind"}, question, name=", ".join(ids))
    try:
        results = await retrieve(
            service, bindings, question, history, {"callbacks": told.get_child()}
        )
    except BaseException as error:
        await told.on_retriever_error(error)
        raise
    await told.on_retriever_end(
        [document_of(match, result.result) for result in results for match in result.result]
    )
    return results
