"""The events of a run."""

from lorebind_bindings.workflow_events.bus import EventBus

__all__ = ["EventBus"]
