"""The citations of an answer in its message: as LangChain's annotations, and as metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.content import create_citation

from lorebind_bindings.langchain.markers import METADATA_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_bindings.retrieving import Verdict
    from lorebind_prompts import CitedAnswer, Mention

_MARKER = "marker"
"""Key in the `extras` of our annotations: the marker in the text."""


def cited_message(
    message: AIMessage,
    cited: CitedAnswer,
    verdict: Verdict,
    *,
    is_text: bool,
    with_passages: bool = True,
) -> AIMessage:
    """Return a copy of a model's message with its citations.

    `response_metadata["lorebind"]` lists them. If the text cites anything, the content becomes
    LangChain's standard blocks (`output_version` v1), whose text has an annotation for each place
    that cites. Chat models drop the annotations when the message is sent to them again.

    Args:
        message: the model's answer.
        cited: the citations that were found in it.
        verdict: the verdict of the search.
        is_text: whether they were found in the message's own text, and not in a structured answer.
        with_passages: whether annotations have the passages too, as `cited_text`. Checkpointers
            save the messages of agents, which must hold no passages.
    """
    if isinstance(message, AIMessageChunk):
        whole = message_chunk_to_message(message)
        assert isinstance(whole, AIMessage)
        message = whole
    entry = {
        "verdict": verdict,
        "citations": [citation.as_data(content=False) for citation in cited.citations],
        "unknown_markers": cited.unknown,
    }
    metadata = {**message.response_metadata, METADATA_KEY: entry}
    if not (is_text and cited.mentions):
        return message.model_copy(update={"response_metadata": metadata})
    content = _annotated(message.content_blocks, cited.mentions, with_passages=with_passages)
    metadata["output_version"] = "v1"
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def _annotated(
    blocks: Sequence[Any], mentions: Sequence[Mention], *, with_passages: bool
) -> list[dict[str, Any]]:
    """Return the blocks with annotations; positions are those in the text of a block."""
    annotated, start = [], 0
    for block in blocks:
        if block["type"] != "text":
            annotated.append(dict(block))
            continue
        end = start + len(block["text"])
        ours = [
            _annotation(mention, start, with_passages=with_passages)
            for mention in mentions
            if start <= mention.start and mention.end <= end
        ]
        others = [
            annotation
            for annotation in block.get("annotations", ())
            if _MARKER not in annotation.get("extras", {})  # of middleware within this one
        ]
        annotated.append({**block, "annotations": [*others, *ours]})
        start = end
    return annotated


def _annotation(mention: Mention, start: int, *, with_passages: bool) -> Any:
    citation = mention.citation
    return create_citation(
        url=citation.url,
        title=citation.title or citation.label,
        start_index=mention.start - start,
        end_index=mention.end - start,
        cited_text=citation.content if with_passages else None,
        **{_MARKER: citation.marker},
    )
