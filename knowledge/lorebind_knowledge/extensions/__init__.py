"""Extensions: they receive events about every ingest and every search."""
