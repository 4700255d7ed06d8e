"""The citations of an answer, stored in its `response_metadata["lorebind"]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_bindings.langchain.markers import METADATA_KEY, citations_in
from lorebind_bindings.retrieving import best_of
from lorebind_bindings.structured_output import texts_in
from lorebind_prompts import check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import AIMessage

    from lorebind_bindings.retrieving import Verdict
    from lorebind_prompts import Citation


def checked(
    message: AIMessage, offered: Sequence[Citation], verdict: Verdict, structured: Any = None
) -> AIMessage:
    """Return a copy of a message whose metadata lists the passages that it cites.

    Args:
        message: the model's answer. Citations that other middleware has found in it are included.
        offered: the passages that the model was given.
        verdict: the verdict of the search.
        structured: the answer if it is not text; the markers are then read from its strings.
    """
    text = str(message.text) if structured is None else "\n\n".join(texts_in(structured))
    found = check(text, [*citations_in([message]), *offered])
    before = message.response_metadata.get(METADATA_KEY, {})
    said = {
        "verdict": best_of([verdict, before.get("verdict", "none")]),
        "citations": [citation.as_data(content=False) for citation in found.citations],
        "unknown_markers": found.unknown,
    }
    metadata = {**message.response_metadata, METADATA_KEY: said}
    return message.model_copy(update={"response_metadata": metadata})
