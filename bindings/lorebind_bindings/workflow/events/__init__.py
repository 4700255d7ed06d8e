"""Events of workflow runs, for subscribers and sinks."""
