"""`--stream`: print the events of a run as they come, and the output of models as it grows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lorebind.cli.options import Output
from lorebind.cli.terminal import console, one_line
from lorebind_bindings.workflow.events.event_line import event_line

if TYPE_CHECKING:
    from lorebind_bindings import RunResult, RunStream
    from lorebind_bindings.workflow.events import RunEvent

_MOST_HELD = 256


def show_events(stream: RunStream, output: Output) -> RunResult:
    """Print the events of a run until it ends, as text or as JSON Lines.

    Raises:
        LorebindError: the run failed.
    """
    if output is Output.json:
        for event in stream:
            print(json.dumps(event.as_json()), flush=True)
        return stream.result
    lines = EventLines()
    try:
        for event in stream:
            lines.show(event)
    finally:
        lines.end()
    return stream.result


class EventLines:
    """Prints a line for each event, and the text of one model at a time.

    While a model's text is printed, events of other tasks are held back to keep it readable.
    """

    def __init__(self) -> None:
        self._speaks: str | None = None
        """The path of the task whose model output is being printed."""
        self._spoken: set[str] = set()
        """The tasks whose text was printed as it was generated."""
        self._held: list[RunEvent] = []

    def show(self, event: RunEvent) -> None:
        """Print an event, or hold it back for now."""
        if self._speaks is not None and event.path != self._speaks:
            self._held.append(event)
            # A slow model must not hide the events of other tasks for too long.
            if len(self._held) >= _MOST_HELD or event.type == "run_end":
                self._fall_silent()
            return
        if event.type == "model_chunk":
            self._say(event)
        elif event.type == "model_end" and event.path in self._spoken:
            self._spoken.discard(event.path)
            self._fall_silent()
        else:
            self._end_line()
            self._print(event)
            self._show_held()

    def end(self) -> None:
        """Print the events that were held back."""
        while self._speaks is not None or self._held:
            self._fall_silent()

    def _say(self, event: RunEvent) -> None:
        if self._speaks is None:
            self._speaks = event.path
            self._spoken.add(event.path)
            print(f"{event.path} says: ", end="")
        print(event.data["text"], end="", flush=True)

    def _fall_silent(self) -> None:
        """End the current line, and print the events that arrived in the meantime."""
        self._end_line()
        self._show_held()

    def _end_line(self) -> None:
        if self._speaks is not None:
            self._speaks = None
            print(flush=True)

    def _show_held(self) -> None:
        held, self._held = self._held, []
        for event in held:
            self.show(event)

    def _print(self, event: RunEvent) -> None:
        from rich.text import Text

        out = console()
        out.print(Text(one_line(event_line(event)), style="dim"), soft_wrap=True)
        out.file.flush()
