"""The citations of an agent as a projection of LangGraph's event streaming, version 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.stream import StreamChannel, StreamTransformer

from lorebind_bindings.langchain.markers import METADATA_KEY

if TYPE_CHECKING:
    from langgraph.stream import ProtocolEvent


class CitationsTransformer(StreamTransformer):
    """Yields each passage that an answer of the run cites, as `run.citations`.

    A citation has the keys of `response_metadata["lorebind"]["citations"]`. It comes when the
    message that cites it is complete, since markers are checked then.
    """

    _native = True  # `run.citations`, and not only `run.extensions["citations"]`
    required_stream_modes = ("values",)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._citations: StreamChannel[dict[str, Any]] = StreamChannel()
        self._seen: set[str] | None = None
        """The messages whose citations were yielded; None before the input of the run."""

    def init(self) -> dict[str, Any]:
        return {"citations": self._citations}

    def process(self, event: ProtocolEvent) -> bool:
        params = event["params"]
        if event["method"] != "values" or tuple(params["namespace"]) != self.scope:
            return True
        messages = params["data"].get("messages", ()) if isinstance(params["data"], dict) else ()
        is_input, seen = self._seen is None, self._seen or set()
        for message in messages:
            entry = getattr(message, "response_metadata", {}).get(METADATA_KEY)
            if not entry or message.id in seen:
                continue
            seen.add(message.id)
            if not is_input:  # the messages of earlier turns have been answered before
                for citation in entry["citations"]:
                    self._citations.push(citation)
        self._seen = seen
        return True
