"""What a message that answers says of its citations, in `response_metadata["lorebind"]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from lorebind_bindings.langchain.markers import METADATA_KEY, citations_in
from lorebind_bindings.retrieving import best_of
from lorebind_prompts import check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import AIMessage

    from lorebind_bindings.retrieving import Verdict
    from lorebind_prompts import Citation


def checked(
    message: AIMessage, offered: Sequence[Citation], verdict: Verdict, structured: Any = None
) -> AIMessage:
    """A copy of a message that says which of the passages it cites.

    Args:
        message: what the model answered; where other middleware has checked it, what that found
            is kept.
        offered: the passages that the model was given.
        verdict: what became of the search.
        structured: the answer where it is no text: the markers are then in its texts.
    """
    text = str(message.text) if structured is None else "\n\n".join(_texts(structured))
    found = check(text, [*citations_in([message]), *offered])
    before = message.response_metadata.get(METADATA_KEY, {})
    said = {
        "verdict": best_of([verdict, before.get("verdict", "none")]),
        "citations": [one.as_data(content=False) for one in found.citations],
        "unknown_markers": found.unknown,
    }
    metadata = {**message.response_metadata, METADATA_KEY: said}
    return message.model_copy(update={"response_metadata": metadata})


def _texts(value: Any) -> Iterator[str]:
    """The texts of an answer's fields; lists of numbers are no markers."""
    plain = to_jsonable_python(value, fallback=str)
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict | list):
        for one in plain.values() if isinstance(plain, dict) else plain:
            yield from _texts(one)
