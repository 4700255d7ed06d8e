"""A search as a run of LangChain's: callbacks and traces see the question and what was found."""

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
    """The same as `retrieve`, as a run of type `retriever`.

    Args:
        service, bindings, question, history: see `retrieve`.
        config: whose callbacks are told; None means that of the run around this one, if any.
    """
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
        [document_of(match, found.result) for found in results for match in found.result]
    )
    return results
