"""The citations of an answer, as the last chunk of its stream."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from uuid import uuid4

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import ensure_config

from lorebind_bindings.langchain.markers import METADATA_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.messages import AIMessage

_is_within: ContextVar[bool] = ContextVar("lorebind_model_call", default=False)


@contextmanager
def model_call() -> Iterator[bool]:
    """Yield whether no other middleware of Lorebind surrounds this one's model call.

    The surrounding one checks the answer last, and its citations include those of the others.
    """
    is_within = _is_within.get()
    token = _is_within.set(True)
    try:
        yield not is_within
    finally:
        _is_within.reset(token)


def stream_citations(message: AIMessage) -> None:
    """Send the citations of a message to those who have streamed it with `stream_mode="messages"`.

    LangGraph streams the chunks of a model, and then drops the message that a node returns if its
    id was streamed already. So the citations, which need the whole text, follow as one more chunk
    with that id, without text.
    """
    config = ensure_config()
    for handler in getattr(config.get("callbacks"), "handlers", ()):
        # The class is private to LangGraph: StreamMessagesHandler of langgraph.pregel._messages.
        if message.id not in getattr(handler, "seen", ()):
            continue
        metadata = {METADATA_KEY: message.response_metadata[METADATA_KEY]}
        chunk = AIMessageChunk(content="", id=message.id, response_metadata=metadata)
        run_id = uuid4()
        handler.on_chat_model_start(
            {}, [], run_id=run_id, tags=config["tags"], metadata=dict(config["metadata"])
        )
        handler.on_llm_new_token("", chunk=ChatGenerationChunk(message=chunk), run_id=run_id)
        handler.on_llm_end(LLMResult(generations=[]), run_id=run_id)
