"""What is told of every ingest and every search."""
