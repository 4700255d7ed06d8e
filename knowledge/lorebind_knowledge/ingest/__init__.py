"""From sources to a searchable index: enumerate, embed and persist, finalise."""
