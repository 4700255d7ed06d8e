"""Events of workflow runs, for subscribers and sinks."""

EVENT_BUFFER = 1024
"""Default maximum number of unread events of a subscriber."""
