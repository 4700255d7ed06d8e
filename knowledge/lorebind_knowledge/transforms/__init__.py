"""Steps between loading and chunking: they redact, enrich or split documents."""
