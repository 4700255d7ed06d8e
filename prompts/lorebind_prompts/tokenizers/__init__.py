"""The token counters that the YAML can declare."""
