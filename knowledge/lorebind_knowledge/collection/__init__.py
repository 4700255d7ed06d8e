"""A collection: documents that are added by hand, which no ingest knows of."""
